"""Loads of one body that overlap, or follow one another, become one load."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError

PART = "nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)"
FILTER = f"""
for r in nl.affine_range(4):
    a = {PART}
    b = {PART}
    c = {PART}
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128, FIRST : FIRST + 16])
    nisa.dma_copy(dst=b, src=x[r * 128 : r * 128 + 128, SECOND : SECOND + 16])
    nisa.dma_copy(dst=c, src=x[r * 128 : r * 128 + 128, THIRD : THIRD + 16])
    s = {PART}
    nisa.tensor_copy(dst=s, src=a)
    nisa.tensor_tensor(dst=s[:, 2:9], data1=s[:, 2:9], data2=b[:, 3:10], op=nl.add)
    nisa.tensor_tensor(dst=s[:, 1:16], data1=s[:, 1:16], data2=c[:, 0:15], op=nl.subtract)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, 0:16], src=s)
"""
NARROW = f"""
d = nl.ndarray((128, 16), dtype=nl.bfloat16, buffer=nl.sbuf)
e = {PART}
nisa.dma_copy(dst=d, src=x[0:128, 0:16])
nisa.dma_copy(dst=e, src=x[0:128, 2:18])
nisa.tensor_tensor(dst=e, data1=d, data2=e, op=nl.add)
nisa.dma_copy(dst=out[0:128, 0:16], src=e)
"""


def filtered(first: int, second: int, third: int) -> str:
    text = FILTER.replace("FIRST", str(first)).replace("SECOND", str(second))
    return text.replace("THIRD", str(third))


@pytest.mark.parametrize(
    ("begins", "joined"),
    [((7, 8, 9), 3), ((9, 8, 7), 3), ((3, 19, 35), 3), ((3, 19, 40), 2), ((0, 40, 12), 2)],
)
@pytest.mark.parametrize("number", [1, 2])
def test_loads_without_a_gap_are_one(
    begins: tuple[int, int, int], joined: int, number: int
) -> None:
    kernel = read(filtered(*begins))
    if number == 2 and begins == (0, 40, 12):
        with pytest.raises(NotApplicableError, match="overlaps"):
            after(kernel, "join 2")
        return
    text = after(kernel, f"join {number}")
    assert text.count("src=x[") == 4 - joined
    got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
    np.testing.assert_array_equal(got[:, :16], wanted[:, :16])
    assert np.isfinite(got[:, :16]).all()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (filtered(0, 20, 40), "no other load"),
        (filtered(7, 8, 9) + "    nisa.dma_copy(dst=x[0:128, 0:16], src=s)", "may change"),
        (filtered(7, 8, 9).replace("    c =", "    nisa.dma_copy(dst=a[:, 0:4], src=x[0:128, 0:4])"
                                   "\n    c ="), "the instruction does not load a whole tile"),
        (NARROW, "no other load"),
        (filtered(7, 8, 9).replace("x[r * 128 : r * 128 + 128, 8", "x[r * 64 : r * 64 + 128, 8")
         .replace("x[r * 128 : r * 128 + 128, 9", "x[0:128, 9"), "no other load"),
    ],
)  # fmt: skip
def test_other_loads_stay_apart(body: str, reason: str) -> None:
    with pytest.raises(NotApplicableError, match=reason):
        after(read(body), "join 1")


def test_tiles_that_are_written_over_are_joined_with_a_new_tile_for_the_result() -> None:
    kernel = read(NARROW.replace("bfloat16", "float32").replace("dst=e, data1", "dst=d, data1")
                  .replace("src=e", "src=d"))  # fmt: skip
    text = after(kernel, "join 1")
    assert "src=x[0:128, 0:18]" in text.replace("0 : ", "0:")
    got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
    np.testing.assert_array_equal(got[:128, :16], wanted[:128, :16])
    assert np.isfinite(got[:128, :16]).all()
