"""Places settings again: the moves of each array get their own form, which is set once for all of
them."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, check_all_commands_known
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.analysis.settings import own_setting, resolved, settled
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Kernel,
    arrays_of,
    commands,
)
from tilewright.proposers.rewriter.machine import Machine


def place_settings(kernel: Kernel, machine: Machine) -> Kernel:
    """Give moves with different settings or arrays their own forms, each set as early as possible.

    Before: `for i { config(64, id0); load0(A[i]); config(128, id0); load0(B[i]); }`
    After:  `config(64, id0); config(128, id1); for i { load0(A[i]); load1(B[i]); }`

    If the target has too few forms, moves with the same setting share one. Legal if the setting of
    every move is known, and none changes with a loop.
    """
    return simplify(settled(with_own_settings(kernel, machine), machine, apart=True))


def with_own_settings(kernel: Kernel, machine: Machine) -> Kernel:
    """The kernel in which each move contains its setting; `NotApplicable` if a loop changes one."""
    check_all_commands_known(kernel, machine)
    free = resolved(kernel, machine)
    for move in commands(free.body):
        if machine.unit(move.name) in ("load", "store") and any(
            isinstance(o, Expr) and o.names() for o in own_setting(move, machine).values()
        ):
            raise NotApplicable(f"a loop changes the setting of {move.name}")
    return free


def with_forms_apart(kernel: Kernel, machine: Machine) -> Kernel:
    """The kernel with settings placed again if loads of two arrays share one setting and this
    separates them.

    Before: `config(64, id0); load0(A[i]); load0(B[i]);`
    After:  `config(64, id0); config(64, id1); load0(A[i]); load1(B[i]);`

    A wide move sets the distance of its blocks, which must be right for all moves that share the
    setting.
    """
    if not _shared(kernel, machine):
        return kernel
    try:
        placed = place_settings(kernel, machine)
    except NotApplicable:
        return kernel
    return kernel if _shared(placed, machine) else placed


def _shared(kernel: Kernel, machine: Machine) -> bool:
    """Whether loads of two arrays use the same setting."""
    arrays: dict[str, set[str]] = {}
    for command in commands(kernel.body):
        if machine.unit(command.name) == "load":
            arrays.setdefault(command.name, set()).update(arrays_of(command))
    return any(len(found) > 1 for found in arrays.values())
