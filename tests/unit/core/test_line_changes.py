"""Changes between texts are exact for kernels of usual size, and take bounded time for others."""

from __future__ import annotations

import difflib
import random
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core import line_changes
from tilewright.core.line_changes import LineChanges
from tilewright.report.diffs import unified_diff

LINES = st.lists(st.sampled_from("abcdefgh"), max_size=14)


@given(LINES, LINES, st.sampled_from([0, 4, 30, 1000]))
def test_the_changes_turn_one_text_into_the_other(
    before: list[str], after: list[str], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_changes, "_AT_ONCE", at_once)
        changes = LineChanges(before, after).get_opcodes()
    first = begin = 0
    made: list[str] = []
    for what, i, j, k, m in changes:
        assert (i, k) == (first, begin)
        assert what != "equal" or before[i:j] == after[k:m]
        assert what in ("equal", "replace") or (what == "delete") == (k == m)
        made += before[i:j] if what == "equal" else after[k:m]
        first, begin = j, m
    assert (first, made) == (len(before), after)


@given(LINES, LINES)
def test_short_texts_have_the_changes_of_difflib(before: list[str], after: list[str]) -> None:
    expected = list(difflib.unified_diff(before, after, n=3, lineterm=""))[2:]
    assert list(unified_diff("\n".join(before), "\n".join(after), 10**6)) == expected


def test_a_change_in_a_long_text_is_only_that_line() -> None:
    before = [f"x{n} = y;" for n in range(3000)]
    after = [*before[:1000], "z = y;", *before[1001:2000], *before[2001:]]
    assert LineChanges(before, after).get_opcodes() == [
        ("equal", 0, 1000, 0, 1000),
        ("replace", 1000, 1001, 1000, 1001),
        ("equal", 1001, 2000, 1001, 2000),
        ("delete", 2000, 2001, 2000, 2000),
        ("equal", 2001, 3000, 2000, 2999),
    ]


def test_a_change_among_lines_that_occur_often_is_only_that_line() -> None:
    before = [line for n in range(100) for line in (f"for (i{n % 7}) {{", "y += x;", "}")]
    after = [*before[:151], "y += x[1];", *before[152:249], "barrier();", *before[249:]]
    changed = [c for c in LineChanges(before, after).get_opcodes() if c[0] != "equal"]
    assert changed == [("replace", 151, 152, 151, 152), ("insert", 249, 249, 249, 250)]


def _between_unique_lines(gaps: int, lines: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [
        line
        for gap in range(gaps)
        for line in (str(gap), *(rng.choice("ab") for _ in range(lines)))
    ]


HARD: dict[str, Callable[[], tuple[Sequence[str], Sequence[str]]]] = {
    "two lines": lambda: (["a", "b"] * 100_000, ["b", "a", "a"] * 60_000),
    "no line is unique": lambda: (
        [str(n % 977) for n in range(60_000)],
        [str(2 * n % 977) for n in range(60_000)],
    ),
    "all lines are unique": lambda: (
        [str(n) for n in range(100_000)],
        [str(-n) for n in range(100_000)],
    ),
    "lines in reverse": lambda: (
        [str(n) for n in range(100_000)],
        [str(n) for n in range(100_000, 0, -1)],
    ),
    "many hard parts": lambda: (
        _between_unique_lines(500, 199, 1),
        _between_unique_lines(500, 199, 2),
    ),
}


@pytest.mark.parametrize("name", HARD)
def test_no_texts_take_long(name: str) -> None:
    """A model may reply with such kernels; a diff of them took hours."""
    texts = HARD[name]()
    started = time.process_time()
    assert LineChanges(*texts).get_opcodes()
    assert time.process_time() - started < 5
