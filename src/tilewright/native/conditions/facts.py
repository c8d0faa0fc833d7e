"""What an analysis finds: instructions whose results depend on data, and facts about functions."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.native.conditions.blocks import Block
from tilewright.native.conditions.effects import Effects
from tilewright.native.conditions.listing import Function, Instruction


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction whose result depends on data: its condition, or the operand that is recorded
    before it and its size in bytes, or neither for a computed jump.
    """

    instruction: Instruction
    condition: str | None = None
    value: tuple[str, int] | None = None
    is_load: bool = False  # whether a hash of all values is recorded, instead of one value
    is_result: bool = False  # whether the values of such a hash are those after the instruction
    is_float: bool = False  # whether the values of such a hash are floating-point numbers
    other: tuple[str, str] | None = None  # an operation on the value, and its other operand

    @property
    def is_jump(self) -> bool:
        """Whether it is a jump or a call to an address that depends on data."""
        return self.condition is None and self.value is None


@dataclass(slots=True)
class Known:
    """The facts that are known about a function so far. Facts are only added, until nothing
    changes.
    """

    function: Function
    effects: list[Effects]
    conditions: list[str | None]  # on flags that the instructions read, including tests for NaN
    blocks: list[Block]
    decided: dict[int, list[int]]
    follows_stack: bool  # whether the states contain cells of the stack
    launches: bool  # whether it passes on addresses and sizes only
    unwritten: frozenset[int]  # positions that read a place on the stack before it is written
    exempt: frozenset[int] = frozenset()  # positions that are no special cases
    entry: set[str] = field(default_factory=set)
    given_on_stack: bool = False  # whether an argument that it reads from the stack is data
    results: set[str] = field(default_factory=set)
    undecided: bool = False
    called: bool = False
    launched: bool | None = None  # whether its address is taken, only by functions that launch
    uncertain: set[int] = field(default_factory=set)
    slots: dict[tuple[str, int], bool] = field(default_factory=dict)
    arrays: dict[str, int] = field(default_factory=dict)
    arrays_hold_data: bool = False
    stores: bool = False  # whether it, or a function that it calls, writes data through an address
    sites: dict[int, Site] = field(default_factory=dict)

    @property
    def passes_on_stack(self) -> bool:
        """Whether it writes data to places on the stack where a function that it calls, or that it
        jumps to, may look for its arguments.
        """
        ends = self.arrays_hold_data and "sp" in self.arrays
        named = any(
            data and (base == "sp" or offset > 0) for (base, offset), data in self.slots.items()
        )
        return ends or named or self.given_on_stack
