"""Looks for conditions on input values that had the same result in all calls of a kernel, and for
numbers that were the same in all calls although they were computed from values that were not.

Only kernels whose core reads data itself have such conditions and numbers. Their calls on the
inputs of the checks are simulated once more, with recording.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property

from tilewright.core.records import Artifact, Failed
from tilewright.parts.cases import Cases
from tilewright.parts.debug_lines import source_lines
from tilewright.parts.languages import C
from tilewright.parts.machine_code.flow import joins
from tilewright.parts.machine_code.post_dominance import TooLargeError
from tilewright.parts.machine_code.riscv import read_elf
from tilewright.parts.untested_conditions import (
    MORE_TURNS,
    UNTESTED,
    Untested,
    accepted_because_of_start,
    refusal,
    unexamined,
)
from tilewright.targets.gemmini.code import COMMANDS
from tilewright.targets.gemmini.copied_code import copies_of
from tilewright.targets.gemmini.recorded import Recorded
from tilewright.targets.gemmini.simulator import MOST_CALLS, Simulator


class Examination:
    """Examines the kernels of one task.

    `start` returns the starting kernel, which shows what an honest kernel may contain: if it has an
    untested condition itself, no kernel is refused. `rolled` compiles a kernel without unrolled
    loops, if it can: where a copy of a condition has one result only because each copy sees a part
    of the elements, the condition itself has both.
    """

    def __init__(
        self,
        simulator: Simulator,
        cases: Cases,
        checks: int,
        start: Callable[[], Artifact | Failed],
        rolled: Callable[[Artifact], Artifact | None],
    ) -> None:
        self._simulator = simulator
        self._cases = cases
        self._checks = checks
        self._start = start
        self._rolled = rolled
        self._accepted: dict[str, str] = {}

    def failure(self, artifact: Artifact) -> Failed | None:
        """Why a kernel is refused whose core reads data, or None."""
        found = self._judged(artifact)
        self._accepted.clear()  # only the last kernel is asked for
        if found is None or not self._start_fails:
            return found
        if artifact != self._built_start:
            self._accepted[artifact.digest] = accepted_because_of_start(found.log)
        return None

    def accepted(self, artifact: Artifact) -> tuple[str, ...]:
        """Why the kernel that was examined last is not refused although it has an untested
        condition."""
        said = self._accepted.get(artifact.digest)
        return (said,) if said else ()

    @cached_property
    def _built_start(self) -> Artifact | Failed:
        return self._start()

    @cached_property
    def _start_fails(self) -> bool:
        start = self._built_start
        return isinstance(start, Failed) or self._judged(start) is not None

    def _judged(self, artifact: Artifact) -> Failed | None:
        found = self._found(artifact)
        if found is None or found.kind != UNTESTED:
            return found
        rolled = self._rolled(artifact)
        if rolled is None or self._found(rolled) is not None:
            return found
        return self._found(artifact, with_copies=True)

    def _found(self, artifact: Artifact, with_copies: bool = False) -> Failed | None:
        """`with_copies`: an instruction is tested if a copy of it is."""
        try:
            code = read_elf(artifact.binary, C.entry, COMMANDS)[1]
            meeting = joins(code)
        except (ValueError, TooLargeError):
            return unexamined("it has more code than can be examined.")
        once = self._cases.compared(self._checks)
        numbers = self._cases.compared(MORE_TURNS * len(once))
        results: dict[int, Recorded] = {}
        for first in range(0, len(numbers), MOST_CALLS):
            called = [self._cases[number] for number in numbers[first : first + MOST_CALLS]]
            run = self._simulator.run(artifact, called[0], "check", later=called[1:], joins=meeting)
            if isinstance(run, Failed):
                return run
            for one in run.conditions:
                results.setdefault(one.pc, Recorded()).add(one)
            calls = first + len(called)
            if calls < len(once):
                continue
            copies = copies_of(artifact, code, results) if with_copies else {}
            if not _untested(Recorded.may_be_untested, results, calls, copies):
                return None
        untested = _untested(Recorded.is_untested, results, calls, copies)
        return refusal(self._located(artifact, results, untested), calls, C) if untested else None

    def _located(
        self, artifact: Artifact, results: dict[int, Recorded], untested: Sequence[int]
    ) -> list[Untested]:
        lines = source_lines(artifact.binary, untested, C.file)
        return [Untested(line, results[pc].kind) for pc, line in zip(untested, lines, strict=True)]


def _untested(
    judged: Callable[[Recorded, int, Collection[int]], bool],
    results: Mapping[int, Recorded],
    calls: int,
    copies: Mapping[int, Collection[int]],
) -> list[int]:
    """The instructions that are untested, as `judged` says, and that no copy of them tests."""
    varying = {pc for pc, known in results.items() if not known.is_always_the_same}
    # As one instruction, all copies would have had the results of each.
    varying |= {pc for pc, same in copies.items() if not varying.isdisjoint(same)}
    return [
        pc
        for pc, known in results.items()
        if judged(known, calls, varying)
        and not any(results[copy].tests(known) for copy in copies.get(pc, ()))
    ]
