"""Rows that the core copied are described by where their elements were."""

from __future__ import annotations

import random

import pytest

from tilewright.proposers.rewriter.raising.copied_rows import ZERO, Piece, pieces


def written_out(found: list[Piece], columns: int) -> list[list[int]]:
    """The origin of every element."""
    rows = []
    for piece in found:
        for r in range(piece.rows):
            row = [ZERO] * columns
            for first, width, address in piece.runs:
                for c in range(width):
                    row[first + c] = address + r * piece.down + c * piece.across
            rows.append(row)
    return rows


@pytest.mark.parametrize("seed", range(60))
def test_pieces_name_every_element(seed: int) -> None:
    rng = random.Random(seed)
    size, columns = rng.choice((1, 4)), rng.choice((1, 5, 16))
    origins: list[list[int]] = []
    while len(origins) < 16:
        starts = [1000 * size * rng.randrange(1, 4) + size * c for c in range(columns)]
        zero = {c for c in range(columns) if rng.random() < rng.choice((0.0, 0.3))}
        cut = rng.randrange(columns + 1)
        steps = rng.choice(((64, 64), (64, 0), (0, 64), (-8, -8), (128, 64)))
        for r in range(rng.randrange(1, 8)):
            row = [at + size * 500 * (c >= cut) + size * r * steps[c >= cut] for c, at in
                   enumerate(starts)]  # fmt: skip
            origins.append([ZERO if c in zero else at for c, at in enumerate(row)])
    found = pieces(origins, size)
    assert written_out(found, columns) == origins
    assert all(piece.down >= 0 and piece.across > 0 for piece in found)


def test_rows_of_the_same_form_are_one_piece() -> None:
    patch = [[100 + 30 * y + 2 * x + c for y in range(3) for c in range(4)] for x in range(9)]
    assert pieces(patch, 1) == [Piece(9, 2, 1, ((0, 4, 100), (4, 4, 130), (8, 4, 160)))]
    transposed = [[100 + 30 * c + r for c in range(5)] for r in range(7)]
    assert pieces(transposed, 1) == [Piece(7, 1, 30, ((0, 5, 100),))]


def test_zeros_belong_to_no_run() -> None:
    rows = [[ZERO, 7, 8, ZERO], [ZERO] * 4, [ZERO] * 4]
    assert pieces(rows, 1) == [Piece(1, 0, 1, ((1, 2, 7),)), Piece(2, 0, 1, ())]
    assert not pieces(rows, 1)[0].is_plain
    assert pieces(rows, 1)[1].is_plain


def test_rows_whose_runs_have_other_columns_are_separate() -> None:
    rows = [[ZERO, 11, 12], [ZERO, 21, ZERO], [30, 31, ZERO]]
    assert [piece.runs for piece in pieces(rows, 1)] == [
        ((1, 2, 11),),
        ((1, 1, 21),),
        ((0, 2, 30),),
    ]
