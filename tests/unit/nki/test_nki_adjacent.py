"""Partitions take adjacent rows of HBM, and every result has the rows that it had before."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.estimate.cost import estimate
from tilewright.proposers.nki.planning.moves import carried_out
from tilewright.proposers.nki.planning.steps import Step

NAME = "transpose-2x256x256"
WIDE = "nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.sbuf)"
ROWS = f"""
a = {WIDE}
for r in nl.affine_range(4):
    nisa.dma_copy(dst=a[:, r * 64 : r * 64 + 64], src=x[r * 128 : r * 128 + 128])
b = {WIDE}
nisa.activation(dst=b, op=nl.exp, data=a)
for s in nl.affine_range(4):
    nisa.tensor_scalar(dst=b[:, s * 64 : s * 64 + 64], data=a[:, s * 64 : s * 64 + 64],
                       op0=nl.add, operand0=1.0)
for q in nl.affine_range(4):
    nisa.dma_copy(dst=out[q * 128 : q * 128 + 128], src=b[:, q * 64 : q * 64 + 64])
"""
PRODUCTS = f"""
w = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
for k in nl.affine_range(8):
    nisa.dma_copy(dst=w[:, k * 64 : k * 64 + 64], src=x[128:256])
v = TILE
nisa.dma_copy(dst=v, src=x[0:128])
p = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.psum)
for r in nl.affine_range(4):
    nisa.nc_matmul(dst=p[:, r * 64 : r * 64 + 64], stationary=w[:, r * 128 : r * 128 + 128],
                   moving=v)
b = {WIDE}
nisa.tensor_copy(dst=b, src=p)
for q in nl.affine_range(4):
    nisa.dma_copy(dst=out[q * 128 : q * 128 + 128], src=b[:, q * 64 : q * 64 + 64])
"""


@pytest.mark.parametrize(("body", "number"), [(ROWS, 1), (ROWS, 4), (PRODUCTS, 5)])
def test_a_partition_takes_adjacent_rows_as_one_run(body: str, number: int) -> None:
    kernel = read(body)
    text = after(kernel, f"adjacent {number}")
    made = world.read_kernel(text, ARGUMENTS)
    np.testing.assert_allclose(results(made), results(kernel), rtol=1e-5, atol=1e-5)
    assert "[[256, 128], [1, 256]]" in text
    assert estimate(made).engines["dma"] < estimate(kernel).engines["dma"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("for s in nl.affine_range(4)", "for s in nl.affine_range(3)", "without all"),
        ("for q in nl.affine_range(4)", "for q in nl.affine_range(2)", "without all"),
        ("    nisa.dma_copy(dst=out", "    c = TILE\n    nisa.memset(dst=c, value=0.0)\n"
         "    nisa.dma_copy(dst=out", "without all"),
        ("src=x[r * 128 : r * 128 + 128]", "src=x[r * 64 : r * 64 + 128]", "follow one another"),
        ("out[q * 128 : q * 128 + 128]", "out[q * 96 : q * 96 + 128]", "follow one another"),
        ("nisa.activation(", "nisa.tensor_reduce(op=nl.add, axis=1, dst=b[:, 0:1], data=a)\n"
         "nisa.activation(", "which rows"),
        ("op0=nl.add, operand0=1.0", "op0=nl.add, operand0=a[:, 0:1]", "other rows"),
    ],
)  # fmt: skip
def test_what_needs_the_old_rows_refuses(old: str, new: str, reason: str) -> None:
    body = ROWS.replace(old, new)
    assert body != ROWS
    with pytest.raises(NotApplicableError, match=reason):
        after(read(body), "adjacent 1")


def test_a_transpose_loads_and_stores_runs_of_several_rows() -> None:
    kernel = world.naive(NAME)
    for text in ("jam j 0", "jam k 0"):
        made = carried_out(kernel, Step.parse(text))
        assert made is not None
        kernel = made
    text = after(kernel, "adjacent 4; adjacent 1")
    assert text.count("[[512, 128], [1, 512]]") == 2
    assert world.is_right(NAME, text, 1e-4)


def test_columns_of_which_a_loop_moves_other_blocks_refuse() -> None:
    """Jammed the other way round, the transposes write every second block for one row of blocks."""
    kernel = world.naive(NAME)
    for text in ("jam k 0", "jam j 0"):
        kernel = carried_out(kernel, Step.parse(text)) or kernel
    with pytest.raises(NotApplicableError, match="follow one another"):
        after(kernel, "adjacent 1")
