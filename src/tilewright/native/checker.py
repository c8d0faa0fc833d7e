"""Checker of kernels that run on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from tilewright.core.records import Artifact, Failed, Stage, Verdict
from tilewright.core.roles import NOTHING_CHECKED
from tilewright.native.calls import compared
from tilewright.native.conditions.examination import Examined, examined, failure_of
from tilewright.native.conditions.plain import is_without_conditions
from tilewright.native.evaluator import NativeEvaluation
from tilewright.native.machine import off_measuring_cores
from tilewright.native.process import KernelProcess
from tilewright.parts.case import Case
from tilewright.parts.kernel_parameters import named_parameters
from tilewright.parts.untested_conditions import accepted_because_of_start

OVERWRITTEN_STACK = 1 << 18
"""Number of bytes of the stack that are overwritten before each call that is only checked. Before a
timed call, this would empty caches.
"""


class NativeChecker:
    """Calls the kernel on a case of every distribution, without timing, with arrays next to
    inaccessible pages.

    At least `checks` cases are compared. A kernel is refused if it has a condition that depends on
    input values and always had the same result, unless the starting kernel has one as well.
    """

    def __init__(self, evaluation: NativeEvaluation) -> None:
        self._evaluation = evaluation
        self._left_out: dict[str, str] = {}

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """The first case."""
        return self._checked(artifact, [self._evaluation.cases.first], NOTHING_CHECKED)

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Every case must agree.

        The first case is compared in several calls, between which a few elements are changed, and
        each array is moved from one end of its pages to the other.
        """
        return self._compared(artifact, self._evaluation.settings.checks, passed)

    def check_further(self, artifact: Artifact, comparisons: int) -> Verdict | Failed:
        """At least this many cases must agree, and every case of `check`."""
        least = max(comparisons, self._evaluation.settings.checks)
        return self._compared(artifact, least, NOTHING_CHECKED)

    def _compared(self, artifact: Artifact, least: int, passed: Verdict) -> Verdict | Failed:
        verdict = self._checked(artifact, self._evaluation.cases.compared(least), passed)
        if isinstance(verdict, Failed):
            return verdict
        return self._untested(artifact) or verdict

    def unchecked(self, artifact: Artifact) -> tuple[str, ...]:
        """Why a condition that no check has tested is accepted, or why none was looked for."""
        said = self._left_out.get(artifact.source)
        return (said,) if said else ()

    def _untested(self, artifact: Artifact) -> Failed | None:
        """The failure of a kernel with conditions that the checks have not tested, or None."""
        evaluation = self._evaluation
        self._left_out.clear()  # only the last kernel is asked for
        if artifact.source in ("", evaluation.start) or is_without_conditions(artifact.source):
            return None
        found = examined(evaluation, artifact.source)
        if found.left_out:
            self._left_out[artifact.source] = (
                "The kernel was not examined for conditions on input values that no check has "
                f"tested: {found.left_out}."
            )
        if not (found.untested or found.distances or found.failed):
            return None
        failed = failure_of(found, evaluation.toolchain.language)
        if failed.kind == "wrong_result" or not self._start.allows(found):
            return failed
        has = "could not be examined" if self._start.failed else "has an untested condition"
        self._left_out[artifact.source] = accepted_because_of_start(failed.log, has)
        return None

    @cached_property
    def _start(self) -> Examined:
        """What was found of the starting kernel, which shows what an honest kernel may contain."""
        start = self._evaluation.start
        return Examined() if is_without_conditions(start) else examined(self._evaluation, start)

    def _checked(
        self, artifact: Artifact, numbers: Sequence[int], passed: Verdict
    ) -> Verdict | Failed:
        evaluation = self._evaluation
        seeds = {check.seed for check in passed.checks}
        checks = list(passed.checks)
        left = [n for n in numbers if evaluation.cases[n].check.seed not in seeds]
        timeout_s = evaluation.settings.simulation_timeout_s
        apart = off_measuring_cores(evaluation.toolchain.threads)
        started = evaluation.started(artifact.binary, overwritten_stack=OVERWRITTEN_STACK)
        with apart, started as process:
            for number in left:
                case = evaluation.cases[number]
                failed = checked_call(process, case, "check", timeout_s)
                if failed is not None:
                    return self._explained(artifact, failed)
                checks.append(case.passed(process.arrays.outputs_now()))
                for other in self._like(number, artifact, left) if number == left[0] else ():
                    failed = checked_call(process, other, "check", timeout_s)
                    if failed is not None:
                        return self._explained(artifact, failed)
        return Verdict(tuple(checks))

    def _like(self, number: int, artifact: Artifact, left: Sequence[int]) -> Iterator[Case]:
        """Cases that differ from the first one in a few elements. A kernel that recognises inputs
        by the other elements returns what it remembers of the first call.
        """
        cases = self._evaluation.cases
        yield cases.changed(number)
        if len(left) > 1 and not is_without_conditions(artifact.source):
            yield from cases.alone_changed(number)

    def _explained(self, artifact: Artifact, failed: Failed) -> Failed:
        evaluation = self._evaluation
        arguments, language = evaluation.workload.arguments, evaluation.toolchain.language
        return named_parameters(failed, artifact.source, arguments, language)


def checked_call(
    process: KernelProcess, case: Case, stage: Stage, timeout_s: float
) -> Failed | None:
    """Call the kernel on a case, and compare all memory that it may or must not write."""
    process.arrays.place(case.initial)
    return process.call(stage, timeout_s) or compared(process, case, stage)
