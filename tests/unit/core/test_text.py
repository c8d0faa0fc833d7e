from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.text import plain_text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("tab\tand line\n", "tab\tand line\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07left", "left"),
        ("\x1b]52;c;Y2xpcA==\x1b\\left", "left"),
        ("\x1b]unclosed\nleft", "unclosed\nleft"),
        ("\x1bc\x1b(0left", "left"),
        ("\x9b2Jleft", "left"),
        ("a\x1b", "a\ufffd"),
        ("a\rb\r\nc\u2028d\x0ce", "a\nb\nc\nd\ne"),
        ("\0\x07\x7f\x85", "\ufffd\ufffd\ufffd\n"),
        ("\ud800\u202e", "\ufffd\ufffd"),
    ],
)
def test_plain_text(text: str, plain: str) -> None:
    assert plain_text(text) == plain


@given(st.text(st.sampled_from("\x1b[]();0m\x07\\\n\r\x9bax\ud800 ")))
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    plain = plain_text(text)
    assert "\x1b" not in plain
    assert plain_text(plain) == plain
    plain.encode()
