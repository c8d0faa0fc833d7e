"""Builder and Checker of kernels that run on this machine, and what they share with the Runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tilewright.core.records import (
    Argument,
    Artifact,
    Candidate,
    Check,
    Failed,
    Stage,
    Verdict,
    Workload,
)
from tilewright.native.calls import compared
from tilewright.native.machine import off_measuring_cores, on_building_cores
from tilewright.native.process import KernelProcess
from tilewright.native.settings import EvaluationSettings
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
Counts = Mapping[str, int]
"""What a kernel does in one call, by name."""
Describe = Callable[[Workload, float, Counts], tuple[float, Mapping[str, float], str]]
"""From a workload, its seconds and what was counted: utilisation 0..1, numbers, feedback."""


@dataclass(frozen=True, slots=True)
class Census:
    """How kernels are built once more so that they count what they do; that build is never timed.

    Attributes:
        headers: files that make them count, by name, instead of those they are measured with.
        counters: name of a C array of `uint64_t` that these declare and count in.
        names: of its elements.
        in_words: a clause about counts, for a kernel that cannot be timed.
    """

    headers: Mapping[str, str]
    counters: str
    names: tuple[str, ...]
    in_words: Callable[[Workload, Counts], str]


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
        census: how to count what a kernel does, where there is a way.
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
    census: Census | None = None

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

    def compiled(self, source: str, headers: Mapping[str, str] | None = None) -> bytes | Failed:
        """A kernel's shared object, or why there is none; `headers` stand for the usual ones."""
        with on_building_cores(self.toolchain.threads):
            return compile_kernel(
                self.toolchain,
                source,
                self.settings.compile_timeout_s,
                self.headers if headers is None else headers,
            )

    def started(
        self, image: bytes, rng: np.random.Generator, more: Sequence[Argument] = ()
    ) -> KernelProcess:
        """A kernel's process, to be entered; `more` are parameters behind the workload's."""
        return KernelProcess(
            self.sandbox,
            self.harness,
            image,
            (*self.workload.arguments, *more),
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
        return Artifact(candidate.id, built, evaluation.toolchain.id, candidate.source)


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


def checked_call(
    process: KernelProcess, case: Case, stage: Stage, timeout_s: float, at_end: bool | None
) -> Failed | None:
    """Call the kernel on a case and compare everything it may and may not have written."""
    process.arrays.place(case.initial, at_end=at_end)
    return process.call(stage, timeout_s) or compared(process, case, stage)
