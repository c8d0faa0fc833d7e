"""Fewer, wider moves."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis import env_of, simplify
from tilewright.proposers.rewriter.buffers import NotApplicable, block_stride
from tilewright.proposers.rewriter.expr import Expr, bounds, minimum, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Dram,
    Kernel,
    Local,
    Loop,
    rebuilt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine


def widen(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Merge the moves of neighbouring iterations into moves as wide as the target allows.

    Before: `for (k = 0; k < 256; k += 16) load(&A[i][k], SPAD(k), 16, 16);`
    After:  `for (k = 0; k < 256; k += 64) load(&A[i][k], SPAD(k), 64, 16);`

    Legal for a loop around one load or store that walks along a row of the array, when each
    iteration's local block lies where the next block of a wide move would.
    """
    above = next(a for s, a in walk_paths(kernel.body) if s is loop)
    wide = _merged(kernel, machine, loop, above)
    return simplify(
        kernel.with_body(rebuilt(kernel.body, lambda s: (wide,) if s is loop else None))
    )


def widened_everywhere(kernel: Kernel, machine: Machine) -> Kernel:
    """Every loop that can be widened, widened."""
    changed = True
    while changed:
        changed = False
        for stmt, _ in walk_paths(kernel.body):
            if isinstance(stmt, Loop):
                try:
                    kernel = widen(kernel, machine, stmt)
                except NotApplicable:
                    continue
                changed = True
                break
    return kernel


def _merged(kernel: Kernel, machine: Machine, loop: Loop, above: Body) -> Loop:
    move = loop.body[0]
    if (
        len(loop.body) != 1
        or not isinstance(move, Command)
        or (machine.unit(move.name) not in ("load", "store"))
    ):
        raise NotApplicable(f"loop {loop.var} is not around one move")
    at = {r: i for i, r in enumerate(machine.effects[move.name].operands)}
    dram = next((o for o in move.operands if isinstance(o, Dram)), None)
    local = next((o for o in move.operands if isinstance(o, Local)), None)
    if dram is None or local is None or not dram.index:
        raise NotApplicable(f"{move.name} does not move between an array and a local memory")
    others = [*dram.index[:-1], move.operands[at["rows"]]]
    if dram.index[-1].coefficient(loop.var) != 1 or any(
        isinstance(e, Expr) and loop.var in e.names() for e in others
    ):
        raise NotApplicable(f"loop {loop.var} does not walk along a row of {dram.array}")
    columns = move.operands[at["columns"]]
    if columns not in (Expr(loop.step), minimum(Expr(loop.step), loop.upper - var(loop.var))):
        raise NotApplicable(f"the moves of loop {loop.var} leave gaps")
    _check_layout(kernel, machine, loop, move, local)
    most = int(machine.attribute(move.name, "max_columns") or 0)
    span = bounds(loop.upper - loop.lower, env_of(above))[1]
    factor = int(min(most // loop.step, -(-span // loop.step)))
    if factor < 2:
        raise NotApplicable(f"the moves of loop {loop.var} are as wide as they may be")
    width = loop.step * factor
    operands = list(move.operands)
    operands[at["columns"]] = minimum(Expr(width), loop.upper - var(loop.var))
    return replace(loop, step=width, body=(replace(move, operands=tuple(operands)),))


def _check_layout(
    kernel: Kernel, machine: Machine, loop: Loop, move: Command, local: Local
) -> None:
    row_columns = machine.spaces[local.space].row_columns
    stride = block_stride(kernel, machine, move)
    per_iteration = local.row.coefficient(loop.var) * loop.step
    plain = (local.row - var(loop.var) * local.row.coefficient(loop.var)).names()
    if (
        loop.step % row_columns
        or loop.var in plain
        or (per_iteration != loop.step // row_columns * stride)
    ):
        raise NotApplicable(f"the blocks of loop {loop.var} do not lie behind one another")
