"""PyTorch beside a kernel on the emulated GPU, and the script that takes all numbers of a GPU."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Artifact, Candidate, Failed, Measured, Verdict
from tilewright.sandbox import Sandbox
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.device import baselines as module
from tilewright.targets.cuda.device.baselines import WAYS, WithBaselines, baselines_of
from tilewright.targets.cuda.models.oracle import find_torch
from tilewright.targets.cuda.other_python import FoundPython
from tilewright.targets.cuda.shapes import KINDS, Shape, parse_shape

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
SETTINGS = {"input_seed": 3, "simulation_timeout_s": 60.0}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_workload_is_computed_by_pytorch_too(kind: str) -> None:
    sizes = dict.fromkeys(re.findall("[A-Z]", KINDS[kind].pattern), 3)
    found = baselines_of(Shape(kind, sizes))
    assert list(found) == list(WAYS)
    jobs = [json.loads(text) for text in found.values()]
    assert len({(job["compiled"], job["tf32"]) for job in jobs}) == 4
    names = set(re.findall(r"\b[A-Za-z]+\b(?=[\[,) *]|$|\.sum)", jobs[0]["computes"]))
    assert set(jobs[0]["given"]) <= names
    compile(jobs[0]["computes"], "computes", "eval")


class Kernels:
    """Roles that say that they were asked."""

    def build(self, candidate: Candidate) -> Failed:
        return Failed("build", "compile_error", "asked")


def test_only_a_baseline_under_its_own_name_is_one() -> None:
    texts = baselines_of(parse_shape("rowsum-8x64"))
    torch = FoundPython("/a/python", "2.13.0", Sandbox.__new__(Sandbox))
    roles = WithBaselines((Kernels(), None, None), None, texts, torch)  # type: ignore[arg-type]
    built = roles.build(Candidate(texts["PyTorch"], proposer="PyTorch"))
    assert isinstance(built, Artifact)
    assert built.binary.startswith(b"#!/a/python -I\n")
    assert built.toolchain == "PyTorch 2.13.0"
    for name, proposer in (("PyTorch", "file"), ("PyTorch", "torch.compile"), ("PyTorch", "start")):
        assert isinstance(roles.build(Candidate(texts[name], proposer=proposer)), Failed)
    assert isinstance(roles.build(Candidate("void kernel();", proposer="PyTorch")), Failed)


@pytest.mark.parametrize("name", ["PyTorch", "PyTorch, TF32"])
def test_pytorch_is_checked_and_timed_as_kernels_are(
    name: str, gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        find_torch()
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(module, "DEVICE", "cpu")
    task = create_target().open("rowsum-8x64", SETTINGS)
    assert set(task.baselines) == {"naive", *WAYS}
    builder, checker, runner = task.evaluator
    built = builder.build(Candidate(task.baselines[name], proposer=name))
    assert isinstance(built, Artifact)
    verdict = checker.check(built)
    assert isinstance(verdict, Verdict), verdict.log
    measured = runner.measure(built, verdict, None)
    assert isinstance(measured, Measured), measured.log
    assert measured.versions["compiler"].startswith("PyTorch ")
    honest = builder.build(Candidate(task.start))
    assert not isinstance(honest, Failed)
    assert isinstance(checker.check_first(honest), Verdict)


@pytest.fixture
def script() -> Any:
    spec: Any = importlib.util.spec_from_file_location(
        "cuda_device_script", BENCHMARKS / "cuda_device.py"
    )
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_script_begins_with_what_matters_most(script: Any) -> None:
    """A few repeats of the pair, all short searches, the other repeats, then the long searches."""
    given = argparse.Namespace(
        project=Path("found"), budget="40 s", tf32_budget="20 s", longer="2 min", pair="a",
        repeats=50, workloads=["b", "c"],
    )  # fmt: skip
    names = [name if isinstance(part, list) else (name, part) for name, part in script.parts(given)]
    assert names == [
        ("pair-a", 5), "b, 40 s", "c, 40 s", "b, tf32, 20 s", "c, tf32, 20 s",
        ("pair-a", 50), "b, 2 min", "c, 2 min",
    ]  # fmt: skip


def test_the_script_goes_on_where_it_stopped(
    gpu: None, script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    words = ["--project", str(tmp_path / "found"), "--budget", "2 evaluations", "--longer",
             "3 evaluations", "--tf32-budget", "1 evaluations", "--repeats", "3", "--pair",
             "rowsum-8x64", "rowsum-8x64"]  # fmt: skip
    assert script.main([*words, "--within", "-1"]) == 0
    assert "pair-rowsum-8x64 and what follows is left" in capsys.readouterr().err
    timed = iter([{"latency": 100.0, "ratio": 0.5}, {"latency": 103.0, "ratio": 0.505}] * 2)

    class InterruptedPair:
        def __init__(self, workload: str) -> None:
            assert workload == "rowsum-8x64"

        def timed(self) -> dict[str, float]:
            return next(timed)

    monkeypatch.setattr(script, "Pair", InterruptedPair)
    commands: list[list[str]] = []

    def ran(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        baselines = {"PyTorch": {"latency": 3e6}}
        told = {"baseline_latency": 4e6, "best_latency": 2e6, "best_precision": "float32",
                "run": "one", "baselines": baselines}  # fmt: skip
        if "3 evaluations" in command and len(commands) == 7:
            return subprocess.CompletedProcess(command, 2, "", "a part fails")
        if command[3] == "evaluate":
            told = {"details": {"kernelbench_1e-2": 1.0, "kernelbench_1e-4": 0.0}}
        if "--json" in command:
            Path(command[command.index("--json") + 1]).write_text(json.dumps(told))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(script.subprocess, "run", ran)
    assert script.main(words) == 1
    said = capsys.readouterr()
    assert "rowsum-8x64, 3 evaluations: a part fails" in said.err
    assert (
        "| rowsum-8x64, 2 evaluations | 4.000 ms | 2.000 ms | float32 | accepts, refuses | "
        "3.000 ms (1.50x) | - | - " in said.out
    )
    assert "searches of tf32, 1 evaluations: 1.50x over PyTorch." in said.out
    assert "searches of 3 evaluations" not in said.out
    assert script.main([*words, "--table", str(tmp_path / "table.md")]) == 0
    three = ["optimize", "best", "evaluate"]
    assert [c[3] for c in commands] == [*three, *three, "optimize", *three]
    assert [c[-2:] == ["--set", "precision=tf32"] for c in commands[3:6]] == [False, False, True]
    assert commands[3][11:13] == ["--set", "precision=tf32"]
    lines = (tmp_path / "found" / "pair-rowsum-8x64.jsonl").read_text().splitlines()
    assert len(lines) == 3
    assert "is within 1.0%, and the latency within 3.0%." in (tmp_path / "table.md").read_text()


def test_without_a_gpu_it_is_one_sentence(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "find_gpu", lambda: None)
    assert script.main(["--project", str(tmp_path)]) == 2
    assert "no NVIDIA GPU is here" in capsys.readouterr().err


@pytest.mark.slow
def test_the_script_measures_everything_on_the_emulated_gpu(
    gpu: None, script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--project", str(tmp_path / "found"), "--budget", "1 evaluations", "--tf32-budget",
             "1 evaluations", "--longer", "1 evaluations", "--repeats", "2", "--within", "300",
             "--pair", "rowsum-8x64", "rowsum-8x64"]  # fmt: skip
    assert script.main(words) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "| rowsum-8x64, tf32, 1 evaluations | " in said
    assert said.count("| float32 | accepts, accepts | ") == 2
    assert "2 times in new processes, rowsum-8x64: the ratio" in said
