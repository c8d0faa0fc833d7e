"""Converts a loop to the straight-line code of its iterations, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace

from tilewright.proposers.rewriter.analysis.block import Block, Web
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.move_settings import default_stride
from tilewright.proposers.rewriter.analysis.ranges import (
    at_value,
    env_of,
    labelled_loops,
    simplify,
    trips,
)
from tilewright.proposers.rewriter.analysis.sections import is_core_loop
from tilewright.proposers.rewriter.analysis.settings import resolved, settled
from tilewright.proposers.rewriter.analysis.touched_rows import touches
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
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

MAX_COMMANDS = 128
"""Maximum number of commands in a block. A longer iteration does not fit into the core's
instruction cache."""


def on_block(rewrite: Callable[[Block], Block]) -> Callable[[Kernel, Machine, Loop], Kernel]:
    """Converts a rewrite of a block to a rewrite of a loop.

    The inner loops are unrolled, every value gets its own local rows, the rewrite is applied, and
    repetitions become loops again.
    """

    def apply(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
        block = rewrite(renamed(block_of(kernel, machine, loop)))
        return rolled_up(renamed(block))

    apply.__doc__ = rewrite.__doc__
    return apply


def block_loops(kernel: Kernel, machine: Machine) -> Iterator[str]:
    """Labels of the outermost loops whose iterations are short enough for a block.

    Their iterations contain complete products with their loads. Inner loops are part of the block.
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
    """The block of a loop in an ordinary kernel; `NotApplicable` if it contains other code."""
    number = _loops(kernel).index(loop)
    free = resolved(kernel, machine)
    loop, above = [(s, a) for s, a in walk_paths(free.body) if isinstance(s, Loop)][number]
    flat = replace(loop, body=straight_code(loop.body, (*above, loop)))
    free = simplify(free.with_body(rebuilt(free.body, lambda s: (flat,) if s is loop else None)))
    after = _loops(free)
    if number >= len(after) or after[number].var != flat.var:
        raise NotApplicable(f"loop {flat.var} has only one iteration")
    if not all(isinstance(s, Command) or is_core_loop(s) for s in after[number].body):
        raise NotApplicable(f"loop {flat.var} contains unrecognised code")
    if any(True for _ in _transposed(free, machine)):
        raise NotApplicable("operands are transposed")
    return Block(free, machine, after[number])


def _loops(kernel: Kernel) -> list[Loop]:
    return [s for s in walk(kernel.body) if isinstance(s, Loop)]


def straight_code(body: Body, above: Body) -> Body:
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
                result.extend(straight_code(copy, above))
        else:
            result.append(stmt)
    if sum(1 for _ in commands(tuple(result))) > MAX_COMMANDS:
        raise NotApplicable(f"an iteration has more than {MAX_COMMANDS} commands")
    return tuple(result)


def _transposed(kernel: Kernel, machine: Machine) -> Iterator[Command]:
    """Settings of the array that change which local rows contain an operand.

    A square block that is latched transposed is in the same rows.
    """
    plain = {"a_stride": Expr(1), "a_transpose": Expr(0)}
    if not all(_latches_squares(kernel, machine)):
        plain["b_transpose"] = Expr(0)
    for command in commands(kernel.body):
        roles = machine.effects[command.name].operands
        for role, operand in zip(roles, command.operands, strict=False):
            if operand != plain.get(role, operand):
                yield command


def _latches_squares(kernel: Kernel, machine: Machine) -> Iterator[bool]:
    """For each latched block, whether it has as many columns as rows."""
    for command in commands(kernel.body):
        if machine.attribute(command.name, "latches"):
            operand = machine.operands(command.name, "local_read")[0]
            across, down = (machine.extent(command.name, operand, a) for a in ("columns", "rows"))
            if isinstance(command.operands[operand], Local):
                if across is None or down is None:
                    yield False
                else:
                    yield command.operands[across] == command.operands[down]


def renamed(block: Block) -> Block:
    """Give every value of an iteration its own local rows.

    Before: `load(A, SPAD(0)); use(SPAD(0)); load(B, SPAD(0)); use(SPAD(0));`
    After:  `load(A, SPAD(0)); use(SPAD(0)); load(B, SPAD(4)); use(SPAD(4));`

    Operands that one product latches and streams get different banks, and stored values get the
    positions that one wide store would use.
    """
    taken = set(block.outside)
    own = {(w.space, r) for w in block.webs for r in w.rows}
    for command in commands(block.body):
        for touch in touches(command, block.machine):
            taken |= {(touch.local.space, r) for r in touch.rows} - own
    rows: dict[tuple[Command, int], int] = {}
    for web in block.webs:
        base = min(web.rows)
        count = max(max(web.rows) + 1 - base, _stored_apart(block, web))
        start = free_rows(block.machine, web, taken, count)
        taken |= {(web.space, r) for r in range(start, start + count)}
        for touch in web.touches:
            rows[touch.command, touch.operand] = start - base
    return moved(block, rows)


def _stored_apart(block: Block, web: Web) -> int:
    """Distance in rows between the blocks of a wide store for stored values; 1 for others."""
    stores = (t.command for t in web.readers if block.machine.unit(t.command.name) == "store")
    return max((default_stride(block.machine, s.name) for s in stores), default=1)


def free_rows(machine: Machine, web: Web, taken: Set[tuple[str, int]], count: int) -> int:
    """The first free rows for a web: in the first bank if it is streamed, otherwise in another."""
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
    """Convert a block to an ordinary kernel: repeated commands become loops, and settings are
    inserted where needed."""
    from tilewright.proposers.rewriter.rewrites.roll import roll

    # A setting is made once for a loop, so moves with different settings are not repetitions.
    growing = {name: len(effect.operands) for name, effect in block.machine.effects.items()}
    kernel = block.kernel.with_body(roll(block.kernel, block.kernel.body, growing=growing))
    return simplify(settled(kernel, block.machine))
