"""The documentation site that ./tw docs has built, in a browser."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from chromium import MARKS, Seen, launched, serious_faults, watch
from hostile_texts import HOSTILE, assert_only_text

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "documentation" / "site"

pytestmark = [
    *MARKS,
    pytest.mark.slow,
    pytest.mark.skipif(not SITE.exists(), reason="the site is not built; run ./tw docs first"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault_of_access(scheme: str) -> None:
    found = {}
    with launched() as browser:
        page = browser.new_page(color_scheme=scheme)
        for file in sorted(SITE.rglob("*.html")):
            page.goto(file.as_uri())
            if faults := serious_faults(page):
                found[str(file.relative_to(SITE))] = faults
    assert not found


def test_quoted_kernels_and_answers_of_models_stay_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("zensical", reason="zensical is not installed; run ./tw docs first")
    build = build_module()
    docs = tmp_path / "docs"
    docs.mkdir()
    languages = ("", "c", "text", "json", "python", "diff")
    blocks = [
        f"````{languages[number % len(languages)]}\n{text}\n````\n"
        for number, text in enumerate(HOSTILE)
    ]
    inline = [f"- ``` {text} ```\n" for text in HOSTILE if "\n" not in text and "`" not in text]
    (docs / "README.md").write_text("# Start\n\n[Quoted](quoted.md)\n")
    (docs / "quoted.md").write_text("\n".join(["# Quoted", *blocks, *inline]))
    for number, text in enumerate(HOSTILE):
        (docs / f"answer{number}.jsonl").write_text(text)
        (docs / f"kernel{number}.txt").write_text(text)
    monkeypatch.setattr(build, "DOCS", docs)
    source = tmp_path / "source"
    build.write_source(source)
    command = [sys.executable, "-m", "zensical", "build", "--config-file", "zensical.toml"]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    seen = Seen()
    with launched("--host-resolver-rules=MAP evil.example 127.0.0.1") as browser:
        page = browser.new_page()
        watch(page, seen)
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
        page.goto((source / "site" / "quoted.html").as_uri())
        assert_only_text(page, "quoted.html", inside="article")
        told = page.locator("article").inner_text()
        assert all(text.split("\n")[0].strip("\x1b\x07\u2028 ")[:12] in told for text in HOSTILE)
        for number in range(len(HOSTILE)):
            page.goto((source / "site" / f"kernel{number}.txt").as_uri())
            assert_only_text(page, HOSTILE[number])
    assert [
        address for address in seen.requests if not address.startswith(("file:", "data:"))
    ] == []
    # The theme looks for an index of its search, which a site that is opened from files may lack.
    assert [said for said in seen.errors if "ERR_FILE_NOT_FOUND" not in said] == []


def build_module() -> ModuleType:
    """docs/site/build.py, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "docs/site/build.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
