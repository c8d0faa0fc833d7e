"""Runner of kernels that run on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Artifact, Failed, Measured, Verdict
from tilewright.native.calls import FreshValues, TimedKernel
from tilewright.native.census import counted
from tilewright.native.evaluator import NativeEvaluation
from tilewright.native.machine import on_measuring_cores
from tilewright.native.timed import (
    OpenKernel,
    Timed,
    confirm_against,
    time_against,
)
from tilewright.parts.cases import Case, Cases


class NativeRunner:
    """Times a kernel against the starting kernel by the rules of `tilewright.timing`."""

    def __init__(self, evaluation: NativeEvaluation) -> None:
        self._evaluation = evaluation
        self._built: bytes | None = None

    def _baseline(self) -> bytes | Failed:
        """The starting kernel's shared object, kept once it is built."""
        if self._built is None:
            built = self._evaluation.compiled(self._evaluation.start)
            if isinstance(built, Failed):
                log = f"the starting kernel, which others are timed against, fails: {built.log}"
                return Failed("measure", built.kind, log)
            self._built = built
        return self._built

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """Nanoseconds of one call, the median over calls on fresh values and addresses.

        With several `sessions` in the settings a kernel other than the start must be faster than
        that in fresh ones, or is `unconfirmed`. Raises `ToolchainMissingError` where kernels can
        only be checked.
        """
        evaluation = self._evaluation
        if evaluation.refuse_timing is not None:
            raise ToolchainMissingError(
                f"the kernel is right in {len(verdict.checks)} comparisons"
                f"{self._counted_in_words(artifact)}, but {evaluation.refuse_timing}"
            )
        baseline = self._baseline()
        if isinstance(baseline, Failed):
            return baseline
        images = [artifact.binary] + [baseline] * (artifact.binary != baseline)
        sessions, case = evaluation.settings.sessions, self._case(0)
        seed = case.check.seed
        if sessions > 1:
            timed = confirm_against(
                lambda index: self._kernels(images, self._case(index)), sessions, seed
            )
        else:
            limit_s = None if limit_latency is None else limit_latency * 1e-9
            with self._kernels(images, case) as (candidate, start):
                timed = time_against(candidate, start, limit_s, seed)
        if isinstance(timed, Failed):
            return timed
        return self._measured(artifact, verdict, case, timed)

    def _counted_in_words(self, artifact: Artifact) -> str:
        evaluation, census = self._evaluation, self._evaluation.census
        counts = counted(evaluation, artifact.source, self._case(0))
        return f" and {census.in_words(evaluation.workload, counts)}" if census and counts else ""

    def _case(self, session: int) -> Case:
        settings = self._evaluation.settings
        return timed_case(self._evaluation.cases, settings.checks + session)

    @contextmanager
    def _kernels(
        self, images: Sequence[bytes], case: Case
    ) -> Iterator[tuple[TimedKernel, OpenKernel]]:
        """Candidate and what starts the starting kernel, each in a process of its own.

        There is one where they are the same.
        """
        evaluation = self._evaluation
        rng = np.random.default_rng(case.check.seed)
        values = FreshValues(evaluation.cases, case, rng)
        timeout_s = evaluation.settings.simulation_timeout_s
        with ExitStack() as stack:
            stack.enter_context(on_measuring_cores(evaluation.toolchain.threads))

            def opened(image: bytes) -> TimedKernel:
                process = stack.enter_context(evaluation.started(image, rng))
                return TimedKernel(process, values, timeout_s)

            candidate = opened(images[0])
            yield candidate, lambda: candidate if len(images) == 1 else opened(images[-1])

    def _measured(self, artifact: Artifact, verdict: Verdict, case: Case, timed: Timed) -> Measured:
        evaluation = self._evaluation
        counts = counted(evaluation, artifact.source, case)
        utilization, numbers, feedback = evaluation.describe(
            evaluation.workload, timed.latency_s, counts
        )
        return Measured(
            latency=timed.latency_s * 1e9,
            unit="ns",
            quantity="measured",
            utilization=utilization,
            verdict=Verdict((*verdict.checks, case.check)),
            details={**timed.details, **numbers},
            versions={
                "compiler": artifact.toolchain,
                "build": evaluation.toolchain.build,
                "threads": str(evaluation.toolchain.threads),
                "clock": "CPU time" if evaluation.toolchain.threads == 1 else "wall time",
                **evaluation.versions,
            },
            artifact_digest=artifact.digest,
            feedback="\n".join(line for line in (feedback, timed.counted) if line),
            warnings=timed.warnings,
            noise=timed.noise,
            samples=timed.samples,
        )


def timed_case(cases: Cases, index: int) -> Case:
    """Values of the first distribution: subnormal numbers would time the CPU's slow paths."""
    return cases.drawn(index, cases.distributions[0])
