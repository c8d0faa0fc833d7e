"""Blocks of columns change places where a transfer then moves longer runs; the results do not."""

from __future__ import annotations

import nki_kernels as world
import numpy as np
import pytest
from test_nki_legality import ARGUMENTS, after, read
from test_nki_reuse import results

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.estimate.cost import estimate
from tilewright.proposers.nki.planning.moves import carried_out
from tilewright.proposers.nki.planning.planner import complete_sequences
from tilewright.proposers.nki.planning.steps import TECHNIQUES, Step
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.rewrites.regroup import regrouped

NAME = "transpose-2x256x256"
BLOCKS = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    s = TILE
    nisa.tensor_copy(dst=s, src=a)
    for k in nl.affine_range(2):
        nisa.tensor_scalar(dst=s[:, k * 8 : k * 8 + 8], data=s[:, k * 8 : k * 8 + 8],
                           op0=nl.add, operand0=1.0)
    for j in nl.affine_range(2):
        for k in nl.affine_range(4):
            nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, j * 32 + k * 8 : j * 32 + k * 8 + 8],
                          src=s[:, k * 16 + j * 8 : k * 16 + j * 8 + 8])
"""


def test_blocks_change_places_and_runs_become_longer() -> None:
    kernel = read(BLOCKS)
    text = after(kernel, "regroup 4")
    made = world.read_kernel(text, ARGUMENTS)
    np.testing.assert_array_equal(results(made), results(kernel))
    assert "src=s[0:128, j * 32 : j * 32 + 32]" in text
    assert estimate(made).engines["dma"] < 0.8 * estimate(kernel).engines["dma"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("k * 8 : k * 8 + 8], data=s[:, k * 8 : k * 8 + 8]",
         "k * 8 + 4 : k * 8 + 12], data=s[:, k * 8 + 4 : k * 8 + 12]", "into the next"),
        ("nisa.tensor_scalar(", "nisa.tensor_reduce(op=nl.add, axis=1, dst=a[:, 0:1], data=s)\n"
         "        nisa.tensor_scalar(", "the order of the columns"),
        ("for k in nl.affine_range(4)", "for k in nl.affine_range(3)", "does not transfer all"),
        ("j * 32 + k * 8 : j * 32 + k * 8 + 8", "j * 32 + k * 4 : j * 32 + k * 4 + 8",
         "blocks of HBM"),
    ],
)  # fmt: skip
def test_what_needs_the_old_order_refuses(old: str, new: str, reason: str) -> None:
    body = BLOCKS.replace(old, new)
    assert body != BLOCKS
    number = 5 if "tensor_reduce" in body else 4
    with pytest.raises(NotApplicableError, match=reason):
        after(read(body), f"regroup {number}")


def test_a_transpose_stores_whole_rows_without_being_told() -> None:
    """Loops whose iterations run together order a tile as the load or as the store needs it."""
    kernel = world.naive(NAME)
    for text in ("jam k 0", "jam j 0"):
        made = carried_out(kernel, Step.parse(text))
        assert made is not None
        kernel = made
    text = print_kernel(kernel)
    assert "src=x[i, j_2 * 128 : j_2 * 128 + 128, 0:256]" in text
    assert "dst=out[i, k_5 * 128 : k_5 * 128 + 128, 0:256]" in text
    assert world.is_right(NAME, text, 1e-4)
    found = list(complete_sequences(world.naive(NAME), TECHNIQUES))
    assert any("jam j 0" in map(str, steps) for steps, _ in found)


def test_no_other_transfer_becomes_slower() -> None:
    """The load takes whole rows of the tile: stores of whole rows would cut them into blocks."""
    body = BLOCKS.replace("dma_copy(dst=a,", "dma_copy(dst=s,").replace(
        "    nisa.tensor_copy(dst=s, src=a)\n", ""
    )
    body = body.replace("    s = TILE\n", "").replace("    a = TILE\n", "    s = TILE\n")
    kernel = read(body)
    assert regrouped(kernel) == kernel
    assert regrouped(read(BLOCKS)) != read(BLOCKS)
