"""Builder, Checker and Runner of a CUDA task on a machine without a GPU.

Kernels are compiled for an architecture with nvcc, run on the CPU at reduced sizes, and compared
with the reference. They are not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tilewright.core.errors import NotTimedError
from tilewright.core.records import Artifact, Candidate, Check, Failed, Measured, Verdict, Workload
from tilewright.core.roles import NOTHING_CHECKED
from tilewright.native.settings import EvaluationSettings
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.parts.problem import Problem
from tilewright.sandbox import Sandbox, find_sandbox
from tilewright.targets.cuda import part
from tilewright.targets.cuda.cpu_program import CpuCompiler, find_cpu_compiler, not_checked
from tilewright.targets.cuda.device.gpus import HOW_TO_GET, Gpu
from tilewright.targets.cuda.emulation import ORDERS, Launch, Part, Ran, Run, run_on_cpu
from tilewright.targets.cuda.launcher import call
from tilewright.targets.cuda.nvcc import Compiled, Nvcc, find_nvcc
from tilewright.targets.cuda.occupancy import Architecture, architectures
from tilewright.targets.cuda.resources import in_words, refused_launch
from tilewright.targets.cuda.source import NO_KERNEL, only_a_gpu, refused

MOST_OPERATIONS = 1 << 28
"""Maximum number of multiply-adds of one comparison on the CPU, so that a dozen comparisons take
about a minute. Of larger kernels, only some blocks are run (`part`)."""
NO_GPU = (
    "no NVIDIA GPU can be used on this machine, and without one kernels cannot be timed. "
    f"To search for a faster kernel, {HOW_TO_GET} (docs/targets/cuda.md)"
)


def other_gpu(gpu: Gpu, architecture: Architecture) -> str | None:
    """Why kernels compiled for an architecture cannot be timed on a GPU, or None."""
    if gpu.architecture == architecture.name:
        return None
    if gpu.architecture not in architectures():
        return f"the GPU of this machine ({gpu.id}) is not one of {', '.join(architectures())}"
    return (
        f"the GPU of this machine ({gpu.id}) does not run what is compiled for "
        f"{architecture.name}: leave out `--set arch={architecture.name}` to compile for it"
    )


@dataclass(frozen=True)
class CudaEvaluation:
    """The data that the three roles share.

    `workload` is the workload that a GPU would time. `compared` is the one that is run here, with
    the `sizes` that the launcher gets after the arrays. `lowest` is the lowest precision class that
    is accepted. `full_sizes` are the sizes at which a GPU times kernels.
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
        return part.share_of(operations) if operations > MOST_OPERATIONS else 1.0

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

    def race(self, source: str, run: Run) -> Failed | None:
        """The data race in a run on the CPU, or None."""
        watched = self._watched(source, run)
        return watched if isinstance(watched, Failed) else watched.failed

    def with_cause(self, wrong: Failed, source: str, run: Run) -> Failed:
        """The wrong result of a run, with the line of its probable cause: a data race, or a read of
        an element that was never written. Unchanged if no cause is found.
        """
        watched = self._watched(source, run)
        if isinstance(watched, Failed):
            return wrong
        cause = (
            watched.failed if watched.failed and watched.failed.kind == "race" else watched.unset
        )
        if cause is None or (wrong.kind == "illegal_address" and cause.kind != "race"):
            return wrong
        if wrong.kind == "illegal_address":
            return replace(wrong, log=f"{wrong.log} A possible cause is {cause.log}")
        kind = "race" if cause.kind == "race" else wrong.kind
        return replace(cause, kind=kind, log=f"{cause.log} {_capital(wrong.log)}")

    def _watched(self, source: str, run: Run) -> Ran | Failed:
        """The result of a run in which every access to memory is recorded."""
        program = self.cpu_compiler.compile(source, self._call, self._compile_s, races=True)
        return program if isinstance(program, Failed) else self.ran(program, [run])

    def ran(self, program: bytes, runs: Sequence[Run]) -> Ran:
        """The results of runs on the CPU."""
        return run_on_cpu(
            program,
            self.sandbox,
            self.compared.arguments,
            tuple(self.sizes.values()),
            runs,
            self.settings.simulation_timeout_s,
        )

    def refused_part(self) -> Failed | None:
        """Why running only some of a kernel's blocks would show nothing, or None."""
        return part.refused_task(self.compared)

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


class CudaBuilder:
    """Compiles for the GPU after the `rules` have rejected sources that access more than their
    arguments."""

    def __init__(
        self, evaluation: CudaEvaluation, rules: Callable[[str], Failed | None] = refused
    ) -> None:
        self._evaluation, self._rules = evaluation, rules

    @property
    def sandbox(self) -> str:
        """The sandbox in which the compilers run."""
        return self._evaluation.nvcc.sandbox.name

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """Machine code, or the compiler's error with its line."""
        evaluation = self._evaluation
        problem = self._rules(candidate.source)
        if problem is not None:
            return problem
        compiled = evaluation.compiled(candidate.source)
        if isinstance(compiled, Failed):
            return compiled
        if not compiled.functions:
            return NO_KERNEL
        return Artifact(
            candidate.id, b"".join(compiled.cubins), evaluation.nvcc.id, candidate.source
        )


class CudaChecker:
    """Runs kernels on the CPU and compares the results. The first case is run with threads in every
    order."""

    def __init__(self, evaluation: CudaEvaluation) -> None:
        self._evaluation = evaluation

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """The first case with threads in every order."""
        return self._checked(artifact, lambda cases: [cases.first], NOTHING_CHECKED)

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Every case, with the orders in turn."""
        checks = self._evaluation.settings.checks
        return self._checked(artifact, lambda cases: cases.compared(checks), passed)

    def _checked(
        self, artifact: Artifact, chosen: Callable[[Cases], Sequence[int]], passed: Verdict
    ) -> Verdict | Failed:
        evaluation, source = self._evaluation, artifact.source
        reason = evaluation.only_a_gpu(source)
        if reason is not None:
            return not_checked(*reason)
        if evaluation.share < 1:
            refused_task = evaluation.refused_part()
            if refused_task is not None:
                return refused_task
        program = evaluation.program(source)
        if isinstance(program, Failed):
            return program
        seeds = {check.seed for check in passed.checks}
        cases = [evaluation.cases[n] for n in chosen(evaluation.cases)]
        cases = [case for case in cases if case.check.seed not in seeds]
        runs = _turns(cases, evaluation.share)
        ran = evaluation.ran(program, [run for _, run in runs])
        evaluation.launches[source] = ran.launches
        checks = _compared(runs, ran)
        if isinstance(checks, tuple):
            return evaluation.with_cause(checks[0], source, checks[1])
        if ran.failed is not None:
            failed = _of_part(ran.failed) if evaluation.share < 1 else ran.failed
            if failed.kind == "illegal_address":
                failed = evaluation.with_cause(failed, source, runs[len(ran.outputs)][1])
            return failed
        if evaluation.share < 1 and runs:
            left_out = part.nothing_left_out(evaluation.compared.arguments, ran.part)
            if left_out is not None:
                return left_out
            assert ran.part is not None
            evaluation.parts[source] = ran.part
        compiled = evaluation.compiled(source)
        if isinstance(compiled, Compiled):
            excess = refused_launch(compiled.functions, ran.launches, evaluation.architecture)
            if excess is not None:
                return excess
        if not passed.checks and runs:
            race = evaluation.race(source, runs[-1][1])
            if race is not None:
                return race
        return Verdict((*passed.checks, *checks))


def _turns(cases: Sequence[Case], share: float) -> list[tuple[Case, Run]]:
    """The order of threads for each case. If only some blocks are run, the outputs also have
    different contents before the call."""
    first = [(case, i) for case in cases[:1] for i in range(len(ORDERS))]
    turns = first + [(case, i % len(ORDERS)) for i, case in enumerate(cases[1:], 1)]
    fills = part.FILLS if share < 1 else (0,)
    return [
        (case, Run(case.initial, ORDERS[i], case.seed, share, fills[i % len(fills)]))
        for case, i in turns
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _compared(runs: Sequence[tuple[Case, Run]], ran: Ran) -> list[Check] | tuple[Failed, Run]:
    """The checks of the completed runs, or how the first wrong run differs, with this run."""
    checks = list[Check]()
    ended = list(zip(runs, ran.outputs, strict=False))
    for case in dict.fromkeys(case for (case, _), _ in ended):
        own = [(run, outputs) for (other, run), outputs in ended if other is case]
        only = None
        if own[0][0].share < 1:
            only = part.written_in_any(case, [(run.fill, outputs) for run, outputs in own])
        found = [case.mismatch(outputs, only) for _, outputs in own]
        wrong = next((i for i, mismatch in enumerate(found) if mismatch is not None), None)
        if wrong is None:
            checks.append(case.passed(own[0][1], only))
        elif None in found:
            log = (
                f"the result depends on the order in which threads run: a barrier or an atomic "
                f"operation is missing. With threads {own[wrong][0].order}, {found[wrong]}."
            )
            return Failed("check", "race", log), own[wrong][0]
        else:
            return Failed("check", "wrong_result", f"{found[wrong]}."), own[wrong][0]
    return checks


def _of_part(failed: Failed) -> Failed:
    """A failure of some blocks may only mean that they wait for others, which are not run."""
    if failed.kind != "timeout":
        return failed
    return not_checked("some of its blocks were run on the CPU and did not finish")


class CudaRunner:
    """Times nothing, because there is no suitable GPU."""

    def __init__(self, evaluation: CudaEvaluation, reason: str = NO_GPU) -> None:
        self._evaluation, self._reason = evaluation, reason

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """Raises `NotTimedError` with the facts that are known about the kernel."""
        evaluation = self._evaluation
        compiled = evaluation.compiled(artifact.source)
        if isinstance(compiled, Failed):
            return replace(compiled, stage="measure")
        launches = evaluation.launches.get(artifact.source, ())
        words = in_words(compiled.functions, launches, evaluation.architecture)
        precision = verdict.precision or "precision class unknown"
        raise NotTimedError(
            f"the kernel is correct on the CPU ({precision}) in {len(verdict.checks)} comparisons "
            f"with threads in three orders{self._at(artifact.source)}; "
            f"for {evaluation.architecture.name} {words}; "
            f"but {self._reason}."
        )

    def _at(self, source: str) -> str:
        some = self._evaluation.parts.get(source)
        if some is not None:
            return f" of {part.in_words(some)}"
        sizes = ", ".join(f"{name} = {size}" for name, size in self._evaluation.sizes.items())
        return f" ({sizes})" if sizes else ""
