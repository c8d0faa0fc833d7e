"""Moves loads that fetch the same data in every iteration out of the loop."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis.block import Block, Web
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.sections import Section, core_parts
from tilewright.proposers.rewriter.analysis.settings import own_setting, with_setting
from tilewright.proposers.rewriter.analysis.touched_rows import touches
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Command, Loop, Operand, Stmt, commands
from tilewright.proposers.rewriter.rewrites.straight_line import free_rows, moved, on_block


@on_block
def hoist_loads(block: Block) -> Block:
    """Load data that every iteration uses once before the loop, with moves as wide as allowed.

    Before: `for i { load(&A[0][0], SPAD(0), 4, 4); load(&A[0][4], SPAD(4), 4, 4); use(..); }`
    After:  `load(&A[0][0], SPAD(0), 8, 4); for i { use(..); }`

    Legal for loads that do not depend on the loop, from arrays that it does not write, into rows
    that nothing else writes.
    """
    chosen = _invariant(block)
    if not chosen:
        raise NotApplicable(f"loop {block.loop.var} loads something else in each iteration")
    block, groups = _laid_out(block, chosen)
    merged = tuple(_wide(block, group) for group in groups)
    gone = {c for group in groups for c in group}
    return block.with_body(tuple(s for s in block.body if s not in gone), merged)


def _invariant(block: Block) -> list[tuple[Command, Section, Web]]:
    written = _written(block)
    found = []
    for stmt in block.body:
        if not isinstance(stmt, Command) or block.machine.unit(stmt.name) != "load":
            continue
        section, touch = block.section(stmt), touches(stmt, block.machine)[0]
        web = block.web_of(stmt, touch.operand)
        if section is None or web is None or len(web.writers) != 1 or touch.adds:
            continue
        if block.loop.var not in section.start.names() and section.array not in written:
            found.append((stmt, section, web))
    return found


def _written(block: Block) -> set[str]:
    """Arrays that the loop writes."""
    found = set()
    for stmt in block.body:
        if isinstance(stmt, Loop):
            found |= {w.array for w in core_parts(stmt, block.kernel)[1]}
        elif isinstance(stmt, Command) and block.machine.unit(stmt.name) == "store":
            section = block.section(stmt)
            found |= {section.array} if section is not None else set()
    return found


def _laid_out(
    block: Block, chosen: list[tuple[Command, Section, Web]]
) -> tuple[Block, list[list[Command]]]:
    """The rows for adjacent pieces, one after the other, and which pieces one move can load."""
    machine = block.machine
    groups: list[list[tuple[Command, Section, Web]]] = []
    for item in sorted(chosen, key=lambda c: (c[1].array, str(c[1].start.terms), c[1].start.const)):
        if groups and _continues(block, groups[-1], item):
            groups[-1].append(item)
        else:
            groups.append([item])
    members = {w for _, _, w in chosen}
    taken = set(block.outside)
    own = {(w.space, r) for w in members for r in w.rows}
    for command in commands(block.body):
        for touch in touches(command, machine):
            taken |= {(touch.local.space, r) for r in touch.rows} - own
    shifts: dict[tuple[Command, int], int] = {}
    for group in groups:
        web = group[0][2]
        count = max(web.rows) + 1 - min(web.rows)  # blocks of a wide load may be apart
        start = free_rows(machine, web, taken, count * len(group))
        for number, (_, _, member) in enumerate(group):
            rows = range(start + number * count, start + (number + 1) * count)
            taken |= {(web.space, r) for r in rows}
            for touch in member.touches:
                shifts[touch.command, touch.operand] = rows[0] - min(member.rows)
    numbers = {c: block.body.index(c) for c, _, _ in chosen}
    block = moved(block, shifts)
    result = []
    for group in groups:
        loads = [block.body[numbers[c]] for c, _, _ in group]
        result.append([c for c in loads if isinstance(c, Command)])
    return block, result


def _continues(
    block: Block, group: list[tuple[Command, Section, Web]], item: tuple[Command, Section, Web]
) -> bool:
    """Whether a move can load one more piece to the right."""
    machine = block.machine
    last, section, web = group[-1]
    width = machine.spaces[web.space].row_columns
    most = int(machine.attribute(last.name, "max_columns") or 0)
    return (
        section.array == item[1].array
        and item[1].start - section.start == Expr(section.shape[1])
        and section.shape[1] == width
        and item[1].shape[0] == section.shape[0]
        and own_setting(last, machine) == own_setting(item[0], machine)
        and item[2].space == web.space
        and item[1].shape[1] <= width
        and (len(group) + 1) * width <= most
        and _roles_of(block, web) == _roles_of(block, item[2])
        and len(web.rows) == len(item[2].rows)
    )


def _roles_of(block: Block, web: Web) -> bool:
    return any(block.machine.attribute(t.command.name, "latches") for t in web.readers)


def _wide(block: Block, group: list[Command]) -> Stmt:
    """One load of all pieces."""
    machine, first = block.machine, group[0]
    if len(group) == 1:
        return first
    roles = machine.effects[first.name].operands
    at = {r: i for i, r in enumerate(roles)}
    columns = Expr()
    for load in group:
        width = load.operands[at["columns"]]
        assert isinstance(width, Expr)
        columns = columns + width
    operands: list[Operand] = list(first.operands)
    operands[at["columns"]] = columns
    rows = operands[at["rows"]]
    wide = replace(first, operands=tuple(operands))
    return with_setting(wide, machine, "block_stride", rows)
