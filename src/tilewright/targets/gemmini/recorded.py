"""What the co-simulator recorded of an instruction that reads data, in all calls of a kernel."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.parts.untested_conditions import NO_SEQUENCE, Kind, is_same_in_all

if TYPE_CHECKING:
    from tilewright.targets.gemmini.sim import Condition, Hashes

LEAST_SHARE = 4
"""An instruction must have read data in one of so many calls at least, or else its sequences of
values are not compared.
"""


@dataclass(slots=True)
class Recorded:
    """The results of a condition, or the numbers that another instruction computed, and what they
    were computed from.
    """

    is_jump: bool = False
    is_number: bool = False
    is_kept: bool = False
    was_false: bool = False
    was_true: bool = False
    operands: list[Hashes] = field(default_factory=list)
    results: list[Hashes] = field(default_factory=list)
    values: list[Sequence[Hashes]] = field(default_factory=list)
    producers: list[set[int]] = field(default_factory=list)

    @property
    def kind(self) -> Kind:
        """What is untested, if it is."""
        if self.is_jump:
            return "jump"
        return "kept" if self.is_kept else "number" if self.is_number else "condition"

    def add(self, one: Condition) -> None:
        """What was recorded in further calls."""
        self.is_jump |= one.is_jump
        self.is_number |= one.is_number
        self.is_kept |= one.is_kept
        self.was_false |= one.was_false
        self.was_true |= one.was_true
        self.operands += one.operands
        self.results += one.results
        self.values += one.values
        self.producers = self.producers or [set() for _ in one.producers]
        for known, further in zip(self.producers, one.producers, strict=True):
            known.update(further)

    @property
    def had_both_results(self) -> bool:
        """Whether a condition was false and true; also true for a number."""
        return self.is_number or self.was_false == self.was_true

    def is_untested(self, calls: int, varying: Collection[int]) -> bool:
        """Whether other results, or other numbers, have not occurred in so many calls.

        `varying` are the addresses of the instructions whose results were not always the same.
        """
        return (
            self.is_jump
            or self.is_kept
            or not self.had_both_results
            or (self._loses_values and _is_common(self.results, calls))
            or any(_is_common(values, calls) for values in self._picked(varying))
        )

    def may_be_untested(self, calls: int, varying: Collection[int]) -> bool:
        """The same, or whether further calls may show it."""
        return (
            self.is_untested(calls, varying)
            or self.is_always_the_same
            or bool(self._picked(varying))
        )

    @property
    def is_always_the_same(self) -> bool:
        """Whether the results were the same in all calls with results."""
        return _are_same_in_all(self.results)

    @property
    def _loses_values(self) -> bool:
        """Whether the results were always the same, although they were computed from values that
        were not.
        """
        return self.is_always_the_same and not _are_same_in_all(self.operands)

    def tests(self, other: Recorded) -> bool:
        """Whether this instruction had the results that another copy of it lacks, so that both
        would be tested if they were one instruction.
        """
        return (
            not (self.is_jump or other.is_jump or other.is_kept)
            and self.had_both_results
            and bool(self.results)
            and not self.is_always_the_same
            and all(
                _varies(mine) or not theirs or not _are_same_in_all(theirs)
                for mine, theirs in zip(self._operand_values, other._operand_values, strict=False)
            )
        )

    @property
    def _operand_values(self) -> list[list[Hashes]]:
        """The sequences of each operand, without those of calls in which it was no data."""
        return [
            [one for one in values if one[0] != NO_SEQUENCE]
            for values in zip(*self.values, strict=True)
        ]

    def _picked(self, varying: Collection[int]) -> list[list[Hashes]]:
        """The sequences of each operand that was always the same, although the instruction that
        computed it had other results as well, for instance in other iterations of a loop.
        """
        found = []
        for read, producers in zip(self._operand_values, self.producers, strict=False):
            if _are_same_in_all(read) and any(pc in varying for pc in producers):
                found.append(read)
        return found


def _is_common(sequences: Sequence[Hashes], calls: int) -> bool:
    return len(sequences) > 1 and LEAST_SHARE * len(sequences) >= calls


def _varies(sequences: Sequence[Hashes]) -> bool:
    return bool(sequences) and not _are_same_in_all(sequences)


def _are_same_in_all(sequences: Sequence[Hashes]) -> bool:
    """Whether all sequences are the same, or consist of the same value only."""
    return any(map(is_same_in_all, zip(*sequences, strict=True)))
