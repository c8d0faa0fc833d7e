"""Copy data that a command loads repeatedly into blocks without gaps between their rows, once.

Before::

    for (int i = 0; i < 64; i += 16)
      for (int j = 0; j < 64; j += 16) {
        load(1, &B[0][j], 256);
        ...
      }

After::

    static _Alignas(64) int8_t B_1[4][16][64];
    for (int j = 0; j < 64; j += 16) {
      load(1, &B[0][j], 256);
      store(1, &B_1[j / 16][0][0], 64);
    }
    for (int i = 0; i < 64; i += 16)
      for (int j = 0; j < 64; j += 16) {
        load(1, &B_1[j / 16][0][0], 64);
        ...
      }

If the loop also fills the array that the command loads, the filling is moved too.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    fresh,
    names_in,
)
from tilewright.proposers.loops.ir import (
    Address,
    Assign,
    Binary,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Number,
    Parameter,
    Statement,
    Type,
    Var,
    around,
    expressions,
    statements,
    with_loop,
)
from tilewright.proposers.loops.rewrites.registers import (
    is_load,
    registers_of,
    require_unused_before,
)

_MOST_BYTES = 1 << 26
_STORE = ("register_read", "dram_write", "row_stride_bytes")
_LOAD = ("register_write", "dram_read", "row_stride_bytes")


def stage(kernel: Kernel, number: int, which: int) -> Kernel:
    """The kernel in which load `which` in the body of loop `number` is staged. Raises
    `NotApplicableError`."""
    path = around(kernel, number)
    loop = path[-1]
    loads = [s for s in loop.body if isinstance(s, Command) and is_load(s) and s.roles == _LOAD]
    if which >= len(loads):
        raise NotApplicableError("the loop contains no load with this number")
    load = loads[which]
    require_unused_before(path[0], min(registers_of(load)))
    filling, kind = _filling(kernel, loop, load)
    made = (*filling, load)
    own = {s.variable for s in statements(made) if isinstance(s, For)}
    used = {e.name for e in expressions(made) if isinstance(e, Var)} - own
    over = [outer for outer in path if outer.variable in used]
    if used - {outer.variable for outer in over} - {_array(load)}:
        raise NotApplicableError("the addresses of the load depend on more than loop variables")
    if any(outer.first for outer in over) or math.prod(o.trips for o in path) < 2 * math.prod(
        o.trips for o in over
    ):
        raise NotApplicableError("each block is loaded once, or its loops do not begin at 0")
    rows, row_bytes = kernel.block
    size = 4 if kind == "float" else int("".join(filter(str.isdigit, kind))) // 8
    sizes = (*(outer.trips for outer in over), rows, row_bytes // size)
    if math.prod(sizes) * size > _MOST_BYTES:
        raise NotApplicableError("the blocks would be too large")
    name = fresh(_array(load), names_in(kernel))
    zero, stride = Number("0"), Number(str(row_bytes))
    block = Address(name, (*(_iteration(outer) for outer in over), zero, zero))
    store = replace(_store(kernel), arguments=(load.arguments[0], block, stride))
    copying: tuple[Statement, ...] = (*made, store)
    for outer in reversed(over):
        copying = (replace(outer, body=copying),)
    loaded = replace(load, arguments=(load.arguments[0], block, stride))
    body = tuple(loaded if s is load else s for s in loop.body if s not in filling)
    changed = with_loop(kernel, number, (replace(loop, body=body),))
    place = next(i for i, s in enumerate(kernel.body) if s is path[0])
    return replace(
        changed,
        body=(*changed.body[:place], *copying, *changed.body[place:]),
        scratch=(*kernel.scratch, Parameter(name, sizes, False, kind)),
    )


def _array(load: Command) -> str:
    address = load.arguments[1]
    if isinstance(address, (Address, Var)):
        return address.array if isinstance(address, Address) else address.name
    raise NotApplicableError("the load does not read an array")


def _filling(kernel: Kernel, loop: For, load: Command) -> tuple[tuple[Statement, ...], Type]:
    """The code that fills the loaded array, if the loop contains it, and the array's type."""
    array = _array(load)
    inputs = {p.name: p.type for p in kernel.parameters if p.constant}
    if array in inputs:
        return (), inputs[array]
    declared = [s for s in loop.body if isinstance(s, Declare) and s.name == array]
    uses = [s for s in loop.body if s is not load and array in _arrays((s,))]
    if not declared or not all(isinstance(s, (For, Assign)) for s in uses):
        raise NotApplicableError(f"{array} is neither an input nor written in the loop")
    if loop.body.index(load) < max(map(loop.body.index, uses), default=0):
        raise NotApplicableError(f"{array} is written after the load")
    for statement in statements(tuple(uses)):
        written = isinstance(statement, Assign) and statement.target
        if written and not (isinstance(written, Element) and written.array == array):
            raise NotApplicableError(f"the code that writes {array} also writes something else")
        if isinstance(statement, (Command, Declare)):
            raise NotApplicableError(f"the code that writes {array} contains more than loops")
    if _arrays(tuple(uses)) - {array} - set(inputs):
        raise NotApplicableError(f"{array} is computed from data that may change")
    return (*declared, *uses), declared[0].type


def _arrays(body: tuple[Statement, ...]) -> set[str]:
    """Arrays that are accessed by subscripts, or passed as a whole to a command."""
    found = {e.array for e in expressions(body) if isinstance(e, (Element, Load, Address))}
    for statement in statements(body):
        if isinstance(statement, Command):
            found |= {a.name for a in statement.arguments if isinstance(a, Var)}
    return found


def _iteration(loop: For) -> Expr:
    variable = Var(loop.variable)
    return variable if loop.step == 1 else Binary("/", variable, Number(str(loop.step)))


def _store(kernel: Kernel) -> Command:
    for statement in statements(kernel.body):
        if isinstance(statement, Command) and statement.roles == _STORE:
            return statement
    raise NotApplicableError("there is no command that stores a register")
