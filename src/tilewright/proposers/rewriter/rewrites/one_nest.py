"""Rewrites one of several products that a kernel computes one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import takewhile

from tilewright.proposers.rewriter.analysis.addresses import relocated
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, find_buffers
from tilewright.proposers.rewriter.analysis.placement import ELSEWHERE, placed
from tilewright.proposers.rewriter.analysis.settings import settled
from tilewright.proposers.rewriter.ir import (
    Assign,
    Body,
    Command,
    Kernel,
    Loop,
    Stmt,
    commands,
    has_opaque,
    walk,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import uses_older
from tilewright.proposers.rewriter.rewrites.place_settings import with_own_settings


def in_nest(
    kernel: Kernel, machine: Machine, number: int, rewrite: Callable[[Kernel], Kernel]
) -> Kernel:
    """Apply a rewrite to product `number` of a kernel as if it were the only one; 1 is the first.

    Before: `for i { product(i); store(T[i]); } fence(); for j { load(T[j]); product(j); } fence();`
    After:  `for i { .. } fence(); for j { .. rewritten .. } fence();`

    A product ends with the fence after it. Legal if no product uses local rows that another one
    wrote. Each product then sets all that it needs, and has its own rows.
    """
    parts = nests(kernel, machine)
    if not 0 < number <= len(parts) or len(parts) < 2:
        raise NotApplicable(f"the kernel has no product {number} that a fence separates")
    changed = rewrite(parts[number - 1])
    parts[number - 1] = changed
    for space in machine.spaces:
        apart = [_displaced(part, machine, n, space) for n, part in enumerate(parts)]
        with suppress(NotApplicable):  # if not all fit, the products use the same rows in turn
            parts = _divided_again(placed(_joined(changed, apart), machine), parts)
    return _joined(changed, parts)


def _joined(kernel: Kernel, parts: Iterable[Kernel]) -> Kernel:
    return kernel.with_body(tuple(s for part in parts for s in part.body))


def _divided_again(whole: Kernel, parts: Sequence[Kernel]) -> list[Kernel]:
    """The products of a kernel that has as many statements in each as `parts`."""
    rest, found = list(whole.body), []
    for part in parts:
        found.append(whole.with_body(tuple(rest[: len(part.body)])))
        del rest[: len(part.body)]
    return found


def _displaced(part: Kernel, machine: Machine, number: int, space: str) -> Kernel:
    """A product whose buffers in one memory have rows of their own, which do not exist yet."""
    buffers = [b for b in find_buffers(part, machine) if b.space == space]
    return relocated(part, [(b, number * ELSEWHERE + b.base, b.slot_stride) for b in buffers])


def nests(kernel: Kernel, machine: Machine) -> list[Kernel]:
    """The products of a kernel, each as a kernel that sets all that it needs.

    The first one contains the loops in which the core writes arrays before all commands.
    `NotApplicable` if the core computes anything else, or if the products depend on one another in
    local memory or by settings in loops.
    """
    first = tuple(takewhile(_only_assigns, kernel.body))
    if has_opaque(kernel.body[len(first) :]):
        raise NotApplicable("the core computes between the products")
    own = [set(commands(tuple(part))) for part in _divided(kernel.body, machine)]
    for buffer in find_buffers(kernel, machine):
        inside = [[a for a in buffer.accesses if a.command in part] for part in own]
        for number in range(1, len(inside)):
            rest = [a for accesses in inside[number:] for a in accesses]
            earlier = any(inside[:number])
            if earlier and rest and uses_older(kernel, rest, None, machine):
                raise NotApplicable(f"two products use the rows of {buffer.name}")
    bodies = _divided(with_own_settings(kernel, machine).body, machine)
    in_force: dict[str, Command] = {}
    result = []
    for body in bodies:
        given = [s for s in body if isinstance(s, Command) and machine.unit(s.name) == "config"]
        work = tuple(s for s in body if s not in given)
        begun = [n for n, s in enumerate(body) if _has_unit((s,), machine, "execute")]
        late = any(s in given for s in body[min(begun, default=len(body)) :])
        if late or _has_unit(work, machine, "config"):
            raise NotApplicable("the setting of the array changes within a product")
        in_force |= {s.name: s for s in given}
        alone = kernel.with_body((*in_force.values(), *work))
        result.append(settled(alone, machine, apart=True))
    return result


def _only_assigns(stmt: Stmt) -> bool:
    return all(isinstance(s, Assign | Loop) for s in walk((stmt,)))


def _has_unit(body: Body, machine: Machine, unit: str) -> bool:
    return any(machine.unit(c.name) == unit for c in commands(body))


def _divided(body: Body, machine: Machine) -> list[Body]:
    """The body of a kernel, divided after each fence that follows a loop of products."""
    parts: list[list[Stmt]] = [[]]
    for stmt in body:
        if _is_done(parts[-1], machine):
            parts.append([])
        parts[-1].append(stmt)
    return [tuple(part) for part in parts]


def _is_done(part: list[Stmt], machine: Machine) -> bool:
    """Whether statements end with a fence and contain products."""
    last = part[-1] if part else None
    fence = isinstance(last, Command) and machine.unit(last.name) == "sync"
    return fence and _has_unit(tuple(part), machine, "execute")
