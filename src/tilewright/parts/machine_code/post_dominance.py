"""The blocks of a control flow graph that run whenever another block has run."""

from __future__ import annotations

from collections.abc import Sequence

MOST_BLOCKS = 4000
"""Maximum number of blocks of a graph, which bounds the time to some seconds."""


class TooLargeError(Exception):
    """The code is too large to be examined, for a reason that is a sentence."""

    def __init__(self, reason: str = "it has more code than can be examined.") -> None:
        super().__init__(reason)


def always_after(after: Sequence[Sequence[int]]) -> list[int]:
    """For each block, the blocks through which every path from it to an end leads, including
    itself.

    `after` are the successors of each block. A block without successors is an end. Sets of blocks
    are integers with one bit for each block. The set of a block that cannot reach an end
    contains all blocks, and one number more. Raises `TooLargeError` if there are more than
    `MOST_BLOCKS`.
    """
    if len(after) > MOST_BLOCKS:
        raise TooLargeError
    everything = (1 << len(after) + 1) - 1
    found = [everything if following else 1 << n for n, following in enumerate(after)]
    changed = True
    while changed:
        changed = False
        for n in range(len(after) - 1, -1, -1):
            if after[n]:
                shared = everything
                for other in after[n]:
                    shared &= found[other]
                shared |= 1 << n
                if shared != found[n]:
                    found[n], changed = shared, True
    return found


def first_after(block: int, found: Sequence[int]) -> int | None:
    """The first of the blocks that always run after this one, or None. `found` is the result of
    `always_after`.
    """
    if found[block] >> len(found):  # it cannot reach an end
        return None
    later = members(found[block] & ~(1 << block))
    return max(later, key=lambda other: found[other].bit_count(), default=None)


def members(blocks: int) -> list[int]:
    """The numbers in a set."""
    found = []
    while blocks:
        found.append((blocks & -blocks).bit_length() - 1)
        blocks &= blocks - 1
    return found
