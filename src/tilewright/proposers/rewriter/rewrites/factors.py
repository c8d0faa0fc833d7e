"""Apply factors of products in the loads of an operand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilewright.proposers.rewriter.analysis.block import Block, Web
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.placement import ELSEWHERE
from tilewright.proposers.rewriter.analysis.touched_rows import Touch, touches, touches_anywhere
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Local,
    Loop,
    Operand,
    Stmt,
    rebuilt,
    walk,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.block_moves import product_commands, scaled
from tilewright.proposers.rewriter.rewrites.straight_line import free_rows


@dataclass(frozen=True)
class Edits:
    """The replacements of statements, and the scaled copies of loads before the loop."""

    new: dict[Stmt, list[Stmt]] = field(default_factory=dict)
    copies: dict[tuple[Stmt, float], tuple[int, Stmt]] = field(default_factory=dict)
    taken: set[tuple[str, int]] = field(default_factory=set)


def replace_operand(
    new: dict[Stmt, list[Stmt]], command: Command, operand: int, value: Operand
) -> None:
    """Replace one operand of a command in its latest version."""
    versions = new.setdefault(command, [command])
    latest = versions[-1]
    assert isinstance(latest, Command)
    operands = (*latest.operands[:operand], value, *latest.operands[operand + 1 :])
    versions[-1] = replace(latest, operands=operands)


_APART = 1 << 14
"""Distance in rows between copies that are not placed yet; no memory contains a value with more
rows."""


def scale_product(block: Block, member: Command, factor: float, edits: Edits) -> None:
    """The factor of a product, applied by another load of its streamed operand."""
    machine = block.machine
    _, use = product_commands(block, member)
    streamed = touches(use, machine)[0]
    web = block.web_of(use, streamed.operand)
    load = web.writers[0].command if web is not None and len(web.writers) == 1 else None
    if web is None:
        _scale_outside(block, streamed, use, factor, edits)
        return
    if load is None or machine.unit(load.name) != "load" or block.section(load) is None:
        raise NotApplicable("the operand of a product is computed, not loaded")
    position = ELSEWHERE + (1 << 16) + _APART * block.body.index(use)
    copy = scaled(load, machine, factor)
    at = machine.operands(load.name, "local_write")[0]
    target = Local(streamed.local.space, Expr(position))
    operands = (*copy.operands[:at], target, *copy.operands[at + 1 :])
    edits.new.setdefault(load, [load]).append(replace(copy, operands=operands, notes=()))
    shift = streamed.local.row - min(web.rows)
    replace_operand(edits.new, use, streamed.operand, replace(streamed.local, row=shift + position))


def _scale_outside(
    block: Block,
    streamed: Touch,
    use: Command,
    factor: float,
    edits: Edits,
) -> None:
    """Apply the factor to data that were loaded before the loop, by loading them again."""
    machine = block.machine
    loading: set[Stmt] = set()
    for stmt in block.kernel.body:
        for inner, above in walk_paths((stmt,)):
            if isinstance(inner, Command) and inner not in block.body:
                for touch in touches_anywhere(inner, above, machine):
                    same = touch.local.space == streamed.local.space
                    if same and touch.writes and touch.rows & streamed.rows:
                        loading.add(stmt)
    source = loading.pop() if len(loading) == 1 else None
    at_top = block.loop in block.kernel.body
    if source is None or not at_top or not _only_loads(source, machine):
        raise NotApplicable("the operand of a product is not loaded by one load")
    body = block.kernel.body
    if body.index(source) > body.index(block.loop):
        raise NotApplicable("the operand of a product is loaded later")
    known = edits.copies.get((source, factor))
    if known is None:
        written = frozenset(
            row
            for inner, above in walk_paths((source,))
            if isinstance(inner, Command)
            for touch in touches_anywhere(inner, above, machine)
            for row in touch.rows
        )
        web = Web(streamed.local.space, written, [streamed])
        taken = block.taken | edits.taken
        count = max(written) + 1 - min(written)
        start = free_rows(machine, web, taken, count)
        edits.taken.update((web.space, r) for r in range(start, start + count))
        shift = start - min(written)
        known = edits.copies[source, factor] = (
            shift,
            _scaled_copy(source, machine, factor, shift),
        )
    shifted = replace(streamed.local, row=streamed.local.row + known[0])
    replace_operand(edits.new, use, streamed.operand, shifted)


def _only_loads(stmt: Stmt, machine: Machine) -> bool:
    return all(
        isinstance(s, Loop) or (isinstance(s, Command) and machine.unit(s.name) == "load")
        for s in walk((stmt,))
    )


def _scaled_copy(stmt: Stmt, machine: Machine, factor: float, shift: int) -> Stmt:
    """Loads, or loops of them, into later rows with a further factor."""

    def change(inner: Stmt) -> Body | None:
        if not isinstance(inner, Command):
            return None
        at = machine.operands(inner.name, "local_write")[0]
        local = inner.operands[at]
        assert isinstance(local, Local)
        moved_to = replace(local, row=local.row + shift)
        operands = (*inner.operands[:at], moved_to, *inner.operands[at + 1 :])
        return (scaled(replace(inner, operands=operands, notes=()), machine, factor),)

    return rebuilt((stmt,), change)[0]
