"""Removes commands without effect: fences that order nothing, and settings that are already in
force."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.polyhedra import meet
from tilewright.proposers.rewriter.analysis.regions import array_regions
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Guard,
    Kernel,
    Loop,
    commands,
    has_opaque,
    rebuilt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.hoist import setting_of


def remove_fences(kernel: Kernel, machine: Machine) -> Kernel:
    """Remove synchronisation inside a kernel if only its end needs it.

    Before: `for i { load(A); product; store(C); fence(); }  fence();`
    After:  `for i { load(A); product; store(C); }  fence();`

    Legal if no load reads an element that any store writes, the core runs no code of its own, and
    the kernel ends with the same command. Then nothing in between reads stored data.
    """
    if has_opaque(kernel.body):
        raise NotApplicable("unrecognised code may read what was stored")
    stored = list(array_regions(kernel, machine, "dram_write"))
    for array, fetched in array_regions(kernel, machine, "dram_read"):
        for other, store in stored:
            if array == other and (fetched is None or store is None or meet(fetched, store)):
                raise NotApplicable(f"elements of {array} are both loaded and stored")
    at_end = last_fences(kernel, machine)
    last = {c.name for c in at_end}
    gone = {c for c in commands(kernel.body) if c.name in last} - at_end
    return _without(kernel, gone, "every fence is needed")


def last_fences(kernel: Kernel, machine: Machine) -> set[Command]:
    """The last synchronisation of each kind that is followed only by other synchronisations."""
    at_end: set[Command] = set()
    for stmt in reversed(kernel.body):
        if not isinstance(stmt, Command) or machine.unit(stmt.name) != "sync":
            break
        if stmt.name not in {c.name for c in at_end}:
            at_end.add(stmt)
    return at_end


def remove_settings(kernel: Kernel, machine: Machine) -> Kernel:
    """Remove settings that are already in force, and those that nothing uses.

    Before: `config(1, id0); load(id0); config(1, id0); load(id0); config(2, id1);`
    After:  `config(1, id0); load(id0); load(id0);`

    Legal if an equal setting always comes before, and no setting with the same kind and id and
    other operands comes in between, in the text or in an iteration of a loop that contains only
    this one.
    """
    if has_opaque(kernel.body):
        raise NotApplicable("unrecognised code may change settings")
    gone: set[Command] = set()
    settings = [
        (s, above)
        for s, above in walk_paths(kernel.body)
        if isinstance(s, Command) and machine.unit(s.name) == "config"
    ]
    for number, (command, above) in enumerate(settings):
        key = setting_of(command, machine)
        same = [
            (c, a) for c, a in settings[:number] if c not in gone and setting_of(c, machine) == key
        ]
        if not _used(command, kernel, machine) or (
            same and _in_force(command, above, *same[-1], machine)
        ):
            gone.add(command)
    return _without(kernel, gone, "every setting is needed")


def _in_force(
    command: Command, above: Body, before: Command, before_above: Body, machine: Machine
) -> bool:
    """Whether the nearest earlier setting of the same kind always sets the same values."""
    if before.operands != command.operands or above[: len(before_above)] != before_above:
        return False
    around = before_above[-1] if before_above else None
    if isinstance(around, Guard):
        later = (*above, command)[len(before_above)]
        if not any(before in b and later in b for b in (around.body, around.orelse)):
            return False
    key = setting_of(command, machine)
    return all(
        other.operands == command.operands
        for stmt in above[len(before_above) :]
        if isinstance(stmt, Loop)
        for other in commands(stmt.body)
        if machine.unit(other.name) == "config" and setting_of(other, machine) == key
    )


def _used(command: Command, kernel: Kernel, machine: Machine) -> bool:
    """Whether some command uses this setting. A setting without an id applies to its whole unit."""
    name, key = setting_of(command, machine)
    return any(
        machine.attribute(c.name, "configured_by") == name
        and (not key or machine.attribute(c.name, "id") in (None, key))
        for c in commands(kernel.body)
    )


def _without(kernel: Kernel, gone: set[Command], otherwise: str) -> Kernel:
    if not gone:
        raise NotApplicable(otherwise)
    return kernel.with_body(rebuilt(kernel.body, lambda s: () if s in gone else None))
