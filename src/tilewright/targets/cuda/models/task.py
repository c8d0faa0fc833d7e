"""A task whose kernels are answers. Each answer is translated, and then evaluated like a CUDA
kernel."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

from tilewright.core.errors import NotTimedError
from tilewright.core.records import Artifact, Candidate, Failed, Measured, Verdict, content_id
from tilewright.core.roles import NOTHING_CHECKED, Builder, Checker, Runner
from tilewright.parts.problem import DrawsInputs
from tilewright.targets.cuda.device.evaluator import DeviceEvaluation
from tilewright.targets.cuda.emulation import Run
from tilewright.targets.cuda.kernelbench import accepted_at, uniform
from tilewright.targets.cuda.models.answer_arguments import Form
from tilewright.targets.cuda.models.answers import hostile_answers
from tilewright.targets.cuda.models.not_checked import NotReadError, WrongError
from tilewright.targets.cuda.models.torch_problem import AS_GIVEN, TorchProblem
from tilewright.targets.cuda.models.translation import located, translate
from tilewright.targets.cuda.source import NO_KERNEL
from tilewright.targets.cuda.task import CudaTask

_PYTORCHS = re.compile(
    r"\b(?:torch|at|c10|tw_\w+|py|cub|thrust|std)::|\bTensor\b|\bTwArray\b|AT_DISPATCH|TORCH_|C10_|"
    r"is undefined|not been declared|has no (?:member|actual member)|not a (?:template|class|type)|"
    r"could not be resolved|must be a namespace|cannot open|already been (?:defined|declared)|"
    r"redefinition|ambiguous|more than one|cannot overload|no storage class|no instance of|linkage"
)
"""Texts of compiler errors about names that PyTorch's headers or other texts could declare."""
_MACROS = re.compile(r"\b[A-Z][A-Z0-9]*_\w+")


class ModelTask(CudaTask):
    """A CUDA task whose candidates are Python files. `form` says how their models are called."""

    form: Form
    full_form: Form

    reduced: str
    derived: str
    """What a problem's model was recognised as, or why it was not recognised; empty if none was
    read."""

    def of(self, form: Form, full_form: Form, reduced: str, derived: str) -> ModelTask:
        """The task for answers in these forms, which are given for the sizes of the check on the
        CPU and for the full sizes.

        `reduced` names constants of a problem that differ between them.
        """
        self.form, self.full_form, self.reduced = form, full_form, reduced
        self.derived = derived
        start = translate(self.start, form)
        # Without a starting kernel, nothing shows what an honest kernel may contain.
        self._evaluation = replace(self._evaluation, start=start if isinstance(start, str) else "")
        return self

    @staticmethod
    def rules(source: str) -> Failed | None:
        """No rules, because the texts of an answer are checked while it is translated."""
        return None

    @property
    def fingerprint(self) -> str:
        """The fingerprint, which includes the other arguments of the answer."""
        return content_id(super().fingerprint, repr(self.form), repr(self.full_form))

    def hostile_kernels(self) -> Mapping[str, str]:
        """Answers that are wrong for any model."""
        return hostile_answers(self.form)

    @cached_property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        """The builder, checker and runner of CUDA kernels, which get the translated kernels."""
        builder, checker, runner = super().evaluator
        form = self.form if self.untimed is not None else self.full_form
        answers = ModelBuilder(builder, form, self._answers, self.baselines)
        if self.untimed is None:
            return answers, ModelChecker(checker, ""), ModelRunner(runner, "", lambda _: "")
        return (
            answers,
            ModelChecker(checker, self.reduced),
            ModelRunner(runner, self.reduced, self._by_kernelbench),
        )

    def _by_kernelbench(self, source: str) -> str:
        """The verdict of KernelBench's own rule on a kernel with KernelBench's inputs, as a
        sentence."""
        evaluation = self._evaluation
        cases, problem = evaluation.cases, evaluation.problem
        if isinstance(problem, TorchProblem):
            case = cases[problem.distributions.index(AS_GIVEN)]
        elif isinstance(problem, DrawsInputs):
            return ""
        else:
            case = uniform(cases[cases.first], secrets.randbits(63))
        program = evaluation.program(source)
        if isinstance(program, Failed):
            return ""
        ran = evaluation.ran(program, [Run(case.initial, "forward")])
        if not ran.outputs:
            return ""
        taken = [words for words, right in accepted_at(case, ran.outputs[0]).items() if right]
        said = f"accepts it with {' and '.join(taken)}" if taken else "rejects it"
        return f" KernelBench's own rule {said}."

    @cached_property
    def _answers(self) -> dict[str, str]:
        """The answer of the last translated kernel."""
        return {}

    @cached_property
    def device(self) -> DeviceEvaluation:
        """The evaluation on the GPU, which starts with the first answer. If that cannot be
        translated, its build fails."""
        start = translate(self.start, self.full_form)
        return replace(super().device, start=start if isinstance(start, str) else "")

    def on_the_cpu(self) -> Checker:
        """Checks kernels on the CPU at the reduced size after a GPU has run them at full size."""
        checker = ModelChecker(super().on_the_cpu(), self.reduced)
        return Reduced(checker, self.form, self._answers)


class Reduced:
    """Translates an answer again for the reduced size, and checks it on the CPU."""

    def __init__(self, checker: Checker, form: Form, answers: Mapping[str, str]) -> None:
        self._checker, self._form, self._answers = checker, form, answers

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """Check the first case."""
        reduced = self._reduced(artifact)
        return reduced if isinstance(reduced, Failed) else self._checker.check_first(reduced)

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Check all cases."""
        reduced = self._reduced(artifact)
        return reduced if isinstance(reduced, Failed) else self._checker.check(reduced, passed)

    def _reduced(self, artifact: Artifact) -> Artifact | Failed:
        source = translate(self._answers[artifact.source], self._form)
        return source if isinstance(source, Failed) else replace(artifact, source=source)


class ModelBuilder:
    """Translates and builds answers. `baselines`, which are recognised by name and text, are not
    answers."""

    def __init__(
        self,
        builder: Builder,
        form: Form,
        answers: dict[str, str],
        baselines: Mapping[str, str],
    ) -> None:
        self._builder, self._form, self._answers = builder, form, answers
        self._baselines = baselines

    @property
    def sandbox(self) -> str:
        """The sandbox in which the compilers run."""
        return str(getattr(self._builder, "sandbox", ""))

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """The artifact of the translated kernel, with the hash of the answer's text."""
        if self._baselines.get(candidate.proposer) == candidate.source:
            return self._builder.build(candidate)
        source = translate(candidate.source, self._form)
        if isinstance(source, Failed):
            return source
        self._answers.clear()
        self._answers[source] = candidate.source
        built = self._builder.build(replace(candidate, source=source))
        if isinstance(built, Failed):
            return _of_the_header(located(built), source, built.line)
        return replace(built, candidate_id=candidate.id)


class ModelChecker:
    """Checks the translated kernel and reports lines of the answer.

    An answer may be written for a problem's own sizes. If it fails only at other sizes, which
    `reduced` names, it is not reported as wrong.
    """

    def __init__(self, checker: Checker, reduced: str) -> None:
        self._checker, self._reduced = checker, reduced

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """Check the first case."""
        return self._located(self._checker.check_first(artifact))

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Check all cases."""
        return self._located(self._checker.check(artifact, passed))

    def _located(self, found: Verdict | Failed) -> Verdict | Failed:
        if isinstance(found, Verdict):
            return found
        found = located(found)
        if not self._reduced or found.kind == "not_checked":
            return found
        log = (
            f"not checked: with {self._reduced} it fails ({found.kind_in_words}: "
            f"{found.log.rstrip('.')}), and it may be written for the problem's own sizes alone; "
            "only a GPU can show whether it is correct there."
        )
        return replace(found, kind="not_checked", log=log)


class ModelRunner:
    """Times the translated kernel. `rule` gives the verdict of KernelBench's own rule."""

    def __init__(self, runner: Runner, reduced: str, rule: Callable[[str], str]) -> None:
        self._runner, self._reduced, self._rule = runner, reduced, rule

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """Times as for a CUDA kernel, and reports lines of the answer."""
        try:
            found = self._runner.measure(artifact, verdict, limit_latency)
        except NotTimedError as error:
            sizes = f" It was checked with {self._reduced}." if self._reduced else ""
            said = f"{error}{sizes}{self._rule(artifact.source)}"
            raise NotTimedError(said, error.known) from None
        return located(found) if isinstance(found, Failed) else found


def _of_the_header(failed: Failed, source: str, at: int | None) -> Failed:
    """Whether an error may be caused by the replacement for PyTorch's headers, so that the answer
    may be correct.

    `at` is the line of the error in `source`. A macro that the text does not define may be one of
    PyTorch's.
    """
    if failed.kind != "compile_error" or failed.log == NO_KERNEL.log:
        return failed
    complaint = next((line for line in failed.log.splitlines() if "error: " in line), failed.log)
    lines = source.splitlines()
    there = lines[at - 1] if at and at <= len(lines) else ""
    foreign = [
        n for n in _MACROS.findall(there) if not re.search(rf"#[ \t]*define[ \t]+{n}\b", source)
    ]
    if not foreign and not _PYTORCHS.search(complaint):
        return failed
    if "tw_torch::Real" in complaint:
        said = "forward gives a function a Python float for a parameter of another type"
        return WrongError(f"{said}, which PyTorch refuses", failed.line).failed
    said = complaint.rpartition("error: ")[2].strip()[:200]
    reason = f"it does not compile with tilewright's replacement for PyTorch's headers ({said})"
    return NotReadError(reason, failed.line).failed
