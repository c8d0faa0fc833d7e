"""Finds values that stay in a local memory or an array from one iteration of a loop to the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from functools import lru_cache
from itertools import product

from tilewright.proposers.rewriter.analysis.buffers import (
    Access,
    Buffer,
    NotApplicable,
    find_buffers,
)
from tilewright.proposers.rewriter.analysis.intervals import covered
from tilewright.proposers.rewriter.analysis.move_settings import settings_for, settings_reaching
from tilewright.proposers.rewriter.analysis.polyhedra import meet, uncovered
from tilewright.proposers.rewriter.analysis.region import Region
from tilewright.proposers.rewriter.analysis.regions import array_regions, overwrites, reads, touches
from tilewright.proposers.rewriter.ir import (
    Array,
    Body,
    Command,
    Guard,
    Kernel,
    Loop,
    commands,
    has_opaque,
    walk,
)
from tilewright.proposers.rewriter.machine import Machine


class SettingsInside(NotApplicable):
    """A rewrite is not possible because of the position of settings. It may be possible after they
    are moved."""


def check_private(kernel: Kernel, buffer: Buffer, loop: Loop, machine: Machine) -> None:
    """Raise `NotApplicable` unless each iteration of a loop writes a buffer before it reads it."""
    if has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} contains unrecognised code")
    if any(loop not in a.above for a in buffer.accesses):
        raise NotApplicable(f"{buffer.name} is also used outside loop {loop.var}")
    if uses_older(kernel, buffer.accesses, loop, machine):
        raise NotApplicable(f"{buffer.name} carries values between iterations of loop {loop.var}")


def uses_older(
    kernel: Kernel, accesses: Sequence[Access], loop: Loop | None, machine: Machine
) -> bool:
    """Whether an iteration, or the kernel, uses rows that these accesses did not overwrite before.

    The answer is exact for affine loops, guards and conditional flags: the rows of every read, and
    of every accumulating write, must be in the union of the rows that were overwritten earlier in
    the same iteration.
    """
    written = [r for a in accesses if (r := overwrites(a, kernel, machine)) is not None]
    used = [r for a in accesses if (r := reads(a, kernel, machine)) is not None]
    return any(uncovered(read, written, loop) for read in used)


def check_independent(kernel: Kernel, machine: Machine, loop: Loop) -> None:
    """Raise `NotApplicable` unless the iterations of a loop can run in any order.

    Buffers that a loop only reads are ignored. For those that it writes, the iterations must access
    different rows, or each iteration must overwrite the rows that it uses. No two iterations may
    access the same element of an array if one of them stores it.
    """
    refused = _dependence(kernel.body, kernel.arrays, machine, loop)
    if refused:
        raise NotApplicable(refused)


@lru_cache(maxsize=1024)
def _dependence(body: Body, arrays: tuple[Array, ...], machine: Machine, loop: Loop) -> str:
    """Why iterations of a loop cannot run in any order. Cached, because it is needed for every
    buffer inside."""
    try:
        _check_independent(Kernel("", "", arrays, body, ""), machine, loop)
    except NotApplicable as reason:
        return str(reason)
    return ""


def _check_independent(kernel: Kernel, machine: Machine, loop: Loop) -> None:
    for buffer in find_buffers(kernel, machine):
        _check_independent_in(kernel, buffer, loop, machine)
    if has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} contains unrecognised code")
    check_stores(kernel, machine, loop)


def _check_independent_in(kernel: Kernel, buffer: Buffer, loop: Loop, machine: Machine) -> None:
    """Raise `NotApplicable` unless the iterations of a loop can use a buffer in any order."""
    inside = set(commands(loop.body))
    touched = [a for a in buffer.accesses if a.command in inside]
    if not any(a.writes for a in touched) or _plainly_private(kernel, buffer, loop, machine):
        return
    if shares_rows(kernel, touched, loop, machine):
        check_private(kernel, buffer, loop, machine)


def check_swappable(kernel: Kernel, machine: Machine, outer: Loop, inner: Loop) -> None:
    """Raise `NotApplicable` unless a loop and the only statement in it, another loop, can be
    swapped.

    A row may be used in several iterations of the outer loop, such as the row of a sum, if only one
    iteration of the inner loop uses it: the order of its uses then stays the same. For all other
    buffers, the iterations of both loops must be independent. The same applies to elements that are
    stored.
    """
    if has_opaque(outer.body):
        raise NotApplicable(f"loop {outer.var} contains unrecognised code")
    inside = set(commands(outer.body))
    for buffer in find_buffers(kernel, machine):
        touched = [a for a in buffer.accesses if a.command in inside]
        if shares_rows(kernel, touched, inner, machine, within=(outer,)):
            for loop in (outer, inner):
                _check_independent_in(kernel, buffer, loop, machine)
    for loop in (outer, inner):
        check_stores(kernel, machine, loop)


def _plainly_private(kernel: Kernel, buffer: Buffer, loop: Loop, machine: Machine) -> bool:
    """Whether intervals show that each iteration overwrites the rows of a buffer that it reads."""
    if any(loop not in a.above for a in buffer.accesses):
        return False
    written = [r for a in buffer.accesses if (r := overwrites(a, kernel, machine)) is not None]
    used = [r for a in buffer.accesses if (r := reads(a, kernel, machine)) is not None]
    return all(covered(read, written, loop) for read in used)


def shares_rows(
    kernel: Kernel,
    accesses: Sequence[Access],
    loop: Loop,
    machine: Machine,
    *,
    within: Collection[Loop] = (),
) -> bool:
    """Whether two iterations of a loop touch the same row and one of them writes it.

    The iterations may belong to different iterations of the loops `within`.
    """
    regions = [(a.writes, touches(a, kernel, machine)) for a in accesses]
    return any(
        may_meet(first, second, loop, within=within)
        for writes, first in regions
        if writes
        for _, second in regions
    )


def check_stores(kernel: Kernel, machine: Machine, loop: Loop) -> None:
    """Raise `NotApplicable` if iterations of a loop store what another one loads or stores."""
    stored = _inside(kernel, machine, "dram_write", loop)
    touched = [*stored, *_inside(kernel, machine, "dram_read", loop)]
    for (array, store), (other, region) in product(stored, touched):
        if array == other and may_meet(store, region, loop):
            raise NotApplicable(f"iterations of loop {loop.var} share elements of {array}")


def check_settings(kernel: Kernel, machine: Machine, moved: Iterable[Command], loop: Loop) -> None:
    """Raise `SettingsInside` if settings made in a loop apply to commands that are moved."""
    inside = set(commands(loop.body))
    for command in moved:
        if inside & set(settings_for(kernel, machine, command)):
            raise SettingsInside(
                f"the settings for {command.name} are made inside loop {loop.var}: hoist them first"
            )


def check_settings_stay(kernel: Kernel, machine: Machine, loop: Loop, iteration: Body) -> None:
    """Raise `SettingsInside` if settings in a nest of loops depend on the order of iterations.

    This is the case if a command uses a setting that an earlier iteration made, or if only some
    iterations make a setting. `loop` is the outermost loop, and `iteration` its innermost body.
    """
    inside = set(commands(iteration))
    sometimes = commands(tuple(s for s in walk(iteration) if isinstance(s, Guard)))
    alone = kernel.with_body(iteration)
    if any(machine.unit(c.name) == "config" for c in sometimes) or any(
        inside & settings_reaching(kernel, machine, c) - settings_reaching(alone, machine, c)
        for c in inside
    ):
        raise SettingsInside(f"the order of the iterations of loop {loop.var} decides settings")


def check_constant(kernel: Kernel, machine: Machine, loads: Set[Command], loop: Loop) -> None:
    """Raise `NotApplicable` if a loop stores elements that some of its loads fetch."""
    stored = _inside(kernel, machine, "dram_write", loop)
    for array, fetched in array_regions(kernel, machine, "dram_read", only=loads):
        for other, store in stored:
            if array == other and may_meet(store, fetched, loop, apart=False):
                raise NotApplicable(f"{array} is stored to in loop {loop.var}")


def may_meet(
    first: Region | None,
    second: Region | None,
    loop: Loop,
    *,
    apart: bool = True,
    within: Collection[Loop] = (),
) -> bool:
    """Whether two iterations of a loop may access the same element; true for unknown regions.

    The two iterations differ, unless `apart` is false. They belong to the same iteration of each
    loop around them, except `within`.
    """
    if first is None or second is None:
        return True
    around = [s for s in first.loops if s in second.loops]
    same = [s for s in around[: around.index(loop)] if s not in within]
    return meet(first, second, same, loop if apart else None)


def _inside(
    kernel: Kernel, machine: Machine, role: str, loop: Loop
) -> list[tuple[str, Region | None]]:
    return [
        (array, region)
        for array, region in array_regions(kernel, machine, role)
        if region is None or loop in region.loops
    ]
