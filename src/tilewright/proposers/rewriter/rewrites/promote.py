"""Load once, use many times: move the loads of a buffer before a loop."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis.addresses import readdressed, shifted
from tilewright.proposers.rewriter.analysis.buffers import (
    Access,
    Buffer,
    NotApplicable,
    find_buffer,
    reused,
)
from tilewright.proposers.rewriter.analysis.placement import ELSEWHERE, placed
from tilewright.proposers.rewriter.analysis.ranges import env_of, loops_in, trip_count, with_notes
from tilewright.proposers.rewriter.expr import Expr, quotient, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Compare,
    Condition,
    Dram,
    Guard,
    Kernel,
    Loop,
    Stmt,
    commands,
    has_opaque,
    names_in,
    rebuilt,
    walk,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import (
    check_constant,
    check_settings,
    uses_older,
)
from tilewright.proposers.rewriter.rewrites.ordering import check_fences
from tilewright.proposers.rewriter.rewrites.plain_buffers import plain
from tilewright.proposers.rewriter.rewrites.window import find_box


def promote(
    kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop, *, at_first_use: bool = False
) -> Kernel:
    """Load all data of a buffer that a loop needs before the loop. The buffer grows accordingly.

    Before: `for k { load(&A[i][k], SPAD(0)); use(SPAD(0)); }`
    After:  `for k { load(&A[i][k], SPAD(k)); }  for k { use(SPAD(k)); }`

    If the loads do not depend on a loop (weights inside the loop over rows), they are moved out of
    this loop and the operand becomes resident. With `at_first_use`, the loads stay in place but are
    executed only in the first iteration, so that they overlap the work of that iteration.
    Otherwise, rows that neighbouring iterations of a loop share (the pixels under a filter) are
    loaded once.

    Legal if only loads write the buffer, the loop stores no elements that they read, all uses are
    inside the loop, no iteration uses rows that an earlier one loaded, and the enlarged buffer
    fits.
    """
    kernel, loop = plain(kernel, machine, buffer_name, loop)
    buffer = find_buffer(kernel, machine, buffer_name)
    _check(kernel, buffer, loop, machine)
    shared, private = _needed_loops(buffer, {a: _chain(a, loop) for a in buffer.accesses})
    _check_own_rows(kernel, buffer, shared[-1] if shared else loop, machine)
    names = {n.var for n in (*shared, *private)}
    box = None if at_first_use else find_box(kernel, machine, buffer, shared, private, ELSEWHERE)
    if not at_first_use:
        check_settings(kernel, machine, (a.command for a in buffer.writers), loop)
    note = f"{buffer_name} for all of loop {loop.var}"
    if box:
        kernel = _with_loads(kernel, loop, buffer, with_notes(box.loads, (note,)))
        rows = {(a.command, a.operand): row for a, row in box.rows.items()}
        return placed(readdressed(kernel, rows), machine)
    kernel, loop = _grown(kernel, loop, buffer, _already_apart(buffer, shared) * -1)
    buffer = find_buffer(kernel, machine, buffer_name)
    offset = _layout(buffer, shared)
    kernel, loop = _grown(kernel, loop, buffer, offset + (ELSEWHERE - buffer.base))
    buffer = find_buffer(kernel, machine, buffer_name)
    writers = {a.command for a in buffer.writers}
    if at_first_use:
        return placed(_guarded(kernel, loop, writers, names), machine)
    loads = with_notes(_only(loop, writers, names), (note,))
    return placed(_with_loads(kernel, loop, buffer, loads), machine)


def _with_loads(kernel: Kernel, loop: Loop, buffer: Buffer, loads: Body) -> Kernel:
    """The kernel with the loads of a buffer before a loop instead of inside it."""
    writers = {a.command for a in buffer.writers}
    rest = rebuilt((loop,), lambda s: () if s in writers else None)
    return kernel.with_body(rebuilt(kernel.body, lambda s: (*loads, *rest) if s is loop else None))


def depends_on(kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop) -> bool:
    """Whether the loads of a buffer read different data in each iteration of an enclosing loop."""
    kernel, loop = plain(kernel, machine, buffer_name, loop)
    buffer = find_buffer(kernel, machine, buffer_name)
    _check(kernel, buffer, loop, machine)
    shared, _ = _needed_loops(buffer, {a: _chain(a, loop) for a in buffer.accesses})
    _check_own_rows(kernel, buffer, shared[-1] if shared else loop, machine)
    return loop in shared


def _check(kernel: Kernel, buffer: Buffer, loop: Loop, machine: Machine) -> None:
    inside = set(commands(loop.body))
    if has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} contains unrecognised code")
    if not buffer.writers or not buffer.readers:
        raise NotApplicable(f"{buffer.name} is not both written and read")
    if any(a.command not in inside for a in buffer.accesses):
        raise NotApplicable(f"{buffer.name} is also used outside loop {loop.var}")
    if reused(buffer):
        raise NotApplicable(f"{buffer.name} is overwritten after it was used")
    if any(isinstance(s, Guard) for a in buffer.writers for s in a.above[a.above.index(loop) :]):
        raise NotApplicable(f"{buffer.name} is not loaded in every iteration of loop {loop.var}")
    for access in buffer.writers:
        source = next((o for o in access.command.operands if isinstance(o, Dram)), None)
        if machine.unit(access.command.name) != "load" or source is None:
            raise NotApplicable(f"{buffer.name} is not only written by loads")
    check_constant(kernel, machine, {a.command for a in buffer.writers}, loop)
    check_fences(kernel, machine, {a.command for a in buffer.writers}, loop)


def _check_own_rows(kernel: Kernel, buffer: Buffer, loop: Loop, machine: Machine) -> None:
    """Refuse the rewrite if an iteration uses rows that an earlier one loaded, because they would
    have other contents."""
    if uses_older(kernel, buffer.accesses, loop, machine):
        raise NotApplicable(
            f"an iteration of loop {loop.var} uses rows of {buffer.name} that an earlier one loaded"
        )


def _chain(access: Access, loop: Loop) -> list[Loop]:
    """The loops from `loop` inwards to the access."""
    around = loops_in(access.above)
    return around[around.index(loop) :]


def _needed_loops(
    buffer: Buffer, chains: dict[Access, list[Loop]]
) -> tuple[list[Loop], list[Loop]]:
    """Loops, outermost first, whose iterations load different data.

    First come those around every access, then those around the loads alone, which fill parts of the
    buffer.
    """
    needed: set[Loop] = set()
    for access in buffer.writers:
        names = set(names_in(access.command))
        for stmt in reversed(access.above):
            if isinstance(stmt, Guard):
                for compare in stmt.condition:
                    names |= compare.left.names() | compare.right.names()
            elif stmt in chains[access] and isinstance(stmt, Loop) and stmt.var in names:
                needed.add(stmt)
                names |= stmt.lower.names() | stmt.upper.names()
    around_all = set(chains[buffer.writers[0]]).intersection(*chains.values())
    shared = [n for n in chains[buffer.writers[0]] if n in needed & around_all]
    private = [n for a in buffer.writers for n in chains[a] if n in needed - around_all]
    readers = {n for a in buffer.readers for n in chains[a]}
    if any(n in readers for n in private):
        raise NotApplicable(f"a use of {buffer.name} is outside a loop its loads depend on")
    return shared, list(dict.fromkeys(private))


def _already_apart(buffer: Buffer, needed: list[Loop]) -> Expr:
    """The distance in rows between iterations that already use rows of their own.

    It is removed before each iteration gets a block, so that the blocks lie next to each other.
    """
    distance = Expr()
    for loop in needed:
        found = {a.local.row.coefficient(loop.var) for a in buffer.accesses}
        if len(found) == 1 and min(found) > 0 and buffer.slots == 1:
            distance = distance + (var(loop.var) - loop.lower) * found.pop()
    return distance


def _layout(buffer: Buffer, needed: list[Loop]) -> Expr:
    """Row offset of each iteration's block in the enlarged buffer.

    The loop that iterates along a row of the array is innermost, so that its blocks have the
    positions that one wide load would use.
    """
    last = [
        o.index[-1]
        for a in buffer.writers
        for o in a.command.operands
        if isinstance(o, Dram) and o.index
    ]
    inner_last = sorted(needed, key=lambda n: any(e.coefficient(n.var) == 1 for e in last))
    offset, size = Expr(), buffer.intervals()[-1][1] - buffer.base
    env = env_of(buffer.writers[0].above)
    for loop in reversed(inner_last):
        count = trip_count(loop, env)
        if count is None or not loop.lower.is_const:
            raise NotApplicable(f"the trip count of loop {loop.var} is not known")
        distance = var(loop.var) - loop.lower
        if size % loop.step == 0:
            offset = offset + distance * (size // loop.step)
        else:
            offset = offset + quotient(distance, loop.step) * size
        size *= count
    return offset


def _grown(kernel: Kernel, loop: Loop, buffer: Buffer, shift: Expr) -> tuple[Kernel, Loop]:
    """The kernel with shifted addresses of the buffer, and the same loop in it."""
    position = [s for s in walk(kernel.body) if isinstance(s, Loop)].index(loop)
    kernel = readdressed(kernel, shifted(buffer, shift))
    return kernel, [s for s in walk(kernel.body) if isinstance(s, Loop)][position]


def _guarded(kernel: Kernel, loop: Loop, writers: set[Command], needed: set[str]) -> Kernel:
    """The loads left in place, but executed only in the first iteration of loops on which they do
    not depend."""
    first: dict[Command, Condition] = {}
    for stmt, above in walk_paths(kernel.body):
        if isinstance(stmt, Command) and stmt in writers:
            around = loops_in(above)
            first[stmt] = tuple(
                Compare("==", var(n.var), n.lower)
                for n in around[around.index(loop) :]
                if n.var not in needed
            )
    if not all(first.values()):
        raise NotApplicable(f"loop {loop.var} loads something else in each iteration")
    return kernel.with_body(
        rebuilt(
            kernel.body,
            lambda s: (
                (Guard(first[s], (replace(s, notes=()),), notes=s.notes),)
                if isinstance(s, Command) and s in writers
                else None
            ),
        )
    )


def _only(stmt: Stmt, kept: set[Command], needed: set[str]) -> Body:
    """The nest with only some commands, without loops on which they do not depend."""
    match stmt:
        case Command():
            return (stmt,) if stmt in kept else ()
        case Loop():
            body = tuple(s for inner in stmt.body for s in _only(inner, kept, needed))
            if not body or stmt.var not in needed:
                return body
            return (replace(stmt, body=body, notes=()),)
        case Guard():
            yes = tuple(s for inner in stmt.body for s in _only(inner, kept, needed))
            no = tuple(s for inner in stmt.orelse for s in _only(inner, kept, needed))
            return (replace(stmt, body=yes, orelse=no, notes=()),) if yes or no else ()
    return ()
