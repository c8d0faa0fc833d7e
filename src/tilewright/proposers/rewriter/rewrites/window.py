"""Handles overlapping windows: iterations that load parts of an array which other iterations also
load.

The data that a load fetches in some loops form a box: planes, each with some column blocks of rows.
Loops that step along the same dimension (an output row and a row of the filter, a pixel and a tap)
access the same elements again. The box contains every element once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tilewright.proposers.rewriter.analysis.buffers import Access, Buffer, NotApplicable
from tilewright.proposers.rewriter.analysis.move_settings import settings_for
from tilewright.proposers.rewriter.analysis.ranges import env_of, trip_count
from tilewright.proposers.rewriter.expr import (
    Expr,
    Minimum,
    bounds,
    minimum,
    quotient,
    remainder,
    var,
)
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Dram,
    Kernel,
    Loop,
    fresh_name,
)
from tilewright.proposers.rewriter.machine import Machine


@dataclass(frozen=True, slots=True)
class Box:
    """A buffer with the contents of the box: new rows for every reader, and the loads, from row
    `base` on."""

    rows: dict[Access, Expr]
    loads: Body


def find_box(
    kernel: Kernel,
    machine: Machine,
    buffer: Buffer,
    needed: list[Loop],
    private: list[Loop],
    base: int,
) -> Box | None:
    """The box of a buffer's only load over the `needed` loops; None if nothing overlaps.

    Before: `for t { load(&A[x + t][c], SPAD(0), 16, 14); use(SPAD(0)); }`
    After:  `load(&A[x][c], SPAD(0), 16, 16);  for t { use(SPAD(t)); }`

    `private` are loops around the load alone, whose iterations fill parts of the buffer. The load
    must be affine, with each loop in one dimension, and its rows must be those of the array.
    """
    try:
        return _box(_Load.of(kernel, machine, buffer, needed, private), base)
    except NotApplicable:
        return None


@dataclass(frozen=True, slots=True)
class _Plane:
    """One dimension of the array before the last two, and the loops along it.

    Positions count multiples of `unit` elements from the first one. `count` is the number of
    positions in the buffer, and `upper` the number for these values of the enclosing loops.
    """

    dimension: int
    loops: tuple[Loop, ...]
    unit: int
    count: int
    upper: Expr

    def position(self, loop: Loop, index: Expr, iteration: Expr) -> Expr:
        """The distance of an iteration of one of the loops from its first position."""
        return iteration * (index.coefficient(loop.var) * loop.step // self.unit)


@dataclass(frozen=True)
class _Load:
    """The load of a buffer, with the dimension along which each of its loops steps."""

    kernel: Kernel
    machine: Machine
    buffer: Buffer
    access: Access
    dram: Dram
    rows: Expr
    needed: tuple[Loop, ...]
    private: tuple[Loop, ...]

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        machine: Machine,
        buffer: Buffer,
        needed: list[Loop],
        private: list[Loop],
    ) -> _Load:
        """The parts of a buffer's load; `NotApplicable` unless it is a single narrow affine
        load."""
        if len(buffer.writers) != 1 or buffer.slots != 1:
            raise NotApplicable("there is not exactly one load into each slot")
        access = buffer.writers[0]
        roles = machine.effects[access.command.name].operands
        given = dict(zip(roles, access.command.operands, strict=False))
        dram, rows, columns = (given.get(r) for r in ("dram_read", "rows", "columns"))
        if not (isinstance(dram, Dram) and isinstance(rows, Expr) and isinstance(columns, Expr)):
            raise NotApplicable("the effect of the load is not known")
        width = next(a.shape[-1:] for a in kernel.arrays if a.name == dram.array)
        strides = [
            dict(zip(machine.effects[c.name].operands, c.operands, strict=False))["dram_stride"]
            for c in settings_for(kernel, machine, access.command)
        ]
        if (
            len(dram.index) < 2
            or not strides
            or any((s,) != tuple(map(Expr, width)) for s in strides)
        ):
            raise NotApplicable("the rows that the load reads are not rows of the array in memory")
        if bounds(columns, access.env)[1] > machine.spaces[access.local.space].row_columns:
            raise NotApplicable("the load is wider than a row")
        names = {v.var for v in (*needed, *private)}
        if columns.names() & names:
            raise NotApplicable("the columns depend on a loop")
        load = cls(kernel, machine, buffer, access, dram, rows, tuple(needed), tuple(private))
        load.check()
        return load

    def check(self) -> None:
        """Each loop must step along one dimension, and only private loops may move through the
        buffer."""
        for loop in (*self.needed, *self.private):
            if len([e for e in self.dram.index if loop.var in e.names()]) != 1:
                raise NotApplicable(f"loop {loop.var} does not step along one dimension")
            index = self.dram.index[self.dimension(loop)]
            step = index.coefficient(loop.var)
            if step < 1 or loop.var in (index - var(loop.var) * step).names():
                raise NotApplicable(f"loop {loop.var} is not affine")
            in_buffer = self.access.local.row.coefficient(loop.var)
            if loop in self.needed and loop.var in self.access.local.row.names():
                raise NotApplicable(f"loop {loop.var} moves through the buffer")
            if loop in self.private and (
                self.dimension(loop) == len(self.dram.index) - 1 or in_buffer < 1
            ):
                raise NotApplicable(f"the parts of loop {loop.var} are not rows of the array")

    @property
    def row_dimension(self) -> int:
        """The dimension along the rows of the move."""
        return len(self.dram.index) - 2

    def dimension(self, loop: Loop) -> int:
        """The dimension a loop steps along."""
        return next(d for d, e in enumerate(self.dram.index) if loop.var in e.names())

    def along(self, dimension: int) -> list[Loop]:
        """The loops along a dimension, outermost first."""
        return [v for v in (*self.needed, *self.private) if self.dimension(v) == dimension]

    @property
    def parts(self) -> list[Loop]:
        """Private loops whose iterations fill separate parts, the largest parts first.

        The other private loops continue the rows of the previous iteration.
        """
        row = self.access.local.row
        own = [
            v
            for v in self.private
            if self.dimension(v) < self.row_dimension
            or row.coefficient(v.var) != self.dram.index[self.row_dimension].coefficient(v.var)
        ]
        return sorted(own, key=lambda v: -row.coefficient(v.var) * v.step)

    def height(self) -> Expr:
        """Number of rows from the first to the last that all loops and one move use."""
        height = self.reach(self.along(self.row_dimension))
        if height.names() & {v.var for v in (*self.needed, *self.private)}:
            raise NotApplicable("the rows depend on a loop outside of which they would be loaded")
        return height

    def reach(self, loops: list[Loop]) -> Expr:
        """Number of rows from the first to the last that these loops and one move use."""
        index = self.dram.index[self.row_dimension]
        distance = self.rows
        for loop in loops:
            distance = distance + (var(loop.var) - loop.lower) * index.coefficient(loop.var)
        return _largest(distance, loops)

    def planes(self) -> list[_Plane]:
        """The dimensions before the rows along which loops step, outermost first."""
        return [
            self._plane(d, loops) for d in range(self.row_dimension) if (loops := self.along(d))
        ]

    def _plane(self, dimension: int, loops: list[Loop]) -> _Plane:
        index = self.dram.index[dimension]
        unit = math.gcd(*(index.coefficient(v.var) * v.step for v in loops))
        upper = Expr(1)
        for loop in loops:
            iterations = quotient(loop.upper - 1 - loop.lower, loop.step)
            upper = upper + iterations * (index.coefficient(loop.var) * loop.step // unit)
        if upper.names() & {v.var for v in (*self.needed, *self.private)}:
            raise NotApplicable("the bounds of a loop depend on another")
        return _Plane(dimension, tuple(loops), unit, self.most(upper), upper)

    def most(self, expr: Expr) -> int:
        """The largest value of an expression around the load."""
        value = bounds(expr, self.access.env)[1]
        if not math.isfinite(value):
            raise NotApplicable("an extent has no bound")
        return int(value)

    def overlaps(self, planes: list[_Plane]) -> bool:
        """Whether iterations share elements: along the rows, or in a dimension of planes."""
        by_row = self.along(self.row_dimension)
        index = self.dram.index[self.row_dimension]
        turning = [v for v in by_row if v in self.needed or v in self.parts]
        one = self.most(self.reach([v for v in by_row if v not in turning]))
        return any(len(p.loops) > 1 for p in planes) or any(
            index.coefficient(v.var) * v.step < one for v in turning
        )


def _box(load: _Load, base: int) -> Box:
    planes = load.planes()
    if not load.overlaps(planes):
        raise NotApplicable("nothing overlaps")
    _taken_apart(load, load.access)
    tall = load.height()
    height = load.most(tall)
    offset, size = _column_offset(load, height)
    scale: list[int] = []
    for plane in reversed(planes):
        scale.insert(0, size)
        size *= plane.count
    rows = {a: _new_row(load, a, planes, scale) + offset + base for a in load.buffer.readers}
    return Box(rows, _loads(load, planes, scale, tall, offset + base))


def _column_offset(load: _Load, height: int) -> tuple[Expr, int]:
    """Number of rows from the first column block to that of this iteration, and of all blocks."""
    offset, size = Expr(), height
    for loop in reversed(load.along(load.row_dimension + 1)):
        count = trip_count(loop, env_of(load.access.above))
        if count is None or not loop.lower.is_const:
            raise NotApplicable(f"the trip count of loop {loop.var} is not known")
        offset = offset + quotient(var(loop.var) - loop.lower, loop.step) * size
        size *= count
    return offset, size


def _new_row(load: _Load, access: Access, planes: list[_Plane], scale: list[int]) -> Expr:
    """The row in the box that an access uses, without the column block."""
    row, parts = _taken_apart(load, access)
    index = load.dram.index
    for loop in load.along(load.row_dimension):
        step = index[load.row_dimension].coefficient(loop.var)
        if loop in load.needed:
            row = row + (var(loop.var) - loop.lower) * step
        elif loop in parts:
            row = row + parts[loop] * (step * loop.step)
    for plane, size in zip(planes, scale, strict=True):
        for loop in plane.loops:
            iteration = parts.get(loop, quotient(var(loop.var) - loop.lower, loop.step))
            row = row + plane.position(loop, index[plane.dimension], iteration) * size
    return row


def _taken_apart(load: _Load, access: Access) -> tuple[Expr, dict[Loop, Expr]]:
    """The previous row in the buffer as the row in a part, and the part of each private loop."""
    rest, limit = access.local.row - load.buffer.base, load.buffer.rows
    parts: dict[Loop, Expr] = {}
    for loop in load.parts:
        size = load.access.local.row.coefficient(loop.var) * loop.step
        number, rest = _divided(rest, size, access)
        low, high = bounds(number, access.env)
        if low < 0 or high * size >= limit:
            raise NotApplicable("an address leaves its part of the buffer")
        parts[loop], limit = number, size
    low, high = bounds(rest, access.env)
    if parts and (low < 0 or high + access.rows > limit):
        raise NotApplicable("an address leaves its part of the buffer")
    return rest, parts


def _divided(row: Expr, size: int, access: Access) -> tuple[Expr, Expr]:
    """The quotient of a row by the size of a part, and the rest."""
    number = Expr(row.const // size, tuple((a, c // size) for a, c in row.terms if c % size == 0))
    rest = row - number * size
    low, high = bounds(rest, access.env)
    if low >= 0 and high < size:
        return number, rest
    # For 16 * tap and parts of 48 rows, the part is tap / 3, and the rest is 16 * (tap % 3).
    unit = math.gcd(size, *(c for _, c in rest.terms))
    units = Expr(rest.const // unit, tuple((a, c // unit) for a, c in rest.terms))
    left = remainder(units, size // unit) * unit + rest.const % unit
    return number + quotient(units, size // unit), left


def _loads(load: _Load, planes: list[_Plane], scale: list[int], tall: Expr, offset: Expr) -> Body:
    """The nest that loads the box: planes, column blocks, and rows in as many moves as
    necessary."""
    command = load.access.command
    most = int(load.machine.attribute(command.name, "max_rows") or 1)
    by_column = load.along(load.row_dimension + 1)
    start = {v.var: v.lower for v in (*load.private, *load.needed) if v not in by_column}
    index = [e.substituted(start) for e in load.dram.index]
    row, nest = offset, []
    for plane, size in zip(planes, scale, strict=True):
        loop = plane.loops[0]
        if len(plane.loops) == 1 and loop in load.needed:
            position = quotient(var(loop.var) - loop.lower, loop.step)
        else:
            loop = Loop(fresh_name(load.kernel, loop.var), Expr(), plane.upper, 1, ())
            position = var(loop.var)
        nest.append(loop)
        index[plane.dimension] = index[plane.dimension] + position * plane.unit
        row = row + position * size
    nest.extend(by_column)
    piece = fresh_name(load.kernel, "rows")
    nest.append(Loop(piece, Expr(), tall, most, ()))
    index[-2], row = index[-2] + var(piece), row + var(piece)
    operands = list(command.operands)
    operands[operands.index(load.dram)] = Dram(load.dram.array, tuple(index))
    operands[load.access.operand] = replace(load.access.local, row=row)
    at = load.machine.effects[command.name].operands.index("rows")
    operands[at] = minimum(Expr(most), tall - var(piece))
    stmt: Command | Loop = replace(command, operands=tuple(operands))
    for loop in reversed(nest):
        stmt = replace(loop, body=(stmt,), notes=())
    return (stmt,)


def _largest(expr: Expr, loops: list[Loop]) -> Expr:
    """The largest value over some loops, or an upper bound. Minimums are first split into their
    operands."""
    minimums = [(a, c) for a, c in expr.terms if isinstance(a, Minimum)]
    if len(minimums) == 1 and minimums[0][1] == 1:
        atom = minimums[0][0]
        assert isinstance(atom, Minimum)
        rest = expr - Expr(0, ((atom, 1),))
        return minimum(_largest(rest + atom.left, loops), _largest(rest + atom.right, loops))
    for loop in loops:
        step = expr.coefficient(loop.var)
        last = loop.lower + quotient(loop.upper - 1 - loop.lower, loop.step) * loop.step
        rest = expr - var(loop.var) * step
        if loop.var in rest.names():
            raise NotApplicable(f"the rows are not affine in {loop.var}")
        expr = rest + (last if step > 0 else loop.lower) * step
    return expr
