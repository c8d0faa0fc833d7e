"""Convolutions written by hand in styles of their own: rewritten, right, and with fewer loads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_model import Gemmini, trace

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step

UNSEEN = Path(__file__).parents[2] / "golden" / "rewriter" / "unseen"


def outcome(kernel: Kernel) -> np.ndarray:
    """What the kernel writes into its last array, from random inputs in the others."""
    rng = np.random.default_rng(3)
    arrays = {a.name: rng.integers(-3, 4, a.shape).astype(float) for a in kernel.arrays}
    result = arrays[kernel.arrays[-1].name]
    result[:] = np.nan
    Gemmini(arrays).run(kernel)
    assert not np.isnan(result).any()
    return result


def loads(kernel: Kernel) -> int:
    """How many values are loaded."""
    return sum(
        columns * rows
        for name, (*_, columns, rows) in ((n, o) for n, o in trace(kernel.body) if "mvin" in n)
    )


@pytest.mark.parametrize(
    ("name", "steps", "fewer"),
    [
        (
            "pointwise",
            "reorder f; resident filters p before; resident pixels f#2 before; "
            "pipeline pixels p 2; double-accumulator offset f#2 2 in-place",
            3,
        ),
        (
            "five_by_five",
            "split tap 5; strength tap; resident in tap before; resident w row before; "
            "pipeline in row 2",
            5,
        ),
        ("strided", "resident filters n at-first-use; block-load image r; pipeline bias y 2", 3),
        ("depthwise", "resident diagonal i before; block-load x u; double-buffer x j 2", 4),
    ],
)
def test_rewrites_improve_it(machine: Machine, name: str, steps: str, fewer: float) -> None:
    before = simplify(lift((UNSEEN / f"{name}.c").read_text(), machine))
    expected, kernel = outcome(before), before
    for text in steps.split("; "):
        kernel = Step.parse(text).apply(kernel, machine)
        assert np.array_equal(outcome(kernel), expected), text
    assert np.array_equal(outcome(lift(emit(kernel), machine)), expected)
    assert loads(before) >= fewer * loads(kernel)
