"""Writes the naive loop nest of a computation, in which data are loaded where they are used and
nothing overlaps. A tile has the height of the array and the width of the widest move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.expr import Expr, minimum, var
from tilewright.proposers.rewriter.ir import (
    Array,
    Assign,
    Body,
    Command,
    Dram,
    Flag,
    Local,
    Loop,
    Operand,
    Stmt,
    Text,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.computation import Computation, Copied, Kind
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.nests import Nest, Terms, Vector, lattices
from tilewright.proposers.rewriter.raising.operands import as_float, setting, strides, written
from tilewright.proposers.rewriter.raising.translation.parts import SPACING


class AxisEnds(NotRaised):
    """Addresses move past the end of an array's axis, so it must be merged with the axis before."""

    def __init__(self, number: int, array: Array, axis: int) -> None:
        self.number, self.axis = number, axis
        super().__init__(
            f"an address moves past the end of a row of {array.name} into the next row"
        )


_At: TypeAlias = Callable[..., Dram]
"""An address of a point, given by its position in the point, further dimensions and an offset."""


@dataclass(frozen=True, slots=True)
class _Isa:
    """The commands with which the nest is written."""

    machine: Machine
    loads: tuple[str, ...]
    store: str
    latch: str
    product: str
    sync: str
    factors: str
    sums: str

    @classmethod
    def of(cls, machine: Machine, computation: Computation) -> _Isa:
        names = [n for n in machine.effects if machine.is_command(n)]
        loads = [n for n in names if machine.unit(n) == "load"]
        execute = [n for n in names if machine.unit(n) == "execute"]
        latch = next(n for n in execute if machine.attribute(n, "latches"))
        product = next(
            n for n in execute if machine.attribute(n, "uses") and not machine.attribute(n, "keeps")
        )
        store = next(n for n in names if machine.unit(n) == "store")
        sync = computation.sync or next(n for n in names if machine.unit(n) == "sync")
        return cls(machine, tuple(loads), store, latch, product, sync, *computation.spaces)

    @property
    def width(self) -> int:
        """Columns of a local row."""
        return self.machine.spaces[self.factors].row_columns

    @property
    def widest(self) -> int:
        """Columns of the widest load."""
        return int(self.machine.attribute(self.loads[0], "max_columns") or self.width)

    @property
    def height(self) -> int:
        """Rows of the tallest move and product."""
        return int(self.machine.attribute(self.product, "max_rows") or self.width)

    def bytes_of(self, space: str) -> int:
        return SIZES[self.machine.element(space) or ""]

    def flags(self, meaning: str) -> tuple[Flag, ...]:
        name = self.machine.flag(meaning)
        return (Flag(name),) if name else ()

    def absent(self) -> Text:
        return Text(self.machine.flag("absent") or "0")

    def load_setting(self, load: int, stride: int, scale: float) -> Command:
        name = self.loads[load]
        configured = self.machine.attribute(name, "configured_by") or ""
        roles: dict[str, Operand] = {
            "dram_stride": Expr(stride), "scale": as_float(scale),
            "block_stride": Expr(self.height),
            "id": Expr(int(self.machine.attribute(name, "id") or 0)),
        }  # fmt: skip
        return Command(
            configured, tuple(roles[r] for r in self.machine.effects[configured].operands)
        )

    def store_setting(self, stride: int, rest: Sequence[object]) -> Command:
        configured = self.machine.attribute(self.store, "configured_by") or ""
        return Command(configured, (Expr(stride), *(written(v) for v in rest)))

    def array_setting(self, given: Sequence[int]) -> Command:
        """The setting as it was given, with the name of the dataflow."""
        return setting(
            self.machine, self.machine.attribute(self.product, "configured_by") or "", given
        )


def deepest(computation: Computation, machine: Machine) -> int:
    """The depth of the largest product: columns of its first operand, rows of its second one."""
    isa = _Isa.of(machine, computation)
    return min(isa.width, int(machine.attribute(isa.latch, "max_rows") or isa.height))


@dataclass(frozen=True, slots=True)
class _Dim:
    """A loop: its variable, and the change of each address of a point in one step."""

    name: str
    step: Vector
    count: int


class _Writer:
    """Writes one nest, and `rest` after its last block of columns, which is a narrower block or
    nothing."""

    def __init__(
        self, isa: _Isa, arrays: Mapping[int, Array], kinds: Sequence[Kind], rest: int = 0
    ) -> None:
        self.isa, self.arrays, self.kinds, self.rest = isa, arrays, kinds, rest
        taken = {a.name for a in arrays.values()}
        taken |= set(isa.machine.effects) | set(isa.machine.constants)
        self.names = [n for n in _NAMES if n not in taken]

    def nest(self, nest: Nest) -> Body:
        """The loops of a nest, which come after its settings."""
        isa, columns = self.isa, nest.how.columns
        names = iter(self.names)
        base = nest.points.base
        places = [self._place(b, n, ()) for n, b in enumerate(base) if b]
        apart = tuple(
            _spread(part, base)
            for dim in nest.points.dims
            for part in self._within(_packed(dim, base), *places)
        )
        nest = replace(nest, points=replace(nest.points, dims=apart))
        rows, others = self._rows(nest)
        across = next((d for d in others if self._is_across(nest, d)), None)
        outer = [_Dim(next(names), *d) for d in others if d is not across]
        row = _Dim(next(names), *rows)
        block = _Dim(next(names), *(across or (_beside(isa, nest, self.kinds), 1)))
        inner = next(names)
        width = block.count * columns + self.rest
        tile = isa.widest if columns == isa.width else columns
        wide: Expr = Expr(min(width, tile))
        if width > tile and width % tile:
            wide = minimum(Expr(width) - var(block.name), Expr(tile))
        tall: Expr = Expr(min(row.count, isa.height))
        if row.count > isa.height and row.count % isa.height:
            tall = minimum(Expr(row.count) - var(row.name), Expr(isa.height))
        dims = [*outer, row, _Dim(block.name, tuple(s // columns for s in block.step), width)]
        self._check_divides(block, columns)

        def at(place: int, more: Sequence[_Dim] = (), base: int = 0) -> Dram:
            return self._place(nest.points.base[place] + base, place, [*dims, *more])

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
        for lattice in lattices(copied.blocks):
            target, source = lattice.base
            places = self._place(target, 0, ()), self._place(source, 1, ())
            parts = [p for d in (*lattice.dims, *deeper) for p in self._within(d, *places)]
            names = iter(self.names)
            dims = [_Dim(next(names), *part) for part in parts if part[1] > 1]
            body: Body = tuple(
                Assign(
                    self._place(target + n * step[0], 0, dims),
                    ((1.0, self._place(source + n * step[1], 1, dims)),),
                )
                for n in range(columns)
            )
            for dim in reversed(dims):
                body = (Loop(dim.name, Expr(), Expr(dim.count), 1, body),)
            result += body
        return tuple(result)

    def _sum(
        self, nest: Nest, row: _Dim, at: _At, wide: Expr, tall: Expr, inner: str,
        names: Iterator[str],
    ) -> tuple[list[Command], list[Stmt]]:  # fmt: skip
        """Settings, and the statements that compute a tile of sums."""
        isa = self.isa
        adding = len(isa.loads) - 1
        body: list[Stmt] = []
        start = Local(isa.sums, Expr())
        add = Local(isa.sums, Expr(), isa.flags("accumulate"))
        forms = [
            isa.load_setting(adding, row.step[3 + n] if row.count > 1 else 0, scale)
            for n, scale in enumerate(nest.scales)
        ] or [isa.load_setting(adding, 0, 1.0)]
        one_form = len({f.operands for f in forms}) == 1
        for number, form in enumerate(forms):
            source = at(3 + number) if nest.scales else Expr()
            body += [] if one_form else [form]
            body.append(Command(isa.loads[adding], (source, add if number else start, wide, tall)))
        added = forms[:1] if one_form else []
        if not nest.terms:
            return added, body
        kinds = [self.kinds[t.kind] for t in nest.terms]
        if len({kind.settings for kind in kinds}) > 1:
            raise NotRaised("the products of one sum need different settings of the array")
        first = row.step[1] if row.count > 1 else 0
        loads = [
            [
                isa.load_setting(0, k.apart if k.transposed[0] else first, k.factors[0]),
                isa.load_setting(1, k.across if k.transposed[1] else k.stride, k.factors[1]),
            ]
            for k in kinds
        ]
        alike = len({(a.operands, b.operands) for a, b in loads}) == 1
        settings = [isa.array_setting(kinds[0].settings), *(loads[0] if alike else []), *added]
        free = list(names)
        apart = [
            replace(t, points=replace(t.points, dims=tuple(
                part for dim in t.points.dims for part in self._within(dim, at(1), at(2))
            )))
            for t in nest.terms
        ]  # fmt: skip
        for terms, more in self._deepened(apart):
            if not alike:
                body += loads[[t.kind for t in nest.terms].index(terms.kind)]
            body += self._products(terms, at, wide, tall, inner, free, more)
        return settings, body

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
                if kind.depth < whole.depth and dims == around and base == ends:
                    result[-1] = (main, kind.depth)
                    continue
            result.append((terms, 0))
        return result

    def _products(
        self, terms: Terms, at: _At, wide: Expr, tall: Expr, inner: str, names: list[str], more: int
    ) -> Body:
        """The products of some terms, with `more` of their depth after the last one."""
        isa, kind = self.isa, self.kinds[terms.kind]
        free = iter(names)
        deeper = ((kind.depth * kind.apart, kind.depth * kind.stride), terms.points.dims[-1:])
        listed, total = list(terms.points.dims), kind.depth
        if deeper[1] and deeper[1][0][0] == deeper[0]:
            along = _Dim(next(free), (0, kind.apart, kind.stride), total * deeper[1][0][1] + more)
            if self._inside(terms, along, at):
                total *= listed.pop()[1]
        total += more
        dims = [_Dim(next(free), (0, *step), count) for step, count in listed]
        along = _Dim(next(free), (0, kind.apart, kind.stride), total)
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
        source = at(2, every, base[1])
        if kind.transposed[1]:  # the operand's rows are columns of the result
            moved = source if narrow else self._moved(source, inner, kind.across)
            to = Local(isa.factors, apart + offset)
            product = (Command(isa.loads[1], (moved, to, depth, part)), *product)
        if not narrow:
            product = (Loop(inner, Expr(), wide, isa.width, product),)
        if not kind.transposed[1]:
            product = (Command(isa.loads[1], (source, second, wide, depth)), *product)
        size = (tall, depth) if kind.transposed[0] else (depth, tall)
        body: Body = (Command(isa.loads[0], (at(1, every, base[0]), first, *size)), *product)
        body = (Loop(along.name, Expr(), Expr(total), kind.depth, body),)
        for dim in reversed(dims):
            body = (Loop(dim.name, Expr(), Expr(dim.count), 1, body),)
        return body

    def _array(self, place: Dram) -> Array:
        return next(a for a in self.arrays.values() if a.name == place.array)

    def _moved(self, source: Dram, name: str, step: int) -> Dram:
        """An address that grows by a number of bytes with a variable."""
        array = self._array(source)
        digits = _digits(step, _bytes(array), strides(array))
        index = (e + var(name) * d for e, d in zip(source.index, digits, strict=True))
        return Dram(source.array, tuple(index))

    def _inside(self, terms: Terms, along: _Dim, at: _At) -> bool:
        """Whether a loop over the depth stays inside one axis of both arrays."""
        try:
            at(1, [along], terms.points.base[0])
            at(2, [along], terms.points.base[1])
        except NotRaised:
            return False
        return True

    def _within(self, dim: tuple[Vector, int], *places: Dram) -> list[tuple[Vector, int]]:
        """A dimension split into several, so that none goes beyond the end of an array's axis."""
        step, count = dim
        for array_step, place in zip(step, places, strict=True):
            array = self._array(place)
            size = _bytes(array)
            for axis, digit in enumerate(_digits(array_step, size, strides(array))):
                most = array.shape[axis] // digit if axis and digit else count
                if 1 < most < count and count % most == 0:
                    far = tuple(s * most for s in step)
                    return [*self._within((far, count // most), *places), (step, most)]
        return [dim]

    def _rows(self, nest: Nest) -> tuple[tuple[Vector, int], list[tuple[Vector, int]]]:
        """The dimension whose points become the rows of a tile, and the other dimensions."""
        dims = list(nest.points.dims)
        single = ((0,) * len(nest.points.base), 1)
        fitting = [d for d in dims if d[0][2] == 0 and not self._is_across(nest, d)]
        kinds = [self.kinds[t.kind] for t in nest.terms]
        if any(k.transposed[0] for k in kinds):  # the operand's columns are rows of the result
            size = self.isa.bytes_of(self.isa.factors)
            fitting = [d for d in fitting if d[0][1] == size]
        if not fitting:
            return single, dims
        large = [d for d in fitting if d[1] >= self.isa.height]
        chosen = large[-1] if large else max(reversed(fitting), key=lambda d: d[1])
        return chosen, [d for d in dims if d is not chosen]

    def _is_across(self, nest: Nest, dim: tuple[Vector, int]) -> bool:
        """Whether a dimension iterates over adjacent blocks of columns."""
        step = dim[0]
        if nest.how.columns != self.isa.width or step[1] != 0:
            return False
        down = any(self.kinds[t.kind].transposed[1] for t in nest.terms)
        ends = enumerate(zip(step, nest.points.base, strict=True))
        if any(self._leaves_axis(s, b) for n, (s, b) in ends if b and not (down and n == 2)):
            return False
        wanted = _beside(self.isa, nest, self.kinds)
        return step == wanted or (
            not nest.terms and step[3:] == wanted[3:] and step[0] == wanted[0]
        )

    def _leaves_axis(self, step: int, address: int) -> bool:
        """Whether a step changes another index than the last one of the array at an address."""
        array = self.arrays[address // SPACING]
        return step < 0 or any(_digits(step, _bytes(array), strides(array))[:-1])

    def _check_divides(self, block: _Dim, columns: int) -> None:
        if any(s % columns for s in block.step):
            raise NotRaised("blocks of columns have uneven distances in memory")

    def _place(self, address: int, place: int, dims: Sequence[_Dim]) -> Dram:
        """The address of a point as an element of an argument array."""
        number, offset = divmod(address, SPACING)
        if number not in self.arrays:
            raise NotRaised("a command accesses an address outside the kernel's arrays")
        array = self.arrays[number]
        size, sizes = _bytes(array), strides(array)
        index = [Expr(v) for v in _digits(offset, size, sizes)]
        highest = [e.const for e in index]
        for dim in dims:
            step = dim.step[place] if place < len(dim.step) else 0
            if not step or dim.count == 1:
                continue
            for axis, digit in enumerate(_digits(step, size, sizes)):
                index[axis] = index[axis] + var(dim.name) * digit
                highest[axis] += digit * (dim.count - 1)
        for axis, extent in enumerate(array.shape):
            if axis and highest[axis] >= extent:
                raise AxisEnds(number, array, axis)
        return Dram(array.name, tuple(index))


def _beside(isa: _Isa, nest: Nest, kinds: Sequence[Kind]) -> Vector:
    """The step of a point to the next block of columns."""
    columns = nest.how.columns
    added = columns * isa.bytes_of(isa.sums)
    first = added if nest.how.unscaled else columns * isa.bytes_of(isa.factors)
    second = columns * kinds[nest.terms[0].kind].across if nest.terms else 0
    return (first, 0, second, *((added,) * len(nest.scales)))


def _packed(dim: tuple[Vector, int], base: Vector) -> tuple[Vector, int]:
    """A dimension without the addresses that a point does not have."""
    return tuple(s for s, b in zip(dim[0], base, strict=True) if b), dim[1]


def _spread(dim: tuple[Vector, int], base: Vector) -> tuple[Vector, int]:
    """The inverse of `_packed`."""
    steps = iter(dim[0])
    return tuple(next(steps) if b else 0 for b in base), dim[1]


def _parts(terms: Terms) -> tuple[Vector, tuple[tuple[Vector, int], ...]]:
    return terms.points.base, terms.points.dims


def _bytes(array: Array) -> int:
    """Number of bytes of an element."""
    size = SIZES.get(array.element)
    if size is None:
        raise NotRaised(f"the array {array.name} has the unknown element type {array.element}")
    return size


def _digits(offset: int, size: int, sizes: Sequence[int]) -> list[int]:
    """Bytes as indices of an array whose axes have steps of `sizes` elements."""
    if offset % size or offset < 0:
        raise NotRaised(
            "an address lies between two array elements, or addresses decrease in a loop"
        )
    rest, found = offset // size, []
    for step in sizes:
        found.append(rest // step)
        rest %= step
    return found


_NAMES = ("i", "j", "jj", "k", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z",
          "i2", "j2", "k2", "p2", "q2", "r2", "s2", "t2")  # fmt: skip


def generated(
    computation: Computation, found: Sequence[Nest], arrays: Mapping[int, Array], machine: Machine
) -> Body:
    """The body of the naive kernel, for arrays given by the numbers in their addresses."""
    isa = _Isa.of(machine, computation)
    result: list[Stmt] = []
    for copied in computation.copied:
        result += _Writer(isa, arrays, computation.kinds).copies(copied)
    phase = found[0].phase
    for nest, rest in _widened(found, isa, computation.kinds):
        if nest.phase != phase:
            result.append(Command(isa.sync, ()))
            phase = nest.phase
        result += _Writer(isa, arrays, computation.kinds, rest).nest(nest)
    result.append(Command(isa.sync, ()))
    return tuple(result)


def _widened(found: Sequence[Nest], isa: _Isa, kinds: Sequence[Kind]) -> list[tuple[Nest, int]]:
    """Nests in which narrower nests that continue the last block of columns are merged."""
    result: list[tuple[Nest, int]] = []
    for nest in found:
        for number, (main, rest) in enumerate(result):
            if not rest and _goes_on(main, nest, isa, kinds):
                result[number] = (main, nest.how.columns)
                break
        else:
            result.append((nest, 0))
    return result


def _goes_on(main: Nest, nest: Nest, isa: _Isa, kinds: Sequence[Kind]) -> bool:
    """Whether a nest is the narrower last block of columns of another one."""
    if main.how.columns != isa.width or nest.how != replace(main.how, columns=nest.how.columns):
        return False
    step, dims, count = _beside(isa, main, kinds), list(main.points.dims), 1
    for dim in dims:
        if dim[0] == step:
            count = dim[1]
            dims.remove(dim)
            break
    ends = tuple(b + count * s for b, s in zip(main.points.base, step, strict=True))

    def alike(terms: tuple[Terms, ...]) -> list[tuple[Kind, object]]:
        return [(replace(kinds[t.kind], columns=0), t.points) for t in terms]

    return (
        (nest.phase, nest.scales, nest.points.base) == (main.phase, main.scales, ends)
        and list(nest.points.dims) == dims
        and alike(nest.terms) == alike(main.terms)
    )
