"""Overlapping windows: iterations that load parts of an array which they share with others.

What a load fetches over some loops is a box: planes, each of some column blocks of rows. Loops that
step along the same dimension (an output row and a row of the filter, a pixel and a tap) walk over
the same elements again; the box holds every element once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tilewright.proposers.rewriter.analysis import env_of, trip_count
from tilewright.proposers.rewriter.buffers import Access, Buffer, NotApplicable
from tilewright.proposers.rewriter.expr import (
    Expr,
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
from tilewright.proposers.rewriter.rewrites.window_load import Plane, WindowLoad


@dataclass(frozen=True, slots=True)
class Box:
    """A buffer that holds the box: new rows for every reader, and the loads, from row `base` on."""

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
    """The box of a buffer's one load over `needed` loops; None where nothing overlaps.

    Before: `for t { load(&A[x + t][c], SPAD(0), 16, 14); use(SPAD(0)); }`
    After:  `load(&A[x][c], SPAD(0), 16, 16);  for t { use(SPAD(t)); }`

    `private` are loops around the load alone, whose iterations fill parts of the buffer. The load
    must be affine, each loop in one dimension, and its rows those of the array.
    """
    try:
        return _box(WindowLoad.of(kernel, machine, buffer, needed, private), base)
    except NotApplicable:
        return None


def _box(load: WindowLoad, base: int) -> Box:
    planes = load.planes()
    if not load.overlaps(planes):
        raise NotApplicable("nothing overlaps")
    _taken_apart(load, load.access)
    tall = load.height()
    height = -(-load.most(tall) // load.skip)
    offset, size = _column_offset(load, height * load.phases)
    scale: list[int] = []
    for plane in reversed(planes):
        scale.insert(0, size)
        size *= plane.count
    rows = {
        a: _new_row(load, a, planes, scale, height) + offset + base for a in load.buffer.readers
    }
    return Box(rows, _loads(load, planes, scale, (tall, height), offset + base))


def _column_offset(load: WindowLoad, height: int) -> tuple[Expr, int]:
    """Rows from the first column block to the one of this iteration, and of all of them."""
    offset, size = Expr(), height
    for loop in reversed(load.along(load.row_dimension + 1)):
        count = trip_count(loop, env_of(load.access.above))
        if count is None or not loop.lower.is_const:
            raise NotApplicable(f"the trip count of loop {loop.var} is not known")
        offset = offset + quotient(var(loop.var) - loop.lower, loop.step) * size
        size *= count
    return offset, size


def _new_row(
    load: WindowLoad, access: Access, planes: list[Plane], scale: list[int], height: int
) -> Expr:
    """Where an access finds its row in the box, apart from the column block."""
    row, parts = _taken_apart(load, access)
    shift = Expr()
    index = load.dram.index
    for loop in load.along(load.row_dimension):
        step = index[load.row_dimension].coefficient(loop.var)
        if loop in load.needed:
            shift = shift + (var(loop.var) - loop.lower) * step
        elif loop in parts:
            shift = shift + parts[loop] * (step * loop.step)
    row = row + quotient(shift, load.skip) + remainder(shift, load.skip) * height
    for plane, size in zip(planes, scale, strict=True):
        for loop in plane.loops:
            iteration = parts.get(loop, quotient(var(loop.var) - loop.lower, loop.step))
            row = row + plane.position(loop, index[plane.dimension], iteration) * size
    return row


def _taken_apart(load: WindowLoad, access: Access) -> tuple[Expr, dict[Loop, Expr]]:
    """A row of the buffer as it was: the row within a part, and each private loop's part of it."""
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
    """A row's quotient by the size of a part, and what is left of it."""
    number = Expr(row.const // size, tuple((a, c // size) for a, c in row.terms if c % size == 0))
    rest = row - number * size
    low, high = bounds(rest, access.env)
    if low >= 0 and high < size:
        return number, rest
    if any(c < 0 for _, c in rest.terms):
        raise NotApplicable("an address runs backwards through the parts of the buffer")
    # 16 * tap over parts of 48 rows: the part is tap / 3, and 16 * (tap % 3) is left.
    unit = math.gcd(size, *(c for _, c in rest.terms))
    units = Expr(rest.const // unit, tuple((a, c // unit) for a, c in rest.terms))
    left = remainder(units, size // unit) * unit + rest.const % unit
    return number + quotient(units, size // unit), left


def _loads(
    load: WindowLoad, planes: list[Plane], scale: list[int], rows: tuple[Expr, int], offset: Expr
) -> Body:
    """The nest that loads the box: planes, column blocks, rows in as many moves as it takes.

    `rows` are the array's rows in a block, and how many the box holds of each phase.
    """
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
    tall, height = rows
    left = quotient(tall + (load.skip - 1), load.skip)
    if load.phases > 1:
        # From the last phase to the first, so that nothing negative is divided.
        phase, last = fresh_name(load.kernel, "phase"), load.skip - 1
        nest.append(Loop(phase, Expr(), Expr(load.phases), 1, ()))
        index[-2], row = index[-2] - var(phase) + last, row + (var(phase) * -1 + last) * height
        left = quotient(tall + var(phase), load.skip)
    piece = fresh_name(load.kernel, "rows")
    nest.append(Loop(piece, Expr(), left, most, ()))
    index[-2], row = index[-2] + var(piece) * load.skip, row + var(piece)
    operands = list(command.operands)
    operands[operands.index(load.dram)] = Dram(load.dram.array, tuple(index))
    operands[load.access.operand] = replace(load.access.local, row=row)
    at = load.machine.effects[command.name].operands.index("rows")
    operands[at] = minimum(Expr(most), left - var(piece))
    stmt: Command | Loop = replace(command, operands=tuple(operands))
    for loop in reversed(nest):
        stmt = replace(loop, body=(stmt,), notes=())
    return (stmt,)
