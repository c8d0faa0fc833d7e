"""A workload with its starting kernel, and its evaluator, which is constructed on first use."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from tilewright.core.codec import from_json, to_json
from tilewright.core.compiled_code import CompiledCode
from tilewright.core.records import (
    Artifact,
    Candidate,
    ExternalResult,
    Failed,
    Measured,
    Workload,
    content_id,
)
from tilewright.core.roles import Builder, CheckCase, Checker, ExternalRun, Runner
from tilewright.parts import inputs
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.parts.element_types import is_float
from tilewright.parts.problem import Problem
from tilewright.sandbox import call_contained
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.settings import EvaluationSettings

if TYPE_CHECKING:
    from tilewright.targets.gemmini.external.program import CorrectRun


class KernelTask:
    """A task on this target; `evaluator` compiles and simulates in the process that constructs
    it.
    """

    containable: Literal[True] = True

    def __init__(
        self,
        instance: Instance,
        workload: Workload,
        start: str,
        problem: Problem,
        settings: EvaluationSettings,
        baselines: Mapping[str, str] | None = None,
    ) -> None:
        self._instance = instance
        self.workload = workload
        self.start = start
        self.baselines = baselines or {}
        self._problem = problem
        self._settings = settings

    @property
    def fingerprint(self) -> str:
        """Hash of everything that determines a verdict, except the workload and the versions."""
        settings = self._settings
        return content_id(
            self._problem.fingerprint,
            inputs.VERSION,
            str(settings.input_seed),
            str(settings.checks),
            settings.ordering,
        )

    @cached_property
    def _cases(self) -> Cases:
        return Cases(self.workload, self._problem, self._settings.input_seed)

    def check_cases(self) -> Sequence[CheckCase]:
        """The comparisons of a candidate's checks and of its timed run."""
        from tilewright.parts.hostile import OpenCase

        cases = self._cases
        compared = [cases[number] for number in cases.compared(self._settings.checks)]
        return [OpenCase(case) for case in (*compared, cases.timed())]

    def omissions(self) -> Mapping[str, str]:
        """The distributions of inputs that are not compared, with the reasons."""
        return self._cases.omissions

    def hostile_kernels(self) -> Mapping[str, str]:
        """Kernels that are wrong for every task."""
        from tilewright.parts.hostile import hostile_c_kernels

        return hostile_c_kernels(self.workload.arguments)

    def floor(self, measured: Measured) -> tuple[float, str]:
        """A lower bound on the cycles of any correct kernel with these counts, and the bound in
        words.
        """
        from tilewright.targets.gemmini.floors import highest_floor

        return highest_floor(self._instance, self.workload, measured)

    def external(self, simulator: str) -> ExternalRun:
        """The function that runs a kernel on Spike, Verilator or FireSim, with the inputs of the
        timed run.
        """
        from tilewright.targets.gemmini.external.run import run_source
        from tilewright.targets.gemmini.external.tools import find_tool
        from tilewright.targets.gemmini.source_rules import HEADERS, LOOP_HEADERS

        tool = find_tool(simulator, self._instance.chipyard)
        compile_timeout_s = self._settings.compile_timeout_s
        header = self._instance.header

        def run(source: str, timeout_s: float) -> ExternalResult | Failed:
            correct = self._correct_run(source)
            if isinstance(correct, Failed):
                return correct
            headers = LOOP_HEADERS if source in self.baselines.values() else HEADERS
            return run_source(tool, source, header, correct, timeout_s, compile_timeout_s, headers)

        return run

    def _correct_run(self, source: str) -> CorrectRun | Failed:
        """The inputs of the timed run, and the outputs that the embedded simulator computes from
        them.
        """
        from tilewright.targets.gemmini.external.program import CorrectRun

        builder, _, _ = self.evaluator
        artifact = builder.build(Candidate(source))
        if isinstance(artifact, Failed):
            return artifact
        case = self._cases.timed()
        final = self._simulated(artifact, case)
        if isinstance(final, Failed):
            return final
        arguments = self.workload.arguments
        names = [a.name for a in arguments]
        return CorrectRun(
            initial=[case.initial[name] for name in names],
            final=final,
            within_tolerance=[a.is_written and is_float(a.dtype) for a in arguments],
            mismatch=lambda final: case.mismatch(dict(zip(names, final, strict=True))),
        )

    def _simulated(self, artifact: Artifact, case: Case) -> list[bytes] | Failed:
        """All arguments after a run of the embedded simulator in a sandboxed process, because the
        process of a user's command must not simulate untrusted binaries.
        """
        from tilewright.targets.gemmini.simulator import Simulator

        simulator = Simulator(self._instance, self.workload, self._settings)

        def run() -> bytes:
            result = simulator.run(artifact, case, "check")
            if isinstance(result, Failed):
                return json.dumps({"failed": to_json(result)}).encode()
            return json.dumps({"final": [data.hex() for data in result.outputs]}).encode()

        try:
            answer = json.loads(call_contained(run))
        except OSError as error:
            return Failed("check", "crash", f"the simulation did not end: {error}.")
        if "failed" in answer:
            failed: Failed = from_json(answer["failed"])
            return failed
        return [bytes.fromhex(data) for data in answer["final"]]

    def code(self, source: str) -> CompiledCode | Failed:
        """The machine code of a kernel, or the failure of its build."""
        from tilewright.targets.gemmini.code import compiled_code

        built = self.evaluator[0].build(Candidate(source))
        return built if isinstance(built, Failed) else compiled_code(built.binary)

    def broken_rule(self, artifact: Artifact) -> Failed | None:
        """The rule that the simulator finds broken in a run without timing."""
        from tilewright.targets.gemmini.simulator import Simulator

        simulator = Simulator(self._instance, self.workload, self._settings)
        return simulator.broken_rule(artifact, self._cases[self._cases.first])

    @cached_property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        """Builder, Checker and Runner, which share inputs and expected outputs."""
        from tilewright.targets.gemmini.evaluator import create_evaluator

        return create_evaluator(
            self._instance,
            self._cases,
            self._settings,
            self.start,
            tuple(self.baselines.values()),
        )
