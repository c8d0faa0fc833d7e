"""Finds products that use the operand which an earlier product left in the array, so that the
result depends on their order.
"""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import at_value, folded
from tilewright.proposers.rewriter.ir import Body, Command, Guard, Local, Loop, commands
from tilewright.proposers.rewriter.machine import Machine


def keeps_first(body: Body, machine: Machine) -> bool | None:
    """Whether the first product of a body may keep an operand that was latched before it; None
    without products.

    For a test that the first iterations of the inner loops do not decide, both branches are
    considered.
    """
    for stmt in body:
        if isinstance(stmt, Command):
            found = _keeps(stmt, machine)
        elif isinstance(stmt, Loop):
            first = at_value(stmt.body, stmt.var, stmt.lower)
            found = keeps_first(folded(first, {}), machine)
        elif isinstance(stmt, Guard):
            ways = [keeps_first(branch, machine) for branch in (stmt.body, stmt.orelse)]
            found = True if True in ways else None if None in ways else False
        else:
            found = None
        if found is not None:
            return found
    return None


def keeps_across(loop: Loop, machine: Machine) -> bool:
    """Whether an iteration may keep an operand that another one latched, or add to sums that it
    left in the array, so that their order must not change.

    This excludes the case that all iterations keep an operand that was latched before the loop.
    """
    return bool(keeps_first(loop.body, machine)) and any(
        isinstance(operand, Local) == (role == "local_read")
        for command in commands(loop.body)
        if machine.attribute(command.name, "latches")
        for operand, role in zip(
            command.operands, machine.effects[command.name].operands, strict=False
        )
        if role in ("local_read", "local_write")
    )


def check_nothing_kept(loop: Loop, machine: Machine) -> None:
    """Raise `NotApplicable` if the iterations of a loop depend on their order in this way."""
    if keeps_across(loop, machine):
        raise NotApplicable(f"iterations of loop {loop.var} use operands that earlier ones latched")


def _keeps(command: Command, machine: Machine) -> bool | None:
    if not machine.attribute(command.name, "uses"):
        return None
    return machine.attribute(command.name, "keeps") is not None
