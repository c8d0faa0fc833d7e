"""What the builder, the checker and the runner of a CUDA task share: compiled kernels and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tilewright.core.records import Failed, KernelLanguage, Workload
from tilewright.native.settings import EvaluationSettings
from tilewright.parts.cases import Cases
from tilewright.parts.languages import CUDA
from tilewright.parts.problem import Problem
from tilewright.parts.untested_conditions import Untested
from tilewright.sandbox import Sandbox, find_sandbox
from tilewright.targets.cuda import partial_runs
from tilewright.targets.cuda.condition_program import (
    ConditionProgram,
    address_misuses,
    arithmetic_program,
    changed_by_moving,
    known_loads,
    loads_program,
    moved_program,
    recording_program,
    untested,
    without_effect,
)
from tilewright.targets.cuda.cpu_program import CpuCompiler, find_cpu_compiler
from tilewright.targets.cuda.emulation import (
    CHANGED_ANSWERS,
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
    _recordings: dict[str, ConditionProgram | Failed | None] = field(default_factory=dict)

    @cached_property
    def cases(self) -> Cases:
        """Private inputs of the workload that is compared."""
        seed = self.settings.input_seed
        return Cases(self.compared, self.problem, seed, self.lowest, costly=self.share < 1)

    @property
    def language(self) -> KernelLanguage:
        """The language of kernels, in which messages name lines."""
        return CUDA

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

    def must_record(self, source: str) -> bool | Failed:
        """Whether further runs have to record the results of a kernel's conditions on input values,
        or the failure of a kernel for which this is impossible."""
        program = self.recording(source)
        return program if isinstance(program, Failed) else program is not None

    def recording(self, source: str) -> ConditionProgram | Failed | None:
        """The program that records the results of a kernel's conditions on input values, the
        failure of a kernel for which there is none, or None if it has no such conditions. The
        program of the last kernel is kept."""
        if source not in self._recordings:
            self._recordings.clear()
            self._recordings[source] = recording_program(
                self.cpu_compiler, source, self._call, self._compile_s
            )
        return self._recordings[source]

    def recorded(self, source: str, runs: Sequence[Run]) -> RunResult:
        """The results of runs that record the results of the kernel's conditions. The first of them
        is executed twice, because a kernel may still set up something in its first call, which is
        not recorded."""
        program = self.recording(source)
        assert isinstance(program, ConditionProgram), "the kernel's conditions must be recorded"
        found = self.ran(program.binary, [runs[0], *runs])
        found = replace(found, outputs=found.outputs[1:])
        if found.failed is not None:
            return found
        conditions = program.conditions(found.records, 1 + len(runs))
        if conditions is None:
            return replace(found, failed=CHANGED_ANSWERS)
        for of_run in conditions[1:]:
            self.remember(source, of_run)
        return found

    def remember(self, source: str, conditions: Sequence[Condition]) -> None:
        """Add results of conditions to those of earlier runs."""
        for known in [s for s in self.conditions if s not in (source, self.start)]:
            del self.conditions[known]
        seen = self.conditions.setdefault(source, {})
        for one in conditions:
            old = seen.get(one.place)
            seen[one.place] = one if old is None else old.with_more(one)

    def untested(self, source: str) -> tuple[Untested, ...]:
        """The conditions on input values that had the same result in all runs so far, or the same
        results in the same order."""
        seen = self.conditions.get(source, {}).values()
        return tuple(
            Untested(c.line, "number" if c.is_number else "condition")
            for c in seen
            if c.is_alone or c.is_alike
        )

    def tested(self, source: str, all_reached: bool) -> bool:
        """Whether no condition on input values that was reached is untested so far. With
        `all_reached`, each of them must have been reached."""
        if all_reached:
            return all(c.is_settled for c in self.conditions.get(source, {}).values())
        return not self.untested(source)

    def still_untested(self, source: str, runs: Sequence[Run]) -> tuple[Untested, ...] | Failed:
        """The untested conditions that depend on input values even if an instruction that reads the
        same in all these runs, except for the first one, reads none; and what depends on addresses
        that the kernel reads from memory. The runs differ in their inputs, and the last one in the
        addresses of arrays."""
        program = self.recording(source)
        assert isinstance(program, ConditionProgram), "the kernel's conditions must be recorded"
        loads = loads_program(self.cpu_compiler, program, self._compile_s)
        if isinstance(loads, Failed):
            return loads
        ran = self.ran(loads.binary, runs)
        hashes = loads.hashes(ran.records, len(runs))
        if ran.failed is not None or hashes is None:
            return ran.failed or CHANGED_ANSWERS
        known, addresses = known_loads(loads, hashes)
        found = untested(program, self.conditions[source].values(), known | addresses)
        self.conditions[source] = {one.place: one for one in found}
        return (*address_misuses(program.listing, addresses), *self.untested(source))

    def without_effect(self, source: str, runs: Sequence[Run]) -> tuple[Untested, ...] | Failed:
        """The products, sums and exponentials of floats that have no effect in any of these runs,
        although their operands differ."""
        program = self.recording(source)
        assert isinstance(program, ConditionProgram), "the kernel's conditions must be recorded"
        made = arithmetic_program(self.cpu_compiler, program, self._compile_s)
        if made is None or isinstance(made, Failed):
            return made or ()
        recording, operations = made
        ran = self.ran(recording.binary, runs)
        if ran.failed is not None:
            return ran.failed
        found = without_effect(recording, operations, ran.records, len(runs))
        return CHANGED_ANSWERS if found is None else tuple(found)

    def changed_by_moving(self, source: str, run: Run) -> tuple[Untested, ...] | Failed:
        """The conditions that change if the arrays of a run move."""
        program = self.recording(source)
        assert isinstance(program, ConditionProgram), "the kernel's conditions must be recorded"
        recording = moved_program(self.cpu_compiler, program, self._compile_s)
        if recording is None or isinstance(recording, Failed):
            return recording or ()
        runs = [run, run, replace(run, moved=True)]
        ran = self.ran(recording.binary, runs)
        hashes = recording.hashes(ran.records, len(runs))
        if ran.failed is not None or hashes is None:
            return ran.failed or CHANGED_ANSWERS
        return tuple(changed_by_moving(recording, hashes))

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
