"""Estimates how often commands conflict at the banks of the local memories."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.proposers.rewriter.analysis.buffers import Access, Buffer
from tilewright.proposers.rewriter.analysis.placement import bank_shares, collision
from tilewright.proposers.rewriter.ir import Body, Command, Guard
from tilewright.proposers.rewriter.machine import Machine


def clashing(buffers: list[Buffer], machine: Machine) -> Mapping[Command, float]:
    """How likely the operands of a product are in the same bank. The two commands of a product are
    adjacent."""
    reads: dict[Body, list[tuple[Access, Buffer]]] = {}
    for buffer in buffers:
        for access in buffer.readers:
            if machine.unit(access.command.name) == "execute":
                reads.setdefault(access.above, []).append((access, buffer))
    result: dict[Command, float] = {}
    for pairs in reads.values():
        used = list({buffer.name: buffer for _, buffer in pairs}.values())
        worst = max(
            (_shared(a, b, machine) for i, a in enumerate(used) for b in used[:i]), default=0.0
        )
        result |= dict.fromkeys((access.command for access, _ in pairs), worst)
    return result


def disturbing_loads(buffers: list[Buffer], machine: Machine) -> Mapping[Command, float]:
    """For each load, how likely a row that it writes prevents the array from reading."""
    read = [b for b in buffers if any(machine.unit(a.command.name) == "execute" for a in b.readers)]
    result: dict[Command, float] = {}
    for buffer in buffers:
        loads = [a.command for a in buffer.writers if machine.unit(a.command.name) == "load"]
        if loads:
            often = sum(
                _between_slots(buffer, machine) if b is buffer else _shared(buffer, b, machine)
                for b in read
            )
            result |= dict.fromkeys(loads, min(1.0, often))
    return result


def _between_slots(buffer: Buffer, machine: Machine) -> float:
    """How likely rows that are read at the same time are in the bank that a load writes.

    These are rows of other slots. With a single slot, they are rows that were loaded earlier, if
    loads are conditional, because such loads fill the buffer in parts while it is used.
    """
    space = machine.spaces[buffer.space]
    shares = [bank_shares(rows, space) for rows in buffer.intervals()]
    if len(shares) == 1:
        in_portions = any(isinstance(s, Guard) for a in buffer.writers for s in a.above)
        return collision(shares[0], shares[0]) if in_portions else 0.0
    pairs = [collision(a, b) for i, a in enumerate(shares) for b in shares[:i]]
    return sum(pairs) / len(pairs)


def _shared(left: Buffer, right: Buffer, machine: Machine) -> float:
    """How likely a row of each is in the same bank of the same memory."""
    if left.space != right.space:
        return 0.0
    space = machine.spaces[left.space]
    mine, theirs = ([bank_shares(i, space) for i in b.intervals()] for b in (left, right))
    return sum(collision(a, b) for a in mine for b in theirs) / (len(mine) * len(theirs))
