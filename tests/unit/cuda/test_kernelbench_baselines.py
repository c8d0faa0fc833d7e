"""A problem's own `Model`, eager and compiled, beside answers on the emulated GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Argument, Artifact, Candidate, Failed, Measured, Verdict
from tilewright.targets.cuda.device import baselines as module
from tilewright.targets.cuda.device.baselines import WAYS
from tilewright.targets.cuda.models.answer_arguments import Form
from tilewright.targets.cuda.models.baselines import baselines_of_model
from tilewright.targets.cuda.models.oracle import find_torch
from tilewright.targets.cuda.models.target import KernelBenchTarget
from tilewright.targets.cuda.models.task import ModelBuilder

PROBLEM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(16, width)

    def forward(self, x, factor):
        return torch.relu(self.layer(x)) * factor


def get_inputs():
    return [torch.rand(8, 16), 2.0]


def get_init_inputs():
    return [4]
"""
SETTINGS = {"input_seed": 3, "simulation_timeout_s": 60.0}
X = Argument("x", (8, 16), "float32", "input")
W = Argument("w", (4, 16), "float32", "input")
Y = Argument("out", (8, 4), "float32", "output")


def test_a_baseline_names_inputs_values_and_arrays_of_the_model() -> None:
    found = baselines_of_model(Form((X, 2.0), (Y,), (), {"layer.weight": W}), "the text")
    assert list(found) == list(WAYS)
    job = json.loads(found["torch.compile"])
    assert job["given"] == ["x", "w"]
    assert job["shapes"] == [[8, 16], [4, 16], [8, 4]]
    assert job["inputs"] == [None, {"value": 2.0}]
    assert job["state"] == ["layer.weight"]
    assert (job["model"], job["compiled"]) == ("the text", True)


@pytest.mark.parametrize(
    "form",
    [
        Form((Argument("x", (8,), "int32", "input"),), (Y,)),
        Form((X,), (Y, Argument("out1", (8,), "float32", "output"))),
        Form((X, object()), (Y,)),
    ],
)
def test_models_of_other_forms_have_no_baselines(form: Form) -> None:
    assert baselines_of_model(form, "the text") == {}


class Kernels:
    """A builder that says what it was asked."""

    def build(self, candidate: Candidate) -> Failed:
        return Failed("build", "compile_error", "asked")


def test_only_a_baseline_under_its_own_name_is_not_translated() -> None:
    form = Form((X,), (Y,))
    texts = baselines_of_model(form, "the text")
    builder = ModelBuilder(Kernels(), form, {}, texts)  # type: ignore[arg-type]
    built = builder.build(Candidate(texts["PyTorch"], proposer="PyTorch"))
    assert isinstance(built, Failed)
    assert built.log == "asked"
    for name in ("file", "torch.compile", "start"):
        other = builder.build(Candidate(texts["PyTorch"], proposer=name))
        assert isinstance(other, Failed)
        assert other.log != "asked"


def test_the_model_is_checked_and_timed_as_answers_are(
    gpu: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    try:
        find_torch()
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(module, "DEVICE", "cpu")
    (tmp_path / "problem.py").write_text(PROBLEM)
    task = KernelBenchTarget().open_file(tmp_path / "problem.py", SETTINGS)
    assert set(task.baselines) == set(WAYS)
    builder, checker, runner = task.evaluator
    built = builder.build(Candidate(task.baselines["PyTorch"], proposer="PyTorch"))
    assert isinstance(built, Artifact), built
    verdict = checker.check(built)
    assert isinstance(verdict, Verdict), verdict.log
    measured = runner.measure(built, verdict, None)
    assert isinstance(measured, Measured), measured.log
    assert measured.versions["compiler"].startswith("PyTorch ")
