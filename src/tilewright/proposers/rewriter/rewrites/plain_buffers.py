"""Restores the plain form of a buffer, so that a later rewrite does not depend on an earlier
one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import lru_cache

from tilewright.proposers.rewriter.analysis.addresses import readdressed, slot_term
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, find_buffer
from tilewright.proposers.rewriter.analysis.ranges import at_value, decide
from tilewright.proposers.rewriter.expr import var
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
    rebuilt,
    same_code,
    walk,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.unpeel_last import rejoined

MOST_TESTED = 4096
"""Maximum number of iterations of a loop for which a test is evaluated one by one."""


def plain(kernel: Kernel, machine: Machine, buffer_name: str, loop: Loop) -> tuple[Kernel, Loop]:
    """The kernel with one slot and every load in the iteration that uses it, and the new form of
    `loop`.

    The last iteration may be after the loop, without the loads.

    Before: `load(A[0], slot(0)); for i { if (i + 16 < M) load(A[i + 16], ..); use(slot(i)); }`
    After:  `for i { load(A[i], SPAD(0)); use(SPAD(0)); }`

    This is the inverse of `prefetch` and `multibuffer`. A buffer in another form is unchanged.
    """
    if find_buffer(kernel, machine, buffer_name).slots == 1:
        return kernel, loop
    undone = _undone(kernel.body, machine, buffer_name)
    if isinstance(undone, str):
        raise NotApplicable(undone)
    body, loops = undone
    if loop not in loops:
        raise NotApplicable(f"loop {loop.var} only loads {buffer_name} ahead")
    return kernel.with_body(body), loops[loop]


def loaded_in_turn(kernel: Kernel, machine: Machine, buffer_name: str) -> bool:
    """Whether every iteration loads a buffer unconditionally, apart from loads ahead."""
    undone = _undone(kernel.body, machine, buffer_name)
    if isinstance(undone, str):
        return False
    buffer = find_buffer(kernel.with_body(undone[0]), machine, buffer_name)
    loads = [a for a in buffer.writers if machine.unit(a.command.name) == "load"]
    return not any(isinstance(s, Guard) for a in loads for s in a.above)


@lru_cache(maxsize=1024)
def _undone(
    body: Body, machine: Machine, buffer_name: str
) -> tuple[Body, Mapping[Loop, Loop]] | str:
    """The body with a buffer in its plain form and the new form of each loop, or the reason why
    not.

    Cached for each body, because it is needed at every place where a rewrite may apply.
    """
    kernel = Kernel("", "", (), body, "")
    order = [s for s in walk(kernel.body) if isinstance(s, Loop)]
    dropped: set[Stmt] = set()
    loads = _loads(kernel, machine, buffer_name)
    moves = {c for c in commands(kernel.body) if machine.unit(c.name) == "load"}
    if loads:
        kernel, gone = rejoined(kernel, loads, moves)
        dropped |= set(walk(gone))
        loads = _loads(kernel, machine, buffer_name)
    tried: set[Stmt] = set()
    while found := next(_tests_of(kernel.body, loads, tried), None):  # each one changes the body
        guard, around, siblings = found
        tried.add(guard)
        if not _may_change(loads, around, machine):
            kernel, gone = _without_prefetch(kernel, around, guard, siblings, loads, machine)
            dropped |= set(walk(gone))
    buffer = find_buffer(kernel, machine, buffer_name)
    slots = {a: slot_term(a.local.row, buffer) for a in buffer.accesses}
    if len(set(slots.values())) > 1:
        return f"iterations share the slots of {buffer_name}"
    kernel = readdressed(
        kernel, {(a.command, a.operand): a.local.row - slot for a, slot in slots.items()}
    )
    kept = [s for s in order if s not in dropped]
    now = [s for s in walk(kernel.body) if isinstance(s, Loop)]
    return kernel.body, dict(zip(kept, now, strict=True))


def _tests_of(
    body: Body, loads: Set[Command], tried: Set[Stmt]
) -> Iterator[tuple[Guard, Loop, Body]]:
    """Tests around loads, each with the loop that contains it and the neighbours of this loop."""
    for stmt, above in walk_paths(body):
        if isinstance(stmt, Guard) and above and stmt not in tried:
            around = above[-1]
            if isinstance(around, Loop) and not loads.isdisjoint(commands((stmt,))):
                yield stmt, around, body if len(above) == 1 else _body_of(above[-2], around)


def _loads(kernel: Kernel, machine: Machine, buffer_name: str) -> set[Command]:
    buffer = find_buffer(kernel, machine, buffer_name)
    return {a.command for a in buffer.writers if machine.unit(a.command.name) == "load"}


def _may_change(loads: set[Command], loop: Loop, machine: Machine) -> bool:
    """Whether these loads might read other data if they were issued later in a loop.

    This is so if the loop stores to an array that they read, changes settings, or contains text.
    """
    if has_opaque(loop.body):
        return True
    if any(machine.unit(c.name) == "config" for c in commands(loop.body)):
        return True
    return not _arrays(loads, "dram_read", machine).isdisjoint(
        _arrays(commands(loop.body), "dram_write", machine)
    )


def _arrays(some: Iterable[Command], role: str, machine: Machine) -> set[str]:
    return {
        operand.array
        for command in some
        for of, operand in zip(
            machine.effects[command.name].operands, command.operands, strict=False
        )
        if of == role and isinstance(operand, Dram)
    }


def _body_of(stmt: Stmt, inner: Stmt) -> Body:
    if isinstance(stmt, Guard):
        return stmt.body if inner in stmt.body else stmt.orelse
    return stmt.body if isinstance(stmt, Loop) else ()


def _without_prefetch(
    kernel: Kernel,
    loop: Loop,
    guard: Guard,
    siblings: Body,
    loads: set[Command],
    machine: Machine,
) -> tuple[Kernel, Body]:
    """The guarded loads of the next iteration, replaced by those of this one, without the prologue.

    Loads of other buffers under the same guard are unchanged.
    """
    ahead = tuple(s for s in guard.body if loads.issuperset(commands((s,))))
    first = at_value(ahead, loop.var, loop.lower - loop.step)
    prologue = _before(siblings, loop, first, machine)
    if guard.orelse or not prologue or not _all_but_last(guard.condition, loop):
        return kernel, ()
    now = at_value(ahead, loop.var, var(loop.var) - loop.step)
    rest = tuple(s for s in guard.body if s not in ahead)
    kept = (replace(guard, body=rest),) if rest else ()
    new = replace(
        loop, body=(*now, *(s for t in loop.body for s in (kept if t is guard else (t,))))
    )
    return kernel.with_body(
        rebuilt(kernel.body, lambda s: () if s in prologue else (new,) if s is loop else None)
    ), prologue


def _before(siblings: Body, loop: Loop, code: Body, machine: Machine) -> Body:
    """The statements with the effect of `code`, before a loop with only loads in between."""
    end = siblings.index(loop)
    while code and end >= len(code):
        found = siblings[end - len(code) : end]
        if same_code(found, code):
            return found
        between = siblings[end - 1 : end]
        if not isinstance(between[0], Command | Loop) or has_opaque(between):
            break
        if any(machine.unit(c.name) != "load" for c in commands(between)):
            break
        end -= 1
    return ()


def _all_but_last(condition: Condition, loop: Loop) -> bool:
    """Whether a test is true in every iteration of a loop except the last."""
    if condition == (Compare("<", var(loop.var) + loop.step, loop.upper),):
        return True
    if not loop.lower.is_const or not loop.upper.is_const:
        return False
    values = range(loop.lower.const, loop.upper.const, loop.step)
    return len(values) <= MOST_TESTED and all(
        decide(condition, {loop.var: (v, v)})[0] is (v != values[-1]) for v in values
    )
