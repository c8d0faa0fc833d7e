"""`KernelBenchTarget`: problems and answers in KernelBench's form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError, WorkloadError
from tilewright.core.records import FolderTemplate, TargetBrief, Workload
from tilewright.native.settings import EvaluationSettings
from tilewright.native.target import require_linux
from tilewright.parts.brief_files import load_template, render
from tilewright.parts.folder import read_folder
from tilewright.parts.languages import KERNELBENCH
from tilewright.parts.problem import Problem
from tilewright.targets.cuda.device.gpus import find_gpu
from tilewright.targets.cuda.kernelbench import wrong_products
from tilewright.targets.cuda.models.answer_arguments import Form, form_of
from tilewright.targets.cuda.models.answers import first_answer, in_pytorch
from tilewright.targets.cuda.models.baselines import baselines_of_model
from tilewright.targets.cuda.models.checkout import CHECKOUT, file_of
from tilewright.targets.cuda.models.derived import Derived, derive
from tilewright.targets.cuda.models.oracle import find_torch
from tilewright.targets.cuda.models.problem_file import in_words, read_problem
from tilewright.targets.cuda.models.task import ModelTask
from tilewright.targets.cuda.problems import create_problem
from tilewright.targets.cuda.settings import lowest_precision
from tilewright.targets.cuda.shapes import KINDS, MOST_BYTES, Shape, parse_shape
from tilewright.targets.cuda.target import CudaTarget, architecture_for, pytorch

FOLDER = Path(__file__).parent


class KernelBenchTarget(CudaTarget):
    """Answers in KernelBench's form, for one NVIDIA GPU."""

    name = "kernelbench"

    @cached_property
    def _brief(self) -> TargetBrief:
        return replace(
            super()._brief, name=self.name, language=KERNELBENCH, examples=(),
            rules=render(FOLDER / "rules.md", {}),
        )  # fmt: skip

    def template(self) -> FolderTemplate:
        """What `tilewright init` writes: a matrix product."""
        return load_template(FOLDER / "template.toml", {})

    def workloads(self) -> Mapping[str, str]:
        """Only patterns, because any file in KernelBench's form is a workload too."""
        found = {
            "levelL-N": f"problem N of a level of the KernelBench checkout that {CHECKOUT} names"
        }
        for name, kind in KINDS.items():
            shape = Shape(name, dict.fromkeys(re.findall("[A-Z]", kind.pattern), 1))
            if first_answer(shape, "") is not None:
                found[f"{name}-{kind.pattern}"] = kind.text
        return found

    def open(self, spec: str, settings: Mapping[str, object]) -> ModelTask:
        """The workload named by `spec`, with an answer that calls its plain kernel."""
        require_linux(self.name)
        numbered = re.fullmatch(r"level([1-9])-([0-9]{1,3})", spec)
        if numbered is not None:
            return self._open(file_of(int(numbered[1]), int(numbered[2])), settings, spec)
        shape = parse_shape(spec)
        plain = (FOLDER.parent / "library" / f"{shape.kind}.cu").read_text(encoding="utf-8")
        answer = first_answer(shape, plain)
        if answer is None:
            raise WorkloadError(
                f"workload {spec!r} has no first answer in KernelBench's form. Give a problem's "
                f"file, or use cuda:{spec}."
            )
        reduced = shape.reduced()
        return self._task(
            shape.workload(self.name), reduced.workload(self.name),
            create_problem(shape), create_problem(reduced, lowest_precision(settings)),
            form_of(shape.workload(self.name)), form_of(reduced.workload(self.name)), answer,
            settings, shape,
        )  # fmt: skip

    def open_file(self, file: Path, settings: Mapping[str, object]) -> ModelTask:
        """A file in KernelBench's form. Its `Model` runs in a separate sandboxed process."""
        require_linux(self.name)
        return self._open(file, settings, file.stem)

    def _open(self, file: Path, settings: Mapping[str, object], name: str) -> ModelTask:
        full, reduced = read_problem(file, self.name, name)
        derived = derive(full, reduced, architecture_for(settings), lowest_precision(settings))
        return self._task(
            full.workload, reduced.workload, full.problem, reduced.problem, full.form,
            reduced.form, derived.first or in_pytorch(full.problem.text), settings,
            reduced=in_words(reduced.problem.constants), derived=derived,
            baselines=baselines_of_model(full.form, full.problem.text) if find_gpu() else {},
        )  # fmt: skip

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> ModelTask:
        """A user's folder whose kernel.py is an answer. `forward` takes the inputs in order."""
        require_linux(self.name)
        workload, start, problem = read_folder(
            folder, self.name, KERNELBENCH, MOST_BYTES, "the memory of a GPU"
        )
        if any(a.role == "inout" for a in workload.arguments):
            raise WorkloadError(
                f"{folder / 'workload.toml'}: an argument has the role 'inout', and what a model "
                "returns is new. Give it an input and an output."
            )
        form = form_of(workload)
        return self._task(workload, workload, problem, problem, form, form, start, settings)

    def _task(
        self,
        workload: Workload,
        compared: Workload,
        full_problem: Problem,
        problem: Problem,
        full_form: Form,
        form: Form,
        answer: str,
        settings: Mapping[str, object],
        shape: Shape | None = None,
        reduced: str = "",
        derived: Derived | None = None,
        baselines: Mapping[str, str] | None = None,
    ) -> ModelTask:
        return ModelTask(
            workload,
            compared,
            {},
            answer,
            problem,
            EvaluationSettings.from_mapping(settings),
            architecture_for(settings),
            pytorch(shape) if shape else baselines or {},
            full_problem,
            {},
            find_gpu(),
            derived.templates if derived else None,
            lowest=lowest_precision(settings),
            published=(lambda: wrong_products(shape, 0)) if shape else list,
        ).of(form, full_form, reduced, derived.words if derived else "")

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        """Reports on PyTorch, and on the compilers and the GPU as the target `cuda` does."""
        try:
            torch = find_torch()
        except ToolchainMissingError as error:
            return [("PyTorch, for problems in files", None, str(error))]
        return [("PyTorch, for problems in files", True, f"{torch.version} ({torch.python})")]
