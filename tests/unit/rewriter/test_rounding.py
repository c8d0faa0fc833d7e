"""Dividends that may be negative are printed without a sign: C would round towards zero."""

from __future__ import annotations

from pathlib import Path

import pytest
from logged_commands import HEAD, issued

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
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
