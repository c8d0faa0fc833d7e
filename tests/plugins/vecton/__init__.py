"""A target outside the package, in a language of its own: Vecton, which has Python's grammar.

A kernel is a function `compute` of arrays that hold one row each. An access moves up to 8 elements
of a row, `W[i:j]`, and takes one cycle; `compute(X, Y)` must leave 2 X in Y.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.core.errors import WorkloadError
from tilewright.core.records import (
    Argument,
    Artifact,
    Candidate,
    Failed,
    LatencyKind,
    Measured,
    MenuOption,
    TargetBrief,
    Verdict,
    Workload,
    content_id,
)
from tilewright.core.roles import NOTHING_CHECKED, Builder, CheckCase, Checker, Runner
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.parts.folder import read_folder
from tilewright.parts.hostile import OpenCase
from tilewright.parts.inputs import Array
from tilewright.parts.languages import PYTHON
from tilewright.parts.problem import Problem

VECTON = replace(PYTHON, name="Vecton", file="kernel.vec", fence="vecton", entry="compute")
LATENCY = LatencyKind("simulated", "cycles")
WIDEST = 8
START = """def compute(X, Y):
    for i in range(0, len(X), 1):
        Y[i : i + 1] = X[i : i + 1] + X[i : i + 1]
"""
HOSTILE = {"returns at once": "def compute(X, Y):\n    pass\n"}


class Row:
    """An array as a kernel sees it: counts accesses."""

    def __init__(self, values: Array, counts: list[int], *, is_written: bool) -> None:
        self._values, self._counts, self._is_written = values.reshape(-1), counts, is_written

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, part: slice) -> Array:
        return self._values[self._checked(part)].copy()

    def __setitem__(self, part: slice, values: Array) -> None:
        if not self._is_written:
            raise ValueError("the kernel wrote to its input")
        self._values[self._checked(part)] = values

    def _checked(self, part: slice) -> slice:
        if not isinstance(part, slice) or not 0 <= part.start < part.stop <= len(self):
            raise IndexError("an access outside a row")
        if part.stop - part.start > WIDEST:
            raise IndexError(f"an access of more than {WIDEST} elements")
        self._counts[0] += 1
        return part


class Evaluator:
    """Builder, Checker and Runner in one; the text is the binary."""

    def __init__(self, workload: Workload, cases: Cases, checks: int) -> None:
        self._workload, self._cases, self._checks = workload, cases, checks

    def build(self, candidate: Candidate) -> Artifact | Failed:
        try:
            tree = ast.parse(candidate.source)
        except SyntaxError as error:
            log = VECTON.located(str(error.msg), error.lineno)
            return Failed("build", "compile_error", log, error.lineno)
        if not any(isinstance(n, ast.FunctionDef) and n.name == VECTON.entry for n in tree.body):
            return Failed("build", "link_error", f"the source defines no {VECTON.entry}.")
        return Artifact(candidate.id, candidate.source.encode(), "vecton 1")

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        return self._compared(artifact, [self._cases.first], NOTHING_CHECKED)

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        return self._compared(artifact, self._cases.compared(self._checks), passed)

    def _compared(
        self, artifact: Artifact, numbers: Sequence[int], passed: Verdict
    ) -> Verdict | Failed:
        cases = [c for n in numbers if (c := self._cases[n]).check not in passed.checks]
        ran = [self._run(artifact, case) for case in cases]
        wrong = next((found for found in ran if isinstance(found, Failed)), None)
        return wrong or Verdict((*passed.checks, *(case.check for case in cases)))

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        cycles = self._run(artifact, self._cases.timed(), "measure")
        if isinstance(cycles, Failed):
            return cycles
        if limit_latency is not None and cycles >= limit_latency:
            return Failed("measure", "slower_than_limit", "too slow", bound=limit_latency)
        used = self._workload.operations / (WIDEST * cycles)
        return Measured(
            cycles, "cycles", "simulated", used, verdict, artifact_digest=artifact.digest
        )

    def _run(self, artifact: Artifact, case: Case, stage: str = "check") -> int | Failed:
        counts, arguments = [0], self._workload.arguments
        arrays = {a.name: case.initial[a.name].copy() for a in arguments}
        rows = [Row(arrays[a.name], counts, is_written=a.is_written) for a in arguments]
        names: dict[str, Any] = {"__builtins__": {"range": range, "len": len}}
        try:
            exec(artifact.binary, names)
            names[VECTON.entry](*rows)
        except Exception as error:
            return Failed(stage, "illegal_address", f"{type(error).__name__}: {error}")  # type: ignore[arg-type]
        outputs = {a.name: arrays[a.name].tobytes() for a in arguments if a.is_written}
        wrong = case.mismatch(outputs)
        return Failed(stage, "wrong_result", wrong) if wrong else max(counts[0], 1)  # type: ignore[arg-type]


class Doubled:
    """Y = 2 X in bfloat16, exactly."""

    reduction, fingerprint = 1, "vecton reference 1"

    def reference(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"Y": inputs["X"] + inputs["X"]}


class VectonTask:
    """The `Task` role, open to attacks."""

    def __init__(
        self, workload: Workload, start: str, problem: Problem, settings: Mapping[str, object]
    ) -> None:
        self.workload, self.start, self._problem = workload, start, problem
        self._seed, self._checks = (
            int(str(settings.get("input_seed", 0))),
            int(str(settings.get("checks", 3))),
        )
        self.baselines = {"naive": START}
        self.fingerprint = content_id(problem.fingerprint, str(self._seed), str(self._checks))

    @cached_property
    def _cases(self) -> Cases:
        return Cases(self.workload, self._problem, self._seed)

    @cached_property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        evaluator = Evaluator(self.workload, self._cases, self._checks)
        return evaluator, evaluator, evaluator

    def check_cases(self) -> Sequence[CheckCase]:
        cases = [self._cases[number] for number in self._cases.compared(self._checks)]
        return [OpenCase(case) for case in (*cases, self._cases.timed())]

    def hostile_kernels(self) -> Mapping[str, str]:
        return HOSTILE


class VectonTarget:
    """The `Target` role."""

    name = "vecton"

    def brief(self) -> TargetBrief:
        menu = (MenuOption("widen", "Move more elements with each access."),)
        rules = f"- At most {WIDEST} elements at a time."
        return TargetBrief(self.name, "Rows.", rules, menu, (), {}, {}, VECTON, LATENCY)

    def workloads(self) -> Mapping[str, str]:
        return {"double-N": "Y = 2 X over N elements"}

    def open(self, spec: str, settings: Mapping[str, object]) -> VectonTask:
        kind, _, size = spec.partition("-")
        if kind != "double" or not size.isdecimal():
            raise WorkloadError(f"workload {spec!r} is none of vecton's: give double-N.")
        given = Argument("X", (int(size),), "bfloat16", "input")
        arguments = (given, replace(given, name="Y", role="output"))
        workload = Workload(f"vecton:{spec}", self.name, arguments, int(size), source=spec)
        return VectonTask(workload, START, Doubled(), settings)

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> VectonTask:
        workload, start, problem = read_folder(folder, self.name, VECTON, 1 << 20, "vecton")
        return VectonTask(workload, start, problem, settings)

    def versions(self) -> Mapping[str, str]:
        return {"vecton": "1", "numpy": np.__version__}

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        return [("vecton", True, "1")]


def create_target() -> VectonTarget:
    """The entry point."""
    return VectonTarget()
