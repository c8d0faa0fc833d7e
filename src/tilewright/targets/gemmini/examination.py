"""Looks for conditions on input values that had the same result in all calls of a kernel, and for
numbers that were the same in all calls although they were computed from values that were not.

Only kernels whose core reads data itself have such conditions and numbers. Their calls on the
inputs of the checks are simulated once more, with recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.core.records import Artifact, Failed
from tilewright.parts.cases import Cases
from tilewright.parts.debug_lines import source_lines
from tilewright.parts.languages import C
from tilewright.parts.machine_code.flow import joins
from tilewright.parts.machine_code.post_dominance import TooLargeError
from tilewright.parts.machine_code.riscv import read_elf
from tilewright.parts.untested_conditions import (
    MORE_TURNS,
    Untested,
    is_same_in_all,
    refusal,
    unexamined,
)
from tilewright.targets.gemmini.code import COMMANDS
from tilewright.targets.gemmini.simulator import MOST_CALLS, Simulator

if TYPE_CHECKING:
    from tilewright.targets.gemmini.sim import Condition


LEAST_SHARE = 4
"""An instruction must have read data in one of so many calls at least, or else its sequences of
values are not compared.
"""


@dataclass(slots=True)
class _Results:
    """The results of a condition, or the numbers that another instruction computed, in all
    simulations.
    """

    is_jump: bool = False
    is_number: bool = False
    was_false: bool = False
    was_true: bool = False
    operands: list[tuple[int, int]] = field(default_factory=list)
    results: list[tuple[int, int]] = field(default_factory=list)

    def add(self, one: Condition) -> None:
        """The results in further calls."""
        self.is_jump |= one.is_jump
        self.is_number |= one.is_number
        self.was_false |= one.was_false
        self.was_true |= one.was_true
        self.operands += one.operands
        self.results += one.results

    def is_untested(self, calls: int) -> bool:
        """Whether other results, or other numbers, have not occurred in so many calls."""
        had_one_result = not self.is_number and self.was_false != self.was_true
        return self.is_jump or had_one_result or self._loses_values(calls)

    def may_be_untested(self, calls: int) -> bool:
        """The same, or whether the instruction must be seen in further calls."""
        return self.is_untested(calls) or (self._keeps_nothing and self._is_rare(calls))

    def _loses_values(self, calls: int) -> bool:
        """Whether the results were always the same, although they were computed from values that
        were not.
        """
        return self._keeps_nothing and not self._is_rare(calls) and not self._read_the_same

    def _is_rare(self, calls: int) -> bool:
        return len(self.results) == 1 or LEAST_SHARE * len(self.results) < calls

    @property
    def _keeps_nothing(self) -> bool:
        """Whether the results were the same in all calls with results."""
        return _are_same_in_all(self.results)

    @property
    def _read_the_same(self) -> bool:
        """Whether the values from which the results were computed were the same in all calls."""
        return _are_same_in_all(self.operands)


def _are_same_in_all(sequences: Sequence[tuple[int, int]]) -> bool:
    """Whether all sequences are the same, or consist of the same value only."""
    return any(map(is_same_in_all, zip(*sequences, strict=True)))


class Examination:
    """Examines the kernels of one task.

    `start` returns the starting kernel, which shows what an honest kernel may contain: if it has an
    untested condition itself, no kernel is refused.
    """

    def __init__(
        self,
        simulator: Simulator,
        cases: Cases,
        checks: int,
        start: Callable[[], Artifact | Failed],
    ) -> None:
        self._simulator = simulator
        self._cases = cases
        self._checks = checks
        self._start = start

    def failure(self, artifact: Artifact) -> Failed | None:
        """Why a kernel is refused whose core reads data, or None."""
        found = self._found(artifact)
        return None if found is None or self._start_fails else found

    @cached_property
    def _start_fails(self) -> bool:
        start = self._start()
        return isinstance(start, Failed) or self._found(start) is not None

    def _found(self, artifact: Artifact) -> Failed | None:
        try:
            meeting = joins(read_elf(artifact.binary, C.entry, COMMANDS)[1])
        except (ValueError, TooLargeError):
            return unexamined("it has more code than can be examined.")
        once = self._cases.compared(self._checks)
        numbers = self._cases.compared(MORE_TURNS * len(once))
        results: dict[int, _Results] = {}
        for first in range(0, len(numbers), MOST_CALLS):
            called = [self._cases[number] for number in numbers[first : first + MOST_CALLS]]
            run = self._simulator.run(artifact, called[0], "check", later=called[1:], joins=meeting)
            if isinstance(run, Failed):
                return run
            for one in run.conditions:
                results.setdefault(one.pc, _Results()).add(one)
            calls = first + len(called)
            is_settled = not any(known.may_be_untested(calls) for known in results.values())
            if is_settled and calls >= len(once):
                return None
        untested = [pc for pc, known in results.items() if known.is_untested(calls)]
        return refusal(self._located(artifact, results, untested), calls, C) if untested else None

    def _located(
        self, artifact: Artifact, results: dict[int, _Results], untested: Sequence[int]
    ) -> list[Untested]:
        lines = source_lines(artifact.binary, untested, C.file)
        return [
            Untested(line, results[pc].is_jump, results[pc].is_number)
            for pc, line in zip(untested, lines, strict=True)
        ]
