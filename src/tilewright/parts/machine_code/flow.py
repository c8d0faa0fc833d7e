"""The control flow graph of machine code, and its loops.

The loops are natural loops: an edge back to a block that dominates the edge, with all blocks from
which the edge can be reached without passing this block. The destinations of jumps to addresses in
registers are unknown, so loops that only such jumps close are not found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.parts.machine_code.graphs import postorder
from tilewright.parts.machine_code.instructions import Instruction
from tilewright.parts.machine_code.post_dominance import always_after, first_after


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop by the positions of its instructions.

    `blocks` are ranges of positions, in order; `own` are those blocks that are in no inner loop.
    `back` is the position of the last jump back. `parent` is the index of the innermost enclosing
    loop in the list of loops. `straight` is true if every iteration executes all of `own`, and
    `one_path` if all iterations but the last one do, which may leave the loop earlier.
    """

    blocks: tuple[range, ...]
    own: tuple[range, ...]
    back: int
    parent: int | None
    depth: int
    innermost: bool
    straight: bool
    one_path: bool


def find_loops(code: Sequence[Instruction], entries: Iterable[int]) -> list[Loop]:
    """All loops of the functions at these addresses and of those they call, in address order.

    Code that none of them reaches, for example code called through a register, is treated as
    further functions.
    """
    entries = list(entries)
    graph = _Graph(code, entries)
    bodies: dict[int, set[int]] = {}
    latches: dict[int, list[int]] = {}
    dominators: dict[int, Mapping[int, int]] = {}
    for root in graph.roots(entries):
        before = graph.dominators(root)
        for block in before:
            for header in graph.after[block]:
                if header in before and _dominates(before, header, block):
                    bodies.setdefault(header, {header}).update(graph.loop_blocks(header, block))
                    ends = latches.setdefault(header, [])
                    ends += [block] * (block not in ends)
                    dominators.setdefault(header, before)
    return _nested(graph, bodies, latches, dominators)


def reached(code: Sequence[Instruction], entries: Iterable[int]) -> list[Instruction]:
    """The code of the functions at these addresses and of the functions that they are known to
    call.
    """
    entries = list(entries)
    graph = _Graph(code, entries)
    at = {one.address: position for position, one in enumerate(code)}
    seen = set[int]()
    open_ = [graph.block_at(at[address]) for address in entries if address in at]
    while open_:
        block = open_.pop()
        if block in seen:
            continue
        graph.reach(block, seen)
        found = (code[p].target for b in seen for p in graph.blocks[b] if code[p].flow == "call")
        open_ += {graph.block_at(at[t]) for t in found if t is not None and t in at} - seen
    return [code[p] for b in sorted(seen) for p in graph.blocks[b]]


def joins(code: Sequence[Instruction]) -> dict[int, int]:
    """The address at which both ways of a branch meet again, by the branch's address. Branches
    whose ways meet only at the end of their function are left out.

    Raises `TooLargeError` if there are more blocks than can be examined.
    """
    graph = _Graph(code)
    always = always_after(graph.after)
    found = {}
    for number, block in enumerate(graph.blocks):
        last = code[block[-1]]
        if last.flow == "branch":
            meeting = first_after(number, always)
            if meeting is not None:
                found[last.address] = code[graph.blocks[meeting][0]].address
    return found


class _Graph:
    """The control flow graph: for each block, its range of positions and its successors."""

    def __init__(self, code: Sequence[Instruction], entries: Iterable[int] = ()) -> None:
        self.code = code
        at = {instruction.address: position for position, instruction in enumerate(code)}
        firsts = {at[entry] for entry in entries if entry in at} | ({0} if code else set())
        for position, one in enumerate(code):
            if one.flow != "next" and one.flow != "call":
                firsts.add(position + 1)
            if one.target is not None and one.target in at:
                firsts.add(at[one.target])
        starts = sorted(first for first in firsts if first < len(code))
        ends = [*starts[1:], len(code)]
        self.blocks = [range(start, end) for start, end in zip(starts, ends, strict=True)]
        self._at = at
        self._block_of = {block.start: number for number, block in enumerate(self.blocks)}
        self.after = [self._after(number) for number in range(len(self.blocks))]
        self.before: list[list[int]] = [[] for _ in self.blocks]
        for number, following in enumerate(self.after):
            for other in following:
                self.before[other].append(number)

    def _after(self, number: int) -> list[int]:
        last = self.code[self.blocks[number][-1]]
        found = []
        if last.flow in ("next", "branch", "call") and number + 1 < len(self.blocks):
            found.append(number + 1)
        if last.flow in ("branch", "jump") and last.target is not None:
            target = self._at.get(last.target)
            if target is not None:
                found.append(self._block_of[target])
        return list(dict.fromkeys(found))

    def roots(self, entries: Iterable[int]) -> list[int]:
        """The first blocks of functions: the given ones, those that are called, and those that
        nothing reaches.
        """
        called = (one.target for one in self.code if one.flow == "call" and one.target is not None)
        known = [self._at[a] for a in dict.fromkeys((*entries, *called)) if a in self._at]
        roots = [self._block_of[p] for p in known if p in self._block_of]
        seen = set[int]()
        for root in roots:
            self.reach(root, seen)
        for number, block in enumerate(self.blocks):
            if number not in seen and not all(self.code[p].padding for p in block):
                roots.append(number)
                self.reach(number, seen)
        return roots

    def block_at(self, position: int) -> int:
        """The block that begins at this position, which must be the target of a jump or call."""
        return self._block_of[position]

    def reach(self, root: int, seen: set[int]) -> None:
        """Add the blocks that may run after this one begins, within its function."""
        open_ = [root]
        while open_:
            block = open_.pop()
            if block not in seen:
                seen.add(block)
                open_ += self.after[block]

    def dominators(self, root: int) -> dict[int, int]:
        """The immediate dominator of each block that the root reaches. That of the root is the root
        itself.

        After Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
        """
        order = postorder(self.after, [root])
        number = {block: position for position, block in enumerate(order)}
        found = {root: root}
        changed = True
        while changed:
            changed = False
            for block in reversed(order[:-1]):
                known = [other for other in self.before[block] if other in found]
                best = known[0]
                for other in known[1:]:
                    best = _meet(best, other, found, number)
                if found.get(block) != best:
                    found[block], changed = best, True
        return found

    def loop_blocks(self, header: int, latch: int) -> set[int]:
        """The blocks that reach `latch` without passing `header`, and both of these."""
        found = {header}
        open_ = [latch]
        while open_:
            block = open_.pop()
            if block not in found:
                found.add(block)
                open_ += self.before[block]
        return found


def _meet(one: int, other: int, found: Mapping[int, int], number: Mapping[int, int]) -> int:
    while one != other:
        while number[one] < number[other]:
            one = found[one]
        while number[other] < number[one]:
            other = found[other]
    return one


def _dominates(before: Mapping[int, int], one: int, block: int) -> bool:
    while block != one and before[block] != block:
        block = before[block]
    return block == one


def _nested(
    graph: _Graph,
    bodies: Mapping[int, set[int]],
    latches: Mapping[int, Sequence[int]],
    dominators: Mapping[int, Mapping[int, int]],
) -> list[Loop]:
    headers = sorted(bodies, key=lambda header: (graph.blocks[header].start, header))
    parents: dict[int, int | None] = {}
    for header in headers:
        around = [h for h in headers if h != header and bodies[header] < bodies[h]]
        parents[header] = min(around, key=lambda h: len(bodies[h]), default=None)
    loops = []
    for header in headers:
        inner = [bodies[h] for h in headers if parents[h] == header]
        own = bodies[header].difference(*inner)
        depth, up = 1, parents[header]
        while up is not None:
            depth, up = depth + 1, parents[up]
        parent = parents[header]
        loops.append(
            Loop(
                blocks=tuple(graph.blocks[b] for b in sorted(bodies[header])),
                own=tuple(graph.blocks[b] for b in sorted(own)),
                back=max(graph.blocks[b][-1] for b in latches[header]),
                parent=None if parent is None else headers.index(parent),
                depth=depth,
                innermost=not inner,
                straight=_is_straight(
                    graph, own, bodies[header], latches[header], dominators[header]
                ),
                one_path=all(
                    sum(other in bodies[header] for other in graph.after[b]) == 1
                    for b in bodies[header]
                ),
            )
        )
    return loops


def _is_straight(
    graph: _Graph,
    own: set[int],
    body: set[int],
    latches: Sequence[int],
    before: Mapping[int, int],
) -> bool:
    """Whether every iteration executes all of `own` exactly once. The loop then has one jump back,
    no branch that skips a part, and no exit before the jump back, which would make the last
    iteration shorter.
    """
    if len(latches) != 1 or latches[0] not in own:
        return False
    (latch,) = latches
    leaves = any(other not in body for b in body - {latch} for other in graph.after[b])
    return not leaves and all(_dominates(before, block, latch) for block in own)
