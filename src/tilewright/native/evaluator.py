"""Builder of kernels that run on this machine, and the code that it shares with Checker and
Runner.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.records import (
    Argument,
    Artifact,
    Candidate,
    Failed,
    Workload,
)
from tilewright.native.disassembly import compiled_code
from tilewright.native.instruction_rates import InstructionRates
from tilewright.native.machine import on_building_cores
from tilewright.native.process import KernelProcess
from tilewright.native.settings import EvaluationSettings
from tilewright.native.toolchain import (
    Toolchain,
    compile_explained,
    compile_kernel,
    compile_program,
    compiler_sandbox,
)
from tilewright.parts.cases import Cases
from tilewright.sandbox import Sandbox, find_sandbox

CheckSource = Callable[[str], Failed | None]
Counts = Mapping[str, int]
"""Counts of operations in one call, by name."""
Describe = Callable[[Workload, float, Counts], tuple[float, Mapping[str, float], str]]
"""Computes utilisation (0 to 1), numbers and feedback from a workload, its seconds and its
counts.
"""


@dataclass(frozen=True, slots=True)
class CountingBuild:
    """The second build of a kernel, which counts operations and is never timed.

    Attributes:
        headers: header files by name that replace those of the measured build, and count
            operations.
        counters: name of the C array of `uint64_t` that these headers declare and use as counters.
        names: the names of the array's elements.
        in_words: returns a clause about the counts, for a kernel that cannot be timed.
    """

    headers: Mapping[str, str]
    counters: str
    names: tuple[str, ...]
    in_words: Callable[[Workload, Counts], str]


@dataclass(frozen=True)
class NativeEvaluation:
    """The data that the three roles share.

    Attributes:
        cases, settings: the task's private inputs, made once, and its settings.
        start: its starting kernel, the baseline of every measurement.
        toolchain: compiles candidates and says how many threads they may run; `headers` are
            files they may include, by name.
        check_source: refuses sources before the compiler sees them.
        describe: compares a latency with the peak rates of this machine.
        versions: the versions of the machine and the target, to which those of compiler and build
            are added.
        harness_flags: the flags with which the program that calls kernels is compiled.
        peak_per_s: the measured peak rate of all threads together, in multiply-adds per second.
        rates: how many instructions of each kind a core starts per cycle; None if not measured.
        shortcut: the name of a known algorithm for the workload that needs fewer products.
        refuse_timing: a sentence on why kernels can only be checked here; None if they can be
            timed.
        counting_build: the build that counts a kernel's operations; None if the target has none.
        shown_headers: replace `headers` when machine code is shown; None if they are the same.
    """

    cases: Cases
    settings: EvaluationSettings
    start: str
    toolchain: Toolchain
    check_source: CheckSource
    describe: Describe
    versions: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict)
    harness_flags: tuple[str, ...] = ()
    peak_per_s: float | None = None
    rates: InstructionRates | None = None
    shortcut: str = ""
    refuse_timing: str | None = None
    counting_build: CountingBuild | None = None
    shown_headers: Mapping[str, str] | None = None

    @property
    def workload(self) -> Workload:
        """The workload."""
        return self.cases.workload

    @property
    def machine(self) -> str:
        """The architecture of this machine, as the system names it."""
        return platform.machine()

    @cached_property
    def sandbox(self) -> Sandbox:
        """The sandbox of kernels."""
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
        """A kernel's object file, or the failure of its build; `headers` replace the usual
        headers.
        """
        with on_building_cores(self.toolchain.threads):
            return compile_kernel(
                self.toolchain,
                source,
                self.settings.compile_timeout_s,
                self.headers if headers is None else headers,
            )

    def code(self, source: str) -> CompiledCode | Failed:
        """The machine code that is measured; with `headers`, it may contain emulated
        instructions.
        """
        headers = self.headers if self.shown_headers is None else self.shown_headers
        refused = self.check_source(source)
        if refused is not None:
            return refused
        with on_building_cores(self.toolchain.threads):
            built = compile_explained(
                self.toolchain, source, self.settings.compile_timeout_s, headers
            )
            if isinstance(built, Failed):
                return built
            binary, reasons = built
            file = self.toolchain.language.file
            return compiled_code(binary, self.toolchain.threads, file, reasons, self.rates)

    def started(
        self, binary: bytes, more: Sequence[Argument] = (), *, overwritten_stack: int = 0
    ) -> KernelProcess:
        """A kernel's process as a context manager; `more` are parameters after those of the
        workload.

        Its addresses cannot be derived from other evaluations. Before each call,
        `overwritten_stack` bytes below the kernel's stack are overwritten.
        """
        return KernelProcess(
            self.sandbox,
            self.harness,
            binary,
            (*self.workload.arguments, *more),
            np.random.default_rng(),
            language=self.toolchain.language,
            threads=self.toolchain.threads,
            overwritten_stack=overwritten_stack,
        )


class NativeBuilder:
    """Compiles a source; sources that could misuse the compiler are refused."""

    def __init__(self, evaluation: NativeEvaluation) -> None:
        self._evaluation = evaluation

    @property
    def sandbox(self) -> str:
        """The sandboxes of the compiler and the kernel."""
        return compiler_sandbox(self._evaluation.toolchain).name

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """The object file, or the compiler's error with its line."""
        evaluation = self._evaluation
        refused = evaluation.check_source(candidate.source)
        if refused is not None:
            return refused
        built = evaluation.compiled(candidate.source)
        if isinstance(built, Failed):
            return built
        return Artifact(candidate.id, built, evaluation.toolchain.id, candidate.source)
