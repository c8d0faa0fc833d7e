"""What the builder, the checker and the runner of a CUDA task share: compiled kernels and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tilewright.core.records import Failed, Workload
from tilewright.native.settings import EvaluationSettings
from tilewright.parts.cases import Cases
from tilewright.parts.problem import Problem
from tilewright.parts.untested_conditions import Untested
from tilewright.sandbox import Sandbox, find_sandbox
from tilewright.targets.cuda import partial_runs
from tilewright.targets.cuda.cpu_program import CpuCompiler, find_cpu_compiler
from tilewright.targets.cuda.emulation import (
    Condition,
    Launch,
    Part,
    Run,
    RunResult,
    run_on_cpu,
)
from tilewright.targets.cuda.launcher import call
from tilewright.targets.cuda.nvcc import Compiled, Nvcc, find_nvcc
from tilewright.targets.cuda.occupancy import Architecture
from tilewright.targets.cuda.source import only_a_gpu

MOST_OPERATIONS = 1 << 28
"""Maximum number of multiply-adds of one comparison on the CPU, so that a dozen comparisons take
about a minute. Of larger kernels, only some blocks are run (`part`)."""


@dataclass(frozen=True)
class CudaEvaluation:
    """The data that the three roles share.

    `workload` is the workload that a GPU would time. `compared` is the one that is run here, with
    the `sizes` that the launcher gets after the arrays. `lowest` is the lowest precision class that
    is accepted. `full_sizes` are the sizes at which a GPU times kernels. `start` is the starting
    kernel.
    """

    workload: Workload
    compared: Workload
    sizes: Mapping[str, int]
    problem: Problem
    settings: EvaluationSettings
    architecture: Architecture
    lowest: str = ""
    full_sizes: Mapping[str, int] = field(default_factory=dict)
    launches: dict[str, tuple[Launch, ...]] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    """By source, the part of the kernel that was run, if it was not the whole kernel."""
    start: str = ""
    conditions: dict[str, dict[str, Condition]] = field(default_factory=dict)
    """By source and place, the conditions on loaded values in all runs, if they are recorded."""
    _compiled: dict[str, Compiled | Failed] = field(default_factory=dict)
    _programs: dict[str, bytes | Failed] = field(default_factory=dict)

    @cached_property
    def cases(self) -> Cases:
        """Private inputs of the workload that is compared."""
        seed = self.settings.input_seed
        return Cases(self.compared, self.problem, seed, self.lowest, costly=self.share < 1)

    @property
    def share(self) -> float:
        """Share of the blocks that a run on the CPU executes; 1 for all."""
        operations = self.compared.operations
        return partial_runs.share_of(operations) if operations > MOST_OPERATIONS else 1.0

    @cached_property
    def nvcc(self) -> Nvcc:
        """The CUDA compiler. Raises `ToolchainMissingError`."""
        return find_nvcc()

    @cached_property
    def cpu_compiler(self) -> CpuCompiler:
        """The C++ compiler. Raises `ToolchainMissingError`."""
        return find_cpu_compiler()

    @cached_property
    def sandbox(self) -> Sandbox:
        """The sandbox in which kernels run."""
        return find_sandbox()

    def compiled(self, source: str) -> Compiled | Failed:
        """The machine code of a kernel. The code of the last kernel is kept."""
        if source not in self._compiled:
            self._compiled.clear()
            self._compiled[source] = self.nvcc.compile(
                source, self._call, self.architecture.name, self._compile_s
            )
        return self._compiled[source]

    def program(self, source: str) -> bytes | Failed:
        """The program that runs a kernel on the CPU. The program of the last kernel is kept."""
        if source not in self._programs:
            self._programs.clear()
            self._programs[source] = self.cpu_compiler.compile(source, self._call, self._compile_s)
        return self._programs[source]

    def with_cause(self, wrong: Failed, source: str, run: Run) -> Failed:
        """The wrong result of a run, with the line of its probable cause: a data race, or a read of
        an element that was never written. Unchanged if no cause is found.
        """
        watched = self.watched(source, run)
        if watched is None or isinstance(watched, Failed):
            return wrong
        return with_cause_of(wrong, watched)

    def watched(self, source: str, run: Run) -> RunResult | Failed | None:
        """The result of a run in the other program, in which every access to memory is recorded;
        None if there is no other program."""
        program = self.cpu_compiler.compile(source, self._call, self._compile_s, races=True)
        return program if isinstance(program, Failed) else self.ran(program, [run])

    def ran(self, program: bytes, runs: Sequence[Run]) -> RunResult:
        """The results of runs on the CPU."""
        return run_on_cpu(
            program,
            self.sandbox,
            self.compared.arguments,
            tuple(self.sizes.values()),
            runs,
            self.settings.simulation_timeout_s,
        )

    def untested(self, source: str) -> tuple[Untested, ...]:
        """The conditions on loaded values that had the same result in all runs so far; none where
        conditions are not recorded."""
        del source
        return ()

    def refused_part(self) -> Failed | None:
        """Why running only some of a kernel's blocks would show nothing, or None."""
        return partial_runs.refused_task(self.compared)

    def only_a_gpu(self, source: str) -> tuple[str, int] | None:
        """The part of a source that the CPU cannot run, with its line; None if no such part is
        known."""
        return only_a_gpu(source)

    @property
    def _call(self) -> str:
        return call(self.compared.arguments, tuple(self.sizes))

    @property
    def _compile_s(self) -> float:
        return self.settings.compile_timeout_s * 3  # nvcc starts a dozen programs


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def with_cause_of(wrong: Failed, watched: RunResult) -> Failed:
    """The wrong result with the cause that a run of the other program has found, if any."""
    raced = watched.failed if watched.failed and watched.failed.kind == "race" else None
    cause = raced or watched.unset
    if cause is None or (wrong.kind == "illegal_address" and cause.kind != "race"):
        return wrong
    if wrong.kind == "illegal_address":
        return replace(wrong, log=f"{wrong.log} A possible cause is {cause.log}")
    return replace(cause, log=f"{cause.log} {_capital(wrong.log)}")
