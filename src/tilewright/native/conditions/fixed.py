"""Facts about the code of a function that do not depend on which values are data.

A listing is analysed several times, so they are found once and kept with the function.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.native.conditions.blocks import Block, blocks_of, decided_by
from tilewright.native.conditions.effects import Effects, effects_of
from tilewright.native.conditions.implied import implied
from tilewright.native.conditions.listing import Function
from tilewright.native.conditions.stack_cells import is_followed
from tilewright.native.conditions.unwritten import unwritten_reads
from tilewright.native.conditions.values import nan_condition


@dataclass(frozen=True, slots=True)
class Fixed:
    """What is known about a function without following values.

    Attributes:
        effects: those of its instructions.
        conditions: on flags that its instructions read, including tests for NaN.
        blocks: the blocks of its code.
        decided: for each block that ends with a jump, the blocks that this jump decides about.
        follows_stack: whether each access to the stack names its place.
        unwritten: positions that read a place on the stack before it is written.
        implied: positions of conditions that other conditions imply.
    """

    effects: list[Effects]
    conditions: list[str | None]
    blocks: list[Block]
    decided: dict[int, list[int]]
    follows_stack: bool
    unwritten: frozenset[int]
    implied: frozenset[int]


def fixed_of(function: Function) -> Fixed:
    """The facts about a function with code."""
    if function.fixed is None:
        blocks = blocks_of(function)
        effects = [effects_of(one) for one in function.code]
        function.fixed = Fixed(
            effects,
            [one.condition or nan_condition(function, at) for at, one in enumerate(effects)],
            blocks,
            decided_by(function, blocks),
            is_followed(function.code),
            unwritten_reads(function, effects, blocks),
            implied(function, blocks),
        )
    fixed: Fixed = function.fixed
    return fixed


def keeps_values(function: Function) -> bool:
    """Whether a function may read what an earlier call of the kernel has left on the stack: in an
    array, or in a place that the function has not written.
    """
    fixed = fixed_of(function)
    return not fixed.follows_stack or bool(fixed.unwritten)
