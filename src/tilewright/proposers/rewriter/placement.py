"""Addresses for buffers: first fit, or bank by bank so that nothing collides."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.proposers.rewriter.buffers import (
    Buffer,
    NotApplicable,
    find_buffers,
    relocated,
)
from tilewright.proposers.rewriter.ir import Command, Kernel, walk_paths
from tilewright.proposers.rewriter.machine import Machine, Space

ELSEWHERE = 1 << 24
"""Rows from here on exist in no memory: a grown buffer waits there for its place."""


def placed(kernel: Kernel, machine: Machine) -> Kernel:
    """Give every buffer that waits elsewhere a place: bank by bank, else packed by first fit.

    `NotApplicable` when the buffers do not fit.
    """
    for space in machine.spaces.values():
        buffers = [b for b in find_buffers(kernel, machine) if b.space == space.name]
        if all(end <= space.rows for b in buffers for _, end in b.intervals()):
            continue
        plan = _spread_plan(kernel, machine, space) or _first_fit(buffers, space)
        kernel = _moved(kernel, buffers, plan)
    return kernel


def spread(kernel: Kernel, machine: Machine) -> Kernel:
    """Place buffers so that what is used together lies in different banks.

    Before: `mvin(.., SPAD(0), ..); mvin2(.., SPAD(16), ..)` and a product reading both.
    After:  the second at `SPAD(4096)`; slots of one buffer also get a bank each where they fit.
    """
    for space in machine.spaces.values():
        buffers = [b for b in find_buffers(kernel, machine) if b.space == space.name]
        kernel = _moved(kernel, buffers, _spread_plan(kernel, machine, space))
    return kernel


def _spread_plan(kernel: Kernel, machine: Machine, space: Space) -> dict[str, tuple[int, int]]:
    """Base and slot stride per buffer of a memory; empty when it is too full to choose."""
    buffers = [b for b in find_buffers(kernel, machine) if b.space == space.name]
    together = _used_together(kernel, machine, buffers)
    order = sorted(buffers, key=lambda b: (-b.slots, -b.rows))
    plan: dict[str, tuple[int, int]] = {}
    for buffer in order:
        best = min(
            _positions(buffer, order, plan, space),
            key=lambda p: _cost(buffer, p, order, plan, together, space),
            default=None,
        )
        if best is None:
            return {}
        plan[buffer.name] = best
    return plan


def _first_fit(buffers: list[Buffer], space: Space) -> dict[str, tuple[int, int]]:
    """Base and slot stride per buffer, the largest first and one behind the other."""
    need = sum(b.rows * b.slots for b in buffers)
    if need > space.rows:
        raise NotApplicable(f"{need} rows do not fit the {space.rows} rows of {space.name}")
    plan, free = {}, 0
    for buffer in sorted(buffers, key=lambda b: -b.rows * b.slots):
        plan[buffer.name] = (free, buffer.rows if buffer.slots > 1 else 0)
        free += buffer.rows * buffer.slots
    return plan


def _moved(kernel: Kernel, buffers: list[Buffer], plan: dict[str, tuple[int, int]]) -> Kernel:
    return relocated(kernel, [(b, *plan[b.name]) for b in buffers if b.name in plan])


def _used_together(kernel: Kernel, machine: Machine, buffers: list[Buffer]) -> set[frozenset[str]]:
    """Pairs of buffers read by products of the same innermost statement list."""
    readers: dict[tuple[int, ...], set[str]] = {}
    where = {
        s: tuple(id(a) for a in above)
        for s, above in walk_paths(kernel.body)
        if isinstance(s, Command)
    }
    for buffer in buffers:
        for access in buffer.readers:
            if machine.unit(access.command.name) == "execute":
                readers.setdefault(where[access.command], set()).add(buffer.name)
    return {frozenset((a, b)) for names in readers.values() for a in names for b in names if a != b}


def _positions(
    buffer: Buffer, order: list[Buffer], plan: dict[str, tuple[int, int]], space: Space
) -> Iterator[tuple[int, int]]:
    """Places that are free: from each bank's start or behind a placed buffer."""
    used = [i for b in order if b.name in plan for i in _at(b, *plan[b.name])]
    bases = sorted({*range(0, space.rows, space.bank_rows), *(end for _, end in used)})
    strides = [0]
    if buffer.slots > 1:
        banks = range(1, space.banks // buffer.slots + 1)
        strides = [n * space.bank_rows for n in banks if n * space.bank_rows >= buffer.rows]
        strides.append(buffer.rows)
    for base in bases:
        for stride in strides:
            rows = _at(buffer, base, stride)
            inside = rows[-1][1] <= space.rows
            if inside and not any(a < d and c < b for a, b in rows for c, d in used):
                yield base, stride


def _at(buffer: Buffer, base: int, stride: int) -> list[tuple[int, int]]:
    starts = [base + s * stride for s in range(buffer.slots)]
    return [(s, s + buffer.rows) for s in starts]


def _cost(
    buffer: Buffer,
    position: tuple[int, int],
    order: list[Buffer],
    plan: dict[str, tuple[int, int]],
    together: set[frozenset[str]],
    space: Space,
) -> tuple[int, int, int, int]:
    """Shared banks with partners, between own slots, with anyone; then the lowest address."""
    slots = [_banks(rows, space) for rows in _at(buffer, *position)]
    mine = set().union(*slots)
    partners = others = 0
    for placed_buffer in order:
        if placed_buffer.name in plan:
            theirs = set().union(
                *(_banks(r, space) for r in _at(placed_buffer, *plan[placed_buffer.name]))
            )
            shared = len(mine & theirs)
            others += shared
            if frozenset((buffer.name, placed_buffer.name)) in together:
                partners += shared
    own = sum(len(a & b) for i, a in enumerate(slots) for b in slots[:i])
    return partners, own, others, position[0]


def _banks(rows: tuple[int, int], space: Space) -> set[int]:
    return set(range(rows[0] // space.bank_rows, (rows[1] - 1) // space.bank_rows + 1))
