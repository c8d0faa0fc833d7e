"""Tiles that every iteration overwrites are created in the loop."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError

BODY = """
t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
s = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
for r in nl.affine_range(4):
    nisa.dma_copy(dst=t, src=x[r * 128 : r * 128 + 128])
    for c in nl.affine_range(2):
        nisa.tensor_scalar(dst=s, data=t, op0=nl.multiply, operand0=3.0)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=s)
"""


def test_tiles_move_into_the_loop() -> None:
    kernel = read(BODY)
    text = after(kernel, "inside r")
    head, _, inner = text.partition("for r in")
    assert "buffer=nl.sbuf" not in head
    assert inner.count("buffer=nl.sbuf") == 2
    np.testing.assert_array_equal(results(world.read_kernel(text, ARGUMENTS)), results(kernel))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    nisa.dma_copy(dst=t, src=x[r * 128 : r * 128 + 128])",
         "    nisa.dma_copy(dst=t[0:64], src=x[r * 128 : r * 128 + 64])"),
        ("    nisa.dma_copy(dst=t,",
         "    nisa.tensor_copy(dst=s, src=t)\n    nisa.dma_copy(dst=t,"),
        ("for r in", "nisa.memset(dst=t, value=0.0)\nfor r in"),
        ("    nisa.dma_copy(dst=t, src=x[r * 128 : r * 128 + 128])",
         "    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)"),
        ("    nisa.dma_copy(dst=t, src=x[r * 128 : r * 128 + 128])",
         "    nisa.tensor_copy_predicated(dst=t, src=1.0, predicate=s)"),
    ],
)  # fmt: skip
def test_tiles_with_data_of_other_iterations_stay(old: str, new: str) -> None:
    assert BODY.count(old) == 1
    try:
        text = after(read(BODY.replace(old, new)), "inside r")
    except NotApplicableError:
        return
    assert " t = " not in text.partition("for r in")[2]


def test_tiles_of_products_stay() -> None:
    """Only the first product after the creation of the tile overwrites it."""
    body = """
w = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=w, src=x[0:64])
p = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
for r in nl.affine_range(4):
    nisa.memset(dst=p, value=1.0)
    nisa.nc_matmul(dst=p, stationary=w, moving=w)
    s = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=s, src=p)
    nisa.dma_copy(dst=out[r * 64 : r * 64 + 64], src=s)
"""
    with pytest.raises(NotApplicableError, match="no tile before the loop"):
        after(read(body), "inside r")
