"""Facts about C kernels by which models' menus leave out options."""

from __future__ import annotations

import pytest

from tilewright.proposers.loops.facts import facts_in


@pytest.mark.parametrize(
    ("code", "holds"),
    [
        ("y[i][j] += x[i];", True),
        ("y[i] = y[i] + x[i];", True),
        ("y[i] = fmaxf(x[i], y[i]);", True),
        ("*p += x[i];", True),
        ("*p = *p * 2;", True),
        ("count[k]++;", True),
        ("++count[k];", True),
        ("bits[k] |= 1;", True),
        ("sum += x[i]; y[i] = sum;", False),
        ("y[i] = x[i] * w[i];", False),
        ("if (y[i] == x[i]) n = 1;", False),
    ],
)
def test_elements_that_a_loop_updates(code: str, holds: bool) -> None:
    kernel = f"void kernel(void) {{ for (int i = 0; i < 9; i++) {{ {code} }} }}"
    assert ("updated-elements" in facts_in(kernel)) is holds


def test_statistics_need_a_quotient_or_a_root() -> None:
    assert "roots" in facts_in("void kernel(void) { y = sqrtf(x); }")
    assert not facts_in("void kernel(void) { y = x; }") & {"roots", "divisions"}
