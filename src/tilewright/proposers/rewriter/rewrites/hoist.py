"""Moves commands that are the same in every iteration out of the loop."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, check_all_commands_known
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Command,
    Kernel,
    Loop,
    commands,
    has_opaque,
    names_in,
    rebuilt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine


def hoist_configuration(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Move settings that do not change out of a loop, and keep one of several equal ones.

    Before: `for i { config(..); load(..); }`
    After:  `config(..); for i { load(..); }`

    Legal if every setting with the same kind and id in the kernel has the same operands.
    """
    if has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} contains unrecognised code")
    check_all_commands_known(kernel, machine)
    settings = [c for c in commands(kernel.body) if machine.unit(c.name) == "config"]
    before = _certain_before(kernel, loop)
    moved: list[Command] = []
    gone: set[Command] = set()
    for command in commands(loop.body):
        if command in settings and not names_in(command):
            same = [c for c in settings if setting_of(c, machine) == setting_of(command, machine)]
            if all(c.operands == command.operands for c in same):
                gone.add(command)
                if not before & set(same) and setting_of(command, machine) not in {
                    setting_of(m, machine) for m in moved
                }:
                    moved.append(command)
    if not gone:
        raise NotApplicable(f"loop {loop.var} sets nothing that could be set before it")
    return kernel.with_body(
        rebuilt(
            kernel.body,
            lambda s: (
                (*moved, *rebuilt((loop,), lambda t: () if t in gone else None))
                if s is loop
                else None
            ),
        )
    )


def _certain_before(kernel: Kernel, loop: Loop) -> set[Command]:
    """The commands that are certainly issued before a loop."""
    paths = list(walk_paths(kernel.body))
    at = next(n for n, (stmt, _) in enumerate(paths) if stmt is loop)
    around = paths[at][1]
    return {
        stmt
        for stmt, above in paths[:at]
        if isinstance(stmt, Command)
        and above == around[: len(above)]
        and all(isinstance(a, Loop) for a in above)
    }


def setting_of(command: Command, machine: Machine) -> tuple[str, str]:
    """What a setting sets: its kind, and its id if it has one; `NotApplicable` if the id varies."""
    given = dict(zip(machine.effects[command.name].operands, command.operands, strict=False))
    key = given.get("id")
    if key is None:
        return command.name, ""
    if not (isinstance(key, Expr) and key.is_const):
        raise NotApplicable(f"the id of {command.name} is not a constant")
    return command.name, str(key.const)
