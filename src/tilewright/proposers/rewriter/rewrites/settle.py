"""Settings placed anew: each array's moves by a form of their own, set once for all of them."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, check_all_commands_known
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.analysis.settings import own_setting, resolved, settled
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Command, Dram, Kernel, Opaque, commands, walk
from tilewright.proposers.rewriter.machine import Machine


def place_settings(kernel: Kernel, machine: Machine) -> Kernel:
    """Give moves that differ in setting or array forms of their own, each set as early as it can.

    Before: `for i { config(64, id0); load0(A[i]); config(128, id0); load0(B[i]); }`
    After:  `config(64, id0); config(128, id1); for i { load0(A[i]); load1(B[i]); }`

    Where the target has too few forms for that, moves of the same setting share one. Legal when
    every move's setting is known, and none changes with a loop.
    """
    if any(isinstance(s, Opaque) for s in walk(kernel.body)):
        raise NotApplicable("code that is not modelled may change settings")
    check_all_commands_known(kernel, machine)
    free = resolved(kernel, machine)
    for move in commands(free.body):
        if machine.unit(move.name) in ("load", "store") and any(
            isinstance(o, Expr) and o.names() for o in own_setting(move, machine).values()
        ):
            raise NotApplicable(f"the setting of a {move.name} changes with a loop")
    return simplify(settled(free, machine, apart=True))


def with_forms_apart(kernel: Kernel, machine: Machine) -> Kernel:
    """The kernel with settings placed anew where loads of two arrays share one, if that parts them.

    Before: `config(64, id0); load0(A[i]); load0(B[i]);`
    After:  `config(64, id0); config(64, id1); load0(A[i]); load1(B[i]);`

    A wide move sets how far apart its blocks lie, which has to suit all that share the setting.
    """
    if not _shared(kernel, machine):
        return kernel
    try:
        placed = place_settings(kernel, machine)
    except NotApplicable:
        return kernel
    return kernel if _shared(placed, machine) else placed


def _shared(kernel: Kernel, machine: Machine) -> bool:
    """Whether loads of two arrays work by the same setting."""
    arrays: dict[str, set[str]] = {}
    for command in commands(kernel.body):
        if machine.unit(command.name) == "load":
            arrays.setdefault(command.name, set()).update(_arrays(command))
    return any(len(found) > 1 for found in arrays.values())


def _arrays(command: Command) -> set[str]:
    return {o.array for o in command.operands if isinstance(o, Dram)}
