"""The blocks of a function's code, and the conditions that decide whether a block runs."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.native.conditions.effects import is_branch
from tilewright.native.conditions.listing import Function


@dataclass(frozen=True, slots=True)
class Block:
    """A range of positions without jumps into its middle or out of it, and the blocks that may run
    next.
    """

    code: range
    after: tuple[int, ...]


def blocks_of(function: Function) -> list[Block]:
    """The blocks, in order. A jump to a place outside the function counts as its end."""
    code = function.code
    starts = {0, *function.labels.values()}
    for at, one in enumerate(code):
        if _ends(one.name):
            starts.add(at + 1)
    firsts = sorted(start for start in starts if start < len(code))
    number = {start: index for index, start in enumerate(firsts)}
    found = []
    for index, (start, end) in enumerate(zip(firsts, [*firsts[1:], len(code)], strict=True)):
        last = code[end - 1]
        after = []
        if last.name.startswith("j") and last.operands:
            target = function.labels.get(last.operands[0])
            if target is not None and target in number:
                after.append(number[target])
        if not last.name.startswith(("jmp", "ret", "ud")) and index + 1 < len(firsts):
            after.append(index + 1)
        found.append(Block(range(start, end), tuple(dict.fromkeys(after))))
    return found


def _ends(name: str) -> bool:
    return name.startswith(("j", "ret", "ud"))


def decided_by(function: Function, blocks: list[Block]) -> dict[int, list[int]]:
    """For each block that ends with a conditional jump, the blocks that the jump decides about.

    A block depends on a jump if it always runs after one direction and not after the other one
    (Ferrante, Ottenstein and Warren, "The program dependence graph", 1987). Sets of blocks are
    whole numbers with one bit for each block.
    """
    everything = (1 << len(blocks)) - 1
    always_after = [everything if block.after else 1 << n for n, block in enumerate(blocks)]
    changed = True
    while changed:
        changed = False
        for n in range(len(blocks) - 1, -1, -1):
            if blocks[n].after:
                shared = everything
                for other in blocks[n].after:
                    shared &= always_after[other]
                shared |= 1 << n
                if shared != always_after[n]:
                    always_after[n], changed = shared, True
    found = {}
    for n, block in enumerate(blocks):
        if is_branch(function.code[block.code[-1]]):
            either = 0
            for other in block.after:
                either |= always_after[other]
            decided = either & ~(always_after[n] & ~(1 << n))
            found[n] = _members(decided)
    return found


def _members(blocks: int) -> list[int]:
    """The numbers in a set."""
    found = []
    while blocks:
        found.append((blocks & -blocks).bit_length() - 1)
        blocks &= blocks - 1
    return found
