"""Estimates how long a kernel of register commands takes, from the declarations of its target.

The estimate consists of the cycles of each unit's commands, the latency of registers that are
updated repeatedly, and the lines that loads fetch from beyond each cache. It only ranks plans;
their benefit is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.core.records import CommandEffect, TargetBrief
from tilewright.proposers.loops.ir import (
    Address,
    Assign,
    Command,
    Expr,
    For,
    Kernel,
    Statement,
    Var,
    statements,
    walk,
)

_OVERLAP = 0.1
"""Share of the work of the other units that does not overlap the work of the busiest unit."""
_EXPOSED = 0.3
"""Share of the work and waiting that does not overlap the longest part."""
_USABLE = 0.75
"""Maximum share of a cache that a working set may take and stay in it."""


@dataclass(frozen=True, slots=True)
class _Access:
    """A block that a command accesses: its subscripts, its enclosing loops, and its variables."""

    place: tuple[str, tuple[Expr, ...]]
    path: tuple[For, ...]
    used: frozenset[str]

    def blocks(self, depth: int) -> int:
        """Number of different blocks while the loops from `depth` inwards run."""
        return math.prod(loop.trips for loop in self.path[depth:] if loop.variable in self.used)

    def runs(self, depth: int) -> int:
        """Number of times that the loops from `depth` inwards run as a whole."""
        return math.prod(loop.trips for loop in self.path[:depth])


def estimate(kernel: Kernel, target: TargetBrief) -> float | None:
    """The estimate in cycles; None if the target declares none of the kernel's commands."""
    known = {c.name: c for c in target.commands if "cycles" in c.attributes}
    commands = [s for s in statements(kernel.body) if isinstance(s, Command)]
    if not any(c.name in known for c in commands):
        return None
    waiting = (_waiting(kernel, target.limits, level) for level in ("l1", "l2"))
    parts = (_time(kernel.body, known), *waiting)
    return max(parts) + _EXPOSED * (sum(parts) - max(parts))


def _time(body: Sequence[Statement], known: Mapping[str, CommandEffect]) -> float:
    """Cycles of statements if all data were in the nearest cache."""
    inner = [s for s in body if isinstance(s, For)]
    total = sum(loop.trips * _time(loop.body, known) for loop in inner)
    units: dict[str, float] = {}
    updates: dict[str, float] = {}
    scalar = sum(isinstance(s, Assign) for s in body)
    for statement in body:
        effect = known.get(statement.name) if isinstance(statement, Command) else None
        if effect is None or not isinstance(statement, Command):
            continue
        units[effect.unit] = units.get(effect.unit, 0.0) + float(effect.attributes["cycles"])
        for argument, role in zip(statement.arguments, statement.roles, strict=True):
            if role == "register_update":
                latency = float(effect.attributes.get("latency", 0))
                name = str(argument)
                updates[name] = updates.get(name, 0.0) + latency
    if scalar:
        units["scalar"] = float(scalar)
    busiest = max((*units.values(), *updates.values()), default=0.0)
    return total + busiest + _OVERLAP * (sum(units.values()) - max(units.values(), default=0.0))


def _waiting(kernel: Kernel, limits: Mapping[str, int], level: str) -> float:
    """Cycles in which lines are fetched from beyond a cache that `limits` describe."""
    accesses = _accesses(kernel.body, ())
    rows, row_bytes = kernel.block
    usable = _USABLE * limits.get(f"{level}_bytes", 0)
    per_row = limits.get(f"{level}_miss_cycles", 0)
    cycles = 0.0
    touched: dict[int, int] = {}
    for access in accesses:
        depth = 0
        while depth < len(access.path):
            loop = id(access.path[depth])
            if loop not in touched:
                beside = _beside(accesses, access, depth)
                touched[loop] = rows * row_bytes * sum(other.blocks(depth) for other in beside)
            if touched[loop] <= usable:
                break
            depth += 1
        # Data that one iteration of an outer loop and the next one both need have stayed there.
        while depth and access.path[depth - 1].variable not in access.used:
            depth -= 1
        cycles += access.runs(depth) * access.blocks(depth) * rows * per_row
    return cycles


def _beside(accesses: Sequence[_Access], access: _Access, depth: int) -> list[_Access]:
    """The accesses, each block once, in the loop at `depth` around `access`."""
    loop = access.path[depth]
    found = {a.place: a for a in accesses if len(a.path) > depth and a.path[depth] is loop}
    return list(found.values())


def _variables(address: Address) -> frozenset[str]:
    return frozenset(e.name for e in walk(address) if isinstance(e, Var))


def _accesses(body: Sequence[Statement], path: tuple[For, ...]) -> list[_Access]:
    found: list[_Access] = []
    for statement in body:
        if isinstance(statement, For):
            found += _accesses(statement.body, (*path, statement))
        elif isinstance(statement, Command):
            found += [
                _Access((a.array, a.subscripts), path, _variables(a))
                for a in statement.arguments
                if isinstance(a, Address)
            ]
    return found
