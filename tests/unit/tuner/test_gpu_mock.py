"""The GPU comparison end to end on made-up times: resumable, and labelled as what it is."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="needs the extra 'tune' (TVM)")

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "gpu"


def compare(monkeypatch: pytest.MonkeyPatch, out: Path, *arguments: str) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    command = ["compare.py", str(out), "--target", "nvidia/h100", "--workloads", "M0", *arguments]
    monkeypatch.setattr(sys, "argv", command)
    importlib.import_module("compare").main()


def test_a_mock_comparison_says_so_everywhere_and_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--mock", "--trials", "8", "--seeds", "1", "--arms", "af-ds"]
    compare(monkeypatch, tmp_path, *options)
    (run,) = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert run["kind"] == "mock"
    assert len(run["seconds"]) == 8
    kept = tmp_path / "measurements" / "M0-af-ds-s0-n8.jsonl"
    assert len(kept.read_text().splitlines()) == 8
    assert all(seconds > 0 for seconds in run["seconds"])
    assert "(mock)" in capsys.readouterr().out
    half = '{"workload": "M0", "arm'
    with (tmp_path / "runs.jsonl").open("a") as lines:
        lines.write(half)
    compare(monkeypatch, tmp_path, *options[:-1], "af-ds", "random")
    first, killed, second = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert killed == half
    assert [json.loads(line)["arm"] for line in (first, second)] == ["af-ds", "random"]
    table = (tmp_path / "table.txt").read_text()
    assert "mock (analytical time model with noise, nothing was measured)" in table


def test_a_killed_run_goes_on_after_its_last_candidate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = ["--mock", "--trials", "4", "--seeds", "1", "--arms", "random"]
    compare(monkeypatch, tmp_path, *options)
    kept = tmp_path / "measurements" / "M0-random-s0-n4.jsonl"
    lines = kept.read_text().splitlines(keepends=True)
    kept.write_text("".join(lines[:3]) + lines[3][:20])
    (tmp_path / "runs.jsonl").unlink()
    compare(monkeypatch, tmp_path, *options)
    again = kept.read_text().splitlines(keepends=True)
    assert again[:3] == lines[:3]
    assert json.loads(again[4])["key"] == json.loads(lines[3])["key"]
    (run,) = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert run["elapsed_s"][:3] == [json.loads(line)["elapsed_s"] for line in lines[:3]]


def test_made_up_times_are_never_mixed_with_measured_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "runs.jsonl").write_text(
        json.dumps(
            {
                "workload": "M0",
                "arm": "af-ds",
                "seed": 0,
                "trials": 1,
                "flops": 1,
                "seconds": [1.0],
                "elapsed_s": [1.0],
                "kind": "measured",
                "device": "test",
            }
        )
    )
    with pytest.raises(SystemExit):
        compare(monkeypatch, tmp_path, "--mock")


def test_measuring_on_a_device_that_is_not_here_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tilewright.tuner.tvm.targets.detect_gpu", lambda: None)
    with pytest.raises(SystemExit):
        compare(monkeypatch, tmp_path)
    assert "is not here" in capsys.readouterr().err
