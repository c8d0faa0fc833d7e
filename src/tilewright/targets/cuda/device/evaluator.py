"""Builder and Checker on a machine with a GPU, at full sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tilewright.core.records import Artifact, Candidate, Failed, Verdict, Workload
from tilewright.core.roles import NOTHING_CHECKED, Checker
from tilewright.native.settings import EvaluationSettings
from tilewright.parts.cases import Cases
from tilewright.parts.problem import Problem
from tilewright.targets.cuda.device import remedies
from tilewright.targets.cuda.device.build import DeviceCompiler
from tilewright.targets.cuda.device.gpus import Gpu
from tilewright.targets.cuda.device.kernel import checked_call
from tilewright.targets.cuda.device.peaks import Peaks, measured_peaks, nominal
from tilewright.targets.cuda.device.process import DeviceFacts, DeviceFailedError, DeviceProcess
from tilewright.targets.cuda.device.remedies import Remedies
from tilewright.targets.cuda.launcher import call
from tilewright.targets.cuda.nvcc import Compiled
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.source import NO_KERNEL, refused

_SANITIZED_S = 10.0
"""Factor by which the time limit of a call under the sanitizer is longer than the usual one."""
_UNEXPLAINED = ("wrong_result", "illegal_address", "misaligned")
"""Failures on a GPU for which the check on the CPU may find the cause and its line."""


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
    def remedies(self) -> Remedies:
        """The options of the menu against the causes that a measurement shows."""
        return remedies.CUDA

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
    does not enforce. Where results on the GPU are wrong, the CPU may find the cause.

    `on_the_cpu` finds races, missing barriers and accesses outside arrays, at reduced sizes.
    Kernels that it cannot run are compared only on the GPU.
    """

    def __init__(self, evaluation: DeviceEvaluation, on_the_cpu: Checker) -> None:
        self._evaluation, self._on_the_cpu = evaluation, on_the_cpu

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """The first case, on the GPU."""
        verdict = self._checked(artifact, [self._evaluation.cases.first], NOTHING_CHECKED)
        return self._explained(artifact, verdict) if isinstance(verdict, Failed) else verdict

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Every case on the GPU, then all that the CPU checks."""
        evaluation = self._evaluation
        numbers = evaluation.cases.compared(evaluation.settings.checks)
        verdict = self._checked(artifact, numbers, passed)
        if isinstance(verdict, Failed):
            return self._explained(artifact, verdict)
        other = self._on_the_cpu.check(artifact)
        return other if isinstance(other, Failed) and other.kind != "not_checked" else verdict

    def _explained(self, artifact: Artifact, failed: Failed) -> Failed:
        """The failure, with its cause and line if the CPU finds them, such as a race."""
        if failed.kind not in _UNEXPLAINED:
            return failed
        found = self._on_the_cpu.check_first(artifact)
        if not isinstance(found, Failed) or found.kind == "not_checked" or found.line is None:
            return failed
        return replace(found, log=f"{found.log}\nOn the GPU: {failed.log}")

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
