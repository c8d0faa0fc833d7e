"""Rows of elements that the core copied, described by where the elements were.

A row of patches that the core writes for a convolution, for example, consists of several runs of
elements that are contiguous in the image, and of zeros at its border.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

ZERO = 0
"""The origin of an element that is zero; no array has this address."""
MOST_RUNS = 9
"""Maximum number of runs in a row of the first operand of a product, as for the taps of a filter of
3x3. Each run becomes a product of its own. With more runs, these products may take longer than the
core's copy.
"""
Run: TypeAlias = tuple[int, int, int]
"""First column, number of columns and address of elements that are contiguous in memory."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows with the same structure: their number, the bytes from row to row and from column to
    column, and the runs of the first row.

    A column that belongs to no run is zero. If the bytes from column to column are not those of an
    element, there is one run with all columns.
    """

    rows: int
    down: int
    across: int
    runs: tuple[Run, ...]

    @property
    def is_plain(self) -> bool:
        """Whether all elements are zero or belong to one run that begins in the first column."""
        return not self.runs or (len(self.runs) == 1 and self.runs[0][0] == 0)


def pieces(origins: Sequence[Sequence[int]], size: int) -> list[Piece]:
    """Rows of elements of `size` bytes, given by the origin of each, as few pieces.

    Rows of one piece have evenly growing addresses.
    """
    whole = _even(origins, size)
    return [whole] if whole is not None else list(_grouped(origins, size))


def _even(origins: Sequence[Sequence[int]], size: int) -> Piece | None:
    """All rows as one piece whose columns have even distances; None if they do not."""
    first = origins[0]
    base, across, down = first[0], size, size
    if len(first) > 1:
        across = first[1] - base
    if len(origins) > 1:
        down = origins[1][0] - base
    if base == ZERO or min(across, down) < 0:
        return None
    even = all(
        origin == base + r * down + c * across
        for r, row in enumerate(origins)
        for c, origin in enumerate(row)
    )
    return Piece(len(origins), down, across, ((0, len(first), base),)) if even else None


def _grouped(origins: Sequence[Sequence[int]], size: int) -> Iterator[Piece]:
    """Consecutive rows whose runs have the same columns and evenly growing addresses."""
    listed = [_runs(row, size) for row in origins]
    at = 0
    while at < len(listed):
        stop, step = at + 1, None
        while stop < len(listed):
            steps = _steps(listed[stop - 1], listed[stop])
            if steps is None or step not in (None, steps):
                break
            step, stop = steps, stop + 1
        yield Piece(stop - at, step or 0, size, listed[at])
        at = stop


def _runs(row: Sequence[int], size: int) -> tuple[Run, ...]:
    found: list[Run] = []
    for column, origin in enumerate(row):
        if origin == ZERO:
            continue
        if found:
            first, columns, address = found[-1]
            if first + columns == column and address + columns * size == origin:
                found[-1] = (first, columns + 1, address)
                continue
        found.append((column, 1, origin))
    return tuple(found)


def _steps(before: tuple[Run, ...], after: tuple[Run, ...]) -> int | None:
    """The bytes from the runs of a row to those of the next row; None if the rows differ in
    structure or the addresses fall."""
    if [run[:2] for run in before] != [run[:2] for run in after]:
        return None
    steps = {b[2] - a[2] for a, b in zip(before, after, strict=True)} or {0}
    step = steps.pop()
    return step if not steps and step >= 0 else None
