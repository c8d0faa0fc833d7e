"""The tutorials' commands, run as they stand, in order, in an empty folder."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
# In place of the script `tw`, which would install: it ends the server, and searches are short.
LAUNCHER = """#!/bin/sh
export TILEWRIGHT_COMMAND="$0"
case "$1" in
  test) exit 0 ;;
  serve) exec timeout --preserve-status --signal INT 15 tilewright "$@" --port 0 ;;
  demo | optimize) exec tilewright "$@" --budget "4 evaluations" ;;
  *) exec tilewright "$@" ;;
esac
"""
NEEDS_SED = pytest.mark.skipif(shutil.which("sed") is None, reason="the tutorials edit with sed")


def _run(page: str, folder: Path, *more: str) -> str:
    """What a page's commands print, as they stand, in order, in this folder; on one line."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", "\n".join(["set -e", *blocks, *more])],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.timeout(1200)
@pytest.mark.skipif(shutil.which("timeout") is None, reason="timeout ends the server")
def test_the_commands_of_the_readme_work_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = tmp_path / "tw"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    said = _run("../README.md", tmp_path)
    assert said.count("as fast as the starting kernel") == 3
    assert "gemm-512x512x512: correct" in said
    assert "http://127.0.0.1:" in said
    assert "ok kernel agrees with the reference" in said
    assert "./tw best" in said
    assert (tmp_path / "tilewright-demo.html").exists()
    assert "kernel(" in (tmp_path / "kernel.c").read_text()


@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.timeout(1200)
@NEEDS_SED
def test_the_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    said = _run("tutorial.md", tmp_path, "tilewright check my-scaled")
    assert "as fast as the starting kernel" in said
    assert "confirmed" in said.partition("my-scaled")[0]
    assert (tmp_path / "report.html").exists()
    assert "kernel(" in (tmp_path / "faster.c").read_text()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@NEEDS_SED
def test_the_tutorial_for_trainium_works_as_it_stands(tmp_path: Path) -> None:
    said = _run("tutorial-trainium.md", tmp_path)
    assert "modelled ns" in said
    assert "as fast as the starting kernel" in said
    assert "nl.maximum" in (tmp_path / "faster.py").read_text()


@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.timeout(1200)
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="the CUDA compiler nvcc is not installed")
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@NEEDS_SED
def test_the_tutorial_for_cuda_works_as_it_stands(tmp_path: Path) -> None:
    said = _run("tutorial-cuda.md", tmp_path)
    before, found, after = said.partition("found, with exit code 1")
    assert found
    assert "wrong result" in before or "race" in before
    assert "correct" in after


@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.timeout(1200)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
@NEEDS_SED
def test_the_tutorial_for_c_works_as_it_stands(tmp_path: Path) -> None:
    said = _run("tutorial-host-c.md", tmp_path)
    assert "as fast as the starting kernel" in said
    assert "confirmed" in said
    assert "tanhf(sum)" in (tmp_path / "my-layer" / "kernel.c").read_text()


@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.timeout(1200)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="tile instructions are of x86-64")
@NEEDS_SED
def test_the_tutorial_for_amx_works_as_it_stands(tmp_path: Path) -> None:
    said = _run("tutorial-amx.md", tmp_path)
    checked, wrong, own = said.partition("wrong result")
    assert wrong
    assert all("ok kernel" in part for part in (checked, own))


@NEEDS_SED
def test_the_target_of_the_guide_works_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are written and its commands run; what pip would install is written too."""
    page = (DOCS / "new-target.md").read_text()
    for name, text in re.findall(r'^```\w+ title="(\S+)"\n(.*?)^```', page, re.M | re.S):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    installed = tmp_path / "installed" / "strip_target-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Name: {project['name']}\nVersion: 1\n")
    ((name, place),) = project["entry-points"]["tilewright.targets"].items()
    (installed / "entry_points.txt").write_text(f"[tilewright.targets]\n{name} = {place}\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{installed.parent}")
    start = "tilewright prompt strip:double-32 | sed -n '/^```strip/,/^```/p' | grep -v '^```'"
    evaluated = "tilewright evaluate start.strip --workload strip:double-32"
    said = _run("new-target.md", tmp_path, f"{start} > start.strip", evaluated)
    assert " passed" in said
    assert "strip:double-N" in said
    own, _, of_start = said.rpartition("strip:double-32: correct")
    assert "simulated cycles 18" in own
    assert "simulated cycles 288" in of_start


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_links_lead_to_files_or_to_folders_of_the_documentation(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)#]+)", text):
        to = (page.parent / link).resolve()
        assert "://" in link or to.is_file() or (to.is_dir() and DOCS in to.parents), link


def test_the_index_leads_to_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    for page in [*DOCS.glob("*.md"), *DOCS.glob("targets/*.md")]:
        name = page.relative_to(DOCS).as_posix()
        assert name == "README.md" or f"({name})" in index, name
