"""What stays in a local memory from one iteration of a loop to the next."""

from __future__ import annotations

from tilewright.proposers.rewriter.buffers import (
    Access,
    Buffer,
    NotApplicable,
    find_buffers,
)
from tilewright.proposers.rewriter.ir import (
    Guard,
    Kernel,
    Loop,
    has_opaque,
    walk,
)
from tilewright.proposers.rewriter.machine import Machine


def check_private(buffer: Buffer, loop: Loop, machine: Machine) -> None:
    """Raise `NotApplicable` unless each iteration of a loop writes a buffer before it reads it."""
    if has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} holds code that is not modelled")
    if any(loop not in a.above for a in buffer.accesses):
        raise NotApplicable(f"{buffer.name} is also used outside loop {loop.var}")
    if _uses_older(list(buffer.accesses), loop, machine):
        raise NotApplicable(f"{buffer.name} carries values over loop {loop.var}")


def _uses_older(touched: list[Access], loop: Loop, machine: Machine) -> bool:
    """Whether an iteration may see what an earlier one left in these rows."""
    first = touched[0]
    inside = first.above[first.above.index(loop) :]
    return (
        not first.writes
        or adds_to_older(first, loop, machine)
        or any(isinstance(s, Guard) for s in inside)
    )


def adds_to_older(access: Access, loop: Loop, machine: Machine) -> bool:
    """Whether a write in a loop may add to what an earlier iteration left."""
    inner = {s.var for s in walk(loop.body) if isinstance(s, Loop)}
    for flag in access.local.flags:
        if machine.flags.get(flag.name) == "accumulate":
            tested = frozenset().union(*(c.left.names() | c.right.names() for c in flag.when))
            if not tested & inner or tested - inner:
                return True
    return False


def check_independent(kernel: Kernel, machine: Machine, loop: Loop) -> None:
    """Raise `NotApplicable` unless the iterations of a loop may run in any order.

    Buffers that a loop only reads do not matter; the ones it writes must be private to an
    iteration, and two iterations must not store to the same place (assumed: stores are affine).
    """
    inside = set(walk(loop.body))
    for buffer in find_buffers(kernel, machine):
        touched = [a for a in buffer.accesses if a.command in inside]
        if any(a.writes for a in touched) and _uses_older(touched, loop, machine):
            raise NotApplicable(f"{buffer.name} carries values over loop {loop.var}")
