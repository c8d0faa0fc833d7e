"""Benchmarks of this machine: bad arguments start nothing, failures leave cells empty."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tilewright.core.records import Failed

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.mark.parametrize(
    ("script", "arguments", "says"),
    [
        ("host_c", "--runs 0", "--runs is 0"),
        ("host_c", "--seconds -1", "--seconds is -1"),
        ("host_c", "--results /no/such/folder/file", "no folder /no/such/folder"),
        ("host_c", "--seconds nan", "--seconds is nan"),
        ("host_c", "softmax-8x8 softmax-0x4", "softmax-0x4"),
        ("host_c", "sofmax-8x8", "sofmax-8x8"),
        ("amx", "--runs -3", "--runs is -3"),
        ("amx", f"--results {__file__}", "holds no results"),
        ("amx", "--seconds inf", "--seconds is inf"),
        ("amx", "gemm-16x16x16-packed", "K = 16"),
        ("amx", "gemm-16x16", "gemm-16x16"),
    ],
)
def test_a_bad_argument_is_one_sentence(
    script: str,
    arguments: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location(f"bench_{script}", FOLDER / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", [script, *arguments.split()])
    assert module.main() == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert says in printed.err
    assert printed.err.count("\n") == 1


def test_a_winner_that_is_never_measured_again_leaves_a_cell_empty(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import native_runs

    def evaluate(*_: object) -> Failed:
        return Failed("measure", "unconfirmed", "slower in fresh sessions")

    monkeypatch.setattr(native_runs, "evaluate", evaluate)
    assert native_runs.repeatability("host-c:softmax-8x8", "") is None
    assert "unconfirmed: slower in fresh sessions" in capsys.readouterr().err
    assert native_runs.percents(None) == "-"
    assert native_runs.percents([0.02, 0.01]) == "2.0%, 1.0%"
