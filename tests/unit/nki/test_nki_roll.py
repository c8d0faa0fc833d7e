"""Instructions that are written out become loops again."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError

LISTS = """
tiles = []
for r in range(4):
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[r * 128 : r * 128 + 128])
    s = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=s, data=t, op0=nl.multiply, operand0=3.0)
    tiles.append(s)
for r in range(4):
    nisa.tensor_tensor(dst=tiles[r], data1=tiles[r], data2=tiles[2], op=nl.add)
for r in range(4):
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=tiles[3 - r])
"""
CARRIED = """
before = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.memset(dst=before, value=1.0)
for r in range(4):
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[r * 128 : r * 128 + 128])
    kept = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    for c in nl.affine_range(2):
        nisa.affine_select(
            dst=t[:, c * 32 : c * 32 + 32], pattern=[[1, 32]], channel_multiplier=1,
            on_true_tile=t[:, c * 32 : c * 32 + 32], on_false_value=0.0, cmp_op=nl.greater,
            offset=r * -20 + c * 32,
        )
    nisa.tensor_tensor(dst=kept, data1=before, data2=t, op=nl.add)
    before = kept
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=kept)
"""


@pytest.mark.parametrize(
    ("body", "loops", "tiles"), [(LISTS, 3, 2), (CARRIED, 2, 2)], ids=["lists", "carried"]
)
def test_iterations_that_were_written_out_are_loops(body: str, loops: int, tiles: int) -> None:
    kernel = read(body)
    text = after(kernel, "roll")
    assert (text.count("for "), text.count("buffer=nl.sbuf")) == (loops, tiles)
    np.testing.assert_array_equal(results(world.read_kernel(text, ARGUMENTS)), results(kernel))


def test_iterations_in_another_order_depend_on_one_another() -> None:
    """Tile 2 is changed by iteration 2, and read by all others."""
    text = after(read(LISTS), "roll")
    assert [line.split("nl.")[1][:10] for line in text.splitlines() if "for " in line] == [
        "affine_ran", "sequential", "affine_ran",
    ]  # fmt: skip


def test_a_loop_over_another_loop_is_merged_with_it_if_both_count_evenly() -> None:
    body = """
t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=t, src=x[0:128])
for a in nl.affine_range(2):
    for b in nl.affine_range(4):
        nisa.tensor_scalar(dst=t[:, {0}], data=t[:, {0}], op0=nl.add, operand0=1.0)
nisa.dma_copy(dst=out[0:128], src=t)
"""
    place = "a * 32 + b * 8"
    kernel = read(body.format(f"{place} : {place} + 8"))
    text = after(kernel, "roll")
    assert "for b in nl.affine_range(8)" in text
    np.testing.assert_array_equal(
        results(world.read_kernel(text, ARGUMENTS))[:128], results(kernel)[:128]
    )
    with pytest.raises(NotApplicableError, match="no consecutive instructions"):
        after(read(body.format("a * 8 + b * 16 : a * 8 + b * 16 + 8")), "roll")


def test_tiles_are_used_in_any_order() -> None:
    body = """
tiles = []
for r in range(4):
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[r * 128 : r * 128 + 128])
    tiles.append(t)
sums = []
for r in range(4):
    s = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=s, data1=tiles[r], data2=tiles[r * 3 % 4], op=nl.add)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=s)
    sums.append(s)
"""
    kernel = read(body)
    text = after(kernel, "roll")
    np.testing.assert_array_equal(results(world.read_kernel(text, ARGUMENTS)), results(kernel))


@pytest.mark.parametrize("order", [(0, 1, 3), (0, 3)])
def test_two_tiles_do_not_have_the_same_place_in_a_list(order: tuple[int, ...]) -> None:
    rows = "[0, 128, 384, 256][r] : [0, 128, 384, 256][r] + 128"
    body = f"""
t = [TILE for r in range(4)]
for r in range(4):
    nisa.dma_copy(dst=t[r], src=x[{rows}])
for r in range({len(order)}):
    nisa.tensor_tensor(dst=t[r], data1=t[r], data2=t[{list(order)}[r]], op=nl.add)
for r in range(4):
    nisa.dma_copy(dst=out[{rows}], src=t[r])
"""
    kernel = read(body)
    text = after(kernel, "roll")
    np.testing.assert_array_equal(results(world.read_kernel(text, ARGUMENTS)), results(kernel))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("src=x[r * 128 : r * 128 + 128]", "src=x[r * r * 32 : r * r * 32 + 128]"),
        ("operand0=3.0", "operand0=3.0 * r"),
        ("dst=s, data=t", "dst=s[:, 0 : 64 - r], data=t[:, 0 : 64 - r]"),
    ],
    ids=["places", "numbers", "sizes"],
)
def test_iterations_that_differ_otherwise_stay(old: str, new: str) -> None:
    head = LISTS[: LISTS.index("for r in range(4):\n    nisa.tensor_tensor")].replace(old, new)
    body = head + "nisa.dma_copy(dst=out[0:128], src=tiles[1])\n"
    kernel = read(body)
    try:
        text = after(kernel, "roll")
    except NotApplicableError:
        return
    assert "nl.affine_range(4)" not in text
    np.testing.assert_array_equal(
        results(world.read_kernel(text, ARGUMENTS))[:128, :60], results(kernel)[:128, :60]
    )


def test_a_part_of_a_tile_stays_within_a_bank() -> None:
    body = """
sums = []
for r in range(3):
    p = nl.ndarray((128, {0}), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=p, value=1.0 * 2)
    t = nl.ndarray((128, {0}), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=t, src=p)
    sums.append(p)
for r in range(3):
    nisa.tensor_copy(dst=t, src=sums[r])
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, 0:{1}], src=t[:, 0:{1}])
"""
    assert "psum" in after(read(body.format(512, 64)), "roll")
    with pytest.raises(NotApplicableError):
        after(read(body.format(384, 64)), "roll")


def test_iterations_that_use_columns_in_descending_order_run_together() -> None:
    body = """
for a in nl.affine_range(2):
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[a * 128 : a * 128 + 128])
    for c in nl.affine_range(4):
        nisa.tensor_scalar(
            dst=t[:, 48 - c * 16 : 64 - c * 16], data=t[:, 48 - c * 16 : 64 - c * 16],
            op0=nl.multiply, operand0=3.0,
        )
    nisa.dma_copy(dst=out[a * 128 : a * 128 + 128], src=t)
"""
    kernel = read(body)
    made = world.read_kernel(after(kernel, "jam a 0"), ARGUMENTS)
    np.testing.assert_array_equal(results(made)[:256], results(kernel)[:256])
