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
SUMS = f"""
a = {WIDE}
for r in nl.affine_range(4):
    nisa.dma_copy(dst=a[:, r * 64 : r * 64 + 64], src=x[r * 128 : r * 128 + 128])
w = nl.ndarray((8, 512), dtype=nl.float32, buffer=nl.sbuf)
for k in nl.affine_range(8):
    nisa.dma_copy(dst=w[:, k * 64 : k * 64 + 64], src=x[k * 8 : k * 8 + 8])
t = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.psum)
for s in nl.affine_range(4):
    nisa.nc_transpose(dst=t[:, s * 8 : s * 8 + 8], data=w[:, s * 128 : s * 128 + 128])
u = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_copy(dst=u, src=t)
p = nl.ndarray((8, 64), dtype=nl.float32, buffer=nl.psum)
for q in nl.affine_range(4):
    nisa.nc_matmul(dst=p, stationary=u[:, q * 8 : q * 8 + 8], moving=a[:, q * 64 : q * 64 + 64])
b = nl.ndarray((8, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_copy(dst=b, src=p)
for k2 in nl.affine_range(64):
    nisa.dma_copy(dst=out[k2 * 8 : k2 * 8 + 8], src=b)
"""


@pytest.mark.parametrize(("body", "number"), [(ROWS, 1), (ROWS, 4), (PRODUCTS, 5), (SUMS, 1)])
def test_a_partition_takes_adjacent_rows_as_one_run(body: str, number: int) -> None:
    kernel = read(body)
    text = after(kernel, f"adjacent {number}")
    made = world.read_kernel(text, ARGUMENTS)
    np.testing.assert_allclose(results(made), results(kernel), rtol=1e-5, atol=1e-4)
    assert "[[256, 128], [1, 256]]" in text
    assert estimate(made).engines["dma"] < estimate(kernel).engines["dma"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("for s in nl.affine_range(4)", "for s in nl.affine_range(3)", "some, but not all"),
        ("for q in nl.affine_range(4)", "for q in nl.affine_range(2)", "some, but not all"),
        ("    nisa.dma_copy(dst=out", "    c = TILE\n    nisa.memset(dst=c, value=0.0)\n"
         "    nisa.dma_copy(dst=out", "some, but not all"),
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


def test_a_product_that_sums_rows_takes_the_other_operand_in_the_same_order() -> None:
    text = after(read(SUMS), "adjacent 1")
    assert "data=w[0:8, s : s + 509:4]" in text
    swapped = SUMS.replace(
        "stationary=u[:, q * 8 : q * 8 + 8], moving=a[:, q * 64 : q * 64 + 64]",
        "moving=u[:, q * 8 : q * 8 + 8], stationary=a[:, q * 64 : q * 64 + 64]",
    )
    swapped = swapped.replace("p = nl.ndarray((8, 64)", "p = nl.ndarray((64, 8)")
    swapped = swapped.replace("b = nl.ndarray((8, 64)", "b = nl.ndarray((64, 8)")
    swapped = swapped.replace("affine_range(64)", "affine_range(8)").replace(
        "out[k2 * 8 : k2 * 8 + 8]", "out[k2 * 64 : k2 * 64 + 64, 0:8]")  # fmt: skip
    kernel = read(swapped)
    made = world.read_kernel(after(kernel, "adjacent 1"), ARGUMENTS)
    got, expected = (results(one)[:, :8] for one in (made, kernel))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("stationary=u[:, q * 8 : q * 8 + 8]", "stationary=u[:, 0:8]", "other rows"),
        ("stationary=u[:, q * 8 : q * 8 + 8]", "stationary=u[:, q * 4 : q * 4 + 8]", "other rows"),
        ("nisa.nc_matmul(dst=p,", "nisa.nc_matmul(dst=p, accumulate=False,", "same blocks"),
        ("p = nl.ndarray((8, 64), dtype=nl.float32, buffer=nl.psum)\nfor q in nl.affine_range(4):",
         "p = nl.ndarray((8, 64), dtype=nl.float32, buffer=nl.psum)\nfor q in nl.affine_range(3):",
         "some, but not all"),
        ("nisa.nc_matmul(dst=p,", "nisa.nc_matmul(dst=p[0:8, q * 16 : q * 16 + 16],",
         "some, but not all, blocks"),
        ("data=w[:, s * 128 : s * 128 + 128]", "data=w[:, s * 96 : s * 96 + 128]",
         "follow one another"),
    ],
)  # fmt: skip
def test_a_product_that_does_not_sum_all_rows_refuses(old: str, new: str, reason: str) -> None:
    body = SUMS.replace(old, new)
    if "q * 16" in new:
        body = body.replace(
            "moving=a[:, q * 64 : q * 64 + 64]", "moving=a[:, q * 64 : q * 64 + 16]"
        )
    assert body != SUMS
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
