"""Moves small loads before large ones where no other command is between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, groupby

from tilewright.proposers.rewriter.analysis.buffers import Buffer, NotApplicable, buffers_of
from tilewright.proposers.rewriter.analysis.ranges import mean_trips
from tilewright.proposers.rewriter.analysis.settings import settled
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Command,
    Kernel,
    Loop,
    Stmt,
    commands,
    has_opaque,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.place_settings import with_own_settings


def small_loads_first(kernel: Kernel, machine: Machine) -> Kernel:
    """Order adjacent loads outside of loops of products by the amount that they load.

    Before: `for j { load(B[j], SPAD(j)); } load(A[0], SPAD(512)); products;`
    After:  `load(A[0], SPAD(512)); for j { load(B[j], SPAD(j)); } products;`

    Loads are executed in order. If the small ones come first, the first products begin as soon as
    the first part of the large ones has arrived. Legal if no two of the loads fill the same rows.
    """
    free = with_own_settings(kernel, machine)
    buffers = list(buffers_of(free.body, machine))
    result: list[Stmt] = []
    for loads, run in groupby(free.body, lambda s: _only_loads(s, machine)):
        part = tuple(run)
        if loads and not any(_meet(a, b, buffers) for a, b in combinations(part, 2)):
            part = tuple(sorted(part, key=lambda s: _amount(s, machine)))
        result += part
    if tuple(result) == free.body:
        raise NotApplicable("no large load outside of loops of products comes before a small one")
    return settled(free.with_body(tuple(result)), machine)


def _only_loads(stmt: Stmt, machine: Machine) -> bool:
    units = {machine.unit(c.name) for c in commands((stmt,))}
    return isinstance(stmt, Command | Loop) and units == {"load"} and not has_opaque((stmt,))


def _meet(left: Stmt, right: Stmt, buffers: Sequence[Buffer]) -> bool:
    """Whether two statements may fill the same rows of a local memory."""
    first, second = (
        [b for b in buffers if any(a.command in moves for a in b.accesses)]
        for moves in (set(commands((s,))) for s in (left, right))
    )
    return not first or not second or any(_overlap(a, b) for a in first for b in second)


def _overlap(left: Buffer, right: Buffer) -> bool:
    return left.space == right.space and any(
        a < d and c < b for a, b in left.intervals() for c, d in right.intervals()
    )


def _amount(stmt: Stmt, machine: Machine) -> float:
    """Number of elements that a statement loads; infinite if it is unknown."""
    total = 0.0
    for load, above in walk_paths((stmt,)):
        if not isinstance(load, Command):
            continue
        amount = 1.0
        for position, around in enumerate(above):
            amount *= mean_trips(around, above[:position]) if isinstance(around, Loop) else 1.0
        for role in ("columns", "rows"):
            size = load.operands[machine.operands(load.name, role)[0]]
            amount *= size.const if isinstance(size, Expr) and size.is_const else math.inf
        total += amount
    return total
