"""Runs kernels on the CPU at reduced sizes, and compares the results with the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilewright.core.records import Artifact, Failed, Verdict
from tilewright.core.roles import NOTHING_CHECKED
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.parts.untested_conditions import MORE_TURNS, refusal, unexamined
from tilewright.targets.cuda import case_runs, partial_runs
from tilewright.targets.cuda.cpu_program import not_checked
from tilewright.targets.cuda.emulation import Run
from tilewright.targets.cuda.evaluation import CudaEvaluation, with_cause_of
from tilewright.targets.cuda.nvcc import Compiled
from tilewright.targets.cuda.resources import refused_launch

_FIRST_PART = 4
"""Conditions are recorded in a quarter of the runs first, which suffices for most kernels."""


class CudaChecker:
    """Runs kernels on the CPU and compares the results. The first case is run with threads in every
    order."""

    def __init__(self, evaluation: CudaEvaluation) -> None:
        self._evaluation = evaluation
        self._starts: dict[str, bool] = {}  # whether a starting kernel has an untested condition

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """The first case with threads in every order."""
        return self._checked(artifact.source, lambda cases: [cases.first], NOTHING_CHECKED)

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Every case, with the orders in turn."""
        checks = self._evaluation.settings.checks
        verdict = self._checked(artifact.source, lambda cases: cases.compared(checks), passed)
        if isinstance(verdict, Failed):
            return verdict
        return self._tested(artifact.source, verdict)

    def _tested(self, source: str, passed: Verdict) -> Verdict | Failed:
        """A kernel that passed, unless one of its conditions on input values had the same result in
        all runs. If one in the starting kernel had, honest kernels may need such conditions."""
        evaluation = self._evaluation
        found = self._untested(source)
        if not found or evaluation.start == source:
            return passed
        if not evaluation.start:
            return found
        if evaluation.start not in self._starts:
            self._starts[evaluation.start] = bool(self._untested(evaluation.start))
        return passed if self._starts[evaluation.start] else found

    def _untested(self, source: str) -> Failed | None:
        """The failure of a kernel with a condition on input values that had the same result in all
        runs.

        The kernel runs once on each of the inputs that are compared, until all conditions have had
        both results. It has further runs if a condition had the same result in all of these.
        """
        evaluation = self._evaluation
        must_record = evaluation.must_record(source)
        if isinstance(must_record, Failed):
            return must_record
        if not must_record:
            return None
        once = len(evaluation.cases.compared(evaluation.settings.checks))
        runs = list[tuple[Case, Run]]()
        for number in (-(-once // _FIRST_PART), once, MORE_TURNS * once):
            chosen = evaluation.cases.compared(max(once, number))[:number]
            cases = [evaluation.cases[n] for n in chosen]
            done, runs = len(runs), case_runs.alike(cases, evaluation.share)
            if len(runs) == done:
                continue
            ran = evaluation.recorded(source, [run for _, run in runs[done:]])
            checks = case_runs.compared(runs[done:], ran)
            failed = checks[0] if isinstance(checks, tuple) else ran.failed
            if failed is not None:
                return failed if failed.kind == "wrong_result" else unexamined(failed.log)
            if evaluation.tested(source, all_reached=len(runs) < once):
                break
        else:
            still = evaluation.still_untested(source, case_runs.of_each_distribution(runs))
            if isinstance(still, Failed):
                return unexamined(still.log)
            if still:
                return refusal(still, len(runs), evaluation.language)
        cases = [evaluation.cases[n] for n in evaluation.cases.compared(once)[:once]]
        each = case_runs.of_each_distribution(case_runs.alike(cases, evaluation.share))
        found = evaluation.changed_by_moving(source, each[0]) or evaluation.without_effect(
            source, each
        )
        if isinstance(found, Failed):
            return unexamined(found.log)
        return refusal(found, len(each), evaluation.language) if found else None

    def _checked(
        self, source: str, chosen: Callable[[Cases], Sequence[int]], passed: Verdict
    ) -> Verdict | Failed:
        evaluation = self._evaluation
        reason = evaluation.only_a_gpu(source)
        if reason is not None:
            return not_checked(*reason)
        if evaluation.share < 1:
            refused_task = evaluation.refused_part()
            if refused_task is not None:
                return refused_task
        program = evaluation.program(source)
        if isinstance(program, Failed):
            return program
        seeds = {check.seed for check in passed.checks}
        cases = [evaluation.cases[n] for n in chosen(evaluation.cases)]
        cases = [case for case in cases if case.check.seed not in seeds]
        runs = case_runs.turns(cases, evaluation.share)
        ran = evaluation.ran(program, [run for _, run in runs])
        evaluation.launches[source] = ran.launches
        checks = case_runs.compared(runs, ran)
        if isinstance(checks, tuple):
            return evaluation.with_cause(checks[0], source, checks[1])
        if ran.failed is not None:
            failed = _of_part(ran.failed) if evaluation.share < 1 else ran.failed
            if failed.kind == "illegal_address":
                failed = evaluation.with_cause(failed, source, runs[len(ran.outputs)][1])
            return failed
        if evaluation.share < 1 and runs:
            left_out = partial_runs.nothing_left_out(evaluation.compared.arguments, ran.part)
            if left_out is not None:
                return left_out
            assert ran.part is not None
            evaluation.parts[source] = ran.part
        compiled = evaluation.compiled(source)
        if isinstance(compiled, Compiled):
            excess = refused_launch(compiled.functions, ran.launches, evaluation.architecture)
            if excess is not None:
                return excess
        if not passed.checks and runs:
            other = _in_other_program(evaluation, source, *runs[-1])
            if other is not None:
                return other
        return Verdict((*passed.checks, *checks))


def _in_other_program(
    evaluation: CudaEvaluation, source: str, case: Case, run: Run
) -> Failed | None:
    """How a kernel fails in the program that finds data races, although its results were right."""
    watched = evaluation.watched(source, replace(run, large=True))
    if watched is None or isinstance(watched, Failed):
        return watched
    if watched.failed is not None:
        return watched.failed
    outputs, only = watched.outputs[0], None
    if run.share < 1:
        only = partial_runs.written_in_any(case, [(run.fill, outputs)])
    mismatch = case.mismatch(outputs, only)
    if mismatch is None:
        return None
    log = (
        "the result is right in some runs and wrong in another one, which differs only in what "
        "CUDA does not define: there, multiplications and additions are fused as nvcc fuses them, "
        "fast functions such as __expf and rsqrtf have the errors that CUDA allows, local "
        "variables that were never set are zero, and the device has many multiprocessors. "
        f"In this run, {mismatch}."
    )
    return with_cause_of(Failed("check", "wrong_result", log), watched)


def _of_part(failed: Failed) -> Failed:
    """A failure of some blocks may only mean that they wait for others, which are not run."""
    if failed.kind != "timeout":
        return failed
    return not_checked("some of its blocks were run on the CPU and did not finish")
