"""Whether loads and stores may leave their iteration: what they share with others, and fences."""

from __future__ import annotations

from collections.abc import Set

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, accesses
from tilewright.proposers.rewriter.analysis.polyhedra import meet
from tilewright.proposers.rewriter.analysis.region import Region
from tilewright.proposers.rewriter.analysis.regions import array_regions, touches
from tilewright.proposers.rewriter.ir import (
    Assign,
    Command,
    Kernel,
    Loop,
    Opaque,
    Stmt,
    commands,
    walk,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import may_meet


def check_loads_ahead(kernel: Kernel, machine: Machine, loads: Set[Command], loop: Loop) -> None:
    """Raise `NotApplicable` if loads one iteration of a loop ahead fetch what it still stores.

    A load of the next iteration passes the stores of this one, and those before it in its own.
    """
    check_fences(kernel, machine, loads, loop)
    stored = list(array_regions(kernel, machine, "dram_write", only=set(commands(loop.body))))
    for array, fetched in array_regions(kernel, machine, "dram_read", only=loads):
        for other, store in stored:
            if array == other and _in_order(store, fetched, loop):
                raise NotApplicable(f"loop {loop.var} stores elements of {array} it loads ahead")


def check_stores_behind(kernel: Kernel, machine: Machine, stores: Set[Command], loop: Loop) -> None:
    """Raise `NotApplicable` if stores one iteration of a loop later come after what needs them.

    A store passes what stands behind it in its own iteration and all of the next one; behind the
    loop no fence would wait for the last one.
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
                    f"loop {loop.var} uses elements of {array} it stores one iteration later"
                )


def check_stored_alone(kernel: Kernel, machine: Machine, stores: Set[Command], loop: Loop) -> None:
    """Raise `NotApplicable` if a loop touches elements that some of its stores store elsewhere."""
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
    """Raise `NotApplicable` if others need the rows of moves in the same iteration of a loop.

    Rows that are loaded must not be used, rows that are stored must not be written.
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
    """Raise `NotApplicable` if a fence in a loop may order what moves with what stands outside.

    Loads and stores that leave their iteration, or the loop, pass the fences in it.
    """
    if not _fenced(loop, machine):
        return
    outside = set(commands(kernel.body)) - set(commands(loop.body))

    def arrays(role: str, only: Set[Command]) -> set[str]:
        return {array for array, _ in array_regions(kernel, machine, role, only=only)}

    stored = arrays("dram_write", outside)
    code = {name for stmt in walk(kernel.body) for name in _named(stmt)}
    shared = arrays("dram_read", moved) & stored
    shared |= arrays("dram_write", moved) & (stored | arrays("dram_read", outside) | code)
    if shared:
        raise NotApplicable(f"fences in loop {loop.var} order accesses to {min(shared)}")


def _fenced(loop: Loop, machine: Machine) -> bool:
    return any(machine.unit(c.name) == "sync" for c in commands(loop.body))


def _named(stmt: Stmt) -> Set[str]:
    """Arrays that code the core runs may touch."""
    if isinstance(stmt, Assign):
        return {stmt.target.array} | {dram.array for _, dram in stmt.terms}
    return stmt.names if isinstance(stmt, Opaque) else frozenset()


def _in_order(first: Region | None, second: Region | None, loop: Loop) -> bool:
    """Whether two iterations may share an element, or one where `first` stands before `second`."""
    if first is None or second is None:
        return True
    return may_meet(first, second, loop, apart=first.position > second.position)
