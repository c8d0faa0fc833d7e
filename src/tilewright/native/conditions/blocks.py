"""The blocks of a function's code, and the conditions that decide whether a block runs."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.native.conditions.effects import effects_of
from tilewright.native.conditions.listing import Function
from tilewright.parts.machine_code.post_dominance import always_after, members


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
    (Ferrante, Ottenstein and Warren, "The program dependence graph", 1987).
    """
    always = always_after([block.after for block in blocks])
    found = {}
    for n, block in enumerate(blocks):
        if effects_of(function.code[block.code[-1]]).is_branch:
            either = 0
            for other in block.after:
                either |= always[other]
            decided = either & ~(always[n] & ~(1 << n))
            found[n] = [number for number in members(decided) if number < len(blocks)]
    return found
