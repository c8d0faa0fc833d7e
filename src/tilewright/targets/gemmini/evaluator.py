"""Builder, Checker and Runner of a Gemmini task: compile, compare, simulate in time."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from tilewright.core.records import (
    Artifact,
    Candidate,
    Failed,
    Measured,
    Verdict,
    Workload,
    content_id,
)
from tilewright.core.roles import NOTHING_CHECKED
from tilewright.parts.cases import Cases
from tilewright.parts.debug_lines import source_line
from tilewright.parts.kernel_parameters import named_parameters
from tilewright.parts.languages import C
from tilewright.targets.gemmini.examination import Examination
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.loop_commands import loop_command
from tilewright.targets.gemmini.phases import few_phases
from tilewright.targets.gemmini.settings import LATENCY, EvaluationSettings
from tilewright.targets.gemmini.simulator import (
    MOST_CALLS,
    Simulator,
    cycles_by_cause,
    measurements,
    order_warnings,
    utilization,
    versions,
)
from tilewright.targets.gemmini.source_rules import HEADERS, LOOP_HEADERS, check_source
from tilewright.targets.gemmini.toolchain import (
    Toolchain,
    compile_kernel,
    compiler_sandbox,
    find_toolchain,
)


def create_evaluator(
    instance: Instance,
    cases: Cases,
    settings: EvaluationSettings,
    start: str,
    baselines: Collection[str] = (),
) -> tuple[GemminiBuilder, GemminiChecker, GemminiRunner]:
    """The three roles, which share one simulator and the task's cases.

    `start` is the source of the starting kernel; `baselines` are the sources that may use the
    hardware loop unrollers.
    """
    workload = cases.workload
    simulator = Simulator(instance, workload, settings)
    toolchain = find_toolchain()
    builder = GemminiBuilder(toolchain, instance, settings.compile_timeout_s, baselines)
    examination = Examination(
        simulator,
        cases,
        settings.checks,
        lambda: builder.build(Candidate(start)),
        builder.build_rolled,
    )
    return (
        builder,
        GemminiChecker(simulator, cases, settings.checks, examination),
        GemminiRunner(simulator, cases, instance, workload, toolchain.build, baselines),
    )


LOOPS = (
    "only baselines may use the hardware loop unrollers: issue the moves and products one "
    "by one, with the command macros."
)


class GemminiBuilder:
    """Compiles a source; sources that could misuse the compiler are refused."""

    def __init__(
        self,
        toolchain: Toolchain,
        instance: Instance,
        timeout_s: float,
        baselines: Collection[str] = (),
    ) -> None:
        self._toolchain = toolchain
        self._instance = instance
        self._timeout_s = timeout_s
        self._baselines = baselines

    @property
    def sandbox(self) -> str:
        """The sandbox of the compiler."""
        return compiler_sandbox(self._toolchain).name

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """An ELF file, or the compiler's error with its line."""
        headers = LOOP_HEADERS if candidate.source in self._baselines else HEADERS
        built = check_source(candidate.source, headers) or compile_kernel(
            self._toolchain, candidate.source, self._instance.header, self._timeout_s
        )
        if isinstance(built, Failed):
            return built
        return Artifact(candidate.id, built, self._toolchain.id, candidate.source)

    def build_rolled(self, artifact: Artifact) -> Artifact | None:
        """The same kernel without unrolled loops, or None if the compiler cannot make it."""
        flags = self._toolchain.rolled_flags
        if not flags:
            return None
        header = self._instance.header
        built = compile_kernel(self._toolchain, artifact.source, header, self._timeout_s, flags)
        return replace(artifact, binary=built) if isinstance(built, bytes) else None


class GemminiChecker:
    """Compares cases of every distribution, and at least `checks`, without timing.

    All cases except the first one are compared in calls of one simulation, in which static
    variables keep their values between calls. In the last call, a few elements differ from those of
    the first call. A kernel is refused if it has a condition that depends on input values and
    always had the same result, unless the starting kernel has one as well.
    """

    def __init__(
        self, simulator: Simulator, cases: Cases, checks: int, examination: Examination
    ) -> None:
        self._simulator = simulator
        self._cases = cases
        self._checks = checks
        self._examination = examination

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """The first case."""
        case = self._cases[self._cases.first]
        result = self._simulator.run(artifact, case, "check")
        if isinstance(result, Failed):
            return self._explained(artifact, result)
        return Verdict((case.passed(self._simulator.outputs(result)),))

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """All cases must agree. The first case that does not agree is the failure."""
        numbers = self._cases.compared(self._checks)
        seeds = {check.seed for check in passed.checks}
        left = [n for n in numbers if self._cases[n].check.seed not in seeds]
        if len(left) < 2:  # a second call is required
            left += numbers[: 2 - len(left)]
        checks = list(passed.checks)
        reads_data = False
        for i in range(0, len(left), MOST_CALLS):
            called = left[i : i + MOST_CALLS]
            cases = [self._cases[number] for number in called]
            cases.append(self._cases.changed(called[0]))
            result = self._simulator.run(artifact, cases[0], "check", later=cases[1:])
            if isinstance(result, Failed):
                return self._explained(artifact, result)
            reads_data |= result.cpu_read_data
            outputs = self._simulator.outputs_of_calls(result)
            for case, found in zip(cases[:-1], outputs, strict=False):
                if case.check.seed not in seeds:
                    seeds.add(case.check.seed)
                    checks.append(case.passed(found))
        untested = self._examination.failure(artifact) if reads_data else None
        return untested or Verdict(tuple(checks))

    def unchecked(self, artifact: Artifact) -> tuple[str, ...]:
        """Why a condition that no check has tested is accepted."""
        return self._examination.accepted(artifact)

    def _explained(self, artifact: Artifact, failed: Failed) -> Failed:
        arguments, types = self._cases.workload.arguments, self._simulator.instance.c_types
        return named_parameters(failed, artifact.source, arguments, C, types)


class GemminiRunner:
    """Simulates one further case with timing, and compares its output too."""

    def __init__(
        self,
        simulator: Simulator,
        cases: Cases,
        instance: Instance,
        workload: Workload,
        build: str,
        baselines: Collection[str] = (),
    ) -> None:
        self._baselines = {content_id(source) for source in baselines}
        self._simulator = simulator
        self._cases = cases
        self._instance = instance
        self._workload = workload
        self._build = build

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """The simulated cycles from a cold start to the end of the last command."""
        limit = None if limit_latency is None else math.ceil(limit_latency)
        case = self._cases.timed()
        result = self._simulator.run(artifact, case, "measure", limit)
        if isinstance(result, Failed):
            return result
        if artifact.candidate_id not in self._baselines:
            pc = loop_command(artifact.binary, (pc for pc, _ in result.executed))
            if pc is not None:
                line = source_line(artifact.binary, pc, C.file)
                return Failed("measure", "illegal_instruction", C.located(LOOPS, line), line)
        told = self._simulator.told(artifact, result)
        return Measured(
            latency=float(result.cycles),
            unit=LATENCY.unit,
            quantity=LATENCY.quantity,
            utilization=utilization(self._workload, result.cycles, self._instance.dim**2),
            verdict=Verdict((*verdict.checks, case.passed(self._simulator.outputs(result)))),
            breakdown=cycles_by_cause(result),
            details=measurements(result),
            versions={
                "compiler": artifact.toolchain,
                "build": self._build,
                **versions(self._instance),
            },
            artifact_digest=artifact.digest,
            feedback=told.feedback,
            by_line=told.by_line,
            phases=few_phases(result.phases),
            gaps=told.gaps,
            bound=told.bound,
            warnings=order_warnings(artifact, result),
        )
