"""Builder, Checker and Runner on a machine with a GPU, at full sizes."""

from __future__ import annotations

import math
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from tilewright.core.records import Artifact, Candidate, Failed, Measured, Verdict, Workload
from tilewright.core.roles import NOTHING_CHECKED, Checker
from tilewright.native.calls import CallFailedError
from tilewright.native.candidate_timing import (
    OpenKernel,
    Timed,
    TimedKernel,
    confirm_against,
    time_against,
)
from tilewright.native.settings import LATENCY, EvaluationSettings
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.parts.problem import DrawsInputs, Problem
from tilewright.targets.cuda.device.build import FLAGS, DeviceCompiler
from tilewright.targets.cuda.device.counters import Counters, NoCounters, count
from tilewright.targets.cuda.device.gpus import Gpu, clock_mhz
from tilewright.targets.cuda.device.kernel import DeviceKernel, checked_call
from tilewright.targets.cuda.device.peaks import Peaks, measured_peaks, nominal
from tilewright.targets.cuda.device.performance import describe, too_fast
from tilewright.targets.cuda.device.process import DeviceFacts, DeviceFailedError, DeviceProcess
from tilewright.targets.cuda.kernelbench import accepted_at, uniform
from tilewright.targets.cuda.launcher import call
from tilewright.targets.cuda.nvcc import Compiled
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.problems import MatrixProblem
from tilewright.targets.cuda.source import NO_KERNEL, refused
from tilewright.timing import exclusive

CLOCK_CHANGED = 0.03
"""Share by which the multiprocessors' clock may change over a measurement without a warning."""
REPEATED = (
    "the task draws the same inputs for every call, so that results which a kernel keeps from one "
    "call to the next are not noticed."
)
_SANITIZER = "compute-sanitizer"
_ELF = b"\x7fELF"
"""The first bytes of a compiled program. Programs of PyTorch are scripts."""
_SANITIZED_S = 10.0
"""Factor by which the time limit of a call under the sanitizer is longer than the usual one."""


@dataclass(frozen=True)
class DeviceEvaluation:
    """The data that the three roles share. `start` is the starting kernel, with which all kernels
    are compared.
    """

    workload: Workload
    sizes: Mapping[str, int]
    problem: Problem
    settings: EvaluationSettings
    architecture: Architecture
    start: str
    gpu: Gpu
    compiler: DeviceCompiler
    lowest: str = ""
    _built: dict[str, tuple[bytes, Compiled] | Failed] = field(default_factory=dict)
    facts: list[DeviceFacts] = field(default_factory=list)

    @cached_property
    def cases(self) -> Cases:
        """Private inputs at full size."""
        return Cases(self.workload, self.problem, self.settings.input_seed, self.lowest)

    def built(self, source: str) -> tuple[bytes, Compiled] | Failed:
        """A kernel's program and the resources of its functions. The programs of the starting
        kernel and of the last kernel are kept.
        """
        if source not in self._built:
            for known in [s for s in self._built if s != self.start]:
                del self._built[known]
            text = call(self.workload.arguments, tuple(self.sizes))
            timeout_s = self.settings.compile_timeout_s * 3  # nvcc starts a dozen programs
            self._built[source] = self.compiler.build(source, text, timeout_s)
        return self._built[source]

    def process(self, program: bytes, stage: str, sanitizer: Sequence[str] = ()) -> DeviceProcess:
        """A kernel's process on the GPU, as a context manager."""
        timeout_s = self.settings.simulation_timeout_s * (_SANITIZED_S if sanitizer else 1)
        return DeviceProcess(
            program,
            self.workload.arguments,
            tuple(self.sizes.values()),
            "check" if stage == "check" else "measure",
            timeout_s,
            sanitizer,
        )

    @property
    def lock(self) -> str:
        """Name of the device for the lock that measurements hold."""
        return self.gpu.lock

    def peaks(self, facts: DeviceFacts) -> Peaks:
        """The peak rates of the GPU, measured, or nominal if measuring fails."""
        found = measured_peaks(self.gpu, self.compiler.nvcc, self.architecture.name)
        return found or nominal(facts, self.architecture)


class DeviceBuilder:
    """Compiles for the GPU, linked with the program that calls kernels on it, if `rules` allow."""

    def __init__(
        self, evaluation: DeviceEvaluation, rules: Callable[[str], Failed | None] = refused
    ) -> None:
        self._evaluation, self._rules = evaluation, rules

    @property
    def sandbox(self) -> str:
        """The sandbox of the compiler, and the restrictions of the kernel."""
        return f"{self._evaluation.compiler.nvcc.sandbox.name}, GPU process: allowed calls"

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """The program, or the compiler's error with its line."""
        evaluation = self._evaluation
        problem = self._rules(candidate.source)
        if problem is not None:
            return problem
        built = evaluation.built(candidate.source)
        if isinstance(built, Failed):
            return built
        if not built[1].functions:
            return NO_KERNEL
        return Artifact(candidate.id, built[0], evaluation.compiler.nvcc.id, candidate.source)


class DeviceChecker:
    """Compares on the GPU at full size, and then on the CPU, where rules are checked that a GPU
    does not enforce.

    `on_the_cpu` finds races, missing barriers and accesses outside arrays, at reduced sizes.
    Kernels that it cannot run are compared only on the GPU.
    """

    def __init__(self, evaluation: DeviceEvaluation, on_the_cpu: Checker) -> None:
        self._evaluation, self._on_the_cpu = evaluation, on_the_cpu

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """The first case, on the GPU."""
        return self._checked(artifact, [self._evaluation.cases.first], NOTHING_CHECKED)

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Every case on the GPU, then all that the CPU checks."""
        evaluation = self._evaluation
        numbers = evaluation.cases.compared(evaluation.settings.checks)
        verdict = self._checked(artifact, numbers, passed)
        if isinstance(verdict, Failed):
            return verdict
        other = self._on_the_cpu.check(artifact)
        return other if isinstance(other, Failed) and other.kind != "not_checked" else verdict

    def _checked(
        self, artifact: Artifact, numbers: Sequence[int], passed: Verdict
    ) -> Verdict | Failed:
        evaluation = self._evaluation
        seeds = {check.seed for check in passed.checks}
        cases = [evaluation.cases[number] for number in numbers]
        checks = list(passed.checks)
        try:
            with evaluation.process(artifact.binary, "check") as process:
                process.make_room(1)
                for case in cases:
                    if case.check.seed in seeds:
                        continue
                    failed = checked_call(process, case)
                    if failed is not None:
                        return failed
                    checks.append(case.passed(process.outputs(0)))
        except DeviceFailedError as error:
            return error.failed
        return Verdict(tuple(checks))


class DeviceRunner:
    """Times kernels in pairs with the starting kernel, by the rules of docs/timing.md."""

    def __init__(self, evaluation: DeviceEvaluation) -> None:
        self._evaluation = evaluation
        self._repeats = False
        self._fastest_s = math.inf
        self._without_counters: NoCounters | None = None

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """Nanoseconds of a call: the median over batches of their wall time per call."""
        evaluation = self._evaluation
        baseline = evaluation.built(evaluation.start)
        if isinstance(baseline, Failed):
            log = (
                f"the starting kernel, with which other kernels are compared, fails: {baseline.log}"
            )
            return Failed("measure", baseline.kind, log)
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
        utilization, numbers, feedback = describe(
            workload, timed.latency_s, peaks, evaluation.lowest
        )
        feedback += f"\n{facts.in_words}"
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
        return Measured(
            latency=timed.latency_s * 1e9,
            unit=LATENCY.unit,
            quantity=LATENCY.quantity,
            utilization=utilization,
            verdict=Verdict((*verdict.checks, case.check)),
            details={**timed.details, **numbers},
            bound=numbers.get("bound_ns"),
            versions={
                "compiler": artifact.toolchain,
                "build": " ".join(FLAGS),
                "gpu": evaluation.gpu.id,
                "clock": "wall time of batches",
            },
            artifact_digest=artifact.digest,
            feedback=feedback,
            warnings=(*timed.warnings, *doubts),
            noise=timed.noise,
            samples=timed.samples,
        )


def _clock_warning(before: float | None, after: float | None) -> tuple[str, ...]:
    if before is None or after is None:
        return ("the driver reports neither the GPU's clock rate nor whether the clock is locked.",)
    if abs(after - before) <= CLOCK_CHANGED * before:
        return ()
    return (
        f"the GPU's clock changed from {before:.0f} to {after:.0f} MHz while the kernel was timed. "
        "An administrator can lock it with `nvidia-smi -lgc MHZ`.",
    )
