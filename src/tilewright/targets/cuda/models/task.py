"""A task whose kernels are answers: each is translated, and then evaluated as a CUDA kernel is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from tilewright.core.records import Artifact, Candidate, Failed, Measured, Verdict, content_id
from tilewright.core.roles import NOTHING_CHECKED, Builder, Checker, Runner
from tilewright.targets.cuda.device.evaluator import DeviceEvaluation
from tilewright.targets.cuda.models.answer import NotReadError
from tilewright.targets.cuda.models.answers import hostile_answers
from tilewright.targets.cuda.models.form import Form
from tilewright.targets.cuda.models.translation import located, translate
from tilewright.targets.cuda.task import CudaTask

_PYTORCHS = re.compile(r"\b(?:torch|at|c10|tw_torch|py)::|\bTensor\b|\bstd::|AT_DISPATCH|TORCH_")
"""What complaints name that are about what stands for PyTorch's headers, or the C++ library."""


class ModelTask(CudaTask):
    """A CUDA task whose candidates are Python. `form` is how their models are called."""

    form: Form
    full_form: Form

    def of(self, form: Form, full_form: Form) -> ModelTask:
        """The task with the forms at the compared and at the full sizes."""
        self.form, self.full_form = form, full_form
        return self

    @staticmethod
    def rules(source: str) -> Failed | None:
        """None: the texts of an answer are held to the rules while it is translated."""
        return None

    @property
    def fingerprint(self) -> str:
        """With what else an answer is called with."""
        return content_id(super().fingerprint, repr(self.form), repr(self.full_form))

    def hostile_kernels(self) -> Mapping[str, str]:
        """Answers that are wrong for any model."""
        return hostile_answers(self.form)

    @cached_property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        """Those of CUDA kernels, behind a translation."""
        builder, checker, runner = super().evaluator
        form = self.form if self.untimed is not None else self.full_form
        return (
            ModelBuilder(builder, form, self._answers),
            ModelChecker(checker),
            ModelRunner(runner),
        )

    @cached_property
    def _answers(self) -> dict[str, str]:
        """The answer of the last translated kernel."""
        return {}

    @cached_property
    def device(self) -> DeviceEvaluation:
        """With the first answer translated; one that cannot be fails when it is built."""
        start = translate(self.start, self.full_form)
        return replace(super().device, start=start if isinstance(start, str) else "")

    def on_the_cpu(self) -> Checker:
        """Kernels that a GPU runs at full size are checked at the reduced one."""
        return Reduced(super().on_the_cpu(), self.form, self._answers)


class Reduced:
    """Checks on the CPU what was translated for the full size: it is translated once more."""

    def __init__(self, checker: Checker, form: Form, answers: Mapping[str, str]) -> None:
        self._checker, self._form, self._answers = checker, form, answers

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """The first case."""
        reduced = self._reduced(artifact)
        return reduced if isinstance(reduced, Failed) else self._checker.check_first(reduced)

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Every case."""
        reduced = self._reduced(artifact)
        return reduced if isinstance(reduced, Failed) else self._checker.check(reduced, passed)

    def _reduced(self, artifact: Artifact) -> Artifact | Failed:
        source = translate(self._answers[artifact.source], self._form)
        return source if isinstance(source, Failed) else replace(artifact, source=source)


class ModelBuilder:
    """Translates, then builds."""

    def __init__(self, builder: Builder, form: Form, answers: dict[str, str]) -> None:
        self._builder, self._form, self._answers = builder, form, answers

    @property
    def sandbox(self) -> str:
        """What the compilers run in."""
        return str(getattr(self._builder, "sandbox", ""))

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """The artifact of the translated kernel, under the answer's name."""
        source = translate(candidate.source, self._form)
        if isinstance(source, Failed):
            return source
        self._answers.clear()
        self._answers[source] = candidate.source
        built = self._builder.build(replace(candidate, source=source))
        if isinstance(built, Failed):
            return _of_the_header(located(built))
        return replace(built, candidate_id=candidate.id)


class ModelChecker:
    """Checks the translated kernel; lines are those of the answer."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """The first case."""
        return self._located(self._checker.check_first(artifact))

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Every case."""
        return self._located(self._checker.check(artifact, passed))

    def _located(self, found: Verdict | Failed) -> Verdict | Failed:
        return located(found) if isinstance(found, Failed) else found


class ModelRunner:
    """Times the translated kernel."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """As a CUDA kernel's; lines are those of the answer."""
        found = self._runner.measure(artifact, verdict, limit_latency)
        return located(found) if isinstance(found, Failed) else found


def _of_the_header(failed: Failed) -> Failed:
    """A complaint about host code that a stand-in for PyTorch cannot compile says nothing."""
    complaint = next((line for line in failed.log.splitlines() if "error" in line), failed.log)
    if failed.kind != "compile_error" or not _PYTORCHS.search(complaint):
        return failed
    said = complaint.rpartition("error: ")[2].strip()[:200]
    reason = f"its host code does not compile against what stands for PyTorch's headers ({said})"
    return NotReadError(reason, failed.line).failed
