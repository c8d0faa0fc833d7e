"""Padded images: windows with borders, products that follow one another, large transfers."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.planning.planner import in_pieces
from tilewright.proposers.nki.planning.steps import steps_of
from tilewright.proposers.nki.printing import print_kernel

PADDED = """
for y in nl.affine_range(4):
    t = nl.ndarray((128, 4, 10), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=t, value=2.0)
    rows = x.ap(pattern=[[64, 128], [8, 4], [1, 8]], offset=y * 8)
    nisa.dma_copy(dst=t[:, 0:4, 1:9], src=rows)
    b = nl.ndarray((128, 4, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=b, data1=t[:, 0:4, 0:8], data2=t[:, 0:4, 2:10], op=nl.add)
    nisa.dma_copy(dst=out[y * 128 : y * 128 + 128, 0:32], src=b.reshape((128, 32)))
"""


def test_windows_with_a_border_are_loaded_once() -> None:
    kernel = read(PADDED)
    text = after(kernel, "window 2")
    assert text.index("memset") < text.index("dma_copy") < text.index("for y")
    got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
    np.testing.assert_array_equal(got[:, :32], wanted[:, :32])
    assert np.isfinite(got[:, :32]).all()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("    nisa.memset(dst=t, value=2.0)\n", "", "border of t is not filled"),
        ("dst=t, value", "dst=t[:, 0:2], value", "used elsewhere"),
        ("    b = nl", "    nisa.memset(dst=t[:, 0:4, 9:10], value=1.0)\n    b = nl", "elsewhere"),
        ("t[:, 0:4, 1:9]", "t[:, 0:3, 1:9]", "whole tile"),
        ("t[:, 0:4, 1:9]", "t.ap(pattern=[[40, 128], [10, 4], [1, 8]], offset=5)", "whole tile"),
    ],
)
def test_other_borders_stay_in_their_loop(old: str, new: str, reason: str) -> None:
    body = PADDED.replace(old, new)
    if "0:3" in new:
        body = body.replace("[8, 4], [1, 8]", "[8, 3], [1, 8]")
    number = 1 if "value=2.0" in old else 2
    with pytest.raises(NotApplicableError, match=reason):
        after(read(body), f"window {number}")


SUMS = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    p = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=a, moving=a)
    nisa.tensor_tensor(dst=total, data1=total, data2=p, op=nl.add)
    q = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    for n in nl.affine_range(2):
        nisa.nc_matmul(dst=q, stationary=a[n * 64 : n * 64 + 64], moving=a[0:64])
    nisa.tensor_tensor(dst=total, data1=total, data2=q, op=nl.add)
    nisa.dma_copy(dst=out[r * 64 : r * 64 + 64], src=total)
"""


def test_products_that_follow_one_another_are_added_up_in_psum() -> None:
    kernel = read(SUMS)
    for steps in ("accumulate 4; accumulate 5", "accumulate 6"):
        text = after(kernel, steps)
        assert text.count("nl.psum") == 1
        assert text.count("tensor_tensor") == ("; " not in steps)
        got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
        np.testing.assert_allclose(got[:256], wanted[:256], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("old", "new", "number", "reason"),
    [
        ("value=0.0", "value=1.0", 4, "the instruction is not an addition"),
        ("    q = nl", "    nisa.tensor_copy(dst=a[0:64], src=total)\n    q = nl", 7, "a part"),
        ("    q = nl", "    nisa.tensor_copy(dst=a[0:64], src=p)\n    q = nl", 7, "elsewhere"),
        ("dst=q, ", "dst=q, accumulate=True, ", 6, "not a product"),
        ("out[r * 64 : r * 64 + 64], src=total", "out[r * 64 : r * 64 + 64], src=total)\n    "
         "b = TILE\n    nisa.tensor_copy(dst=b[0:64], src=q", 6, "used elsewhere"),
    ],
)  # fmt: skip
def test_other_sums_stay(old: str, new: str, number: int, reason: str) -> None:
    assert old in SUMS
    with pytest.raises(NotApplicableError, match=reason):
        after(read(SUMS.replace(old, new)), f"accumulate {number}")


def test_a_product_that_is_computed_before_the_first_one_stays() -> None:
    q = "    q = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)\n"
    loop = SUMS[
        SUMS.index("    for n") : SUMS.index(
            "    nisa.tensor_tensor(dst=total, data1=total, data2=q"
        )
    ]
    early = SUMS.replace(q + loop, "").replace("    p = nl", q + loop + "    p = nl")
    with pytest.raises(NotApplicableError, match="before the first"):
        after(read(early), "accumulate 6")


def test_large_transfers_are_split() -> None:
    body = PADDED.replace("src=b.reshape((128, 32))", "src=b")
    body = body.replace(
        "out[y * 128 : y * 128 + 128, 0:32]",
        "out.ap(pattern=[[64, 128], [8, 4], [1, 8]], offset=y * 8192)",
    )
    kernel = read(body)
    text = after(kernel, "pieces 2 2; pieces 4 2")
    assert text.count("for part") == 2
    got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
    np.testing.assert_array_equal(got[:, :32], wanted[:, :32])
    with pytest.raises(NotApplicableError, match="too small"):
        after(kernel, "pieces 2 3")


def test_pieces_of_a_transfer_leave_no_rows_out() -> None:
    kernel = read(
        PADDED.replace("4]", "7]")
        .replace(" 4, ", " 7, ")
        .replace("0:4", "0:7")
        .replace("0:32", "0:56")
        .replace("128, 32", "128, 56")
        .replace("y * 8)", "0)")
    )
    text = after(kernel, "pieces 2 3")
    got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
    np.testing.assert_array_equal(got[:, :56], wanted[:, :56])
    assert np.isfinite(got[:, :56]).all()


def test_a_convolution_is_right_after_all_of_them() -> None:
    name = "conv2d-1x128x48x128x128-k3"
    kernel = world.naive(name)
    for technique, most in (("accumulate", 9), ("window", 2)):
        for _ in range(most):
            kernel = next((made for _, made in steps_of(kernel, technique)), kernel)
    text = print_kernel(kernel)
    assert "tensor_tensor" not in text
    assert text.index("(128, 42, 130)") < text.index("for r")
    assert world.is_right(name, text)


LOADS = """
for r in nl.affine_range(4):
    t = nl.ndarray((128, ROWS, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x.ap(pattern=[[64, 128], [8, ROWS], [1, 8]], offset=r * 64))
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, 0:8], src=t[:, 0])
"""


def test_only_large_transfers_in_loops_are_split_after_a_sequence() -> None:
    steps, after = in_pieces((), read(LOADS.replace("ROWS", "32")))
    assert [str(step) for step in steps] == ["pieces 1 8"]
    assert print_kernel(after).count("for part in nl.affine_range(8)") == 1
    for kernel in (LOADS.replace("ROWS", "31"), LOADS.replace("ROWS", "32").replace("(4)", "(1)")):
        assert in_pieces((), read(kernel)) == ((), read(kernel))
