"""The tutorial's commands, run as they stand, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCKS = re.findall(r"^```sh\n(.*?)^```", (DOCS / "tutorial.md").read_text(), re.M | re.S)


@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.timeout(1200)
@pytest.mark.skipif(shutil.which("sed") is None, reason="the tutorial edits files with sed")
def test_the_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = "set -e\n" + "\n".join(BLOCKS) + "\ntilewright check my-scaled\n"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as fast as the starting kernel" in done.stdout
    assert "confirmed" in done.stdout.partition("my-scaled")[0]
    assert (tmp_path / "report.html").exists()
    assert "kernel(" in (tmp_path / "faster.c").read_text()


@pytest.mark.parametrize("page", ["README.md", "tutorial.md", "glossary.md"])
def test_links_of_a_newcomers_pages_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (DOCS / page).read_text())
    assert links or page == "glossary.md"
    for link in links:
        assert (DOCS / link).exists(), link


def test_the_index_leads_to_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    for page in [*DOCS.glob("*.md"), *DOCS.glob("targets/*.md")]:
        name = page.relative_to(DOCS).as_posix()
        assert name == "README.md" or f"({name})" in index, name
