"""The documentation site that ./tw docs has built, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import MARKS, launched

SITE = Path(__file__).resolve().parents[2] / "build" / "documentation" / "site"
AXE = Path(__file__).with_name("axe.min.js")

pytestmark = [
    *MARKS,
    pytest.mark.slow,
    pytest.mark.skipif(not SITE.exists(), reason="the site is not built; run ./tw docs first"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault_of_access(scheme: str) -> None:
    script, found = AXE.read_text(), set()
    with launched() as browser:
        page = browser.new_page(color_scheme=scheme)
        for file in sorted(SITE.rglob("*.html")):
            page.goto(file.as_uri())
            page.evaluate(script)
            result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            found |= {
                (file.name, fault["id"], fault["nodes"][0]["html"][:120])
                for fault in result["violations"]
                if fault["impact"] in ("serious", "critical")
            }
    assert not found
