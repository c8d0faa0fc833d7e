"""Plans of models: rendered without trusting them, and shortened."""

from __future__ import annotations

import pytest

from tilewright.report.markdown import LONGEST, as_html, first_sentence


def test_markdown_becomes_html() -> None:
    html = as_html("**Tile** the `k` loop:\n\n1. load\n2. compute\n")
    assert "<strong>Tile</strong>" in html
    assert "<code>k</code>" in html
    assert html.count("<li>") == 2


@pytest.mark.parametrize(
    "foreign",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "![x](http://example.com/x.png)",
        "<http://example.com>",
        "[x]: http://example.com\n\n[x]",
    ],
)
def test_nothing_foreign_becomes_markup(foreign: str) -> None:
    html = as_html(foreign)
    for tag in ("<script", "<img", "<a ", "href="):
        assert tag not in html


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Keep B resident. Then unroll.", "Keep B resident."),
        ("## Plan\n\n**Keep B.**  It is 1.5 times as large.", "Plan"),
        ("- Keep `B` in\n  memory. More", "Keep `B` in memory."),
        ("Move by 1.5 rows e.g. two", "Move by 1.5 rows e.g. two"),
        ("", ""),
    ],
)
def test_the_first_sentence(text: str, first: str) -> None:
    assert first_sentence(text) == first


def test_a_sentence_without_an_end_is_cut() -> None:
    cut = first_sentence("word " * 500)
    assert cut.endswith("word ...")
    assert len(cut) <= LONGEST + 4
