"""Windows of rows: bands of rows in each partition, and windows reduced by pairs."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Kernel, Loop, walk
from tilewright.proposers.nki.planning.steps import Step
from tilewright.proposers.nki.printing import print_kernel

ROWS = """
for r in nl.affine_range(TRIPS):
    w = nl.ndarray((32, 3, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=w, src=x.ap(pattern=[[64, 32], [64, 3], [1, 64]], offset=r * 2048))
    b = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.sbuf)
    windows = w.ap(pattern=[[192, 32], [1, 64], [64, 3]])
    nisa.tensor_reduce(dst=b, op=nl.maximum, data=windows, axis=2)
    nisa.dma_copy(dst=out[r * 32 : r * 32 + 32], src=b)
"""


def rows(trips: int) -> str:
    return ROWS.replace("TRIPS", str(trips))


def same(text: str, kernel: Kernel, upto: int) -> None:
    got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
    np.testing.assert_array_equal(got[:upto], wanted[:upto])
    assert np.isfinite(got[:upto]).all()


@pytest.mark.parametrize(("trips", "height"), [(12, 4), (13, 4), (15, 4), (8, 8), (5, 3)])
def test_each_partition_loads_the_rows_of_its_band_once(trips: int, height: int) -> None:
    kernel = read(rows(trips))
    text = after(kernel, f"bands r {height}")
    assert f"[64, {height + 2}]" in text
    same(text, kernel, trips * 32)


def test_parts_that_share_no_tile_have_loops_of_their_own() -> None:
    body = rows(8) + rows(8).split("\n", 2)[2].replace("out[r * 32 : r * 32 + 32]", "KEPT")
    body = body.replace("KEPT", "out[r * 32 + 256 : r * 32 + 288]").replace("maximum", "minimum", 1)
    made = Step.parse("bands r 4").apply(read(body))
    loops = [s for _, s in walk(made.body) if isinstance(s, Loop)]
    assert [loop.trips for loop in loops] == [2, 4, 4]
    same(print_kernel(made), read(body), 512)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (rows(3), "fewer than 4 iterations"),
        (rows(8).replace("offset=r * 2048", "offset=r * 4096"), "do not follow one another"),
        (rows(8).replace("[64, 3]", "[2048, 3]").replace("range(8)", "range(4)"), "do not overlap"),
        (rows(8).replace("out[r * 32 : r * 32 + 32]", "out[0:32]"), "depend on one another"),
        (rows(8).replace("    b =", "    nisa.iota(dst=w[:, 0, :], pattern=[[1, 64]], offset=0, "
                         "channel_multiplier=1)\n    b ="), "partition by partition"),
        ("kept = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.sbuf)\n"
         "nisa.dma_copy(dst=kept, src=x[0:32])"
         + rows(8).replace("    nisa.dma_copy(dst=out", "    nisa.tensor_tensor(dst=b, data1=b, "
                           "data2=kept, op=nl.add)\n    nisa.dma_copy(dst=out"),
         "kept is not used row by row"),
        (rows(8).replace("[[192, 32], [1, 64]", "[[192, 31], [1, 64]")
         .replace("dst=b,", "dst=b[0:31],"), "different numbers of rows"),
    ],
)  # fmt: skip
def test_other_loops_have_no_bands(body: str, reason: str) -> None:
    with pytest.raises(NotApplicableError, match=reason):
        after(read(body), "bands r 4")


PAIRS = """
for r in nl.affine_range(4):
    a = nl.ndarray((128, 64), dtype=nl.DTYPE, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    b = nl.ndarray((128, COUNT), dtype=nl.float32, buffer=nl.sbuf)
    windows = a.ap(pattern=[[64, 128], [STEP, COUNT], [1, SIZE]], offset=1)
    nisa.tensor_reduce(dst=b, op=nl.OP, data=windows, axis=2)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, 0:COUNT], src=b)
"""


def windows(count: int = 40, size: int = 3, step: int = 1, op: str = "maximum") -> str:
    body = PAIRS.replace("COUNT", str(count)).replace("SIZE", str(size)).replace("OP", op)
    return body.replace("STEP", str(step)).replace("DTYPE", "float32")


@pytest.mark.parametrize(
    ("count", "size", "op"), [(40, 3, "maximum"), (2, 5, "minimum"), (50, 9, "add")]
)
def test_neighbouring_windows_share_what_they_reduce(count: int, size: int, op: str) -> None:
    kernel = read(windows(count, size, op=op))
    text = after(kernel, "pairs 2")
    assert f"[1, {size - 1}]" in text
    assert "buffer=nl.psum" in text
    got, wanted = results(world.read_kernel(text, ARGUMENTS)), results(kernel)
    np.testing.assert_allclose(got[:, :count], wanted[:, :count], rtol=1e-5, atol=1e-6)
    assert np.isfinite(got[:, :count]).all()


def test_windows_of_rows_are_reduced_by_pairs_of_rows() -> None:
    kernel = read(rows(12))
    text = after(kernel, "bands r 4; jam r 0; pairs 2")
    assert text.count("tensor_tensor") == 2
    same(text, kernel, 384)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (windows(count=41), "in pairs"),
        (windows(size=2), "in pairs"),
        (windows(count=20, step=3), "in pairs"),
        (windows(op="multiply"), "order"),
        (windows().replace("dtype=nl.float32", "dtype=nl.bfloat16", 1), "not float32"),
    ],
)
def test_other_reductions_have_no_pairs(body: str, reason: str) -> None:
    with pytest.raises(NotApplicableError, match=reason):
        after(read(body), "pairs 2")


def test_maxpool_in_bands_and_pairs_is_right() -> None:
    """The rows that the bands leave, and the last ones, are computed too."""
    name = "maxpool-700x150-k3"
    kernel = world.naive(name)
    for step in ("separate 2", "bands r 4", "pairs 3"):
        kernel = Step.parse(step).apply(kernel)
    assert world.is_right(name, print_kernel(kernel), 0.0)
    assert world.fits(name, print_kernel(kernel))


def test_instructions_on_windows_are_as_wide_as_what_they_read() -> None:
    """Two rows of windows of three rows are four rows of 2048 elements, not six."""
    kernel = world.naive("maxpool-4096x4096-k3")
    assert [s.trips for s in kernel.body if isinstance(s, Loop)] == [31]  # the last rows are apart
    for step in ("separate 2", "bands r 4", "jam r 2"):
        kernel = Step.parse(step).apply(kernel)
    assert "pattern=[[12288, 128], [2048, 2], [1, 2048], [2048, 3]]" in print_kernel(kernel)
