"""Writes the loops of one nest of a computation, and those that copy an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from tilewright.proposers.rewriter.expr import Expr, minimum, var
from tilewright.proposers.rewriter.ir import Array, Assign, Body, Command, Dram, Local, Loop, Stmt
from tilewright.proposers.rewriter.raising.computation import Copied, Kind
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.isa import Isa
from tilewright.proposers.rewriter.raising.nests import Nest, Terms, Vector, grouped
from tilewright.proposers.rewriter.raising.places import Dim, Places

_At: TypeAlias = Callable[..., Dram]
"""An address of a point, given by its position in the point, further dimensions and an offset."""


class NestWriter:
    """Writes one nest, and `rest` after its last block of columns, which is a narrower block or
    nothing."""

    def __init__(
        self, isa: Isa, arrays: Mapping[int, Array], kinds: Sequence[Kind], rest: int = 0
    ) -> None:
        self.isa, self.kinds, self.rest = isa, kinds, rest
        self.places = Places(arrays)
        taken = {a.name for a in arrays.values()}
        taken |= set(isa.machine.effects) | set(isa.machine.constants)
        self.names = [n for n in _NAMES if n not in taken]

    def nest(self, nest: Nest) -> Body:
        """The loops of a nest, which come after its settings."""
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
        tile = isa.widest if columns == isa.width else columns
        wide: Expr = Expr(min(width, tile))
        if width > tile and width % tile:
            wide = minimum(Expr(width) - var(block.name), Expr(tile))
        tall: Expr = Expr(min(row.count, isa.height))
        if row.count > isa.height and row.count % isa.height:
            tall = minimum(Expr(row.count) - var(row.name), Expr(isa.height))
        dims = [*outer, row, Dim(block.name, tuple(s // columns for s in block.step), width)]
        self._check_divides(block, columns)

        def at(place: int, more: Sequence[Dim] = (), base: int = 0) -> Dram:
            return self.places.place(nest.points.base[place] + base, place, [*dims, *more])

        settings, body = self._sum(nest, row, at, wide, tall, inner, iter(list(names)))
        size = isa.bytes_of(isa.sums if nest.how.unscaled else isa.factors)
        store_flags = isa.flags("unscaled") if nest.how.unscaled else ()
        source = Local(isa.sums, Expr(), store_flags)
        body.append(Command(isa.store, (at(0), source, wide, tall)))
        store = isa.store_setting(row.step[0] if row.count > 1 else width * size, nest.how.settings)
        result: Body = tuple(body)
        result = (Loop(block.name, Expr(), Expr(width), tile, result),)
        result = (Loop(row.name, Expr(), Expr(row.count), isa.height, result),)
        for dim in reversed(outer):
            result = (Loop(dim.name, Expr(), Expr(dim.count), 1, result),)
        return (*settings, store, *result)

    def copies(self, copied: Copied) -> Body:
        """Loops in which the core writes an array. The innermost one, over columns, is unrolled,
        which leaves the core two instructions for each element."""
        result: list[Stmt] = []
        (step, columns), *deeper = copied.inside
        for lattice in grouped(copied.blocks):
            target, source = lattice.base
            places = self.places.place(target, 0, ()), self.places.place(source, 1, ())
            parts = [p for d in (*lattice.dims, *deeper) for p in self.places.within(d, *places)]
            names = iter(self.names)
            dims = [Dim(next(names), *part) for part in parts if part[1] > 1]
            body: Body = tuple(
                Assign(
                    self.places.place(target + n * step[0], 0, dims),
                    ((1.0, self.places.place(source + n * step[1], 1, dims)),),
                )
                for n in range(columns)
            )
            for dim in reversed(dims):
                body = (Loop(dim.name, Expr(), Expr(dim.count), 1, body),)
            result += body
        return tuple(result)

    def _sum(
        self, nest: Nest, row: Dim, at: _At, wide: Expr, tall: Expr, inner: str,
        names: Iterator[str],
    ) -> tuple[list[Command], list[Stmt]]:  # fmt: skip
        """Settings, and the statements that compute a tile of sums."""
        isa = self.isa
        adding = len(isa.loads) - 1
        body: list[Stmt] = []
        start = Local(isa.sums, Expr())
        add = Local(isa.sums, Expr(), isa.flags("accumulate"))
        forms = [
            isa.load_setting(adding, row.step[nest.added + n] if row.count > 1 else 0, scale)
            for n, scale in enumerate(nest.scales)
        ] or [isa.load_setting(adding, 0, 1.0)]
        one_form = len({f.operands for f in forms}) == 1
        for number, form in enumerate(forms):
            source = at(nest.added + number) if nest.scales else Expr()
            body += [] if one_form else [form]
            body.append(Command(isa.loads[adding], (source, add if number else start, wide, tall)))
        added = forms[:1] if one_form else []
        if not nest.terms:
            return added, body
        kinds = [self.kinds[t.kind] for t in nest.terms]
        if len({kind.settings for kind in kinds}) > 1:
            raise NotRaised("the products of one sum need different settings of the array")
        loads = {(t.kind, t.first): self._load_settings(t, row) for t in nest.terms}
        first, *others = loads.values()
        alike = all(other == first for other in others)
        settings = [isa.array_setting(kinds[0].settings), *(first if alike else []), *added]
        free = list(names)
        apart = [
            replace(t, points=replace(t.points, dims=tuple(
                part for dim in t.points.dims
                for part in self.places.within(dim, at(t.first), at(t.first + 1))
            )))
            for t in nest.terms
        ]  # fmt: skip
        for terms, more in self._deepened(apart):
            if not alike:
                body += loads[terms.kind, terms.first]
            body += self._products(terms, at, wide, tall, inner, free, more)
        return settings, body

    def _load_settings(self, terms: Terms, row: Dim) -> list[Command]:
        """The settings of the loads of both operands."""
        isa, kind = self.isa, self.kinds[terms.kind]
        first = row.step[terms.first] if row.count > 1 else 0
        return [
            isa.load_setting(0, kind.apart if kind.transposed[0] else first, kind.factors[0]),
            isa.load_setting(
                1, kind.across if kind.transposed[1] else kind.stride, kind.factors[1]
            ),
        ]

    def _deepened(self, listed: Sequence[Terms]) -> list[tuple[Terms, int]]:
        """Terms in which shorter terms that continue them are merged."""
        result: list[tuple[Terms, int]] = []
        for terms in listed:
            kind, (base, dims) = self.kinds[terms.kind], _parts(terms)
            if result and not result[-1][1]:
                main = result[-1][0]
                whole, (start, around) = self.kinds[main.kind], _parts(main)
                step = (whole.depth * whole.apart, whole.depth * whole.stride)
                count = 1
                if around[-1:] and around[-1][0] == step:
                    count, around = around[-1][1], around[:-1]
                ends = tuple(b + count * s for b, s in zip(start, step, strict=True))
                continues = terms.first == main.first and dims == around and base == ends
                if kind.depth < whole.depth and continues:
                    result[-1] = (main, kind.depth)
                    continue
            result.append((terms, 0))
        return result

    def _products(
        self, terms: Terms, at: _At, wide: Expr, tall: Expr, inner: str, names: list[str], more: int
    ) -> Body:
        """The products of some terms, with `more` of their depth after the last one."""
        isa, kind = self.isa, self.kinds[terms.kind]
        free, before = iter(names), (0,) * terms.first
        deeper = ((kind.depth * kind.apart, kind.depth * kind.stride), terms.points.dims[-1:])
        listed, total = list(terms.points.dims), kind.depth
        if deeper[1] and deeper[1][0][0] == deeper[0]:
            along = Dim(
                next(free), (*before, kind.apart, kind.stride), total * deeper[1][0][1] + more
            )
            if self._inside(terms, along, at):
                total *= listed.pop()[1]
        total += more
        dims = [Dim(next(free), (*before, *step), count) for step, count in listed]
        along = Dim(next(free), (*before, kind.apart, kind.stride), total)
        depth = Expr(min(kind.depth, total))
        if total > kind.depth and total % kind.depth:
            depth = minimum(Expr(total) - var(along.name), Expr(kind.depth))
        apart = Expr(isa.machine.spaces[isa.factors].bank_rows)
        first, second = Local(isa.factors, Expr()), Local(isa.factors, apart)
        narrow = wide.is_const and wide.const <= isa.width
        part = wide if narrow else minimum(wide - var(inner), Expr(isa.width))
        if wide.is_const and wide.const % isa.width == 0:
            part = Expr(isa.width)
        offset = Expr() if narrow else var(inner)
        product: Body = (
            Command(isa.latch, (
                Local(isa.factors, apart + offset),
                Local(isa.sums, offset, isa.flags("accumulate")), part, depth, part, tall,
            )),
            Command(isa.product, (
                Local(isa.factors, Expr()), isa.absent(), depth, tall, part, tall,
            )),
        )  # fmt: skip
        base, every = terms.points.base, [*dims, along]
        source = at(terms.first + 1, every, base[1])
        if kind.transposed[1]:  # the operand's rows are columns of the result
            moved = source if narrow else self.places.moved(source, inner, kind.across)
            to = Local(isa.factors, apart + offset)
            product = (Command(isa.loads[1], (moved, to, depth, part)), *product)
        if not narrow:
            product = (Loop(inner, Expr(), wide, isa.width, product),)
        if not kind.transposed[1]:
            product = (Command(isa.loads[1], (source, second, wide, depth)), *product)
        size = (tall, depth) if kind.transposed[0] else (depth, tall)
        body: Body = (
            Command(isa.loads[0], (at(terms.first, every, base[0]), first, *size)),
            *product,
        )
        body = (Loop(along.name, Expr(), Expr(total), kind.depth, body),)
        for dim in reversed(dims):
            body = (Loop(dim.name, Expr(), Expr(dim.count), 1, body),)
        return body

    def _inside(self, terms: Terms, along: Dim, at: _At) -> bool:
        """Whether a loop over the depth stays inside one axis of both arrays."""
        try:
            at(terms.first, [along], terms.points.base[0])
            at(terms.first + 1, [along], terms.points.base[1])
        except NotRaised:
            return False
        return True

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
    added = columns * isa.bytes_of(isa.sums)
    first = added if nest.how.unscaled else columns * isa.bytes_of(isa.factors)
    across = {t.first: columns * kinds[t.kind].across for t in nest.terms}
    factors = [step for n in nest.firsts for step in (0, across.get(n, 0))]
    return (first, *factors, *((added,) * len(nest.scales)))


def _packed(dim: tuple[Vector, int], base: Vector) -> tuple[Vector, int]:
    """A dimension with only those steps that belong to an address of the point."""
    return tuple(s for s, b in zip(dim[0], base, strict=True) if b), dim[1]


def _spread(dim: tuple[Vector, int], base: Vector) -> tuple[Vector, int]:
    """The inverse of `_packed`."""
    steps = iter(dim[0])
    return tuple(next(steps) if b else 0 for b in base), dim[1]


def _parts(terms: Terms) -> tuple[Vector, tuple[tuple[Vector, int], ...]]:
    return terms.points.base, terms.points.dims


_NAMES = ("i", "j", "jj", "k", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z",
          "i2", "j2", "k2", "p2", "q2", "r2", "s2", "t2")  # fmt: skip
