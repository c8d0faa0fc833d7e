"""One iteration of a loop as straight-line code, in which it is known what each command moves
where.

In a block, it is known exactly which elements of which array each move accesses, and which command
wrote the local rows that another reads. Therefore, values can be kept, passed on and reordered. In
a block's kernel, each move contains its own settings (`analysis.settings.resolved`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.sections import Section, section_of
from tilewright.proposers.rewriter.analysis.touched_rows import Touch, touches, touches_anywhere
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Kernel,
    Loop,
    Stmt,
    commands,
    rebuilt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine


@dataclass(eq=False)
class Web:
    """The life range of a value in local rows: from the write that overwrites them to the last use
    before the next such write."""

    space: str
    rows: frozenset[int]
    touches: list[Touch]

    @property
    def writers(self) -> list[Touch]:
        """Accesses that write, in order."""
        return [t for t in self.touches if t.writes]

    @property
    def readers(self) -> list[Touch]:
        """Accesses that read and do not write."""
        return [t for t in self.touches if not t.writes]


@dataclass(frozen=True, eq=False)
class Block:
    """A loop whose body contains only commands and loops of assignments that the core executes."""

    kernel: Kernel
    machine: Machine
    loop: Loop

    @property
    def body(self) -> Body:
        """The statements of one iteration."""
        return self.loop.body

    def with_body(self, body: Body, before: Body = ()) -> Block:
        """The block with another body, and with new statements before the loop."""
        loop = replace(self.loop, body=body)
        return replace(
            self,
            loop=loop,
            kernel=self.kernel.with_body(
                rebuilt(self.kernel.body, lambda s: (*before, loop) if s is self.loop else None)
            ),
        )

    def changed(self, new: Mapping[Stmt, Body]) -> Block:
        """The block in which some statements of the body are replaced."""
        return self.with_body(tuple(s for old in self.body for s in new.get(old, (old,))))

    @cached_property
    def outside(self) -> frozenset[tuple[str, int]]:
        """Local rows that commands outside the block use."""
        inside = set(commands(self.body))
        spans = {
            (t.local.space, min(t.rows), max(t.rows) + 1)
            for stmt, above in walk_paths(self.kernel.body)
            if isinstance(stmt, Command) and stmt not in inside
            for t in touches_anywhere(stmt, above, self.machine)
        }
        return frozenset((space, row) for space, low, high in spans for row in range(low, high))

    @cached_property
    def taken(self) -> frozenset[tuple[str, int]]:
        """All local rows that are used."""
        inside = {
            (t.local.space, row)
            for command in commands(self.body)
            for t in touches(command, self.machine)
            for row in t.rows
        }
        return self.outside | inside

    @cached_property
    def webs(self) -> list[Web]:
        """All webs whose values are written in the body and used nowhere else."""
        return find_webs(self)

    def web_of(self, command: Command, operand: int) -> Web | None:
        """The web to which an operand belongs; None for rows that are also used outside."""
        return next(
            (
                w
                for w in self.webs
                if any(t.command is command and t.operand == operand for t in w.touches)
            ),
            None,
        )

    def section(self, move: Command) -> Section | None:
        """The elements that a load or store accesses; None for other commands and for moves of
        zeros."""
        return section_of(move, self.kernel, self.machine)


def find_webs(block: Block) -> list[Web]:
    """The webs of a body. Rows that are used outside, or read before they are written, belong to
    none."""
    current: dict[tuple[str, int], Web | None] = {}
    found: list[Web] = []
    fixed = set(block.outside)
    for command in commands(block.body):
        for touch in sorted(touches(command, block.machine), key=lambda t: t.writes):
            rows = {(touch.local.space, r) for r in touch.rows}
            if touch.writes and not touch.adds:
                web = Web(touch.local.space, touch.rows, [touch])
                current.update(dict.fromkeys(rows, web))
                found.append(web)
                continue
            webs = {current.get(r) for r in rows}
            if webs == {None}:
                fixed |= rows
                continue
            if len(webs) > 1:
                raise NotApplicable("a command uses rows that several others wrote")
            used = webs.pop()
            assert used is not None
            used.touches.append(touch)
    return [w for w in found if not any((w.space, r) in fixed for r in w.rows)]
