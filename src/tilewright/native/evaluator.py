"""Builder, Checker and Runner of kernels that run on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import (
    Artifact,
    Candidate,
    Check,
    Failed,
    Measured,
    Stage,
    Verdict,
    Workload,
)
from tilewright.native.machine import off_measuring_cores, on_measuring_cores
from tilewright.native.process import KernelProcess
from tilewright.native.settings import EvaluationSettings
from tilewright.native.timed import FreshValues, Timed, TimedKernel, compared, time_against
from tilewright.native.toolchain import (
    Toolchain,
    compile_kernel,
    compile_program,
    compiler_sandbox,
)
from tilewright.parts.cases import Case, Cases
from tilewright.parts.problem import Problem
from tilewright.sandbox import Sandbox, find_sandbox

CheckSource = Callable[[str], Failed | None]
Describe = Callable[[Workload, float], tuple[float, Mapping[str, float], str]]
"""From a workload and its seconds: utilisation 0..1, further numbers, feedback in words."""


@dataclass(frozen=True)
class NativeEvaluation:
    """What the three roles share.

    Attributes:
        workload, problem, settings: the task.
        start: its starting kernel, the baseline of every measurement.
        toolchain: compiles candidates and says how many threads they may run; `headers` are
            files they may include, by name.
        check_source: refuses sources before the compiler sees them.
        describe: what a latency is worth on this machine.
        versions: of machine and target; compiler and build are added.
        harness_flags: how the program that calls kernels is compiled.
        refuse_timing: why kernels can only be checked here, in a sentence; None where they can
            be timed.
    """

    workload: Workload
    problem: Problem
    settings: EvaluationSettings
    start: str
    toolchain: Toolchain
    check_source: CheckSource
    describe: Describe
    versions: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict)
    harness_flags: tuple[str, ...] = ()
    refuse_timing: str | None = None

    @cached_property
    def cases(self) -> Cases:
        """Private inputs; number `checks` is the timed run's."""
        return Cases(self.workload, self.problem, self.settings.input_seed)

    @cached_property
    def sandbox(self) -> Sandbox:
        """What kernels run in."""
        return find_sandbox()

    @cached_property
    def harness(self) -> bytes:
        """The program that calls kernels."""
        return compile_program(
            self.toolchain,
            self.toolchain.harness,
            (*self.toolchain.harness_flags, *self.harness_flags),
        )

    def roles(self) -> tuple[NativeBuilder, NativeChecker, NativeRunner]:
        """Builder, Checker and Runner."""
        return NativeBuilder(self), NativeChecker(self), NativeRunner(self)

    def compiled(self, source: str) -> bytes | Failed:
        """A kernel's shared object, or why there is none."""
        with off_measuring_cores(self.toolchain.threads):
            return compile_kernel(
                self.toolchain, source, self.settings.compile_timeout_s, self.headers
            )

    def started(self, image: bytes, rng: np.random.Generator) -> KernelProcess:
        """A kernel's process, to be entered."""
        return KernelProcess(
            self.sandbox,
            self.harness,
            image,
            self.workload.arguments,
            rng,
            threads=self.toolchain.threads,
        )


class NativeBuilder:
    """Compiles a source after refusing what reaches beyond it."""

    def __init__(self, evaluation: NativeEvaluation) -> None:
        self._evaluation = evaluation

    @property
    def sandbox(self) -> str:
        """What the compiler and the kernel run in."""
        return compiler_sandbox(self._evaluation.toolchain).name

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """A shared object, or the compiler's complaint with its line."""
        evaluation = self._evaluation
        refused = evaluation.check_source(candidate.source)
        if refused is not None:
            return refused
        built = evaluation.compiled(candidate.source)
        if isinstance(built, Failed):
            return built
        return Artifact(candidate.id, built, evaluation.toolchain.id)


class NativeChecker:
    """Calls the kernel on the first `checks` cases, untimed, with arrays beside forbidden pages."""

    def __init__(self, evaluation: NativeEvaluation) -> None:
        self._evaluation = evaluation

    def check(self, artifact: Artifact) -> Verdict | Failed:
        """Every case must agree, twice; the first mismatch is the failure."""
        evaluation = self._evaluation
        passed: list[Check] = []
        rng = np.random.default_rng(evaluation.settings.input_seed)
        apart = off_measuring_cores(evaluation.toolchain.threads)
        with apart, evaluation.started(artifact.binary, rng) as process:
            for index in range(evaluation.settings.checks):
                case = evaluation.cases[index]
                for at_end in (True, False):
                    failed = checked_call(
                        process, case, "check", evaluation.settings.simulation_timeout_s, at_end
                    )
                    if failed is not None:
                        return failed
                passed.append(case.check)
        return Verdict(tuple(passed))


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

        Raises `ToolchainMissingError` where kernels can only be checked.
        """
        evaluation = self._evaluation
        if evaluation.refuse_timing is not None:
            raise ToolchainMissingError(
                f"the kernel is right in {len(verdict.checks)} comparisons, but "
                f"{evaluation.refuse_timing}"
            )
        baseline = self._baseline()
        if isinstance(baseline, Failed):
            return baseline
        case = timed_case(evaluation.cases, evaluation.settings.checks)
        with ExitStack() as stack:
            stack.enter_context(on_measuring_cores(evaluation.toolchain.threads))
            rng = np.random.default_rng(case.check.seed)
            timeout_s = evaluation.settings.simulation_timeout_s
            images = [artifact.binary]
            if artifact.binary != baseline:
                images.append(baseline)
            values = FreshValues(evaluation.cases, case, rng)
            kernels = [
                TimedKernel(stack.enter_context(evaluation.started(image, rng)), values, timeout_s)
                for image in images
            ]
            limit_s = None if limit_latency is None else limit_latency * 1e-9
            timed = time_against(kernels[0], kernels[-1], limit_s, seed=case.check.seed)
        if isinstance(timed, Failed):
            return timed
        return self._measured(artifact, verdict, case, timed)

    def _measured(self, artifact: Artifact, verdict: Verdict, case: Case, timed: Timed) -> Measured:
        evaluation = self._evaluation
        utilization, numbers, feedback = evaluation.describe(evaluation.workload, timed.latency_s)
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
            feedback=feedback,
            warnings=timed.warnings,
            noise=timed.noise,
        )


def checked_call(
    process: KernelProcess, case: Case, stage: Stage, timeout_s: float, at_end: bool | None
) -> Failed | None:
    """Call the kernel on a case and compare everything it may and may not have written."""
    process.arrays.place(case.initial, at_end=at_end)
    return process.call(stage, timeout_s) or compared(process, case, stage)


def timed_case(cases: Cases, index: int) -> Case:
    """Values of the first distribution: subnormal numbers would time the CPU's slow paths."""
    return cases.drawn(index, cases.distributions[0])
