"""Moves sums of vectors that the core computes to the accumulator."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tilewright.proposers.rewriter.analysis.block import Block, Web
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.placement import ELSEWHERE
from tilewright.proposers.rewriter.analysis.sections import Section, core_parts, core_section
from tilewright.proposers.rewriter.analysis.touched_rows import touches
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Assign,
    Command,
    Dram,
    Flag,
    Local,
    Loop,
    Stmt,
    walk,
)
from tilewright.proposers.rewriter.rewrites.block_moves import (
    adding,
    element_of,
    fence_of,
    is_lossless,
    load_like,
    product_commands,
    store_of,
)
from tilewright.proposers.rewriter.rewrites.factors import Edits, replace_operand, scale_product
from tilewright.proposers.rewriter.rewrites.fences import is_ordered
from tilewright.proposers.rewriter.rewrites.straight_line import on_block


@dataclass(frozen=True, slots=True)
class _Part:
    """A store of products, and the life range of their sums."""

    store: Command
    section: Section
    web: Web


@dataclass(frozen=True, slots=True)
class _Term:
    """A summand, which is computed by products in parts, or is in memory."""

    factor: float
    section: Section
    parts: tuple[_Part, ...]


@on_block
def offload(block: Block) -> Block:
    """Let the accumulator add and negate what the core adds after products are stored.

    Before: `product(a, b, ACC(0)); store(T, ACC(0)); fence(); for j { T[j] = -T[j] - d[j]; }`
    After:  `load(-d, ACC(0)); product(-a, b, ACC(0) | ADD); store(T, ACC(0)); fence();`

    Summands in memory are loaded into the accumulator before the products, with their factor as
    scale. Nothing may write them in between. The factor of a product is applied in the load of its
    streamed operand. Legal for factors that are powers of two, if stores do not change values and
    arrays have the accumulator's type, if nothing else reads the products' own results, and if
    their sums consist only of products. Sums are computed in another order, and for floats the
    check allows the resulting error.
    """
    refusal = NotApplicable(f"the core computes nothing in loop {block.loop.var}")
    for stmt in block.body:
        if isinstance(stmt, Loop):
            try:
                return _offloaded(block, stmt)
            except NotApplicable as reason:
                refusal = reason
    raise refusal


def _offloaded(block: Block, loop: Loop) -> Block:
    assign = loop.body[0]
    if len(loop.body) != 1 or not isinstance(assign, Assign) or assign.constant:
        raise NotApplicable("the core computes more than a sum of elements")
    target = core_section(assign.target, loop, block.kernel)
    terms = [_term(block, loop, f, core_section(s, loop, block.kernel)) for f, s in assign.terms]
    made = [t for t in terms if t.parts]
    if not made:
        raise NotApplicable("no product computes what the core adds")
    if any(not _is_power_of_two(t.factor) for t in terms):
        raise NotApplicable("a factor is not a power of two")
    tiles = _tiles(made)
    _check_unused(block, loop, target, made)
    edits = Edits()
    new = edits.new
    stores: list[Stmt] = []
    for number, tile in enumerate(tiles):
        stores.append(_summed(block, loop, target, terms, tile, ELSEWHERE + 64 * number, edits))
    for term in made:
        for part in term.parts:
            new[part.store] = []
    stores[0] = replace(stores[0], notes=loop.notes)
    waiting = block.body[block.body.index(loop) - 1]
    is_wait = isinstance(waiting, Command) and block.machine.unit(waiting.name) == "sync"
    for gone, fences in ((True, []), (True, [fence_of(block)]), (False, [fence_of(block)])):
        # The core need not wait for the results any more, but perhaps for the sum.
        new[loop] = [*stores, *fences]
        if is_wait:
            new[waiting] = [] if gone else [waiting]
        after = _edited(block, edits)
        if is_ordered(after.kernel, block.machine):
            return without_dead_loads(after)
    raise NotApplicable("it is not known whether the order of the memory accesses is preserved")


def _edited(block: Block, edits: Edits) -> Block:
    copies = tuple(copy for _, copy in edits.copies.values())
    changed = block.changed({s: tuple(n) for s, n in edits.new.items()})
    return changed.with_body(changed.body, copies) if copies else changed


def _term(block: Block, loop: Loop, factor: float, section: Section) -> _Term:
    """A summand, with the stores that wrote it in this iteration, if any."""
    parts: list[_Part] = []
    for stmt in block.body[: block.body.index(loop)]:
        if isinstance(stmt, Loop):
            if any(section.meets(w) for w in core_parts(stmt, block.kernel)[1]):
                parts.clear()
        elif isinstance(stmt, Command) and block.machine.unit(stmt.name) == "store":
            stored = block.section(stmt)
            if stored is not None and stored.meets(section):
                parts.append(_part(block, stmt, stored))
    covered = [o for p in parts for o in _relative(p.section, section)]
    if parts and sorted(covered) != sorted(section.offsets):
        raise NotApplicable(f"{section.array} is not stored piece by piece")
    return _Term(factor, section, tuple(parts))


def _part(block: Block, store: Command, section: Section) -> _Part:
    if not is_lossless(store, block):
        raise NotApplicable(f"the store to {section.array} changes values")
    read = touches(store, block.machine)[0]
    web = block.web_of(store, read.operand)
    if web is None or web.rows != read.rows or len(web.readers) != 1:
        raise NotApplicable(f"what is stored to {section.array} is also used elsewhere")
    units = {block.machine.unit(w.command.name) for w in web.writers}
    if units != {"execute"} or any(w.rows != web.rows for w in web.writers):
        raise NotApplicable(f"{section.array} is not a sum of products")
    return _Part(store, section, web)


def _relative(part: Section, whole: Section) -> list[int]:
    apart = part.start - whole.start
    if not apart.is_const:
        raise NotApplicable(f"{part.array} is not stored piece by piece")
    return [o + apart.const for o in part.offsets]


def _tiles(made: list[_Term]) -> list[list[_Part]]:
    """For each piece of the result, the corresponding parts of all computed summands."""
    pieces = [{min(_relative(p.section, t.section)): p for p in t.parts} for t in made]
    first = pieces[0]
    for other in pieces[1:]:
        if other.keys() != first.keys() or any(
            other[o].section.offsets != first[o].section.offsets
            or other[o].section.shape != first[o].section.shape
            for o in first
        ):
            raise NotApplicable("summands are computed in different pieces")
    return [[p[offset] for p in pieces] for offset in sorted(first)]


def _check_unused(block: Block, loop: Loop, target: Section, made: list[_Term]) -> None:
    """The products' own results must be read only by the core's loop."""
    for term in made:
        inside = [s for s, _ in _readers(block, term.section.array) if s is not loop]
        same = [s for s, r in _readers(block, term.section.array) if r.meets(term.section)]
        is_overwritten = term.section.same(target)
        is_local = next(a.local for a in block.kernel.arrays if a.name == term.section.array)
        if not (is_overwritten or is_local):
            raise NotApplicable(f"{term.section.array} is a result of its own")
        position = block.body.index(loop)
        first = min(block.body.index(p.store) for p in term.parts)
        between = [s for s in same if first < block.body.index(s) < position]
        outside = term.section.array in _arrays_around(block)
        if between or (not is_overwritten and (inside or outside)):
            raise NotApplicable(f"{term.section.array} is also read elsewhere")


def _arrays_around(block: Block) -> set[str]:
    """Arrays that code outside the loop uses."""
    inside = {id(s) for s in walk(block.body)}
    return {
        dram.array
        for stmt in walk(block.kernel.body)
        if id(stmt) not in inside
        for dram in (
            stmt.operands
            if isinstance(stmt, Command)
            else (stmt.target, *(d for _, d in stmt.terms))
            if isinstance(stmt, Assign)
            else ()
        )
        if isinstance(dram, Dram)
    }


def _readers(block: Block, array: str) -> list[tuple[Stmt, Section]]:
    """Statements of the body that read an array, with the elements that they read."""
    found: list[tuple[Stmt, Section]] = []
    for stmt in block.body:
        if isinstance(stmt, Loop):
            found.extend((stmt, r) for r in core_parts(stmt, block.kernel)[0])
        elif isinstance(stmt, Command) and block.machine.unit(stmt.name) == "load":
            read = block.section(stmt)
            found.extend([(stmt, read)] if read is not None else [])
    return [(s, r) for s, r in found if r.array == array]


def _summed(
    block: Block,
    loop: Loop,
    target: Section,
    terms: list[_Term],
    tile: list[_Part],
    row: int,
    edits: Edits,
) -> Command:
    """Rewrite all summands of one piece, and return its store."""
    made = [t for t in terms if t.parts]
    space, like, new = tile[0].web.space, tile[0].store, edits.new
    if block.machine.element(space) != element_of(block.kernel, target.array):
        raise NotApplicable(f"{target.array} has another type than {space}")
    apart = (tile[0].section.start - made[0].section.start).const
    writes = sorted(
        (
            (block.body.index(touch.command), touch, term.factor)
            for term, part in zip(made, tile, strict=True)
            for touch in part.web.writers
        ),
        key=lambda write: write[0],
    )
    first = product_commands(block, writes[0][1].command)[0]
    loads: list[Stmt] = []
    for term in (t for t in terms if not t.parts):
        section = replace(
            tile[0].section, array=term.section.array, start=term.section.start + apart
        )
        if _is_written(block, section, first, loop):
            raise NotApplicable(f"{section.array} is written shortly before it is added")
        local = adding(space, row, block.machine) if loads else Local(space, Expr(row))
        loads.append(load_like(block, like, section, local, term.factor))
    if loads:
        new.setdefault(first, [first])[:0] = loads
    begun = bool(loads)
    for _, touch, factor in writes:
        local = adding(space, row, block.machine) if begun else Local(space, Expr(row))
        replace_operand(new, touch.command, touch.operand, local)
        begun = True
        if factor != 1.0:
            scale_product(block, touch.command, factor, edits)
    whole = replace(tile[0].section, array=target.array, start=target.start + apart)
    return store_of(block, like, whole, Local(space, Expr(row), _flags(like)))


def _flags(store: Command) -> tuple[Flag, ...]:
    return next(o.flags for o in store.operands if isinstance(o, Local))


def _is_written(block: Block, section: Section, first: Stmt, loop: Loop) -> bool:
    """Whether a summand in memory is stored between the first product and the core's loop."""
    body = block.body[block.body.index(first) : block.body.index(loop)]
    for stmt in body:
        if isinstance(stmt, Loop):
            if any(section.meets(w) for w in core_parts(stmt, block.kernel)[1]):
                return True
        elif isinstance(stmt, Command) and block.machine.unit(stmt.name) == "store":
            stored = block.section(stmt)
            if stored is not None and stored.meets(section):
                return True
    return False


def without_dead_loads(block: Block) -> Block:
    """The kernel without loads into rows that nothing reads."""
    dead = {
        web.writers[0].command
        for web in block.webs
        if len(web.touches) == 1 and block.machine.unit(web.writers[0].command.name) == "load"
    }
    return block.changed(dict.fromkeys(dead, ()))


def _is_power_of_two(factor: float) -> bool:
    return math.frexp(abs(factor))[0] == 0.5
