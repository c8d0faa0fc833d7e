"""PyTorch beside a kernel on the emulated GPU, and the script that takes all numbers of a GPU."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app
from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Artifact, Candidate, Failed, Measured, Verdict
from tilewright.sandbox import Sandbox
from tilewright.storage.project import open_project
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
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec: Any = importlib.util.spec_from_file_location(
        "cuda_device_script", BENCHMARKS / "cuda_device.py"
    )
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, found)
    spec.loader.exec_module(found)
    return found


def test_the_script_begins_with_what_matters_most(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few repeats of the pair, all short searches, the other repeats, then the long searches."""
    given = argparse.Namespace(
        project=Path("found"), budget="40 s", tf32_budget="20 s", longer="2 min", pair="a",
        repeats=50, workloads=["b", "c"], tune=100, metaschedule=1000,
    )  # fmt: skip
    monkeypatch.setattr(script, "find_gpu", lambda: None)  # without it, nothing is tuned
    names = [name if isinstance(part, list) else (name, part) for name, part in script.parts(given)]
    assert names == [
        ("pair-a", 5), "b, 40 s", "c, 40 s", "b, tf32, 20 s", "c, tf32, 20 s",
        ("pair-a", 50), "b, 2 min", "c, 2 min",
    ]  # fmt: skip


def test_the_tuner_tunes_what_it_can_before_the_long_searches_and_after_them(
    gpu: None, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "find_spec", lambda name: object())
    given = argparse.Namespace(
        project=Path("found"), budget="40 s", tf32_budget="20 s", longer="2 min", pair="a",
        repeats=50, workloads=["rowsum-8x64", "gemm-8x16x32"], tune=100, metaschedule=1000,
    )  # fmt: skip
    parts = script.parts(given)
    names = [name for name, _ in parts]
    long = names.index("rowsum-8x64, 2 min")
    assert names[long - 1 :] == [
        "gemm-8x16x32, tune AF-DS", "rowsum-8x64, 2 min", "gemm-8x16x32, 2 min",
        "gemm-8x16x32, tune MetaSchedule", "gemm-8x16x32, compared",
    ]  # fmt: skip
    quick, slow, compared = (parts[n][1] for n in (long - 1, -2, -1))
    assert " ".join(quick.command).startswith("tune matmul 8 16 32 --target cuda --budget 100 eval")
    assert " ".join(slow.command).endswith("--search evolutionary --features tvm164")
    assert (quick.limited, slow.limited, compared.limited) == (True, True, False)
    assert compared.command[:2] == ["evaluate", "found/gemm-8x16x32, 2 min.cu"]
    monkeypatch.setattr(script, "find_spec", lambda name: None)
    assert [name for name, _ in script.parts(given)][long - 1 :] == [
        "rowsum-8x64, 2 min", "gemm-8x16x32, 2 min",
    ]  # fmt: skip


def test_tuning_that_the_time_ends_goes_on_in_the_next_call(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = script.Part("one", ["tune"], tmp_path / "one.json", limited=True)
    limits = []

    def ran(command: list[str], timeout: float, **_: Any) -> subprocess.CompletedProcess[str]:
        limits.append(timeout)
        if len(limits) == 1:
            raise subprocess.TimeoutExpired(command, timeout)
        Path(command[-1]).write_text("{}")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(script.subprocess, "run", ran)
    assert script.complete(part, script.time.monotonic() + 100) is None
    assert not part.file.exists()
    assert script.complete(part, script.time.monotonic() + 100) is None
    assert part.file.exists()
    assert all(90 < limit <= 100 for limit in limits)


def test_the_table_names_the_precision_of_baselines_and_the_kernels_of_the_tuner(
    script: Any, tmp_path: Path
) -> None:
    given = argparse.Namespace(
        project=tmp_path, budget="40 s", tf32_budget="20 s", longer="2 min", pair="a", repeats=50,
        workloads=["b", "c"], tune=100, metaschedule=1000,
    )  # fmt: skip
    tuned = {"tune, AF-DS, 100 trials": {"latency": 8e6, "precision": "float32"}}
    told = {"baseline_latency": 9e6, "best_latency": 2e6, "best_precision": "float32"}
    torch = {"PyTorch, TF32": {"latency": 3e6, "precision": "tf32-like"}}
    (tmp_path / "b, 2 min.json").write_text(json.dumps({**told, "baselines": {**torch, **tuned}}))
    of_one = {"torch.compile": {"latency": 3e6}}
    (tmp_path / "c, 2 min.json").write_text(json.dumps({**told, "baselines": {**torch, **of_one}}))
    found = "\n".join(script.report(given))
    cells = "- | 3.000 ms (1.50x, tf32-like) | - | - | 8.000 ms (4.00x, float32) | - |"
    assert f"| b, 2 min | 9.000 ms | 2.000 ms | float32 | -, - | {cells}" in found
    assert "1.50x over PyTorch, TF32, 4.00x over tune, AF-DS on 1 of 2 workloads." in found
    assert "over torch.compile" not in found  # of PyTorch, both workloads must have a time
    beside = {"tune, MetaSchedule, 1000 trials": {"latency": 5e6, "precision": "float32"}}
    again = {"latency": 2.5e6, "baselines": beside}
    (tmp_path / "b, 2 min.compared").write_text(json.dumps(again))
    found = "\n".join(script.report(given))
    assert "| b, 2 min | 9.000 ms | 2.500 ms |" in found
    assert "| - | 5.000 ms (2.00x, float32) |" in found


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


@pytest.fixture
def in_this_process(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script's commands run here, which saves imports, and without the preflight, which other
    tests run."""

    def here(command: list[str], limit_s: float | None = None) -> str | None:
        done = CliRunner().invoke(app, command)
        if done.exit_code in (0, 1) and isinstance(done.exception, SystemExit | None):
            return None
        return f"{done.output} {done.exception!r}"

    monkeypatch.setattr(script, "tilewright", here)
    monkeypatch.setattr("tilewright.storage.project.passed_preflight", lambda *_: True)


def finished(found: Path, *names: str) -> None:
    """Parts of the script that an earlier call has completed: these, and the pair of kernels."""
    done = {"baseline_latency": 1e6, "best_latency": 1e6, "best_precision": "", "baselines": {}}
    found.mkdir()
    for name in names:
        (found / f"{name}.json").write_text(json.dumps(done))
    (found / "pair-rowsum-8x64.jsonl").write_text('{"latency": 1.0, "ratio": 1.0}\n')


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(find_spec("tvm") is None, reason="needs the extra 'tune' (TVM)")
def test_the_script_tunes_and_compares_on_the_emulated_gpu(
    gpu: None, script: Any, in_this_process: None, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The tuner's own times are made up, and a random search stands for MetaSchedule's, which takes
    minutes. The times in the table are measured. The searches are done."""
    from tilewright.tuner.device import named_device
    from tilewright.tuning import runs

    monkeypatch.syspath_prepend(str(BENCHMARKS / "gpu"))
    mock = importlib.import_module("mock_device")
    device = dataclasses.replace(named_device("h100"), name="Emulated GPU")
    monkeypatch.setattr("tilewright.tuner.tvm.targets.detect_gpu", lambda: device)
    monkeypatch.setattr(runs, "tune", partial(runs.tune, open_instruments=mock.mock_instruments))
    names = {"gradient": "AF-DS", "random": "MetaSchedule"}
    monkeypatch.setattr(runs, "method_name", lambda method: names[method.search])
    monkeypatch.setitem(script.TUNERS, "MetaSchedule", ["--search", "random"])
    found, name = tmp_path / "found", "gemm-24x16x32"
    words = ["--project", str(found), "--budget", "1 evaluations", "--tf32-budget",
             "1 evaluations", "--longer", "2 evaluations", "--repeats", "1", "--within", "1000",
             "--pair", "rowsum-8x64", "--tune", "6", "--metaschedule", "3", name]  # fmt: skip
    long = f"{name}, 2 evaluations"
    finished(found, f"{name}, 1 evaluations", f"{name}, tf32, 1 evaluations", long)
    (found / f"{long}.cu").write_text(create_target().open(name, {}).start)
    assert script.main(words) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    (row,) = [line for line in said.splitlines() if line.startswith(f"| {long}")]
    assert re.search(r"ms \([0-9.]+x, float32\) \| [0-9.]+ ms \([0-9.]+x, float32\) \|$", row), row
    assert re.search(r"x over tune, AF-DS, [0-9.]+x over tune, MetaSchedule\.", said)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_script_goes_on_after_kill_9_on_the_emulated_gpu(
    gpu: None, script: Any, in_this_process: None, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The kill comes during the first search; other searches are done."""
    found = tmp_path / "found"
    words = ["--project", str(found), "--budget", "4 evaluations", "--tf32-budget",
             "2 evaluations", "--longer", "4 evaluations", "--repeats", "1", "--within", "1000",
             "--pair", "rowsum-8x64", "rowsum-8x64"]  # fmt: skip
    finished(found, "rowsum-8x64, tf32, 2 evaluations")
    before = {file.name: file.read_text() for file in found.iterdir()}
    command = [sys.executable, str(BENCHMARKS / "cuda_device.py"), *words]
    process = subprocess.Popen(command, start_new_session=True)

    def trials() -> int:
        if not (found / ".tilewright" / "tilewright.db").exists():
            return 0
        with closing(open_project(found, create=False)) as storage:
            return sum(len(storage.history(run.id)) for run in storage.runs())

    while trials() == 0:  # until the starting kernel of the first search is measured
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert {file.name for file in found.glob("*.json*")} == set(before)
    assert script.main(words) == 0, capsys.readouterr().err
    assert {name: (found / name).read_text() for name in before} == before
    assert "| rowsum-8x64, 4 evaluations | " in capsys.readouterr().out
    with closing(open_project(found)) as storage:
        (run,) = storage.runs()
        assert run.status == "finished"
        sessions = [kind for _, kind, _ in storage.events(run.id) if kind == "RunStarted"]
    assert len(sessions) == 2
