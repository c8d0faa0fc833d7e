"""A workload on this machine, with its starting kernel and its evaluator, which is constructed on
first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Literal

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.records import Failed, Measured, Workload, content_id
from tilewright.core.roles import Builder, CheckCase, Checker, Runner
from tilewright.native.checker import NativeChecker
from tilewright.native.evaluator import NativeBuilder, NativeEvaluation
from tilewright.native.machine import spare_cores
from tilewright.native.runner import NativeRunner
from tilewright.native.settings import EvaluationSettings
from tilewright.parts import inputs
from tilewright.parts.cases import Cases
from tilewright.parts.hostile import OpenCase, hostile_c_kernels, works_at_first
from tilewright.parts.problem import Problem

MOST_WORKERS = 4
_FAST = 1 << 22
"""Operations of a workload whose starting kernel is timed over dozens of calls in any case."""

Floor = Callable[[Workload], tuple[float, str]]
"""Nanoseconds that no correct kernel can beat, and the bound in words."""


class NativeTask:
    """A `Task` of a native target, which supports preflight, a latency floor and showing machine
    code.

    `prepare` constructs the evaluation when candidates are first evaluated. It may search for a
    compiler or calibrate the machine.
    """

    explains_code: Literal[True] = True
    compares_further: Literal[True] = True

    untimed: str | None = None
    """The reason why kernels cannot be timed on this machine, or None."""

    def __init__(
        self,
        workload: Workload,
        start: str,
        problem: Problem,
        settings: EvaluationSettings,
        prepare: Callable[[Cases, str, EvaluationSettings], NativeEvaluation],
        floor: Floor,
        baselines: Mapping[str, str] | None = None,
        threads: int = 1,
    ) -> None:
        self.workload = workload
        self.start = start
        self.baselines = baselines or {}
        self._problem = problem
        self._settings = settings
        self._prepare = prepare
        self._floor = floor
        self._threads = threads

    @property
    def most_workers(self) -> int:
        """Maximum number of workers, of which one measures while the others build and check.
        Waiting counts towards the time limit of a stage.

        There is only one worker if others would use a core on which threads are timed.
        """
        return 1 if self._threads > 1 and not spare_cores(self._threads) else MOST_WORKERS

    @property
    def fingerprint(self) -> str:
        """Hash of everything that determines a verdict, except the workload and the versions."""
        settings = self._settings
        return content_id(
            self._problem.fingerprint,
            inputs.VERSION,
            str(settings.input_seed),
            str(settings.checks),
        )

    @cached_property
    def _cases(self) -> Cases:
        return Cases(self.workload, self._problem, self._settings.input_seed)

    def check_cases(self) -> Sequence[CheckCase]:
        """The comparisons of a candidate's checks and of its timed run."""
        cases = self._cases
        compared = [cases[number] for number in cases.compared(self._settings.checks)]
        return [OpenCase(case) for case in (*compared, cases.timed())]

    def omissions(self) -> Mapping[str, str]:
        """The distributions of inputs that are not compared, with the reasons."""
        return self._cases.omissions

    def hostile_kernels(self) -> Mapping[str, str]:
        """Kernels that are wrong for every task."""
        arguments = self.workload.arguments
        wrong = hostile_c_kernels(arguments)
        if self.workload.operations <= _FAST and self._shared.refuse_timing is None:
            # The first comparison is repeated with changed elements.
            repeated = 1 + len(self._cases.alone_changed(self._cases.first))
            checked = len(self._cases.compared(self._settings.checks)) + repeated
            wrong = {
                **wrong,
                "is correct until its checks have ended": works_at_first(
                    self.start, arguments, checked
                ),
            }
        return {name: f"#include <stdint.h>\n{source}" for name, source in wrong.items()}

    def floor(self, measured: Measured) -> tuple[float, str]:
        """Nanoseconds that no correct kernel can beat, and the bound in words."""
        return self._floor(self.workload)

    def code(self, source: str) -> CompiledCode | Failed:
        """The machine code of a kernel, or the failure of its build."""
        return self._shared.code(source)

    @cached_property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        """Builder, Checker and Runner, which share inputs and expected outputs."""
        shared = self._shared
        return NativeBuilder(shared), NativeChecker(shared), NativeRunner(shared)

    @cached_property
    def _shared(self) -> NativeEvaluation:
        return self._prepare(self._cases, self.start, self._settings)
