"""Quotients and remainders of negative numbers: C rounds towards zero, and the IR rounds down."""

from __future__ import annotations

from pathlib import Path

import pytest
from logged_commands import HEAD, issued

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Opaque, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine

DOWN = {
    "quotients": "mvin(&A[i / 16][0], SPAD(0), 16, 16);",
    "remainders": "mvin(&A[0][0], SPAD((i / 8 + 5) % 2 * 64), 16, 16);",
    "flags": "mvout(&C[i / 16 + 1][i % 16], ACC(0) | (i / 16 > 1 ? FULL : 0), 16, 16);",
    "a test": "if (i / 16 < 2) { mvin(&A[i % 16][0], SPAD(0), 16, 16); }",
    "the bounds of loops": "for (int j = i / 16; j < 4; j++) { mvin(&A[j][i], SPAD(0), 16, 16); }",
}


@pytest.mark.parametrize("what", DOWN)
def test_loops_that_count_down_issue_the_same(machine: Machine, tmp_path: Path, what: str) -> None:
    source = f"{HEAD}for (int i = 48; i >= 0; i -= 8) {{ {DOWN[what]} }} }}\n"
    printed = emit(simplify(lift(source, machine)))
    assert issued(printed, tmp_path) == issued(source, tmp_path)


TOWARDS_ZERO = {
    "a remainder of a difference": "int s = i - 2; mvin(&A[0][0], SPAD((s % 4) & 63), 4, 4);",
    "a quotient of a difference": "mvin(&A[(i - 3) / 2 + 1][0], SPAD(0), 4, 4);",
    "a counter from a negative number": "mvin(&A[0][0], SPAD((n % 4) & 63), 4, 4); n++;",
    "a quotient of a falling counter": "mvin(&A[(m / 2) + 4][0], SPAD(0), 4, 4); m -= 3;",
    "a position that is never negative": "mvin(&A[(7 - i) / 2][0], SPAD((i + 2) % 3), 4, 4);",
}


@pytest.mark.parametrize("what", TOWARDS_ZERO)
def test_c_divides_towards_zero(machine: Machine, tmp_path: Path, what: str) -> None:
    loop = f"for (int i = 0; i < 6; i++) {{ {TOWARDS_ZERO[what]} }}"
    source = f"{HEAD}int n = -3, m = 4; {loop} }}\n"
    program = lift(source, machine)
    printed = emit(simplify(program))
    assert issued(printed, tmp_path) == issued(source, tmp_path)
    if "never" in what:
        assert not any(isinstance(s, Opaque) for s in walk(program.body))
