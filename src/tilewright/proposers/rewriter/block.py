"""One iteration of a loop as straight code: which values it moves where.

The rewrites of a block know exactly which elements of which array each move touches and which
command wrote the local rows that another reads, so values can be kept, handed over and reordered.
A block's kernel carries its settings in its moves (`settings.resolved`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from tilewright.proposers.rewriter.analysis import (
    at_value,
    env_of,
    labelled_loops,
    simplify,
    trips,
)
from tilewright.proposers.rewriter.buffers import NotApplicable
from tilewright.proposers.rewriter.expr import Expr, bounds
from tilewright.proposers.rewriter.ir import (
    Assign,
    Body,
    Command,
    Dram,
    Guard,
    Kernel,
    Local,
    Loop,
    Operand,
    Stmt,
    children,
    commands,
    rebuilt,
    walk,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.settings import own_setting, resolved, settled

MAX_COMMANDS = 128
"""Commands of a block; a longer iteration is not one that fits the core's instruction cache."""
ELEMENT_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("int8_t", "uint8_t"), 1),
    **dict.fromkeys(("int16_t", "uint16_t"), 2),
    **dict.fromkeys(("int32_t", "uint32_t", "float"), 4),
}


@dataclass(frozen=True, slots=True)
class Touch:
    """Local rows that an operand of a command reads or writes; an adding write reads them too."""

    command: Command
    operand: int
    local: Local
    rows: frozenset[int]
    writes: bool
    adds: bool


@dataclass(frozen=True, slots=True)
class Section:
    """Elements of an array: an affine start, and which offsets from it, in rows and columns."""

    array: str
    start: Expr
    offsets: frozenset[int]
    shape: tuple[int, int]

    def same(self, other: Section) -> bool:
        """The same elements in the same layout."""
        return (self.array, self.start, self.offsets, self.shape) == (
            other.array,
            other.start,
            other.offsets,
            other.shape,
        )

    def meets(self, other: Section) -> bool:
        """Whether some element may be in both."""
        if self.array != other.array:
            return False
        apart = other.start - self.start
        if not apart.is_const:
            return True
        return any(o + apart.const in self.offsets for o in other.offsets)

    def at(self, var: str, value: Expr) -> Section:
        """The section of another iteration."""
        return replace(self, start=self.start.substituted({var: value}))


@dataclass(eq=False)
class Web:
    """Local rows from where they are overwritten to their last use before they are again."""

    space: str
    rows: frozenset[int]
    touches: list[Touch]

    @property
    def writers(self) -> list[Touch]:
        """Touches that write, in order."""
        return [t for t in self.touches if t.writes]

    @property
    def readers(self) -> list[Touch]:
        """Touches that read and do not write."""
        return [t for t in self.touches if not t.writes]


@dataclass(frozen=True, eq=False)
class Block:
    """A loop whose body holds commands and loops of the core's own assignments, nothing else."""

    kernel: Kernel
    machine: Machine
    loop: Loop

    @property
    def body(self) -> Body:
        """The statements of one iteration."""
        return self.loop.body

    def with_body(self, body: Body, before: Body = ()) -> Block:
        """The block with another body, and new statements before the loop."""
        loop = replace(self.loop, body=body)
        return replace(
            self,
            loop=loop,
            kernel=self.kernel.with_body(
                rebuilt(self.kernel.body, lambda s: (*before, loop) if s is self.loop else None)
            ),
        )

    def changed(self, new: Mapping[Stmt, Body]) -> Block:
        """The block with some statements of its body replaced."""
        return self.with_body(tuple(s for old in self.body for s in new.get(old, (old,))))

    @cached_property
    def outside(self) -> frozenset[tuple[str, int]]:
        """Local rows that commands around the block use."""
        inside = set(commands(self.body))
        return frozenset(
            (t.local.space, row)
            for stmt, above in walk_paths(self.kernel.body)
            if isinstance(stmt, Command) and stmt not in inside
            for t in touches_anywhere(stmt, above, self.machine)
            for row in t.rows
        )

    @cached_property
    def taken(self) -> frozenset[tuple[str, int]]:
        """Local rows that anything uses."""
        inside = {
            (t.local.space, row)
            for command in commands(self.body)
            for t in touches(command, self.machine)
            for row in t.rows
        }
        return self.outside | inside

    @cached_property
    def webs(self) -> list[Web]:
        """All webs of the body that are defined inside and used nowhere else."""
        return find_webs(self)

    def web_of(self, command: Command, operand: int) -> Web | None:
        """The web an operand belongs to; None for rows that are also used outside."""
        return next(
            (
                w
                for w in self.webs
                if any(t.command is command and t.operand == operand for t in w.touches)
            ),
            None,
        )

    def section(self, move: Command) -> Section | None:
        """The elements a load or store touches; None for other commands and moves of zeros."""
        return section_of(move, self.kernel, self.machine)


def on_block(rewrite: Callable[[Block], Block]) -> Callable[[Kernel, Machine, Loop], Kernel]:
    """A rewrite of a loop from one of its block.

    The loop's inner loops are unrolled, every value gets local rows of its own, the rewrite is
    made, and what repeats becomes loops again.
    """

    def apply(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
        block = rewrite(renamed(block_of(kernel, machine, loop)))
        return rolled_up(renamed(block))

    apply.__doc__ = rewrite.__doc__
    return apply


def block_loops(kernel: Kernel, machine: Machine) -> Iterator[str]:
    """Labels of the outermost loops whose iterations are short enough for a block.

    They compute whole products with their loads; loops inside them are part of their blocks.
    """
    chosen: list[Loop] = []
    for label, loop, above in labelled_loops(kernel.body):
        units = {machine.unit(c.name) for c in commands(loop.body)}
        inside = any(outer in above for outer in chosen)
        if inside or not {"load", "execute"} <= units:
            continue
        if _unrolled(loop.body, (*above, loop)) <= MAX_COMMANDS:
            chosen.append(loop)
            yield label


def _unrolled(body: Body, above: Body) -> float:
    """Commands of a body with its loops unrolled."""
    total = 0.0
    for stmt in body:
        if isinstance(stmt, Command):
            total += 1
        elif isinstance(stmt, Loop):
            total += trips(stmt, env_of(above))[1] * _unrolled(stmt.body, (*above, stmt))
        elif isinstance(stmt, Guard):
            total += _unrolled(children(stmt), above)
    return total


def block_of(kernel: Kernel, machine: Machine, loop: Loop) -> Block:
    """The block of a loop of an ordinary kernel; `NotApplicable` if it holds anything else."""
    number = _loops(kernel).index(loop)
    free = resolved(kernel, machine)
    loop, above = [(s, a) for s, a in walk_paths(free.body) if isinstance(s, Loop)][number]
    flat = replace(loop, body=_straight(loop.body, (*above, loop)))
    free = simplify(free.with_body(rebuilt(free.body, lambda s: (flat,) if s is loop else None)))
    after = _loops(free)
    if number >= len(after) or after[number].var != flat.var:
        raise NotApplicable(f"loop {flat.var} does not run several times")
    if not all(isinstance(s, Command) or is_core_loop(s) for s in after[number].body):
        raise NotApplicable(f"loop {flat.var} holds code that is not modelled")
    if any(True for _ in _transposed(free, machine)):
        raise NotApplicable("operands are transposed")
    return Block(free, machine, after[number])


def _loops(kernel: Kernel) -> list[Loop]:
    return [s for s in walk(kernel.body) if isinstance(s, Loop)]


def _straight(body: Body, above: Body) -> Body:
    """A body with its loops of commands unrolled."""
    result: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Loop) and not is_core_loop(stmt):
            fewest, most = trips(stmt, env_of(above))
            if fewest != most or not stmt.lower.is_const:
                raise NotApplicable(f"the number of iterations of loop {stmt.var} varies")
            if most * sum(1 for _ in commands(stmt.body)) > MAX_COMMANDS:
                raise NotApplicable(f"an iteration has more than {MAX_COMMANDS} commands")
            for turn in range(int(most)):
                copy = at_value(stmt.body, stmt.var, stmt.lower + turn * stmt.step)
                result.extend(_straight(copy, above))
        else:
            result.append(stmt)
    if sum(1 for _ in commands(tuple(result))) > MAX_COMMANDS:
        raise NotApplicable(f"an iteration has more than {MAX_COMMANDS} commands")
    return tuple(result)


def is_core_loop(stmt: Stmt) -> bool:
    """Whether the core computes elements one behind the other."""
    return isinstance(stmt, Loop) and all(isinstance(s, Assign) for s in walk(stmt.body))


def _transposed(kernel: Kernel, machine: Machine) -> Iterator[Command]:
    """Settings of the array that swap rows and columns."""
    for command in commands(kernel.body):
        roles = machine.effects[command.name].operands
        for role, operand in zip(roles, command.operands, strict=False):
            if role in ("a_transpose", "b_transpose") and operand != Expr(0):
                yield command
            if role == "a_stride" and operand != Expr(1):
                yield command


def constant(operand: Operand, what: str) -> int:
    """An operand that is a number."""
    if isinstance(operand, Expr) and operand.is_const:
        return operand.const
    raise NotApplicable(f"{what} is not a constant")


@lru_cache(maxsize=8192)
def touches(command: Command, machine: Machine) -> tuple[Touch, ...]:
    """What a command of a block does to local rows; they must be constants."""
    result = []
    roles = machine.effects[command.name].operands
    for position in machine.local_operands(command.name):
        local = command.operands[position]
        if not isinstance(local, Local):
            continue
        first = constant(local.row, f"a local row of {command.name}")
        sizes = []
        for axis in ("columns", "rows"):
            at = machine.extent(command.name, position, axis)
            sizes.append(1 if at is None else constant(command.operands[at], f"the {axis}"))
        width = machine.spaces[local.space].row_columns
        stride = _blocks_apart(command, machine)
        rows = frozenset(
            first + block * stride + row
            for block in range(-(-sizes[0] // width))
            for row in range(sizes[1])
        )
        if any(flag.when for flag in local.flags):
            raise NotApplicable("whether a write adds depends on a loop")
        writes = roles[position] == "local_write"
        adds = writes and any(machine.flags[f.name] == "accumulate" for f in local.flags)
        result.append(Touch(command, position, local, rows, writes, adds))
    return tuple(result)


def touches_anywhere(command: Command, above: Body, machine: Machine) -> Sequence[Touch]:
    """The same for a command with loops around it: at least the rows of all iterations."""
    env = env_of(above)

    def most(operand: Operand) -> Operand:
        high = bounds(operand, env)[1] if isinstance(operand, Expr) else 0.0
        return Expr(int(high)) if isinstance(operand, Expr) and math.isfinite(high) else operand

    operands: list[Operand] = []
    spans: dict[int, int] = {}
    for position, operand in enumerate(command.operands):
        if isinstance(operand, Local):
            low, high = bounds(operand.row, env)
            if not (math.isfinite(low) and math.isfinite(high)):
                raise NotApplicable("a local address has no bounds")
            spans[position] = int(high - low)
            operands.append(Local(operand.space, Expr(int(low))))
        else:
            operands.append(most(operand))
    widest = touches(replace(command, operands=tuple(operands)), machine)
    return [
        replace(t, rows=frozenset(range(min(t.rows), max(t.rows) + spans[t.operand] + 1)))
        for t in widest
    ]


def _blocks_apart(command: Command, machine: Machine) -> int:
    if machine.unit(command.name) in ("load", "store"):
        stride = own_setting(command, machine).get("block_stride")
        if stride is not None:
            return constant(stride, "the block stride")
    return int(machine.attribute(command.name, "max_rows") or 1)


def section_of(move: Command, kernel: Kernel, machine: Machine) -> Section | None:
    """The elements a load or store of a resolved kernel touches."""
    dram = next((o for o in move.operands if isinstance(o, Dram)), None)
    if dram is None or machine.unit(move.name) not in ("load", "store"):
        return None
    array = next(a for a in kernel.arrays if a.name == dram.array)
    given = own_setting(move, machine)
    size = ELEMENT_BYTES.get(array.element)
    stride = constant(given.get("dram_stride", Expr(0)), "the stride of a move")
    if size is None or stride % size:
        raise NotApplicable(f"the layout of {dram.array} is not known")
    at = {r: i for i, r in enumerate(machine.effects[move.name].operands)}
    rows, columns = (constant(move.operands[at[a]], f"the {a}") for a in ("rows", "columns"))
    offsets = _offsets(rows, columns, stride // size)
    return Section(dram.array, _flat(dram, array.shape), offsets, (rows, columns))


@lru_cache(maxsize=256)
def _offsets(rows: int, columns: int, distance: int) -> frozenset[int]:
    return frozenset(r * distance + c for r in range(rows) for c in range(columns))


def core_section(dram: Dram, loop: Loop, kernel: Kernel) -> Section:
    """The elements a loop of the core touches through one of its operands."""
    array = next(a for a in kernel.arrays if a.name == dram.array)
    count, step = loop.upper - loop.lower, loop.step
    start = _flat(dram, array.shape)
    if not count.is_const or not loop.lower.is_const or start.coefficient(loop.var) != 1:
        raise NotApplicable(f"the core does not walk along {dram.array}")
    first = start.substituted({loop.var: loop.lower})
    offsets = frozenset(range(0, count.const, step))
    return Section(dram.array, first, offsets, (1, len(offsets)))


def _flat(dram: Dram, shape: tuple[int, ...]) -> Expr:
    """The element's number in its array."""
    result = Expr()
    for position, size in enumerate(shape):
        index = dram.index[position] if position < len(dram.index) else Expr()
        result = result * size + index
    return result


def core_parts(stmt: Stmt, kernel: Kernel) -> tuple[list[Section], list[Section]]:
    """What a loop of the core reads and writes."""
    assert isinstance(stmt, Loop)
    reads: list[Section] = []
    writes: list[Section] = []
    for assign in walk(stmt.body):
        if not isinstance(assign, Assign):
            raise NotApplicable("the core does more than one loop of assignments")
        writes.append(core_section(assign.target, stmt, kernel))
        reads.extend(core_section(dram, stmt, kernel) for _, dram in assign.terms)
    return reads, writes


def find_webs(block: Block) -> list[Web]:
    """Webs of a body; rows used outside, or read before they are written, belong to none."""
    current: dict[tuple[str, int], Web | None] = {}
    found: list[Web] = []
    fixed = set(block.outside)
    for command in commands(block.body):
        for touch in sorted(touches(command, block.machine), key=lambda t: t.writes):
            rows = {(touch.local.space, r) for r in touch.rows}
            if touch.writes and not touch.adds:
                web = Web(touch.local.space, touch.rows, [touch])
                current.update(dict.fromkeys(rows, web))
                found.append(web)
                continue
            webs = {current.get(r) for r in rows}
            if webs == {None}:
                fixed |= rows
                continue
            if len(webs) > 1:
                raise NotApplicable("a command uses rows that several others wrote")
            used = webs.pop()
            assert used is not None
            used.touches.append(touch)
    return [w for w in found if not any((w.space, r) in fixed for r in w.rows)]


def renamed(block: Block) -> Block:
    """Every value of an iteration in local rows of its own.

    Before: `load(A, SPAD(0)); use(SPAD(0)); load(B, SPAD(0)); use(SPAD(0));`
    After:  `load(A, SPAD(0)); use(SPAD(0)); load(B, SPAD(4)); use(SPAD(4));`

    Operands that one product latches and streams get different banks.
    """
    taken = set(block.outside)
    own = {(w.space, r) for w in block.webs for r in w.rows}
    for command in commands(block.body):
        for touch in touches(command, block.machine):
            taken |= {(touch.local.space, r) for r in touch.rows} - own
    rows: dict[tuple[Command, int], int] = {}
    for web in block.webs:
        base, end = min(web.rows), max(web.rows) + 1
        start = free_rows(block.machine, web, taken, end - base)
        taken |= {(web.space, r) for r in range(start, start + end - base)}
        for touch in web.touches:
            rows[touch.command, touch.operand] = start - base
    return moved(block, rows)


def free_rows(machine: Machine, web: Web, taken: Set[tuple[str, int]], count: int) -> int:
    """The first free rows for a web: in the first bank if it streams, else in another."""
    space = machine.spaces[web.space]
    latched = any(machine.attribute(t.command.name, "latches") for t in web.readers)
    start = space.bank_rows if latched and space.banks > 1 else 0
    used = sorted(r for name, r in taken if name == web.space)
    for low, high in ((start, space.rows), (0, start)):
        first = low
        for row in used:
            if row >= first + count:
                break
            first = max(first, row + 1)
        if first + count <= high:
            return first
    raise NotApplicable(f"the values of an iteration do not fit {web.space}")


def moved(block: Block, shifts: Mapping[tuple[Command, int], int]) -> Block:
    """The block with the rows of some local operands shifted."""
    new: dict[Stmt, list[Operand]] = {}
    for (command, position), shift in shifts.items():
        operands = new.setdefault(command, list(command.operands))
        local = operands[position]
        assert isinstance(local, Local)
        operands[position] = replace(local, row=local.row + shift)
    return block.changed(
        {s: (replace(s, operands=tuple(new[s])),) for s in new if isinstance(s, Command)}
    )


def rolled_up(block: Block) -> Kernel:
    """An ordinary kernel again: repeated commands as loops, settings where they are needed."""
    from tilewright.proposers.rewriter.roll import roll

    kernel = block.kernel.with_body(roll(block.kernel, block.kernel.body))
    return simplify(settled(kernel, block.machine))
