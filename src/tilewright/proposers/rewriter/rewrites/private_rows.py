"""Passes values from iteration to iteration in separate local rows for each iteration, instead of
copying them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.proposers.rewriter.analysis.block import Block, Web
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import env_of, trips
from tilewright.proposers.rewriter.analysis.touched_rows import Touch, touches, touches_anywhere
from tilewright.proposers.rewriter.expr import Expr, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Kernel,
    Loop,
    Stmt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.block_moves import check_results_unchanged
from tilewright.proposers.rewriter.rewrites.factors import replace_operand
from tilewright.proposers.rewriter.rewrites.straight_line import (
    block_of,
    free_rows,
    renamed,
    rolled_up,
    straight_code,
)


@dataclass(frozen=True, slots=True)
class _Copy:
    """Rows that are copied through the array at the end of an iteration for the next one."""

    latch: Command
    use: Command
    result: Web
    kept: frozenset[int]
    space: str


def give_own_rows(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Let an iteration read the previous iteration's result from the rows where it was computed.

    Before: `load(x, SPAD(0)); for i { .. use(SPAD(0)) .. ACC(4) ..; copy(ACC(4), SPAD(0)); }`
    After:  `load(x, ACC(4)); for i { .. use(ACC(i + 4)) .. ACC(i + 5) ..; }`

    Legal if memory has space for the rows of all iterations, both memories have the same element
    type, the array applies no function to the rows, and only loads before the loop write them.
    """
    return rolled_up(_with_own_rows(renamed(block_of(kernel, machine, loop))))


def _with_own_rows(block: Block) -> Block:
    copies = list(_copies(block))
    if not copies:
        raise NotApplicable(f"loop {block.loop.var} copies nothing for its next iteration")
    check_results_unchanged(block)
    spaces = {(c.result.space, c.space) for c in copies}
    if len(spaces) > 1:
        raise NotApplicable("a value that is passed on is in several memories")
    ((space, kept_space),) = spaces
    if block.machine.element(space) != block.machine.element(kept_space):
        raise NotApplicable(f"{space} and {kept_space} hold elements of different types")
    low = min(row for c in copies for row in c.result.rows)
    count = max(row for c in copies for row in c.result.rows) + 1 - low
    count += -count % block.loop.step
    start, iteration = _start(block, copies, count), block.loop.lower * -1 + var(block.loop.var)
    before = iteration * (count // block.loop.step) + (start - low)
    new: dict[Stmt, list[Stmt]] = {s: [] for c in copies for s in (c.latch, c.use)}
    for copy in copies:
        for touch in copy.result.touches:
            if touch.command is not copy.use:
                _put(new, touch, space, before + count)
    for touch in _readers(block, copies):
        _put(new, touch, space, before + _further(touch, copies))
    block = _with_first(block, copies, start - low)
    return block.changed({stmt: tuple(to) for stmt, to in new.items()})


def _put(new: dict[Stmt, list[Stmt]], touch: Touch, space: str, by: Expr) -> None:
    local = replace(touch.local, space=space, row=touch.local.row + by)
    replace_operand(new, touch.command, touch.operand, local)


def _copies(block: Block) -> Iterator[_Copy]:
    """Products with no operand at the end of the body that copy rows to others, which the next
    iteration uses."""
    machine = block.machine
    for latch, use in zip(block.body, block.body[1:], strict=False):
        if not (isinstance(latch, Command) and isinstance(use, Command)):
            continue
        if not (machine.attribute(latch.name, "latches") and machine.attribute(use.name, "uses")):
            continue
        written, read = touches(latch, machine), touches(use, machine)
        addend = int(machine.attribute(use.name, "addend") or 0)
        operand = machine.local_operands(use.name)[addend]
        if len(written) != 1 or len(read) != 1 or read[0].operand != operand:
            continue
        result, kept = block.web_of(use, operand), written[0]
        same_size = result is not None and len(result.rows) == len(kept.rows)
        if result is None or not same_size or result.rows != read[0].rows or kept.adds:
            continue
        if {(kept.local.space, row) for row in kept.rows} <= block.outside:
            yield _Copy(latch, use, result, kept.rows, kept.local.space)


def _start(block: Block, copies: list[_Copy], count: int) -> int:
    """The first free row for the values that every iteration passes on."""
    fewest, most = trips(block.loop, env_of(_above(block)))
    if fewest != most or not block.loop.lower.is_const:
        raise NotApplicable(f"the number of iterations of loop {block.loop.var} varies")
    web = copies[0].result
    return free_rows(block.machine, web, block.taken, count * (int(most) + 1))


def _above(block: Block) -> Body:
    return next(above for stmt, above in walk_paths(block.kernel.body) if stmt is block.loop)


def _kept(copies: list[_Copy]) -> frozenset[int]:
    return frozenset(row for c in copies for row in c.kept)


def _further(touch: Touch, copies: list[_Copy]) -> int:
    """The distance from the rows that a copy writes to those that it reads."""
    for copy in copies:
        if touch.rows <= copy.kept:
            return min(copy.result.rows) - min(copy.kept)
    raise NotApplicable("a value that is passed on is used in other pieces")


def _readers(block: Block, copies: list[_Copy]) -> list[Touch]:
    """The readers of the kept values; `NotApplicable` if the rows have any other use."""
    first = min(block.body.index(c.latch) for c in copies)
    own = {s for c in copies for s in (c.latch, c.use)}
    last = max((block.body.index(t.command) for c in copies for t in c.result.writers), default=0)
    if last > first:
        raise NotApplicable("a value that is passed on is written again")
    kept, found = _kept(copies), []
    for position, stmt in enumerate(block.body):
        if not isinstance(stmt, Command) or stmt in own:
            continue
        for touch in touches(stmt, block.machine):
            if touch.local.space == copies[0].space and touch.rows & kept:
                if touch.writes or position > first:
                    raise NotApplicable("rows that are kept are also used for something else")
                found.append(touch)
    return found


def _with_first(block: Block, copies: list[_Copy], by: int) -> Block:
    """The values that the first iteration reads, loaded into rows for results, `by` rows
    further."""
    machine, space, kept = block.machine, copies[0].space, _kept(copies)
    if block.loop not in block.kernel.body:
        raise NotApplicable(f"loop {block.loop.var} is inside another loop")

    def uses_kept(top: Stmt) -> bool:
        return any(
            touch.local.space == space and touch.rows & kept
            for stmt, above in walk_paths((top,))
            if isinstance(stmt, Command)
            for touch in touches_anywhere(stmt, above, machine)
        )

    body: list[Stmt] = []
    around = False
    for top in block.kernel.body:
        around |= top is block.loop
        if top is block.loop or not uses_kept(top):
            body.append(top)
            continue
        for stmt in straight_code((top,), ()):
            found = touches(stmt, machine) if isinstance(stmt, Command) else ()
            if not (isinstance(stmt, Command) and found):
                body.append(stmt)
                continue
            touch = found[0]
            if machine.unit(stmt.name) != "load" or touch.adds or around:
                raise NotApplicable("rows that are kept are used around the loop")
            operands = list(stmt.operands)
            row = touch.local.row + _further(touch, copies) + by
            operands[touch.operand] = replace(touch.local, space=copies[0].result.space, row=row)
            body.append(replace(stmt, operands=tuple(operands)))
    return replace(block, kernel=block.kernel.with_body(tuple(body)))
