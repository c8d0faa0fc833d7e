"""Finds loads that fill a slot of a buffer while products read another slot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilewright.proposers.rewriter.analysis.buffers import Access, Buffer
from tilewright.proposers.rewriter.expr import Remainder
from tilewright.proposers.rewriter.ir import Command, Loop


def prefetched_in(buffers: Iterable[Buffer]) -> Mapping[Command, Loop]:
    """For each such load, the outermost loop that reads only other slots than the load fills.

    Products in this loop do not wait for the load.
    """
    found: dict[Command, Loop] = {}
    for buffer in buffers:
        for load in buffer.writers:
            for loop in (s for s in load.above if isinstance(s, Loop)):
                reads = [a for a in buffer.readers if loop in a.above]
                if reads and all(_in_other_slot(load, read, loop) for read in reads):
                    found[load.command] = loop
                    break
    return found


def _in_other_slot(load: Access, read: Access, loop: Loop) -> bool:
    """Whether the slots differ in all iterations of the loop, for fixed loops outside it."""
    slots = [
        [(a, c) for a, c in access.local.row.terms if isinstance(a, Remainder)]
        for access in (load, read)
    ]
    if len(slots[0]) != 1 or len(slots[1]) != 1:
        return False
    (mine, stride), (other, its_stride) = slots[0][0], slots[1][0]
    distance = mine.of - other.of
    inside = {
        s.var
        for access in (load, read)
        for s in access.above[access.above.index(loop) :]
        if isinstance(s, Loop)
    }
    return (
        (mine.by, stride) == (other.by, its_stride)
        and distance.is_const
        and distance.const % mine.by != 0
        and not (mine.of.names() | other.of.names()) & inside
    )
