"""Rows are reduced while they are computed, and copied to all partitions, where that is right."""

from __future__ import annotations

import nki_kernels as world
import pytest
from test_nki_legality import after, read

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.planning.steps import Step
from tilewright.proposers.nki.printing import print_kernel

COLUMN = "nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)"
PART = "nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)"
PIECES = f"""
for r in nl.affine_range(4):
    row = TILE
    for j in nl.affine_range(4):
        a = {PART}
        nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128, j * 16 : j * 16 + 16])
        nisa.tensor_copy(dst=row[:, j * 16 : j * 16 + 16], src=a)
    top = {COLUMN}
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=row, axis=1)
    b = TILE
    nisa.tensor_scalar(dst=b, data=row, op0=nl.subtract, operand0=top)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=b)
"""
TWICE = f"""
for r in nl.affine_range(4):
    row = TILE
    tops = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
    for j in nl.affine_range(4):
        a = {PART}
        nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128, j * 16 : j * 16 + 16])
        nisa.tensor_copy(dst=row[:, j * 16 : j * 16 + 16], src=a)
        nisa.tensor_reduce(dst=tops[:, j : j + 1], op=nl.maximum, data=a, axis=1)
    top = {COLUMN}
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=tops, axis=1)
    b = TILE
    nisa.tensor_scalar(dst=b, data=row, op0=nl.subtract, operand0=top)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=b)
"""


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("attention-1024x128", "stay i; take-over 6; along 6; jam j 0"),
        ("sd_attention-512x64", "merge 11; jam j 2; merge 13; land 14"),
        ("sd_attention-512x64", "jam j 2; merge 11; merge 13; land 14"),
        ("mamba-1x256x2x64", "early 8 s; spread 7; spread 7"),
        ("rmsnorm-256x1024", "spread 2"),
    ],
)
def test_several_steps_keep_the_result(name: str, steps: str) -> None:
    kernel = world.naive(name)
    for text in steps.split("; "):
        kernel = Step.parse(text).apply(kernel)
    assert world.is_right(name, print_kernel(kernel))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("    top = ", "    nisa.memset(dst=row[:, 0:1], value=9.0)\n    top = ",
         "single earlier loop"),
        ("j in nl.affine_range(4)", "j in nl.affine_range(3)", "piece by piece"),
        ("j * 16 : j * 16 + 16], src=a", "0:16], src=a", "piece by piece"),
        ("data=row, axis", "data=row[:, 0:32], axis", "a part of row"),
        ("nisa.tensor_copy(dst=row[:, j * 16 : j * 16 + 16], src=a)",
         "nisa.reciprocal(dst=row[:, j * 16 : j * 16 + 16], data=a)", "cannot reduce"),
    ],
)  # fmt: skip
def test_a_row_is_reduced_piece_by_piece_only_where_the_pieces_are_the_row(
    old: str, new: str, reason: str
) -> None:
    assert "nisa.tensor_scalar_reduce(" in after(read(PIECES), "along 3")
    assert old in PIECES
    number = 3 + ("memset" in new)
    with pytest.raises(NotApplicableError, match=reason):
        after(read(PIECES.replace(old, new)), f"along {number}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        nisa.tensor_reduce",
         "        nisa.reciprocal(dst=a, data=a)\n        nisa.tensor_reduce"),
        ("        nisa.tensor_reduce",
         "        nisa.dma_copy(dst=out[0:128, 0:16], src=row[:, j * 16 : j * 16 + 16])\n"
         "        nisa.tensor_reduce"),
        ("data=a, axis=1", "data=a[:, 0:8], axis=1"),
    ],
)  # fmt: skip
def test_a_copy_and_a_reduction_are_one_only_of_the_same_values(old: str, new: str) -> None:
    assert "nisa.tensor_scalar_reduce(" in after(read(TWICE), "merge 3")
    number = 3 + (new.count("nisa.") > 1)
    with pytest.raises(NotApplicableError):
        after(read(TWICE.replace(old, new, 1)), f"merge {number}")


def test_sums_of_pieces_become_those_of_longer_pieces_only_where_they_are_summed_again() -> None:
    text = after(read(TWICE), "merge 3; jam j 2")
    assert "tops = nl.ndarray((128, 2)" in text
    other = TWICE.replace("op=nl.maximum, data=tops", "op=nl.add, data=tops")
    assert "tops = nl.ndarray((128, 4)" in after(read(other), "merge 3; jam j 2")
    assert "tops = nl.ndarray((128, 2)" in after(read(TWICE), "jam j 2; merge 3")
    with pytest.raises(NotApplicableError):
        after(read(other), "jam j 2; merge 3")


def test_only_a_single_row_is_copied_to_all_partitions_by_products() -> None:
    body = """
a = TILE
nisa.dma_copy(dst=a, src=x.ap(pattern=[[STEP, 128], [1, 64]], offset=64))
nisa.dma_copy(dst=out[0:128], src=a)
"""
    text = after(read(body.replace("STEP", "0")), "spread 1")
    assert "nisa.nc_matmul(" in text
    assert "nisa.tensor_copy(dst=a, src=wide)" in text  # a transfer does not read PSUM
    with pytest.raises(NotApplicableError, match="one row"):
        after(read(body.replace("STEP", "64")), "spread 1")


def test_what_is_computed_last_lands_where_it_is_copied_to() -> None:
    body = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
    b = TILE
    nisa.tensor_copy(dst=b, src=a)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=b)
"""
    assert "dst=b, data=a" in after(read(body), "land 3")
    again = body.replace("src=b)", "src=b)\n    nisa.dma_copy(dst=out[0:128], src=a)")
    with pytest.raises(NotApplicableError, match="other uses"):
        after(read(again), "land 3")


def test_a_tile_that_moves_to_psum_takes_its_users_off_pool() -> None:
    body = """
for r in nl.affine_range(4):
    a = TILE
    nisa.dma_copy(dst=a, src=x[r * 128 : r * 128 + 128])
    b = TILE
    nisa.tensor_tensor(dst=b, data1=a, data2=a, op=nl.add, engine=nisa.engine.gpsimd)
    c = TILE
    nisa.tensor_scalar(dst=c, data=b, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=c)
"""
    assert "gpsimd" not in after(read(body), "psum b")
