"""The GPU comparison end to end on made-up times: resumable, and labelled as what it is."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("tvm") is None:
    pytest.skip("needs the extra 'tune' (TVM)", allow_module_level=True)

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "gpu"


def compare(monkeypatch: pytest.MonkeyPatch, out: Path, *arguments: str) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    command = ["compare.py", str(out), "--target", "nvidia/h100", "--workloads", "M0", *arguments]
    monkeypatch.setattr(sys, "argv", command)
    importlib.import_module("compare").main()


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_mock_comparison_says_so_everywhere_and_confirms_all_arms_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--mock", "--trials", "8", "--seeds", "1", "--arms", "af-ds"]
    compare(monkeypatch, tmp_path, *options)
    (run,) = lines_of(tmp_path / "runs.jsonl")
    assert run["kind"].startswith("mock")
    assert len(run["curve"]) == 8
    kept = tmp_path / "measurements" / "M0-s0-t1-af-ds.jsonl"
    before = kept.read_text()
    assert len(before.splitlines()) == 8
    assert "(mock)" in capsys.readouterr().out
    compare(monkeypatch, tmp_path, *options[:-1], "af-ds", "random")
    alone, *together = lines_of(tmp_path / "runs.jsonl")
    assert kept.read_text() == before
    assert [line["arm"] for line in together] == ["af-ds", "random"]
    assert len({line["session"] for line in together}) == 1
    assert alone["session"] != together[0]["session"]
    for line in together:
        assert {checkpoint: len(s) for checkpoint, s in line["confirmed"].items()} == {
            "1": 30,
            "8": 30,
        }
    label = "mock (analytical time model with noise, nothing was measured)"
    assert label in (tmp_path / "table.txt").read_text()
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert {row["kind"] for row in rows} == {label}


@pytest.mark.slow
def test_arms_take_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[dict[str, int]] = []
    monkeypatch.syspath_prepend(str(FOLDER))
    runner = importlib.import_module("mock_device").MockRunner
    measure = runner.measure

    def noted(self: Any, library: Path, best_s: float | None) -> Any:
        files = (tmp_path / "measurements").iterdir()
        asked.append(
            {file.stem.split("t1-")[1]: len(file.read_text().splitlines()) for file in files}
        )
        return measure(self, library, best_s)

    monkeypatch.setattr(runner, "measure", noted)
    options = ["--mock", "--trials", "70", "--seeds", "1", "--arms", "af-ds", "af-ds-knobs"]
    compare(monkeypatch, tmp_path, *options)
    # Neither is at its end when the other begins.
    begun = next(counts for counts in asked if len(counts) == 2)
    assert begun["af-ds"] < 70
    assert len(asked) == 140


def test_a_killed_run_goes_on_after_its_last_candidate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = ["--mock", "--trials", "4", "--seeds", "1", "--arms", "random"]
    compare(monkeypatch, tmp_path, *options)
    kept = tmp_path / "measurements" / "M0-s0-t1-random.jsonl"
    lines = kept.read_text().splitlines(keepends=True)
    kept.write_text("".join(lines[:3]) + lines[3][:20])
    (tmp_path / "runs.jsonl").unlink()
    compare(monkeypatch, tmp_path, *options)
    again = kept.read_text().splitlines(keepends=True)
    assert again[:3] == lines[:3]
    assert json.loads(again[4])["key"] == json.loads(lines[3])["key"]
    (run,) = lines_of(tmp_path / "runs.jsonl")
    assert [elapsed_s for elapsed_s, _ in run["curve"][:3]] == [
        json.loads(line)["elapsed_s"] for line in lines[:3]
    ]


def test_the_table_of_the_paper_goes_on_after_kill_9(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With few trials; the times after which the arms are compared are times of their searches."""
    options = ["--mock", "--paper", "--trials", "90", "--after", "0.001", "1000", "--seeds", "1",
               "--arms", "af-ds", "random"]  # fmt: skip
    out, page = tmp_path / "out", tmp_path / "page.md"
    kept = out / "measurements" / "M0-s0-t1-af-ds.jsonl"
    words = [sys.executable, str(FOLDER / "compare.py"), str(out), "--target", "nvidia/h100"]
    process = subprocess.Popen([*words, "--workloads", "M0", *options])
    while not kept.exists() or len(kept.read_text().splitlines()) < 3:
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert not (out / "runs.jsonl").exists()
    before = [json.loads(line) for line in kept.read_text().splitlines()[:3]]
    compare(monkeypatch, out, *options, "--table", str(page))
    assert lines_of(kept)[:3] == before
    runs = lines_of(out / "runs.jsonl")
    assert [run["arm"] for run in runs] == ["af-ds", "random"]
    for run in runs:
        assert set(run["confirmed"]) == {"90", "1000 s"}
        assert run["unconfirmed"] == {"0.001 s": "no candidate was correct by then"}
    text = page.read_text()
    told = "M0 seed 0 random has no kernel after 0.001 s: no candidate was correct by then."
    assert told in text
    assert told in (out / "table.txt").read_text()
    assert "mock (analytical time model with noise, nothing was measured)" in text
    assert "| af-ds | 90 in 1000 s | 1 | " in text
    assert "benchmarks/gpu/compare.py" in text
    monkeypatch.setattr("tilewright.tuning.comparison._Arm.step", None)  # nothing is left to do
    compare(monkeypatch, out, *options)
    assert lines_of(out / "runs.jsonl") == runs


def test_the_paper_is_compared_with_its_own_arms_trials_times_and_seeds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    groups: list[Any] = []
    monkeypatch.syspath_prepend(str(FOLDER))
    script = importlib.import_module("compare")
    monkeypatch.setattr(script, "compare", lambda found, *_: groups.extend(found))
    compare(monkeypatch, tmp_path, "--mock", "--paper", "--workloads", "M4", "R2")
    assert [(group.program.name, group.seed) for group in groups] == [
        ("M4", 0), ("R2", 0), ("M4", 1), ("R2", 1), ("M4", 2), ("R2", 2),
    ]  # fmt: skip
    assert groups[0].budgets == dict.fromkeys(["default", "af", "ds", "af-ds"], 1000)
    assert (groups[0].checkpoints, groups[0].after_s) == ((1000,), (60.0, 120.0))


def test_nothing_begins_after_the_time_is_over_and_the_next_call_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--mock", "--trials", "8", "--seeds", "1", "--arms", "random"]
    clock = iter(range(1000))
    # The clock goes on by a second whenever it is looked at.
    with monkeypatch.context() as patched:
        patched.setattr("time.monotonic", lambda: next(clock))
        compare(patched, tmp_path, *options, "--seconds", "6")
    kept = tmp_path / "measurements" / "M0-s0-t1-random.jsonl"
    measured = len(kept.read_text().splitlines())
    assert 0 < measured < 8
    assert not (tmp_path / "runs.jsonl").exists()
    assert "time is over in M0 seed 0" in capsys.readouterr().out
    compare(monkeypatch, tmp_path, *options)
    (run,) = lines_of(tmp_path / "runs.jsonl")
    assert len(run["curve"]) == 8


def test_made_up_times_are_never_mixed_with_measured_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "measurements").mkdir()
    with pytest.raises(SystemExit):
        compare(monkeypatch, tmp_path, "--mock")
    assert "name another folder" in capsys.readouterr().err
    (tmp_path / "kind.txt").write_text("measured\n")
    with pytest.raises(SystemExit):
        compare(monkeypatch, tmp_path, "--mock")
    assert "name another folder" in capsys.readouterr().err


def test_measuring_on_a_device_that_is_not_here_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tilewright.tuner.tvm.targets.detect_gpu", lambda: None)
    with pytest.raises(SystemExit):
        compare(monkeypatch, tmp_path)
    assert "is not here" in capsys.readouterr().err


def test_numbers_that_are_not_positive_and_a_missing_folder_are_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing" / "page.md")
    for words, message in {
        ("--after", "0"): "0 is not a positive number",
        ("--after", "60", "nan"): "nan is not a positive number",
        ("--seeds", "-1"): "-1 is not a positive whole number",
        ("--table", missing): "make it first",
    }.items():
        with pytest.raises(SystemExit):
            compare(monkeypatch, tmp_path / "out", "--mock", *words)
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
