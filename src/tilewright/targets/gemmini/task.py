"""A workload with its starting kernel and, on first use, what evaluates candidates for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from tilewright.core.records import ExternalResult, Failed, Workload, content_id
from tilewright.core.roles import Builder, Checker, ExternalRun, Runner
from tilewright.targets.gemmini import inputs
from tilewright.targets.gemmini.cases import Cases
from tilewright.targets.gemmini.problem import Problem
from tilewright.targets.gemmini.settings import EvaluationSettings


class KernelTask:
    """A task on this target; `evaluator` compiles and simulates in the process that asks for it."""

    def __init__(
        self,
        workload: Workload,
        start: str,
        problem: Problem,
        settings: EvaluationSettings,
        baselines: Mapping[str, str] | None = None,
    ) -> None:
        self.workload = workload
        self.start = start
        self.baselines = baselines or {}
        self._problem = problem
        self._settings = settings

    @property
    def fingerprint(self) -> str:
        """Content hash of all that decides a verdict beside the workload and the versions."""
        settings = self._settings
        return content_id(
            self._problem.fingerprint,
            inputs.VERSION,
            str(settings.input_seed),
            str(settings.checks),
        )

    def external(self, simulator: str) -> ExternalRun:
        """Runs on Spike, Verilator or FireSim with the inputs of the timed run."""
        from tilewright.targets.gemmini.external.run import run_source
        from tilewright.targets.gemmini.external.tools import find_tool
        from tilewright.targets.gemmini.source_rules import HEADERS, LOOP_HEADERS

        tool = find_tool(simulator)
        cases = Cases(self.workload, self._problem, self._settings.input_seed)
        compile_timeout_s = self._settings.compile_timeout_s

        def run(source: str, timeout_s: float) -> ExternalResult | Failed:
            case = cases[self._settings.checks]
            headers = LOOP_HEADERS if source in self.baselines.values() else HEADERS
            return run_source(tool, source, case, timeout_s, compile_timeout_s, headers)

        return run

    @cached_property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        """Builder, Checker and Runner, sharing inputs and expected outputs."""
        from tilewright.targets.gemmini.evaluator import create_evaluator

        return create_evaluator(
            self.workload, self._problem, self._settings, tuple(self.baselines.values())
        )
