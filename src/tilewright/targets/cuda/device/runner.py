"""Times kernels on a GPU, and refutes implausible times."""

from __future__ import annotations

import math
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from tilewright.core.records import Artifact, Failed, Measured, Verdict
from tilewright.native.calls import CallFailedError
from tilewright.native.candidate_timing import (
    OpenKernel,
    Timed,
    TimedKernel,
    confirm_against,
    starting_kernel_fails,
    time_against,
)
from tilewright.parts.case import Case
from tilewright.parts.problem import DrawsInputs
from tilewright.targets.cuda.device.build import FLAGS
from tilewright.targets.cuda.device.counters import Counters, NoCounters, count
from tilewright.targets.cuda.device.evaluator import DeviceEvaluation
from tilewright.targets.cuda.device.gpus import clock_mhz
from tilewright.targets.cuda.device.kernel import DeviceKernel, checked_call
from tilewright.targets.cuda.device.performance import describe, too_fast
from tilewright.targets.cuda.device.process import DeviceFailedError
from tilewright.targets.cuda.device.remedies import told_remedies
from tilewright.targets.cuda.kernelbench import accepted_at, uniform
from tilewright.targets.cuda.problems import MatrixProblem
from tilewright.timing import exclusive

CLOCK_CHANGED = 0.03
"""Share by which the multiprocessors' clock may change over a measurement without a warning."""
REPEATED = (
    "the task generates the same inputs for every call, so results that a kernel keeps from one "
    "call to the next are not detected."
)
_SANITIZER = "compute-sanitizer"
_ELF = b"\x7fELF"
"""The first bytes of a compiled program. Programs of PyTorch are scripts."""


class DeviceRunner:
    """Times kernels in pairs with the starting kernel, by the rules of docs/timing.md."""

    def __init__(self, evaluation: DeviceEvaluation) -> None:
        self._evaluation = evaluation
        self._repeats = False
        self._fastest_s, self._event_s = math.inf, 0.0
        self._without_counters: NoCounters | None = None

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """Nanoseconds of a call: the median over batches of their wall time per call."""
        evaluation = self._evaluation
        baseline = evaluation.built(evaluation.start)
        if isinstance(baseline, Failed):
            return starting_kernel_fails(baseline)
        programs = [artifact.binary] + [baseline[0]] * (artifact.binary != baseline[0])
        sessions, case = evaluation.settings.sessions, evaluation.cases.timed(0)
        before = clock_mhz()
        try:
            if sessions > 1:
                timed = confirm_against(
                    lambda index: self._kernels(programs, evaluation.cases.timed(index)),
                    sessions,
                    case.seed,
                )
            else:
                limit_s = None if limit_latency is None else limit_latency * 1e-9
                with self._kernels(programs, case) as (candidate, start):
                    timed = time_against(candidate, start, limit_s, case.seed)
        except DeviceFailedError as error:
            return error.failed
        except CallFailedError as error:
            return error.failed
        if isinstance(timed, Failed):
            return timed
        refuted = self._refuted(artifact, case, timed) if sessions > 1 else None
        if limit_latency is None and refuted is None:
            timed = replace(timed, details={**timed.details, **self._by_kernelbench(artifact)})
        counted = None
        if refuted is None and (sessions > 1 or timed.latency_s < self._fastest_s):
            self._fastest_s = min(self._fastest_s, timed.latency_s)
            counted = self._counted(artifact, case)
        repeated = (REPEATED,) if self._repeats else ()
        warnings = (*timed.warnings, *_clock_warning(before, clock_mhz()), *repeated)
        timed = replace(timed, warnings=warnings)
        return refuted or self._measured(artifact, verdict, case, timed, counted)

    @contextmanager
    def _kernels(
        self, programs: Sequence[bytes], case: Case
    ) -> Iterator[tuple[TimedKernel, OpenKernel]]:
        """The candidate's process, and a function that starts the process of the starting kernel.

        No other measurement runs until the context ends.
        """
        evaluation = self._evaluation
        with exclusive(evaluation.lock), ExitStack() as stack:

            def opened(program: bytes) -> DeviceKernel:
                process = stack.enter_context(evaluation.process(program, "measure"))
                evaluation.facts[:] = [process.facts]
                kernel = DeviceKernel(process, case)
                self._repeats = kernel.repeats_values
                return kernel

            candidate = opened(programs[0])

            def start() -> DeviceKernel:
                try:
                    return candidate if len(programs) == 1 else opened(programs[-1])
                except DeviceFailedError as error:
                    raise CallFailedError(error.failed) from error

            yield candidate, start
            self._event_s = candidate.event_s

    def _refuted(self, artifact: Artifact, case: Case, timed: Timed) -> Failed | None:
        """The error that NVIDIA's own memory checker finds in a winner, if the checker is
        installed."""
        path = shutil.which(_SANITIZER)
        if path is None:
            return None
        words = (path, "--tool", "memcheck", "--print-limit", "1")
        try:
            with self._evaluation.process(artifact.binary, "measure", words) as process:
                process.make_room(1)
                return checked_call(process, case)
        except DeviceFailedError as error:
            return error.failed

    def _counted(self, artifact: Artifact, case: Case) -> Counters | NoCounters | None:
        """The counters of one call, or the reason why there are none; None if `ncu` is not
        installed."""
        if not artifact.binary.startswith(_ELF):
            return None
        if self._without_counters is None:
            evaluation = self._evaluation
            found = count(
                lambda words: evaluation.process(artifact.binary, "measure", words),
                case,
                evaluation.lock,
            )
            if not isinstance(found, NoCounters) or not found.final:
                return found
            self._without_counters = found
        return self._without_counters

    def _by_kernelbench(self, artifact: Artifact) -> dict[str, float]:
        """For each tolerance, 1 if KernelBench's rule accepts the kernel. This does not affect the
        verdict."""
        cases = self._evaluation.cases
        case = uniform(cases[cases.first], secrets.randbits(63))
        if isinstance(case.problem, DrawsInputs):
            return {}
        try:
            with self._evaluation.process(artifact.binary, "measure") as process:
                process.make_room(1)
                process.place(case.initial)
                process.batch(0, 1)
                found = accepted_at(case, process.outputs(0))
        except DeviceFailedError:
            return {}
        return {f"kernelbench_{words}": float(accepted) for words, accepted in found.items()}

    def _measured(
        self,
        artifact: Artifact,
        verdict: Verdict,
        case: Case,
        timed: Timed,
        counted: Counters | NoCounters | None,
    ) -> Measured | Failed:
        evaluation = self._evaluation
        facts = evaluation.facts[0]
        workload, peaks = evaluation.workload, evaluation.peaks(facts)
        needed = (
            isinstance(evaluation.problem, MatrixProblem) or Path(workload.source).is_absolute()
        )
        refuted, doubts = too_fast(workload, timed.latency_s, peaks, facts, needed=needed)
        if refuted is not None:
            return refuted
        utilization, numbers, feedback, bound = describe(
            workload, timed.latency_s, peaks, evaluation.lowest
        )
        numbers = {**numbers, "event_ns": self._event_s * 1e9}
        feedback += f"\n{facts.in_words} Kernels are compiled for {evaluation.architecture.name}."
        built = evaluation.built(artifact.source)
        functions = built[1].functions if not isinstance(built, Failed) else ()
        worst = max(functions, key=lambda f: f.registers, default=None)
        if worst is not None:
            numbers = {**numbers, "registers": float(worst.registers)}
            numbers["spilled_bytes"] = float(sum(f.spilled_bytes for f in functions))
            feedback += "".join(
                f"\n{f.name}: {f.registers} registers per thread, {f.spilled_bytes} bytes spilled, "
                f"{f.shared_bytes} bytes of static shared memory per block."
                for f in functions
            )
        if counted is not None:
            feedback += f"\n{counted.words}"
        if isinstance(counted, Counters):
            numbers = {**numbers, **counted.numbers}
        feedback += told_remedies(
            evaluation.remedies,
            bound,
            sum(f.spilled_bytes for f in functions),
            counted if isinstance(counted, Counters) else None,
        )
        versions = {
            "build": " ".join(FLAGS),
            "gpu": evaluation.gpu.id,
            "clock": "wall time of batches",
        }
        timed = replace(timed, warnings=(*timed.warnings, *doubts))
        checks = (*verdict.checks, case.check)
        return timed.measured(artifact, checks, utilization, numbers, versions, feedback)


def _clock_warning(before: float | None, after: float | None) -> tuple[str, ...]:
    if before is None or after is None:
        return ("the driver reports neither the GPU's clock rate nor whether the clock is locked.",)
    if abs(after - before) <= CLOCK_CHANGED * before:
        return ()
    return (
        f"the GPU's clock changed from {before:.0f} to {after:.0f} MHz while the kernel was timed. "
        "An administrator can lock it with `nvidia-smi -lgc MHZ`.",
    )
