"""Loads that nothing uses."""

from __future__ import annotations

from tilewright.proposers.rewriter.buffers import NotApplicable, accesses
from tilewright.proposers.rewriter.ir import Kernel, has_opaque, rebuilt
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.polyhedra import meet
from tilewright.proposers.rewriter.regions import reads, touches


def remove_dead_loads(kernel: Kernel, machine: Machine) -> Kernel:
    """Remove loads into rows that no command reads or adds to.

    Before: `load(A, SPAD(0)); load(B, SPAD(64)); use(SPAD(0));`
    After:  `load(A, SPAD(0)); use(SPAD(0));`

    Legal where no read of any iteration meets the rows, and all code is modelled.
    """
    if has_opaque(kernel.body):
        raise NotApplicable("code that is not modelled may use what is loaded")
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
    if not dead:
        raise NotApplicable("everything that is loaded is used")
    return kernel.with_body(rebuilt(kernel.body, lambda s: () if s in dead else None))
