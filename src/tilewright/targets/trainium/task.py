"""A Trainium workload with its starting kernel. The evaluator is created when it is first used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Literal

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.records import (
    Candidate,
    ExternalResult,
    Failed,
    Measured,
    Workload,
    content_id,
)
from tilewright.core.roles import CheckCase, ExternalRun
from tilewright.native.settings import EvaluationSettings
from tilewright.parts import inputs
from tilewright.parts.cases import Cases
from tilewright.parts.hostile import OpenCase
from tilewright.parts.problem import Problem
from tilewright.targets.trainium.call_memory import CallMemory
from tilewright.targets.trainium.code import instruction_code
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.evaluator import (
    Evaluation,
    TrainiumBuilder,
    TrainiumChecker,
    TrainiumRunner,
)
from tilewright.targets.trainium.hostile import hostile_kernels
from tilewright.targets.trainium.machine import Machine
from tilewright.targets.trainium.program import Call, entry_of, parse
from tilewright.targets.trainium.roofline import floor_ns


class TrainiumTask:
    """The `Task` role. Interpreting and modelling need neither files nor a network."""

    containable: Literal[True] = True

    def __init__(
        self,
        workload: Workload,
        start: str,
        problem: Problem,
        settings: EvaluationSettings,
        machine: Machine,
        constants: Mapping[str, object],
        baselines: Mapping[str, str],
    ) -> None:
        self.workload = workload
        self.start = start
        self.baselines = baselines
        self._problem = problem
        self._settings = settings
        self._machine = machine
        self._constants = constants
        self._memory = CallMemory(self._call)

    @property
    def fingerprint(self) -> str:
        """Content hash of everything that affects a verdict, except the workload and the
        versions."""
        return content_id(
            self._problem.fingerprint,
            inputs.VERSION,
            str(self._settings.input_seed),
            str(self._settings.checks),
            repr(sorted(self._constants.items())),
        )

    def check_cases(self) -> Sequence[CheckCase]:
        """The comparisons of a candidate's checks."""
        cases = self._cases
        return [
            OpenCase(cases[number], partial(cases.alone, number))
            for number in cases.compared(self._settings.checks)
        ]

    def code(self, source: str) -> CompiledCode | Failed:
        """The instructions in a kernel's trace, by loop and engine."""
        built = self.evaluator[0].build(Candidate(source))
        if isinstance(built, Failed):
            return built
        return instruction_code(self._evaluation.traced(source)[1], self._machine.name)

    def modelled(self, source: str) -> Measured | Failed:
        """The latency of a kernel whose results were not compared."""
        builder, _, runner = self.evaluator
        artifact = builder.build(Candidate(source))
        return artifact if isinstance(artifact, Failed) else runner.modelled(artifact)

    def omissions(self) -> Mapping[str, str]:
        """Input distributions that are not compared, with the reasons."""
        return self._cases.omissions

    def hostile_kernels(self) -> Mapping[str, str]:
        """Kernels that are wrong for any task."""
        return hostile_kernels(self.workload.arguments)

    def floor(self, measured: Measured) -> tuple[float, str]:
        """Nanoseconds that no correct kernel can beat, including the launch."""
        return floor_ns(self.workload, self._machine)

    def external(self, simulator: str) -> ExternalRun:
        """Runs a kernel on a NeuronCore with the AWS SDK, on the inputs of the timed run."""
        from tilewright.targets.trainium.interpreter_process import failed_by
        from tilewright.targets.trainium.neuron.sdk import find_sdk, run_on_device

        sdk = find_sdk(simulator)

        def run(source: str, timeout_s: float) -> ExternalResult | Failed:
            try:
                entry = entry_of(parse(source), self._call, self._machine)
            except KernelError as error:
                return failed_by(error)
            return run_on_device(sdk, source, entry, self._call, self._cases.timed(), timeout_s)

        return run

    @cached_property
    def _call(self) -> Call:
        arguments = self.workload.arguments
        return Call(
            tuple(a for a in arguments if a.is_given),
            tuple(a for a in arguments if a.is_written),
            self._constants,
        )

    @cached_property
    def _cases(self) -> Cases:
        return Cases(self.workload, self._problem, self._settings.input_seed, poisoned=False)

    @cached_property
    def evaluator(self) -> tuple[TrainiumBuilder, TrainiumChecker, TrainiumRunner]:
        """The builder, checker and runner, which share traces, inputs and expected outputs."""
        shared = self._evaluation
        return TrainiumBuilder(shared), TrainiumChecker(shared), TrainiumRunner(shared)

    @cached_property
    def _evaluation(self) -> Evaluation:
        return Evaluation(
            self.workload,
            self._call,
            self._problem,
            self._settings,
            self._machine,
            self._cases,
            self._memory,
        )
