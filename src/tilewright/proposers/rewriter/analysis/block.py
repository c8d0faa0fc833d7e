"""One iteration of a loop as straight code: which values it moves where.

The rewrites of a block know exactly which elements of which array each move touches and which
command wrote the local rows that another reads, so values can be kept, handed over and reordered.
A block's kernel carries its settings in its moves (`analysis.settings.resolved`).
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
    """Local rows from where they are overwritten to their last use before they are again."""

    space: str
    rows: frozenset[int]
    touches: list[Touch]

    @property
    def writers(self) -> list[Touch]:
        """Touches that write, in order."""
        return [t for t in self.touches if t.writes]

    @property
    def readers(self) -> list[Touch]:
        """Touches that read and do not write."""
        return [t for t in self.touches if not t.writes]


@dataclass(frozen=True, eq=False)
class Block:
    """A loop whose body holds commands and loops of the core's own assignments, nothing else."""

    kernel: Kernel
    machine: Machine
    loop: Loop

    @property
    def body(self) -> Body:
        """The statements of one iteration."""
        return self.loop.body

    def with_body(self, body: Body, before: Body = ()) -> Block:
        """The block with another body, and new statements before the loop."""
        loop = replace(self.loop, body=body)
        return replace(
            self,
            loop=loop,
            kernel=self.kernel.with_body(
                rebuilt(self.kernel.body, lambda s: (*before, loop) if s is self.loop else None)
            ),
        )

    def changed(self, new: Mapping[Stmt, Body]) -> Block:
        """The block with some statements of its body replaced."""
        return self.with_body(tuple(s for old in self.body for s in new.get(old, (old,))))

    @cached_property
    def outside(self) -> frozenset[tuple[str, int]]:
        """Local rows that commands around the block use."""
        inside = set(commands(self.body))
        return frozenset(
            (t.local.space, row)
            for stmt, above in walk_paths(self.kernel.body)
            if isinstance(stmt, Command) and stmt not in inside
            for t in touches_anywhere(stmt, above, self.machine)
            for row in t.rows
        )

    @cached_property
    def taken(self) -> frozenset[tuple[str, int]]:
        """Local rows that anything uses."""
        inside = {
            (t.local.space, row)
            for command in commands(self.body)
            for t in touches(command, self.machine)
            for row in t.rows
        }
        return self.outside | inside

    @cached_property
    def webs(self) -> list[Web]:
        """All webs of the body that are defined inside and used nowhere else."""
        return find_webs(self)

    def web_of(self, command: Command, operand: int) -> Web | None:
        """The web an operand belongs to; None for rows that are also used outside."""
        return next(
            (
                w
                for w in self.webs
                if any(t.command is command and t.operand == operand for t in w.touches)
            ),
            None,
        )

    def section(self, move: Command) -> Section | None:
        """The elements a load or store touches; None for other commands and moves of zeros."""
        return section_of(move, self.kernel, self.machine)


def find_webs(block: Block) -> list[Web]:
    """Webs of a body; rows used outside, or read before they are written, belong to none."""
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
