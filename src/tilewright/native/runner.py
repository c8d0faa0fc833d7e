"""Runner of kernels that run on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from tilewright.core.errors import NotTimedError
from tilewright.core.records import Artifact, Failed, Measured, Verdict
from tilewright.native.calls import CallFailedError, FreshValues, OtherValues, TimedKernel
from tilewright.native.candidate_timing import (
    OpenKernel,
    Timed,
    confirm_against,
    starting_kernel_fails,
    time_against,
)
from tilewright.native.evaluator import NativeEvaluation
from tilewright.native.machine import on_measuring_cores
from tilewright.native.operation_counts import counted
from tilewright.native.plausibility import (
    implausible,
    refuted_by_wall_clock,
    times_the_peak,
    wall_s,
)
from tilewright.parts.case import Case


class NativeRunner:
    """Times a kernel against the starting kernel by the rules of `tilewright.timing`."""

    def __init__(self, evaluation: NativeEvaluation) -> None:
        self._evaluation = evaluation
        self._built: bytes | None = None

    def _baseline(self) -> bytes | Failed:
        """The starting kernel's object file, kept once it is built."""
        if self._built is None:
            built = self._evaluation.compiled(self._evaluation.start)
            if isinstance(built, Failed):
                return starting_kernel_fails(built)
            self._built = built
        return self._built

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """Nanoseconds of one call, the median over calls on fresh values and addresses.

        With several `sessions` in the settings, a kernel must be faster than the starting kernel in
        fresh sessions, or it is `unconfirmed`. Raises `NotTimedError` if kernels can only be
        checked.
        """
        evaluation = self._evaluation
        if evaluation.refuse_timing is not None:
            counts = self._counted_in_words(artifact)
            known = f"is correct in {len(verdict.checks)} comparisons{counts}"
            said = f"the kernel {known}, but {evaluation.refuse_timing}"
            raise NotTimedError(said, f"{known}.")
        baseline = self._baseline()
        if isinstance(baseline, Failed):
            return baseline
        binaries = [artifact.binary] + [baseline] * (artifact.binary != baseline)
        others = OtherValues(evaluation.cases.compared(0), evaluation.cases.alone)
        sessions, case = evaluation.settings.sessions, self._case(0)
        seed = case.seed
        if sessions > 1:
            timed = confirm_against(
                lambda index: self._kernels(binaries, self._case(index), others), sessions, seed
            )
        else:
            limit_s = None if limit_latency is None else limit_latency * 1e-9
            with self._kernels(binaries, case, others) as (candidate, start):
                timed = time_against(candidate, start, limit_s, seed)
        if isinstance(timed, Failed):
            return timed
        held = self._held_back(artifact, timed.latency_s)
        return held or self._measured(artifact, verdict, case, timed)

    def _held_back(self, artifact: Artifact, latency_s: float) -> Failed | None:
        """Why a result above the machine's peak is refused, or None."""
        evaluation = self._evaluation
        if evaluation.peak_per_s is None:
            return None
        excess = times_the_peak(evaluation.workload, latency_s, evaluation.peak_per_s)
        if excess <= 1:
            return None
        refused = implausible(evaluation.workload, excess, evaluation.shortcut)
        if refused is not None:
            return refused
        case = self._case(evaluation.settings.sessions)
        try:
            with self._kernels([artifact.binary], case) as (candidate, _):
                return refuted_by_wall_clock(latency_s, wall_s(candidate), excess)
        except CallFailedError as failure:
            return failure.failed

    def _counted_in_words(self, artifact: Artifact) -> str:
        evaluation, counting = self._evaluation, self._evaluation.counting_build
        counts = counted(evaluation, artifact.source, self._case(0))
        return (
            f" and {counting.in_words(evaluation.workload, counts)}" if counting and counts else ""
        )

    def _case(self, session: int) -> Case:
        return self._evaluation.cases.timed(session)

    @contextmanager
    def _kernels(
        self, binaries: Sequence[bytes], case: Case, others: OtherValues | None = None
    ) -> Iterator[tuple[TimedKernel, OpenKernel]]:
        """The candidate and a function that starts the starting kernel, each in its own process. If
        they are the same kernel, there is only one process. Only the candidate is called on
        `others`.
        """
        evaluation = self._evaluation
        rng = np.random.default_rng(case.seed)
        values = FreshValues(case, rng)
        timeout_s = evaluation.settings.simulation_timeout_s
        with ExitStack() as stack:
            stack.enter_context(on_measuring_cores(evaluation.toolchain.threads))

            def opened(binary: bytes, others: OtherValues | None = None) -> TimedKernel:
                process = stack.enter_context(evaluation.started(binary))
                return TimedKernel(process, values, timeout_s, others)

            candidate = opened(binaries[0], others)
            yield candidate, lambda: candidate if len(binaries) == 1 else opened(binaries[-1])

    def _measured(self, artifact: Artifact, verdict: Verdict, case: Case, timed: Timed) -> Measured:
        evaluation = self._evaluation
        counts = counted(evaluation, artifact.source, case)
        utilization, numbers, feedback = evaluation.describe(
            evaluation.workload, timed.latency_s, counts
        )
        threads = evaluation.toolchain.threads
        versions = {
            "build": evaluation.toolchain.build,
            "threads": str(threads),
            "clock": "CPU time" if threads == 1 else "wall time",
            **evaluation.versions,
        }
        said = "\n".join(line for line in (feedback, timed.counted) if line)
        checks = (*verdict.checks, case.check)
        return timed.measured(artifact, checks, utilization, numbers, versions, said)
