"""Tiles of which each iteration uses another one, as parts of one tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Loop,
    Op,
    Region,
    Statement,
    Tensor,
    mapped_ops,
)
from tilewright.proposers.nki.linear import Linear
from tilewright.proposers.nki.rewrites.expansion import carried, expanded, require_room

_BANK_BYTES = 2048


@dataclass(slots=True)
class TileLists:
    """Names of tiles in lists. The position of a tile in its list depends on the iteration that
    uses it."""

    lists: list[list[str]] = field(default_factory=list)

    def place(self, name: str) -> tuple[int, int] | None:
        """The list that contains a tile, and the position there."""
        for number, names in enumerate(self.lists):
            if name in names:
                return number, names.index(name)
        return None

    def add(self, names: Sequence[str]) -> None:
        """Add the tiles that successive iterations use in one place.

        Another place may use the same tiles, or those of the iterations before.
        `NotApplicableError` if the tiles of the places cannot be in one order.
        """
        if len(set(names)) < len(names):
            raise NotApplicableError("several iterations use the same tile of a list")
        known = [(n, place) for n, name in enumerate(names) if (place := self.place(name))]
        if not known:
            self.lists.append(list(names))
            return
        numbers, shifts = {place[0] for _, place in known}, {place[1] - n for n, place in known}
        if len(numbers) == 1 and len(known) == len(names):
            return
        if len(numbers) > 1 or len(shifts) > 1:
            raise NotApplicableError("tiles are used in several orders")
        row, (shift,) = self.lists[numbers.pop()], shifts
        row[:] = [*names[: max(0, -shift)], *row, *names[max(0, len(row) - shift) :]]
        if row[max(0, shift) :][: len(names)] != [*names]:
            raise NotApplicableError("another tile has the place of a tile in its list")

    def spread(self, names: Sequence[str]) -> tuple[int, int, int]:
        """The list of the tiles, the position of the first one, and the distance of the others."""
        places = [place for name in names if (place := self.place(name))]
        step = places[1][1] - places[0][1]
        if any(b[1] - a[1] != step for a, b in pairwise(places)):
            raise NotApplicableError("tiles are not used at equal distances")
        return places[0][0], places[0][1], step


@dataclass(frozen=True, slots=True)
class WideTile:
    """A tile that contains others of equal form one after another."""

    tensor: Tensor
    part: Tensor
    names: Sequence[str]
    trips: Mapping[str, int]

    @classmethod
    def of(
        cls, part: Tensor, names: Sequence[str], name: str, trips: Mapping[str, int]
    ) -> WideTile:
        """The tile `name` for tiles like `part`; `NotApplicableError` if it does not fit."""
        tensor = replace(expanded(part, len(names)), name=name)
        require_room(tensor)
        size = part.partition_bytes
        if part.memory == "psum" and _BANK_BYTES % size and size % _BANK_BYTES:
            raise NotApplicableError(f"a part of {name} would extend over two banks")
        return cls(tensor, part, names, trips)

    def region(self, region: Region, position: Linear) -> Region:
        """A region of a part at a position."""
        _, begin = region.offset.divided(self.part.row)
        low, high = begin.bounds(self.trips)
        steps = [step * (count - 1) for step, count in region.dims[1:]]
        if low + sum(n for n in steps if n < 0) < 0 or (
            high + sum(n for n in steps if n > 0) >= self.part.row
        ):
            raise NotApplicableError(f"{self.part.name} is accessed across its rows")
        row = self.tensor.row
        return carried(region, self.part, self.tensor.name, row, position * self.part.row)


def with_wide_tiles(body: Body, tiles: Sequence[WideTile]) -> Body:
    """The body in which wide tiles replace those that they contain."""
    parts = {name: (tile, n) for tile in tiles for n, name in enumerate(tile.names)}

    def moved(op: Op) -> Op:
        arguments = []
        for key, value in op.arguments:
            if isinstance(value, Region) and value.tensor in parts:
                tile, number = parts[value.tensor]
                value = tile.region(value, Linear(number))
            arguments.append((key, value))
        return Op(op.name, tuple(arguments))

    def created(body: Body) -> Body:
        first, rest = list[Statement](), list[Statement]()
        for statement in body:
            if isinstance(statement, Loop):
                rest.append(replace(statement, body=created(statement.body)))
            elif isinstance(statement, Alloc) and statement.tensor.name in parts:
                tile, number = parts[statement.tensor.name]
                first += [Alloc(tile.tensor)] if number == 0 else []
            else:
                rest.append(statement)
        return (*first, *rest)

    return created(mapped_ops(body, moved)) if parts else body
