"""Writes the loops of one nest of a computation, and those in which the core writes an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.proposers.rewriter.expr import Expr, minimum, var
from tilewright.proposers.rewriter.ir import Assign, Body, Command, Local, Loop, Stmt
from tilewright.proposers.rewriter.raising.computation import Constant, Copied
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.nests import Nest, Terms, Vector, grouped
from tilewright.proposers.rewriter.raising.places import Dim
from tilewright.proposers.rewriter.raising.tiles import Tile, Tiles
from tilewright.proposers.rewriter.raising.translation.parts import SPACING


class NestWriter(Tiles):
    """Writes one nest, and `rest` after its last block of columns, which is a narrower block or
    nothing."""

    def nest(self, nest: Nest) -> Body:
        """The loops of a nest, which come after its settings."""
        tile = self.tile(nest)
        settings, body = self.maximum(tile) if nest.how.identities else self.sum(tile)
        setting, store = self.stored(tile)
        return (*settings, setting, *tile.in_loops(tile.in_blocks((*body, store)), self.isa))

    def stored(self, tile: Tile, sums: Expr | None = None) -> tuple[Command, Command]:
        """The setting and the store of a tile whose sums begin at a row."""
        isa, how, row = self.isa, tile.nest.how, tile.row
        size = isa.bytes_of(isa.sums if how.unscaled else isa.factors)
        store_flags = isa.flags("unscaled") if how.unscaled else ()
        source = Local(isa.sums, sums or Expr(), store_flags)
        store = Command(isa.store, (self.at(tile, 0), source, tile.wide, tile.tall))
        apart = row.step[0] if row.count > 1 else tile.width * size
        return isa.store_setting(apart, how.settings), store

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

    def constant(self, constant: Constant) -> Body:
        """A loop in which the core writes the elements of an array that are not zero."""
        name, begin = self.names[0], constant.number * SPACING
        apart = constant.size * (1 + sum(constant.shape[1:]))
        dim = Dim(name, (apart,), constant.shape[0])
        written = Assign(self.places.place(begin, 0, (dim,)), (), constant.value)
        return (Loop(name, Expr(), Expr(dim.count), 1, (written,)),)

    def sum(
        self, tile: Tile, sums: Expr | None = None, *, held: bool = False
    ) -> tuple[list[Command], list[Stmt]]:
        """Settings, and the statements that compute a tile of sums from a row on.

        If the first operand is `held`, it lies in the memory for sums, from its first row on.
        """
        isa, nest, row = self.isa, tile.nest, tile.row
        adding = len(isa.loads) - 1
        body: list[Stmt] = []
        start = Local(isa.sums, sums or Expr())
        add = replace(start, flags=isa.flags("accumulate"))
        forms = [
            isa.load_setting(adding, row.step[nest.added + n] if row.count > 1 else 0, scale)
            for n, scale in enumerate(nest.scales)
        ] or [isa.load_setting(adding, 0, 1.0)]
        one_form = len({f.operands for f in forms}) == 1
        for number, form in enumerate(forms):
            source = self.at(tile, nest.added + number) if nest.scales else Expr()
            body += [] if one_form else [form]
            to = add if number else start
            body.append(Command(isa.loads[adding], (source, to, tile.wide, tile.tall)))
        added = forms[:1] if one_form else []
        if not nest.terms:
            return added, body
        kinds = [self.kinds[t.kind] for t in nest.terms]
        if len({kind.settings for kind in kinds}) > 1:
            raise NotRaised("the products of one sum need different settings of the array")
        loads = {(t.kind, t.first): self._load_settings(t, row, held=held) for t in nest.terms}
        first, *others = loads.values()
        alike = all([c.operands for c in other] == [c.operands for c in first] for other in others)
        settings = [isa.array_setting(kinds[0].settings), *(first if alike else []), *added]
        for terms, more in self.terms(tile):
            if not alike:
                body += loads[terms.kind, terms.first]
            body += self._products(tile, terms, more, add, held=held)
        return settings, body

    def maximum(self, tile: Tile) -> tuple[list[Command], list[Stmt]]:
        """Settings and loads before all loops, and the statements that compute a tile of maxima.

        The maximum m of the first elements begins with m = a + ReLU(b - a). Every other element c
        then adds ReLU(c - m) to it. The array computes a - b as -a times an identity matrix plus b,
        and reads operands from the memory for sums with ReLU. `NotRaised` if local memory cannot
        hold all elements.
        """
        isa, nest = self.isa, tile.nest
        assert nest.how.identities is not None
        operands, sums = isa.machine.spaces[isa.factors], isa.machine.spaces[isa.sums]
        if len(nest.scales) > 2 * (operands.bank_rows // isa.widest):
            raise NotRaised("the core takes the maximum of too many elements")
        plain, negated = Local(isa.factors, Expr()), Local(isa.factors, Expr(isa.height))
        apart = isa.bytes_of(isa.factors) * isa.width
        settings = [isa.clipping_setting(), isa.load_setting(1, apart, 1.0)]
        for address, to in zip(nest.how.identities, (plain, negated), strict=True):
            source, width = self.places.place(address, 0, ()), Expr(isa.width)
            settings.append(Command(isa.loads[1], (source, to, width, width)))
        strides = [tile.row.step[nest.added + number] for number in range(len(nest.scales))]
        one_form = len(set(strides)) == 1
        settings += [isa.load_setting(0, strides[0], 1.0)] if one_form else []
        body: list[Stmt] = []
        compared: list[Local] = []
        for number, stride in enumerate(strides):  # neighbours in different banks
            bank, place = 1 + number % 2, number // 2
            row = Expr(bank * operands.bank_rows + place * isa.widest)
            compared.append(Local(isa.factors, row))
            body += [] if one_form else [isa.load_setting(0, stride, 1.0)]
            source = self.at(tile, nest.added + number)
            body.append(Command(isa.loads[0], (source, compared[-1], tile.wide, tile.tall)))
        most, apart_from_it = Local(isa.sums, Expr()), Local(isa.sums, Expr(sums.rows // 2))
        add = replace(most, flags=isa.flags("accumulate"))
        body.append(self._by_column(tile, negated, compared[0], compared[1], apart_from_it))
        body.append(self._by_column(tile, plain, apart_from_it, compared[0], most))
        for one in compared[2:]:
            body.append(self._by_column(tile, negated, most, one, apart_from_it))
            body.append(self._by_column(tile, plain, apart_from_it, None, add))
        return settings, body

    def _by_column(
        self, tile: Tile, second: Local, first: Local, addend: Local | None, to: Local
    ) -> Stmt:
        """The products of the blocks of columns of a tile by a square matrix, plus an addend."""
        isa, wide, tall = self.isa, tile.wide, tile.tall
        part: Expr = Expr(isa.width)
        if not (wide.is_const and wide.const % isa.width == 0):
            part = minimum(wide - var(tile.inner), Expr(isa.width))

        def column(place: Local) -> Local:
            return replace(place, row=place.row + var(tile.inner))

        added = isa.absent() if addend is None else column(addend)
        latch = Command(isa.latch, (second, column(to), part, part, part, tall))
        product = Command(isa.product, (column(first), added, part, tall, part, tall))
        return Loop(tile.inner, Expr(), wide, isa.width, (latch, product))

    def terms(self, tile: Tile) -> list[tuple[Terms, int]]:
        """The terms of a sum inside the axes of their arrays. Shorter terms that continue others
        are merged with them, and are given as a depth."""
        return self._deepened(
            [
                replace(t, points=replace(t.points, dims=tuple(
                    part for dim in t.points.dims
                    for part in self.places.within(
                        dim, self.at(tile, t.first), self.at(tile, t.first + 1)
                    )
                )))
                for t in tile.nest.terms
            ]
        )  # fmt: skip

    def _load_settings(self, terms: Terms, row: Dim, *, held: bool) -> list[Command]:
        """The settings of the loads of both operands, or only of the second one."""
        isa, kind = self.isa, self.kinds[terms.kind]
        first = row.step[terms.first] if row.count > 1 else 0
        own = kind.apart if kind.transposed[0] else first
        second = kind.across if kind.transposed[1] else kind.stride
        found = [(0, own, kind.factors[0]), (1, second, kind.factors[1])]
        return [isa.load_setting(*given) for given in (found[1:] if held else found)]

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

    def _products(self, tile: Tile, terms: Terms, more: int, sums: Local, *, held: bool) -> Body:
        """The products of some terms, with `more` of their depth after the last one."""
        isa, kind, wide, tall = self.isa, self.kinds[terms.kind], tile.wide, tile.tall
        free, before = iter(tile.names), (0,) * terms.first
        deeper = ((kind.depth * kind.apart, kind.depth * kind.stride), terms.points.dims[-1:])
        listed, total = list(terms.points.dims), kind.depth
        if deeper[1] and deeper[1][0][0] == deeper[0]:
            count = total * deeper[1][0][1] + more
            along = Dim(next(free), (*before, kind.apart, kind.stride), count)
            if self._inside(tile, terms, along):
                total *= listed.pop()[1]
        total += more
        dims = [Dim(next(free), (*before, *step), count) for step, count in listed]
        along = Dim(next(free), (*before, kind.apart, kind.stride), total)
        depth = Expr(min(kind.depth, total))
        if total > kind.depth and total % kind.depth:
            depth = minimum(Expr(total) - var(along.name), Expr(kind.depth))
        pair = terms.first // 2  # each pair of arrays has its own rows
        apart = Expr(isa.machine.spaces[isa.factors].bank_rows + pair * isa.widest)
        first = Local(isa.factors, Expr(pair * isa.height))
        if held:
            one = isa.bytes_of(isa.factors)
            column = sum(
                (var(d.name) * (d.step[terms.first] // one) for d in dims), var(along.name)
            )
            first = Local(isa.sums, column + terms.points.base[0] // one)
        second = Local(isa.factors, apart)
        narrow = wide.is_const and wide.const <= isa.width
        part = wide if narrow else minimum(wide - var(tile.inner), Expr(isa.width))
        if wide.is_const and wide.const % isa.width == 0:
            part = Expr(isa.width)
        offset = Expr() if narrow else var(tile.inner)
        product: Body = (
            Command(isa.latch, (
                Local(isa.factors, apart + offset), replace(sums, row=sums.row + offset),
                part, depth, part, tall,
            )),
            Command(isa.product, (first, isa.absent(), depth, tall, part, tall)),
        )  # fmt: skip
        base, every = terms.points.base, [*dims, along]
        source = self.at(tile, terms.first + 1, every, base[1])
        if kind.transposed[1]:  # the operand's rows are columns of the result
            moved = source if narrow else self.places.moved(source, tile.inner, kind.across)
            to = Local(isa.factors, apart + offset)
            product = (Command(isa.loads[1], (moved, to, depth, part)), *product)
        if not narrow:
            product = (Loop(tile.inner, Expr(), wide, isa.width, product),)
        if not kind.transposed[1]:
            product = (Command(isa.loads[1], (source, second, wide, depth)), *product)
        if not held:
            size = (tall, depth) if kind.transposed[0] else (depth, tall)
            given = self.at(tile, terms.first, every, base[0])
            product = (Command(isa.loads[0], (given, first, *size)), *product)
        body: Body = (Loop(along.name, Expr(), Expr(total), kind.depth, product),)
        for dim in reversed(dims):
            body = (Loop(dim.name, Expr(), Expr(dim.count), 1, body),)
        return body

    def _inside(self, tile: Tile, terms: Terms, along: Dim) -> bool:
        """Whether a loop over the depth stays inside one axis of both arrays."""
        try:
            self.at(tile, terms.first, [along], terms.points.base[0])
            self.at(tile, terms.first + 1, [along], terms.points.base[1])
        except NotRaised:
            return False
        return True


def _parts(terms: Terms) -> tuple[Vector, tuple[tuple[Vector, int], ...]]:
    return terms.points.base, terms.points.dims
