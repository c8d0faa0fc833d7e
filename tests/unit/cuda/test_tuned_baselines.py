"""Kernels of the tuner beside a kernel on the emulated GPU."""

from __future__ import annotations

import importlib
import json
import re
from contextlib import closing
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app
from tilewright.core.config import Settings
from tilewright.core.records import (
    Artifact,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Verdict,
)
from tilewright.core.tasks import open_task
from tilewright.core.tuning_records import TunedKernel, TuningRecord
from tilewright.evaluating import evaluate_kernel
from tilewright.executors import evaluate_baselines, tuned_baselines
from tilewright.storage.project import open_tunings, tuned_kernels
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.device.gpus import Gpu
from tilewright.targets.cuda.device.tuned import source_in, text_of, tunable
from tilewright.targets.cuda.shapes import parse_shape

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
GPU = Gpu("Emulated GPU", "GPU-0", "sm_90", 64, "1.2.3")
WORKLOAD = "cuda:gemm-24x16x32"
SOURCE = """#include <cuda_runtime.h>
static __global__ void main_kernel(float *C_ptr, const float *A_ptr, const float *B_ptr) {
  int row = blockIdx.x, column = threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < 32; k++) sum += A_ptr[row * 32 + k] * B_ptr[k * 16 + column];
  C_ptr[row * 16 + column] = sum;
}
void kernel(const float *a0, const float *a1, float *a2) {
  main_kernel<<<dim3(24, 1, 1), dim3(16, 1, 1)>>>(a2, a0, a1);
}
"""


def tuned(source: str, run: str = "run", method: str = "AF-DS", trials: int = 100) -> TunedKernel:
    return TunedKernel(run, "matmul-24x16x32", GPU.name, method, trials, 1e-6, source)


def store(project: Path, *kernels: TunedKernel) -> None:
    with closing(open_tunings(project)) as storage:
        for kernel in kernels:
            storage.start(
                TuningRecord(kernel.run_id, "i", kernel.workload, "f", (1,), "{}", {}, {})
            )
            storage.keep_kernel(kernel)


@pytest.mark.parametrize(
    ("name", "workload", "words"),
    [
        ("gemm-2x3x4", "matmul-2x3x4", "matmul 2 3 4"),
        ("matmul3d-5x2x4x3", "matmul-10x3x4", "matmul 10 3 4"),
        ("conv2d-1x2x8x9x4-k3x3s2p1", "conv2d-1x2x8x9-f4k3s2p1", "conv2d 1 2 8 9 4 3 2 1"),
    ],
)
def test_the_tuner_has_its_own_name_for_a_workload(name: str, workload: str, words: str) -> None:
    found = tunable(parse_shape(name), GPU)
    assert found is not None
    assert (found.workload, found.device) == (workload, "Emulated GPU")
    assert " ".join(found.command) == f"tilewright tune {words} --target cuda"


@pytest.mark.parametrize(
    "name", ["softmax-8x8", "conv2d-1x2x8x9x4-k3x5s2p1", "conv3d-1x1x8x8x8x1-k3"]
)
def test_the_tuner_has_no_such_workload(name: str) -> None:
    assert tunable(parse_shape(name), GPU) is None


def test_a_kernel_of_the_tuner_is_checked_and_timed_as_kernels_are(
    gpu: None, tmp_path: Path
) -> None:
    store(
        tmp_path,
        tuned(SOURCE, "one"),
        tuned(SOURCE.replace("k < 32", "k < 31"), "two", "MetaSchedule", 1000),
        tuned(SOURCE.replace("k < 32", "k < 30"), "three", "AF-DS", 20),
    )
    start = create_target().open(WORKLOAD.partition(":")[2], {}).start
    found = evaluate_kernel(start, WORKLOAD, Settings(), with_baselines=True, tuned_in=tmp_path)
    by_name = {baseline.name: baseline for baseline in found.baselines}
    assert [name for name in by_name if name.startswith("tune")] == [
        "tune, AF-DS, 100 trials", "tune, MetaSchedule, 1000 trials",
    ]  # fmt: skip
    best = by_name["tune, AF-DS, 100 trials"]
    assert isinstance(best.outcome, Measured), best.outcome.log
    assert best.precision == "float32"
    assert best.outcome.quantity == "measured"
    assert any("candidate" in name for name in best.outcome.samples)
    wrong = by_name["tune, MetaSchedule, 1000 trials"].outcome
    assert isinstance(wrong, Failed)
    assert wrong.kind == "wrong_result"
    assert found.not_tuned == ""


def test_without_a_stored_kernel_the_command_that_makes_one_is_told(
    gpu: None, tmp_path: Path
) -> None:
    stored = partial(tuned_kernels, tmp_path)
    told = tuned_baselines(open_task(WORKLOAD, {}), stored)
    assert told[0] == {}
    assert "run `tilewright tune matmul 24 16 32 --target cuda` in" in told[1]
    assert tuned_baselines(open_task("cuda:softmax-8x8", {}), stored) == ({}, "")
    store(tmp_path, tuned(SOURCE))
    found, missing = tuned_baselines(open_task(WORKLOAD, {}), stored)
    assert (list(found), missing) == (["tune, AF-DS, 100 trials"], "")


def test_the_outcome_of_a_baseline_is_that_of_its_name_and_text() -> None:
    """Otherwise a candidate with the text would get the outcome from the cache."""
    opened = open_task(WORKLOAD, {})
    asked: list[EvaluationRequest] = []

    class Recorder:
        def evaluate(
            self, requests: list[EvaluationRequest], checkpoint: object = None
        ) -> list[Failed]:
            asked.extend(requests)
            return [Failed("build", "compile_error", "")] * len(requests)

    executor: Any = Recorder()
    evaluate_baselines(opened, executor, tuned={"tune, AF-DS, 1 trials": "text"})
    assert {one.candidate.proposer: one.is_baseline for one in asked} == {
        "naive": False, "tune, AF-DS, 1 trials": True,
    }  # fmt: skip


def test_only_a_kernel_of_the_tuner_under_its_own_name_is_one(gpu: None) -> None:
    task = create_target().open("gemm-24x16x32", {})
    builder, checker, _ = task.evaluator
    text = task.tuned_baseline(tuned(SOURCE))
    built = builder.build(Candidate(text, proposer=tuned(SOURCE).name))
    assert isinstance(built, Artifact)
    assert isinstance(checker.check(built), Verdict)
    for source, proposer in ((text, "file"), (text, "PyTorch"), (SOURCE, "tune, AF-DS")):
        other = builder.build(Candidate(source, proposer=proposer))
        assert isinstance(other, Failed), (source, proposer)
    assert source_in(json.dumps({"other": SOURCE}), "tune, AF-DS") is None
    assert source_in(json.dumps([SOURCE]), "tune, AF-DS") is None
    assert source_in(text_of(tuned(SOURCE)), "tune, AF-DS") == SOURCE


def test_a_kernel_of_the_tuner_obeys_the_rules_of_kernels(gpu: None) -> None:
    task = create_target().open("gemm-24x16x32", {})
    source = "#include <thrust/sort.h>\n" + SOURCE
    built = task.evaluator[0].build(Candidate(text_of(tuned(source)), proposer="tune, AF-DS"))
    assert isinstance(built, Failed)
    assert "not allowed" in built.log


@pytest.fixture
def tuning(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tune` on made-up times, for the emulated GPU. Searches run without the preflight, which
    other tests run."""
    from tilewright.tuner.device import named_device
    from tilewright.tuning import runs

    monkeypatch.syspath_prepend(str(BENCHMARKS / "gpu"))
    mock = importlib.import_module("mock_device")
    device = replace(named_device("h100"), name=GPU.name)
    monkeypatch.setattr("tilewright.tuner.tvm.targets.detect_gpu", lambda: device)
    monkeypatch.setattr(runs, "tune", partial(runs.tune, open_instruments=mock.mock_instruments))
    monkeypatch.setattr("tilewright.storage.project.passed_preflight", lambda *_: True)


def tune(project: Path, *words: str) -> None:
    command = ["tune", *words, "--target", "cuda", "--budget", "6 evaluations"]
    folder = project / "tuned"
    done = CliRunner().invoke(app, [*command, "--project", str(project), "-o", str(folder)])
    assert done.exit_code == 0, done.output
    assert "void kernel(" in (folder / "kernel.cu").read_text()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("tvm") is None, reason="needs the extra 'tune' (TVM)")
def test_tune_stores_its_best_kernel_and_a_search_compares_with_it(
    tuning: None, tmp_path: Path
) -> None:
    """The whole path on made-up times of the tuner, and measured times of the emulated GPU."""
    tune(tmp_path, "matmul", "24", "16", "32")
    file = tmp_path / "found.json"
    search = ["optimize", WORKLOAD, "--budget", "1 evaluations", "--project", str(tmp_path)]
    done = CliRunner().invoke(app, [*search, "--json", str(file)])
    assert done.exit_code in (0, 1), done.output
    found = json.loads(file.read_text())["baselines"]["tune, AF-DS, 6 trials"]
    assert found["verdict"] == "correct", found
    assert found["precision"] == "float32"
    assert "tune, AF-DS, 6 trials" in done.output
    assert "No kernel of the tuner" not in done.output


@pytest.mark.slow
@pytest.mark.skipif(find_spec("tvm") is None, reason="needs the extra 'tune' (TVM)")
def test_a_search_says_how_to_tune_a_convolution_and_its_kernel_is_then_correct(
    tuning: None, tmp_path: Path
) -> None:
    name = "conv2d-1x6x8x8x5-k3x3s1p1"
    search = ["optimize", f"cuda:{name}", "--budget", "1 evaluations", "--project", str(tmp_path)]
    done = CliRunner().invoke(app, search)
    command = re.search(r"run `tilewright tune ([^`]*) --target cuda` in", done.output)
    assert command is not None, done.output
    tune(tmp_path, *command[1].split())
    found, _ = tuned_baselines(open_task(f"cuda:{name}", {}), partial(tuned_kernels, tmp_path))
    ((proposer, text),) = found.items()
    builder, checker, _ = create_target().open(name, {}).evaluator
    built = builder.build(Candidate(text, proposer=proposer))
    assert isinstance(built, Artifact), built
    assert isinstance(checker.check(built), Verdict)
