"""Merges moves into fewer and wider ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, check_all_commands_known
from tilewright.proposers.rewriter.analysis.move_settings import (
    block_stride,
    by_same_setting,
    settings_for,
)
from tilewright.proposers.rewriter.analysis.ranges import env_of, simplify, trips
from tilewright.proposers.rewriter.expr import Expr, bounds, minimum, quotient, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Dram,
    Guard,
    Kernel,
    Local,
    Loop,
    Stmt,
    rebuilt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.roll import roll


def widen(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Merge the moves of neighbouring iterations into moves as wide as the target allows.

    Before: `for (k = 0; k < 256; k += 16) load(&A[i][k], SPAD(k), 16, 16);`
    After:  `for (k = 0; k < 256; k += 64) load(&A[i][k], SPAD(k), 64, 16);`

    Legal for a loop around one load or store that iterates along a row of the array, if each
    iteration's local block has the position of the next block of a wide move. If the distance of
    the blocks is larger, the setting of the loads is changed to this distance, if no other wide
    load uses the setting. Loops between this one and the move are moved outside it.
    """
    above = next(a for s, a in walk_paths(kernel.body) if s is loop)
    inner, move = _nest(loop)
    wide, stride = _merged(kernel, machine, replace(loop, body=(move,)), (*above, *inner))
    for around in reversed(inner):
        wide = replace(around, body=(wide,))
    if inner:
        wide = replace(wide, notes=loop.notes)

    def change(stmt: Stmt) -> Body | None:
        return (wide,) if stmt is loop else None

    kernel = kernel.with_body(rebuilt(kernel.body, change))
    if stride is not None:
        kernel = _with_stride(kernel, machine, move, stride)
    return simplify(kernel)


def _nest(loop: Loop) -> tuple[list[Loop], Command]:
    """The loops between a loop and the only command in it, and this command."""
    inner: list[Loop] = []
    body = loop.body
    while len(body) == 1 and isinstance(body[0], Loop):
        inner.append(body[0])
        body = body[0].body
    if len(body) != 1 or not isinstance(body[0], Command):
        raise NotApplicable(f"loop {loop.var} does not contain exactly one move")
    if any(loop.var in s.lower.names() | s.upper.names() for s in inner):
        raise NotApplicable(f"the loops inside loop {loop.var} depend on it")
    return inner, body[0]


def widened_everywhere(kernel: Kernel, machine: Machine) -> Kernel:
    """Every loop of moves, and every sequence of adjacent moves outside loops, widened as far as
    possible.

    Before: `load(&A[i][0], SPAD(0), 16, 16); load(&A[i][16], SPAD(16), 16, 16);`
    After:  `load(&A[i][0], SPAD(0), 32, 16);`
    """
    while True:
        wider = _one_wider(kernel, machine)
        if wider is None:
            return kernel
        kernel = wider


def _one_wider(kernel: Kernel, machine: Machine) -> Kernel | None:
    for stmt, _ in walk_paths(kernel.body):
        if isinstance(stmt, Loop):
            try:
                return widen(kernel, machine, stmt)
            except NotApplicable:
                continue
    for run in _runs(kernel.body, machine):
        rolled = roll(kernel, run)
        if len(rolled) == 1 and isinstance(rolled[0], Loop):
            new: dict[Stmt, Body] = dict.fromkeys(run, ()) | {run[0]: rolled}
            try:
                return widen(kernel.with_body(rebuilt(kernel.body, new.get)), machine, rolled[0])
            except NotApplicable:
                continue
    return None


def _runs(body: Body, machine: Machine) -> Iterator[Body]:
    """Consecutive moves by the same command."""
    for key, group in groupby(body, lambda s: s.name if isinstance(s, Command) else s):
        run = tuple(group)
        if isinstance(key, str):
            if len(run) > 1 and machine.unit(key) in ("load", "store"):
                yield run
        elif isinstance(key, Loop):
            yield from _runs(key.body, machine)
        elif isinstance(key, Guard):
            yield from _runs(key.body, machine)
            yield from _runs(key.orelse, machine)


def _merged(kernel: Kernel, machine: Machine, loop: Loop, above: Body) -> tuple[Loop, int | None]:
    """The loop with wider moves, and the block stride that must be set for them, if it changes."""
    move = loop.body[0]
    if not isinstance(move, Command) or machine.unit(move.name) not in ("load", "store"):
        raise NotApplicable(f"loop {loop.var} does not contain exactly one move")
    at = {r: i for i, r in enumerate(machine.effects[move.name].operands)}
    dram = next((o for o in move.operands if isinstance(o, Dram)), None)
    local = next((o for o in move.operands if isinstance(o, Local)), None)
    if dram is None or local is None or not dram.index:
        raise NotApplicable(f"{move.name} does not move between an array and a local memory")
    others = [*dram.index[:-1], move.operands[at["rows"]]]
    scale = dram.index[-1].coefficient(loop.var)
    others.append(dram.index[-1] - var(loop.var) * scale)
    if scale < 1 or any(isinstance(e, Expr) and loop.var in e.names() for e in others):
        raise NotApplicable(f"loop {loop.var} does not move along a row of {dram.array}")
    advance, columns = loop.step * scale, move.operands[at["columns"]]
    left = (loop.upper - var(loop.var)) * scale
    if columns == Expr(advance):
        span = loop.upper - loop.lower
        if not (span.is_const and span.const % loop.step == 0):
            left = quotient(loop.upper - var(loop.var) + (loop.step - 1), loop.step) * advance
    elif columns != minimum(Expr(advance), left):
        raise NotApplicable(f"the moves of loop {loop.var} leave gaps")
    stride = _stride(kernel, machine, loop, advance, move, local, above)
    most = int(machine.attribute(move.name, "max_columns") or 0)
    iterations = trips(loop, env_of(above))[1]
    factor = int(min(most // advance, iterations))
    if factor < 2:
        raise NotApplicable(f"the moves of loop {loop.var} are already as wide as possible")
    operands = list(move.operands)
    operands[at["columns"]] = minimum(Expr(advance * factor), left)
    return replace(
        loop, step=loop.step * factor, body=(replace(move, operands=tuple(operands)),)
    ), stride


def _stride(
    kernel: Kernel,
    machine: Machine,
    loop: Loop,
    advance: int,
    move: Command,
    local: Local,
    above: Body,
) -> int | None:
    """The block stride that the moves need; None if it is already set."""
    row_columns = machine.spaces[local.space].row_columns
    following = local.row.substituted({loop.var: var(loop.var) + loop.step}) - local.row
    needed, rest = divmod(following.const * row_columns, advance)
    if advance % row_columns or not following.is_const or rest:
        raise NotApplicable(f"the blocks of loop {loop.var} are not contiguous")
    if needed == block_stride(kernel, machine, move):
        return None
    rows = move.operands[machine.effects[move.name].operands.index("rows")]
    most = bounds(rows, env_of(above))[1] if isinstance(rows, Expr) else math.inf
    check_all_commands_known(kernel, machine)
    if needed < most or not _can_set_stride(kernel, machine, move):
        raise NotApplicable(f"the blocks of loop {loop.var} are not contiguous")
    return needed


def _can_set_stride(kernel: Kernel, machine: Machine, move: Command) -> bool:
    """Whether this move's setting has a block stride and every other move with it is narrow."""
    settings = settings_for(kernel, machine, move)
    if not settings or any(
        "block_stride" not in machine.effects[s.name].operands for s in settings
    ):
        return False
    for command, above in walk_paths(kernel.body):
        if isinstance(command, Command) and by_same_setting(command, move, machine):
            roles = machine.effects[command.name].operands
            columns = command.operands[roles.index("columns")]
            local = next((o for o in command.operands if isinstance(o, Local)), None)
            if local is None or not isinstance(columns, Expr):
                return False
            if bounds(columns, env_of(above))[1] > machine.spaces[local.space].row_columns:
                return False
    return True


def _with_stride(kernel: Kernel, machine: Machine, move: Command, stride: int) -> Kernel:
    """The kernel with another block stride in every setting for a move."""
    settings = set(settings_for(kernel, machine, move))

    def change(stmt: Stmt) -> Body | None:
        if not isinstance(stmt, Command) or stmt not in settings:
            return None
        operands = list(stmt.operands)
        operands[machine.effects[stmt.name].operands.index("block_stride")] = Expr(stride)
        return (replace(stmt, operands=tuple(operands)),)

    return kernel.with_body(rebuilt(kernel.body, change))
