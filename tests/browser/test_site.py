"""The documentation site that ./tw docs has built, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import MARKS, launched, serious_faults

SITE = Path(__file__).resolve().parents[2] / "build" / "documentation" / "site"

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
