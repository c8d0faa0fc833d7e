"""Tiles of the results of a nest, and the loops around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.proposers.rewriter.expr import Expr, minimum, var
from tilewright.proposers.rewriter.ir import Array, Body, Dram, Loop
from tilewright.proposers.rewriter.raising.computation import Kind
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.isa import Isa
from tilewright.proposers.rewriter.raising.nests import Nest, Vector
from tilewright.proposers.rewriter.raising.places import Dim, Places
from tilewright.proposers.rewriter.raising.translation.parts import SPACING


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of results, and the loops around it.

    `outer` and `row` are the loops around the loop over blocks of columns, `block`. `inner` is the
    variable of the loop over a block's columns, and `names` are further variables. All rows have
    `width` columns, a block has at most `most` and exactly `wide`, a tile has `tall` rows.
    """

    nest: Nest
    outer: list[Dim]
    row: Dim
    block: Dim
    inner: str
    width: int
    most: int
    wide: Expr
    tall: Expr
    names: list[str]

    def in_blocks(self, body: Body) -> Body:
        """The loop over blocks of columns."""
        return (Loop(self.block.name, Expr(), Expr(self.width), self.most, body),)

    def in_loops(self, body: Body, isa: Isa) -> Body:
        """The loops around a row of tiles."""
        body = (Loop(self.row.name, Expr(), Expr(self.row.count), isa.height, body),)
        for dim in reversed(self.outer):
            body = (Loop(dim.name, Expr(), Expr(dim.count), 1, body),)
        return body


class Tiles:
    """Divides nests into tiles, with `rest` after the last block of columns, which is a narrower
    block or nothing."""

    def __init__(
        self, isa: Isa, arrays: Mapping[int, Array], kinds: Sequence[Kind], rest: int = 0
    ) -> None:
        self.isa, self.kinds, self.rest = isa, kinds, rest
        self.places = Places(arrays)
        taken = {a.name for a in arrays.values()}
        taken |= set(isa.machine.effects) | set(isa.machine.constants)
        self.names = [n for n in _NAMES if n not in taken]

    def tile(self, nest: Nest) -> Tile:
        """A tile of a nest, and the loops around it."""
        isa, columns = self.isa, nest.how.columns
        names = iter(self.names)
        base = nest.points.base
        places = [self.places.place(b, n, ()) for n, b in enumerate(base) if b]
        apart = tuple(
            _spread(part, base)
            for dim in nest.points.dims
            for part in self.places.within(_packed(dim, base), *places)
        )
        nest = replace(nest, points=replace(nest.points, dims=apart))
        rows, others = self._rows(nest)
        across = next((d for d in others if self._is_across(nest, d)), None)
        outer = [Dim(next(names), *d) for d in others if d is not across]
        row = Dim(next(names), *rows)
        block = Dim(next(names), *(across or (beside(isa, nest, self.kinds), 1)))
        inner = next(names)
        width = block.count * columns + self.rest
        most = isa.widest if columns == isa.width else columns
        wide: Expr = Expr(min(width, most))
        if width > most and width % most:
            wide = minimum(Expr(width) - var(block.name), Expr(most))
        tall: Expr = Expr(min(row.count, isa.height))
        if row.count > isa.height and row.count % isa.height:
            tall = minimum(Expr(row.count) - var(row.name), Expr(isa.height))
        self._check_divides(block, columns)
        return Tile(nest, outer, row, block, inner, width, most, wide, tall, list(names))

    def at(self, tile: Tile, place: int, more: Sequence[Dim] = (), base: int = 0) -> Dram:
        """An address of a point, given by its position in the point."""
        columns = tile.nest.how.columns
        step = tuple(s // columns for s in tile.block.step)
        dims = [*tile.outer, tile.row, Dim(tile.block.name, step, tile.width)]
        return self.places.place(tile.nest.points.base[place] + base, place, [*dims, *more])

    def _rows(self, nest: Nest) -> tuple[tuple[Vector, int], list[tuple[Vector, int]]]:
        """The dimension whose points become the rows of a tile, and the other dimensions."""
        dims = list(nest.points.dims)
        single = ((0,) * len(nest.points.base), 1)
        fitting = [
            d for d in dims
            if not any(d[0][n + 1] for n in nest.firsts) and not self._is_across(nest, d)
        ]  # fmt: skip
        size = self.isa.bytes_of(self.isa.factors)
        for terms in nest.terms:
            if self.kinds[terms.kind].transposed[0]:  # the operand's columns are rows of the result
                fitting = [d for d in fitting if d[0][terms.first] == size]
        if not fitting:
            return single, dims
        large = [d for d in fitting if d[1] >= self.isa.height]
        chosen = large[-1] if large else max(reversed(fitting), key=lambda d: d[1])
        return chosen, [d for d in dims if d is not chosen]

    def _is_across(self, nest: Nest, dim: tuple[Vector, int]) -> bool:
        """Whether a dimension iterates over adjacent blocks of columns."""
        step = dim[0]
        if nest.how.columns != self.isa.width:
            return False
        down = {t.first + 1 for t in nest.terms if self.kinds[t.kind].transposed[1]}
        ends = enumerate(zip(step, nest.points.base, strict=True))
        if any(self.places.leaves_axis(s, b) for n, (s, b) in ends if b and n not in down):
            return False
        wanted, added = beside(self.isa, nest, self.kinds), nest.added
        return step == wanted or (
            not nest.terms and step[added:] == wanted[added:] and step[0] == wanted[0]
        )

    def _check_divides(self, block: Dim, columns: int) -> None:
        if any(s % columns for s in block.step):
            raise NotRaised("blocks of columns have uneven distances in memory")


def beside(isa: Isa, nest: Nest, kinds: Sequence[Kind]) -> Vector:
    """The step of a point to the next block of columns."""
    columns = nest.how.columns
    added = columns * isa.bytes_of(isa.factors if nest.how.identities else isa.sums)
    first = added if nest.how.unscaled else columns * isa.bytes_of(isa.factors)
    across = {t.first: columns * kinds[t.kind].across for t in nest.terms}
    factors = [step for n in nest.firsts for step in (0, across.get(n, 0))]
    rows = nest.points.base[nest.added :]
    return (first, *factors, *(0 if at // SPACING in isa.uniform else added for at in rows))


def _packed(dim: tuple[Vector, int], base: Vector) -> tuple[Vector, int]:
    """A dimension with only those steps that belong to an address of the point."""
    return tuple(s for s, b in zip(dim[0], base, strict=True) if b), dim[1]


def _spread(dim: tuple[Vector, int], base: Vector) -> tuple[Vector, int]:
    """The inverse of `_packed`."""
    steps = iter(dim[0])
    return tuple(next(steps) if b else 0 for b in base), dim[1]


_NAMES = ("i", "j", "jj", "k", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z",
          "i2", "j2", "k2", "p2", "q2", "r2", "s2", "t2")  # fmt: skip
