"""The load of a buffer taken apart: along which dimension of its array each loop steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.proposers.rewriter.analysis import env_of, trip_count
from tilewright.proposers.rewriter.buffers import Access, Buffer, NotApplicable
from tilewright.proposers.rewriter.expr import Expr, Minimum, bounds, minimum, quotient, var
from tilewright.proposers.rewriter.ir import Dram, Kernel, Loop, Operand
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.move_settings import settings_for


@dataclass(frozen=True, slots=True)
class Plane:
    """One dimension of the array before the last two, and the loops along it.

    Positions count multiples of `unit` elements from the first one; `count` of them are laid out,
    `upper` is how many there are for these values of the loops around.
    """

    dimension: int
    loops: tuple[Loop, ...]
    unit: int
    count: int
    upper: Expr

    def position(self, loop: Loop, index: Expr, iteration: Expr) -> Expr:
        """How far an iteration of one of the loops is from its first."""
        return iteration * (index.coefficient(loop.var) * loop.step // self.unit)


@dataclass(frozen=True)
class WindowLoad:
    """The load of a buffer, taken apart: which of its loops steps along which dimension."""

    kernel: Kernel
    machine: Machine
    buffer: Buffer
    access: Access
    dram: Dram
    rows: Expr
    needed: tuple[Loop, ...]
    private: tuple[Loop, ...]
    skip: int
    """Rows of the array from one row of the move to the next: 2 under a stride of 2."""

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        machine: Machine,
        buffer: Buffer,
        needed: list[Loop],
        private: list[Loop],
    ) -> WindowLoad:
        """The parts of a buffer's load; `NotApplicable` unless it is one narrow affine load."""
        if len(buffer.writers) != 1 or buffer.slots != 1:
            raise NotApplicable("not one load into one slot")
        access = buffer.writers[0]
        roles = machine.effects[access.command.name].operands
        given = dict(zip(roles, access.command.operands, strict=False))
        dram, rows, columns = (given.get(r) for r in ("dram_read", "rows", "columns"))
        if not (isinstance(dram, Dram) and isinstance(rows, Expr) and isinstance(columns, Expr)):
            raise NotApplicable("the load is not modelled")
        width = next(a.shape[-1:] for a in kernel.arrays if a.name == dram.array)
        strides = [
            dict(zip(machine.effects[c.name].operands, c.operands, strict=False))["dram_stride"]
            for c in settings_for(kernel, machine, access.command)
        ]
        skip = _multiple(strides, width)
        if len(dram.index) < 2 or skip is None:
            raise NotApplicable("the rows of the load are not those of the array")
        if bounds(columns, access.env)[1] > machine.spaces[access.local.space].row_columns:
            raise NotApplicable("the load is wider than a row")
        names = {v.var for v in (*needed, *private)}
        if columns.names() & names:
            raise NotApplicable("the columns depend on a loop")
        load = cls(kernel, machine, buffer, access, dram, rows, tuple(needed), tuple(private), skip)
        load.check()
        return load

    def check(self) -> None:
        """Each loop steps along one dimension; only private ones move through the buffer."""
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
        """Private loops whose iterations fill parts of their own, the largest parts first.

        The others continue the rows of the iteration before.
        """
        row = self.access.local.row
        own = [
            v
            for v in self.private
            if self.dimension(v) < self.row_dimension
            or row.coefficient(v.var) * self.skip
            != self.dram.index[self.row_dimension].coefficient(v.var)
        ]
        return sorted(own, key=lambda v: -row.coefficient(v.var) * v.step)

    def height(self) -> Expr:
        """Rows of the array from the first to the last that all loops and one move reach."""
        height = self.reach(self.along(self.row_dimension))
        if height.names() & {v.var for v in (*self.needed, *self.private)}:
            raise NotApplicable("the rows depend on a loop that is left behind")
        return height

    @property
    def phases(self) -> int:
        """1, or `skip` where iterations load the rows that others skip: those lie apart."""
        index = self.dram.index[self.row_dimension]
        shifts = (index.coefficient(v.var) * v.step for v in self.along(self.row_dimension))
        return 1 if all(s % self.skip == 0 for s in shifts) else self.skip

    def reach(self, loops: list[Loop]) -> Expr:
        """Rows of the array from the first to the last that these loops and one move reach."""
        index = self.dram.index[self.row_dimension]
        distance = (self.rows - 1) * self.skip + 1
        for loop in loops:
            distance = distance + (var(loop.var) - loop.lower) * index.coefficient(loop.var)
        return _largest(distance, loops)

    def planes(self) -> list[Plane]:
        """The dimensions that loops step along before the rows, outermost first."""
        return [
            self._plane(d, loops) for d in range(self.row_dimension) if (loops := self.along(d))
        ]

    def _plane(self, dimension: int, loops: list[Loop]) -> Plane:
        index = self.dram.index[dimension]
        unit = math.gcd(*(index.coefficient(v.var) * v.step for v in loops))
        upper = Expr(1)
        for loop in loops:
            iterations = quotient(loop.upper - 1 - loop.lower, loop.step)
            upper = upper + iterations * (index.coefficient(loop.var) * loop.step // unit)
        if upper.names() & {v.var for v in (*self.needed, *self.private)}:
            raise NotApplicable("the bounds of a loop depend on another")
        return Plane(dimension, tuple(loops), unit, self.most(upper), upper)

    def most(self, expr: Expr) -> int:
        """The largest value of an expression around the load."""
        value = bounds(expr, self.access.env)[1]
        if not math.isfinite(value):
            raise NotApplicable("an extent has no bound")
        return int(value)

    def overlaps(self, planes: list[Plane]) -> bool:
        """Whether iterations share elements: along the rows, or in a dimension of planes."""
        by_row = self.along(self.row_dimension)
        index = self.dram.index[self.row_dimension]
        turning = [v for v in by_row if v in self.needed or v in self.parts]
        one = self.most(self.reach([v for v in by_row if v not in turning]))
        return any(len(p.loops) > 1 for p in planes) or any(
            self._meets_itself(v, index.coefficient(v.var) * v.step, one) for v in turning
        )

    def _meets_itself(self, loop: Loop, shift: int, reach: int) -> bool:
        """Whether some later iteration loads rows that an earlier one does, and skips the same."""
        apart = self.skip // math.gcd(self.skip, shift)
        count = trip_count(loop, env_of(self.access.above))
        return apart * shift < reach and (count is None or apart < count)


def _multiple(strides: list[Operand], width: tuple[int, ...]) -> int | None:
    """The rows of an array that a move steps over each time, where all its settings agree."""
    found = {s.const if isinstance(s, Expr) and s.is_const else 0 for s in strides}
    if len(found) != 1 or not width:
        return None
    skip, rest = divmod(found.pop(), width[0])
    return skip if skip > 0 and not rest else None


def _largest(expr: Expr, loops: list[Loop]) -> Expr:
    """The largest value over some loops, or more; minimums are taken apart first."""
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
