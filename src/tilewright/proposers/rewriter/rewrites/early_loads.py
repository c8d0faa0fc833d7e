"""Move loads to the beginning of the iteration that needs them."""

from __future__ import annotations

from tilewright.proposers.rewriter.analysis.block import Block
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.sections import Section, core_parts
from tilewright.proposers.rewriter.analysis.touched_rows import touches
from tilewright.proposers.rewriter.ir import Command, Loop, Stmt
from tilewright.proposers.rewriter.rewrites.straight_line import on_block


@on_block
def load_early(block: Block) -> Block:
    """Issue the loads of an iteration before its products and stores.

    Before: `for i { load(a, SPAD(0)); use(SPAD(0)); store(c); load(b, SPAD(4)); use(SPAD(4)); }`
    After:  `for i { load(a, SPAD(0)); load(b, SPAD(4)); use(SPAD(0)); store(c); use(SPAD(4)); }`

    A load is moved across commands that access neither its elements nor its local rows. Fences stay
    before the loads that follow them. No load is put between the two commands of a product, because
    the second one writes the rows that the first one names.
    """
    body: list[Stmt] = []
    for stmt in block.body:
        position = len(body)
        if isinstance(stmt, Command) and block.machine.unit(stmt.name) == "load":
            while position and _may_pass(block, stmt, body[position - 1]):
                position -= 1
            while position < len(body) and _is_within_product(block, body[:position]):
                position += 1
        body.insert(position, stmt)
    if tuple(body) == block.body:
        raise NotApplicable(f"the loads of loop {block.loop.var} are already at its start")
    return block.with_body(tuple(body))


def _is_within_product(block: Block, before: list[Stmt]) -> bool:
    """Whether these commands end between the two commands of a product."""
    execute = (
        s.name
        for s in reversed(before)
        if isinstance(s, Command) and block.machine.unit(s.name) == "execute"
    )
    last = next(execute, None)
    return last is not None and block.machine.attribute(last, "latches") is not None


def _may_pass(block: Block, load: Command, other: Stmt) -> bool:
    machine, section = block.machine, block.section(load)
    if isinstance(other, Loop):
        reads, writes = core_parts(other, block.kernel)
        return section is None or not any(section.meets(s) for s in [*reads, *writes])
    if not isinstance(other, Command) or machine.unit(other.name) in ("load", "sync"):
        return False
    stored: Section | None = block.section(other)
    if section is not None and stored is not None and section.meets(stored):
        return False
    rows = {(t.local.space, r) for t in touches(load, machine) for r in t.rows}
    used = {(t.local.space, r) for t in touches(other, machine) for r in t.rows}
    return not rows & used
