"""Remove loads that nothing uses, and stores to the kernel's own arrays that nothing loads."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, accesses
from tilewright.proposers.rewriter.analysis.polyhedra import meet
from tilewright.proposers.rewriter.analysis.regions import reads, touches
from tilewright.proposers.rewriter.ir import (
    Dram,
    Kernel,
    arrays_of,
    commands,
    has_opaque,
    rebuilt,
)
from tilewright.proposers.rewriter.machine import Machine


def remove_dead_moves(kernel: Kernel, machine: Machine) -> Kernel:
    """Remove loads into rows that no command reads, and stores to arrays that nothing loads.

    Before: `load(A, SPAD(0)); load(B, SPAD(64)); use(SPAD(0)); store(t, ACC(0));`
    After:  `load(A, SPAD(0)); use(SPAD(0));`

    Legal if no read in any iteration uses the rows, for arrays that the kernel itself declares, and
    if all code is modelled.
    """
    if has_opaque(kernel.body):
        raise NotApplicable("unrecognised code may use what is loaded")
    found = list(accesses(kernel.body, machine))
    used = [(a.local.space, r) for a in found if (r := reads(a, kernel, machine)) is not None]
    dead = {
        a.command
        for a in found
        if machine.unit(a.command.name) == "load"
        and not any(
            space == a.local.space and meet(touches(a, kernel, machine), region)
            for space, region in used
        )
    }
    kept = {a.name for a in kernel.arrays if not a.local}
    for command in commands(kernel.body):
        if machine.unit(command.name) == "load":
            kept |= arrays_of(command)
    dead |= {
        command
        for command in commands(kernel.body)
        if machine.unit(command.name) == "store"
        and any(isinstance(o, Dram) and o.array not in kept for o in command.operands)
    }
    if not dead:
        raise NotApplicable("all loaded data is used")
    return kernel.with_body(rebuilt(kernel.body, lambda s: () if s in dead else None))
