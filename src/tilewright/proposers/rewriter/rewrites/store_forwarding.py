"""Keeps values that a loop stores or loads and then loads again in local memory."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.proposers.rewriter.analysis.block import Block, Web
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.sections import Section, core_parts
from tilewright.proposers.rewriter.analysis.settings import own_setting
from tilewright.proposers.rewriter.analysis.touched_rows import Touch, touches
from tilewright.proposers.rewriter.expr import var
from tilewright.proposers.rewriter.ir import Body, Command, Local, Loop, Stmt
from tilewright.proposers.rewriter.rewrites.block_moves import (
    any_product,
    check_results_unchanged,
    copied,
    is_lossless,
    scale_of,
)
from tilewright.proposers.rewriter.rewrites.factors import replace_operand
from tilewright.proposers.rewriter.rewrites.straight_line import moved, on_block, renamed


@on_block
def share(block: Block) -> Block:
    """Load data that several products of an iteration use only once.

    Before: `load(&x[i][0], SPAD(0)); use(SPAD(0)); load(&x[i][0], SPAD(4)); use(SPAD(4));`
    After:  `load(&x[i][0], SPAD(0)); use(SPAD(0)); use(SPAD(0));`

    Legal for loads of the same elements with the same setting, if nothing stores to the elements
    and nothing writes the local rows in between.
    """
    shared = _shared(block)
    if shared is block:
        raise NotApplicable(f"loop {block.loop.var} loads nothing twice in one iteration")
    return shared


@on_block
def forward(block: Block) -> Block:
    """Let products read a result from the rows where it was computed, instead of loading it again.

    Before: `product(a, b, ACC(0)); store(u, ACC(0)); fence(); load(u, SPAD(0)); use(SPAD(0));`
    After:  `product(a, b, ACC(0)); store(u, ACC(0)); use(ACC(0));`

    Legal if the store and the load do not change values, the array applies no function to its
    operands, nothing else stores to the elements, and nothing writes the result's rows afterwards.
    """
    block = _shared(block)
    new: dict[Stmt, list[Stmt]] = {}
    for load, section, web in _loads(block):
        stored = _last_store(block, section, _until(block, load))
        if stored is None:
            continue
        check_results_unchanged(block)
        source, loaded = _source(block, stored).local, web.touches[0].local
        new[load] = []
        for use in web.readers:
            row = source.row + use.local.row - loaded.row
            replace_operand(new, use.command, use.operand, Local(source.space, row))
    if not new:
        raise NotApplicable(f"loop {block.loop.var} loads nothing that it stored before")
    return block.changed({stmt: tuple(changed) for stmt, changed in new.items()})


@on_block
def carry(block: Block) -> Block:
    """Keep data that the next iteration loads in local memory.

    Before: `for i { load(x[i], SPAD(0)); .. product(.., ACC(0)); store(x[i + 1], ACC(0)); }`
    After:  `load(x[0], SPAD(0)); for i { .. product(.., ACC(0)); store(..); copy(ACC(0), SPAD); }`

    Legal if an iteration loads exactly the elements that the previous one stored, unchanged, and
    nothing else stores to them in between.
    """
    block = _shared(block)
    name, step = block.loop.var, block.loop.step
    before: list[Stmt] = []
    following: list[Stmt] = []
    gone: set[Stmt] = set()
    for load, section, web in _loads(block):
        later = section.at(name, var(name) + step)
        store = _last_store(block, later, block.body)
        if store is None or _last_store(block, section, _until(block, load)) is not None:
            continue
        source = _source(block, store)
        following.extend(copied(block, any_product(block), source, web.touches[0].local))
        before.append(_first(load, block))
        gone.add(load)
    if not gone:
        raise NotApplicable(f"loop {name} loads nothing that the previous iteration stored")
    kept = tuple(s for s in block.body if s not in gone)
    return block.with_body((*kept, *following), tuple(before))


def _first(load: Command, block: Block) -> Command:
    """The form of a load in the first iteration."""
    from tilewright.proposers.rewriter.analysis.ranges import at_value

    first = at_value((load,), block.loop.var, block.loop.lower)[0]
    assert isinstance(first, Command)
    return first


def _until(block: Block, stmt: Stmt) -> Body:
    return block.body[: block.body.index(stmt)]


def _loads(block: Block) -> Iterator[tuple[Command, Section, Web]]:
    """Plain loads of a single block of an array into rows that nothing else writes."""
    machine = block.machine
    for stmt in block.body:
        if not isinstance(stmt, Command) or machine.unit(stmt.name) != "load":
            continue
        section = block.section(stmt)
        if section is None or scale_of(stmt, machine) != 1.0:
            continue
        touch = touches(stmt, machine)[0]
        web = block.web_of(stmt, touch.operand)
        single = section.shape[1] <= machine.spaces[touch.local.space].row_columns
        if web is not None and len(web.writers) == 1 and single and web.readers:
            yield stmt, section, web


def _last_store(block: Block, section: Section, body: Body) -> Command | None:
    """The last store of exactly these elements; None if there is none or others access them."""
    found: Command | None = None
    for stmt in body:
        if isinstance(stmt, Loop):
            if any(section.meets(w) for w in core_parts(stmt, block.kernel)[1]):
                raise NotApplicable(f"the core writes {section.array}")
        elif isinstance(stmt, Command) and block.machine.unit(stmt.name) == "store":
            stored = block.section(stmt)
            if stored is not None and stored.meets(section):
                if not stored.same(section):
                    raise NotApplicable(f"{section.array} is stored in other pieces")
                found = stmt
    return found


def _source(block: Block, store: Command) -> Touch:
    """The rows that a store read, if they are unchanged until the iteration ends."""
    if not is_lossless(store, block):
        raise NotApplicable("the store changes values")
    touch = touches(store, block.machine)[0]
    web = block.web_of(store, touch.operand)
    following = block.body[block.body.index(store) :]
    if web is None or any(w.command in following for w in web.writers):
        raise NotApplicable("the stored rows are written again")
    return touch


def _shared(block: Block) -> Block:
    """The block with each section loaded once; unchanged if this is already so."""
    machine = block.machine
    seen: list[tuple[Command, Section, Web]] = []
    gone: set[Stmt] = set()
    shifts: dict[tuple[Command, int], int] = {}
    for stmt in block.body:
        seen = [e for e in seen if not _overwrites(block, stmt, e[1])]
        if not isinstance(stmt, Command) or machine.unit(stmt.name) != "load":
            continue
        section = block.section(stmt)
        touch = touches(stmt, machine)[0]
        web = block.web_of(stmt, touch.operand)
        if section is None or web is None or len(web.writers) != 1 or touch.adds:
            continue
        for earlier, known, source in seen:
            if (
                known.same(section)
                and source.space == web.space
                and own_setting(earlier, machine) == own_setting(stmt, machine)
            ):
                shift = min(source.rows) - min(web.rows)
                shifts |= {(t.command, t.operand): shift for t in web.readers}
                gone.add(stmt)
                break
        else:
            seen.append((stmt, section, web))
    if not gone:
        return block
    block = moved(block, shifts)
    return renamed(block.with_body(tuple(s for s in block.body if s not in gone)))


def _overwrites(block: Block, stmt: Stmt, section: Section) -> bool:
    if isinstance(stmt, Loop):
        return any(section.meets(w) for w in core_parts(stmt, block.kernel)[1])
    if isinstance(stmt, Command) and block.machine.unit(stmt.name) == "store":
        stored = block.section(stmt)
        return stored is not None and stored.meets(section)
    return False
