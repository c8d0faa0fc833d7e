"""Writes out short loops of loads and stores among products."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import env_of, trips
from tilewright.proposers.rewriter.expr import reduced
from tilewright.proposers.rewriter.ir import (
    Body,
    Kernel,
    Loop,
    children,
    commands,
    has_opaque,
    map_expressions,
    walk,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.loops import unroll

SHORT = 8
"""Maximum number of moves of such a loop, as long as a queue of loads."""


def write_moves_out(kernel: Kernel, machine: Machine) -> Kernel:
    """Unroll the short loops of loads and stores inside loops of products completely.

    Before: `for i { for (q = 4 * i; q < 4 * i + 4; q++) load(A[q], SPAD(q)); products; }`
    After:  `for i { load(A[4 * i], SPAD(4 * i)); load(A[4 * i + 1], SPAD(4 * i + 1)); ..
             products; }`

    The core then computes the common part of the addresses once, and only constants remain to be
    added. On a small array, products take so few cycles that the array waits for this code.
    """
    found = [s for s, above in walk_paths(kernel.body) if _is_short(s, above, machine)]
    if not found:
        raise NotApplicable("no short loop of loads and stores is inside a loop of products")
    for loop in found:
        assert isinstance(loop, Loop)
        kernel = unroll(kernel, machine, loop, 0)
    units = _units(kernel)
    return kernel.with_body(map_expressions(kernel.body, lambda e: reduced(e, units)))


def _units(kernel: Kernel) -> Mapping[str, int]:
    """A divisor of all values that the variable of a loop has, by its name."""
    units: dict[str, int] = {}
    for stmt in walk(kernel.body):
        if isinstance(stmt, Loop):
            start = stmt.lower.const if stmt.lower.is_const else 1
            units[stmt.var] = math.gcd(units.get(stmt.var, 0), stmt.step, start)
    return units


def _is_short(stmt: object, above: Body, machine: Machine) -> bool:
    """Whether a statement is a loop of a few moves and nothing else, next to products."""
    if not isinstance(stmt, Loop) or has_opaque(stmt.body):
        return False
    if any(isinstance(s, Loop) for s in stmt.body):
        return False
    units = [machine.unit(c.name) for c in commands(stmt.body)]
    fewest, most = trips(stmt, env_of(above))
    around = [s for s in above if isinstance(s, Loop)]
    return (
        bool(units)
        and set(units) <= {"load", "store"}
        and fewest == most
        and 2 <= most <= SHORT // len(units)
        and any(
            machine.unit(c.name) == "execute" for s in around[-1:] for c in commands(children(s))
        )
    )
