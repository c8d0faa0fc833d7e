"""Checks whether loads and stores can be moved to another iteration, with regard to shared data and
fences."""

from __future__ import annotations

from collections.abc import Set

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, accesses
from tilewright.proposers.rewriter.analysis.polyhedra import meet
from tilewright.proposers.rewriter.analysis.region import Region
from tilewright.proposers.rewriter.analysis.regions import array_regions, touches
from tilewright.proposers.rewriter.ir import (
    Command,
    Kernel,
    Loop,
    commands,
    core_names,
    walk,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import may_meet


def check_loads_ahead(kernel: Kernel, machine: Machine, loads: Set[Command], loop: Loop) -> None:
    """Raise `NotApplicable` if loads issued one iteration ahead would read data that this iteration
    still stores.

    A load for the next iteration is moved before the stores of this one, and before the earlier
    stores of its own.
    """
    check_fences(kernel, machine, loads, loop)
    stored = list(array_regions(kernel, machine, "dram_write", only=set(commands(loop.body))))
    for array, fetched in array_regions(kernel, machine, "dram_read", only=loads):
        for other, store in stored:
            if array == other and _in_order(store, fetched, loop):
                raise NotApplicable(f"loop {loop.var} stores elements of {array} it loads ahead")


def check_stores_after(kernel: Kernel, machine: Machine, stores: Set[Command], loop: Loop) -> None:
    """Raise `NotApplicable` if stores delayed by one iteration would come after accesses that need
    them.

    A store is moved after the later accesses of its own iteration and all accesses of the next one.
    After the loop, no fence would wait for the last store.
    """
    if _fenced(loop, machine):
        raise NotApplicable(f"fences in loop {loop.var} order its stores")
    others = set(commands(loop.body)) - stores
    touched = [
        *array_regions(kernel, machine, "dram_write", only=others),
        *array_regions(kernel, machine, "dram_read", only=others),
    ]
    for array, store in array_regions(kernel, machine, "dram_write", only=stores):
        for other, region in touched:
            if array == other and _in_order(store, region, loop):
                raise NotApplicable(
                    f"loop {loop.var} uses elements of {array} that it stores one iteration later"
                )


def check_stored_alone(kernel: Kernel, machine: Machine, stores: Set[Command], loop: Loop) -> None:
    """Raise `NotApplicable` if a loop also accesses elements elsewhere that some of its stores
    write."""
    others = set(commands(loop.body)) - stores
    touched = [
        *array_regions(kernel, machine, "dram_write", only=others),
        *array_regions(kernel, machine, "dram_read", only=others),
    ]
    for array, store in array_regions(kernel, machine, "dram_write", only=stores):
        for other, region in touched:
            if array == other and may_meet(store, region, loop, apart=False):
                raise NotApplicable(f"loop {loop.var} uses elements of {array} elsewhere")


def check_free_rows(kernel: Kernel, machine: Machine, moves: Set[Command], loop: Loop) -> None:
    """Raise `NotApplicable` if other commands need the rows of moves in the same iteration of a
    loop.

    Rows that are loaded must not be used, and rows that are stored must not be written.
    """
    inside = [a for a in accesses(kernel.body, machine) if loop in a.above]
    for move in (a for a in inside if a.command in moves):
        region = touches(move, kernel, machine)
        for access in inside:
            if access.command in moves or access.local.space != move.local.space:
                continue
            same = region.loops[: region.loops.index(loop) + 1]
            if (move.writes or access.writes) and meet(
                region, touches(access, kernel, machine), same
            ):
                raise NotApplicable(f"moves of loop {loop.var} share rows with its other commands")


def check_fences(kernel: Kernel, machine: Machine, moved: Set[Command], loop: Loop) -> None:
    """Raise `NotApplicable` if a fence in a loop may order moved commands with commands outside.

    Loads and stores that are moved out of their iteration, or out of the loop, cross its fences.
    """
    if not _fenced(loop, machine):
        return
    outside = set(commands(kernel.body)) - set(commands(loop.body))

    def arrays(role: str, only: Set[Command]) -> set[str]:
        return {array for array, _ in array_regions(kernel, machine, role, only=only)}

    stored = arrays("dram_write", outside)
    code = {name for stmt in walk(kernel.body) for name in core_names(stmt)}
    shared = arrays("dram_read", moved) & stored
    shared |= arrays("dram_write", moved) & (stored | arrays("dram_read", outside) | code)
    if shared:
        raise NotApplicable(f"fences in loop {loop.var} order accesses to {min(shared)}")


def _fenced(loop: Loop, machine: Machine) -> bool:
    return any(machine.unit(c.name) == "sync" for c in commands(loop.body))


def _in_order(first: Region | None, second: Region | None, loop: Loop) -> bool:
    """Whether two iterations may access the same element, or one iteration in which `first` comes
    before `second`."""
    if first is None or second is None:
        return True
    return may_meet(first, second, loop, apart=first.position > second.position)
