"""Windows of a row that overlap are loaded once, where each iteration has a tile of its own."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.planning.steps import Step
from tilewright.proposers.nki.printing import print_kernel

PART = "nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)"
TAPS = f"""
for r in nl.affine_range(4):
    total = {PART}
    nisa.memset(dst=total, value=0.0)
    for k in nl.sequential_range(5):
        a = {PART}
        nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128, 7 + STEP * k : 23 + STEP * k])
        nisa.tensor_scalar(dst=a, data=a, op0=nl.multiply, operand0=3.0)
        nisa.tensor_tensor(dst=total, data1=total, data2=a, op=nl.add)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, 0:16], src=total)
"""


@pytest.mark.parametrize("step", [1, 3])
def test_overlapping_windows_are_loaded_as_one_row(step: int) -> None:
    kernel = read(TAPS.replace("STEP", str(step)))
    text = after(kernel, "window 2")
    assert f"x[r * 128 : r * 128 + 128, 7:{23 + 4 * step}]" in text.replace("7 : ", "7:")
    got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
    np.testing.assert_array_equal(got[:, :16], wanted[:, :16])
    assert np.isfinite(got[:, :16]).all()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (TAPS.replace("STEP * k", "16 * k").replace("range(5)", "range(2)"), "do not overlap"),
        (TAPS.replace("STEP * k", "0 * k"), "do not overlap"),
        (TAPS.replace("src=total)", "src=total)\n    nisa.dma_copy(dst=x[0:128, 0:16], src=total)")
         .replace("STEP", "1"), "may change"),
    ],
)  # fmt: skip
def test_other_loads_stay_in_their_loop(body: str, reason: str) -> None:
    with pytest.raises(NotApplicableError, match=reason):
        after(read(body), "window 2")


def test_a_tile_that_outlives_its_iteration_is_no_window() -> None:
    outside = TAPS.replace(f"        a = {PART}\n", "").replace("STEP", "1")
    outside = outside.replace("    total =", f"    a = {PART}\n    total =", 1)
    assert print_kernel(read(outside))
    with pytest.raises(NotApplicableError, match="used elsewhere"):
        after(read(outside), "window 2")


def test_windows_of_two_axes_are_reduced_along_one_after_the_other() -> None:
    name = "maxpool-700x150-k3"
    kernel = world.naive(name)
    made = Step.parse("separate 2").apply(kernel)
    assert (
        print_kernel(made).count("tensor_reduce") == print_kernel(kernel).count("tensor_reduce") + 1
    )
    assert world.is_right(name, print_kernel(made), 0.0)


BLOCKS = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    b = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    blocks = a.ap(pattern=[[64, 128], [STEP, 8], [16, 3], [1, 2]])
    nisa.tensor_reduce(dst=b, op=nl.add, data=blocks, axis=[2, 3])
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, 0:8], src=b)
"""


def test_blocks_that_do_not_overlap_are_reduced_at_once() -> None:
    assert after(read(BLOCKS.replace("STEP", "1")), "separate 2").count("tensor_reduce") == 2
    with pytest.raises(NotApplicableError, match="do not overlap"):
        after(read(BLOCKS.replace("STEP", "2")), "separate 2")
