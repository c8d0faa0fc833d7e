"""Removes clearing: the first product of a reduction overwrites instead."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis.buffers import (
    Access,
    Buffer,
    NotApplicable,
    check_all_commands_known,
    find_buffer,
    overlapping,
)
from tilewright.proposers.rewriter.analysis.ranges import loops_in, simplify
from tilewright.proposers.rewriter.expr import Expr, var
from tilewright.proposers.rewriter.ir import (
    Command,
    Compare,
    Condition,
    Flag,
    Kernel,
    Loop,
    Operand,
    rebuilt,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.plain_buffers import loaded_in_turn


def overwrite(kernel: Kernel, machine: Machine, buffer_name: str) -> Kernel:
    """Remove the moves of zeros into an accumulator. The first write overwrites instead.

    Before: `load(0, ACC(0)); for k { product(ACC(0) | ACCUMULATE); }`
    After:  `for k { product(ACC(0) | (k > 0 ? ACCUMULATE : 0)); }`

    Legal if every other write accumulates, the reduction loops between the clearing and the write
    have at least one iteration, and the write is the first one to its rows there. If rows
    are cleared ahead of the iteration that uses them, the clearing is part of that iteration.
    """
    check_all_commands_known(kernel, machine)
    buffer = find_buffer(kernel, machine, buffer_name)
    clears = [a for a in buffer.writers if _clears(a, machine)]
    flag = machine.flag("accumulate")
    products = [a for a in buffer.writers if a not in clears]
    if not clears or flag is None or not products:
        raise NotApplicable(f"{buffer_name} is not cleared by moves of zeros")
    if not loaded_in_turn(kernel, machine, buffer_name):
        raise NotApplicable(f"{buffer_name} is not cleared in the iterations in which it is used")
    new: dict[Command, tuple[Operand, ...]] = {}
    for access in products:
        if Flag(flag) not in access.local.flags:
            raise NotApplicable(f"a write to {buffer_name} does not simply accumulate")
        if _follows(access, buffer, clears):
            continue
        first = _later_than_first(access, _common(access, clears))
        flags = tuple(Flag(flag, first) if f.name == flag else f for f in access.local.flags)
        if not first:
            flags = tuple(f for f in flags if f.name != flag)
        operands = list(new.get(access.command, access.command.operands))
        operands[access.operand] = replace(access.local, flags=flags)
        new[access.command] = tuple(operands)
    gone = {a.command for a in clears}
    body = rebuilt(
        kernel.body,
        lambda s: (
            ()
            if s in gone
            else (replace(s, operands=new[s]),)
            if isinstance(s, Command) and s in new
            else None
        ),
    )
    return simplify(kernel.with_body(body))


def _clears(access: Access, machine: Machine) -> bool:
    name = access.command.name
    source = machine.operands(name, "dram_read")
    return machine.attribute(name, "null_source") == "zeros" and any(
        access.command.operands[i] == Expr(0) for i in source
    )


def _common(access: Access, clears: list[Access]) -> list[Loop]:
    """Loops around both the write and the clearing."""
    return [s for s in loops_in(access.above) if any(s in c.above for c in clears)]


def _follows(access: Access, buffer: Buffer, clears: list[Access]) -> bool:
    """Whether an earlier product since the last clearing writes these rows, so that this one
    accumulates."""
    earlier: list[Access] = []
    for other in buffer.accesses[: buffer.accesses.index(access)]:
        if other in clears:
            earlier.clear()
        elif other.writes:
            earlier.append(other)
    if any(e.local.row == access.local.row and e.command is not access.command for e in earlier):
        return True
    if any(overlapping(e, access) for e in earlier):
        raise NotApplicable("products write overlapping parts of the accumulator")
    return False


def _later_than_first(access: Access, common: list[Loop]) -> Condition:
    """The condition that the write is not the first one to its rows since the clearing."""
    row = access.local.row
    reduction = [s for s in loops_in(access.above) if s not in common and s.var not in row.names()]
    if len(reduction) > 1:
        raise NotApplicable("there is more than one reduction loop")
    return tuple(Compare(">", var(s.var), s.lower) for s in reduction)
