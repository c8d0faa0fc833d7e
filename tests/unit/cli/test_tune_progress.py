"""What a tuning run shows while it runs, on a terminal and in a log."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tilewright.cli.tune_progress import TuneProgress
from tilewright.core.tuning_records import TuningRecord
from tilewright.tuner.tvm.runner import Measurement
from tilewright.tuner.tvm.trials import Trial

RECORD = TuningRecord("abc", "same", "M0", "family", (2, 2), "cpu", {}, {}, starts=({}, {}))


def _trial(index: int, seconds: float | None, predicted: float | None = None) -> Trial:
    if seconds is None:
        result = Measurement(failure="crashed", log="SIGSEGV")
    else:
        result = Measurement((seconds,), 1)
    return Trial(index, str(index), "", result, None, predicted, 0.0)


def test_a_log_has_a_line_for_each_new_best() -> None:
    out = io.StringIO()
    with TuneProgress(4, 10**9, 100.0, Console(file=out, width=120)) as progress:
        progress.started(RECORD, kept=3)
        for trial in (
            _trial(0, 0.1),
            _trial(1, None),
            _trial(2, 0.2),
            _trial(3, 0.05, predicted=0.8),
        ):
            progress.measured(trial)
    lines = out.getvalue().splitlines()
    assert lines[0] == "run abc: M0, continues after 3 trials, 2 known tiles to start from"
    assert lines[1] == "1/4 trials: best 10.0 GFLOP/s (10% of peak)"
    assert lines[2].startswith("4/4 trials, 1 failed: best 20.0 GFLOP/s (20% of peak)")
    assert lines[2].endswith("last predicted 0.80, measured 1.00")
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("learned_from", "told"),
    [
        ({}, ""),
        ({"a": 5}, ", a cost model that learned from 5 trials of 1 earlier run"),
        ({"a": 5, "b": 7}, ", a cost model that learned from 12 trials of 2 earlier runs"),
    ],
)
def test_a_run_says_what_its_cost_model_learned_from(
    learned_from: dict[str, int], told: str
) -> None:
    out = io.StringIO()
    record = replace(RECORD, starts=(), settings={"learned_from": learned_from})
    with TuneProgress(4, 10**9, 100.0, Console(file=out, width=120)) as progress:
        progress.started(record, kept=0)
    assert out.getvalue() == f"run abc: M0{told}\n"


def test_a_terminal_shows_a_panel_that_disappears() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    with TuneProgress(2, 10**9, 0.0, console) as progress:
        progress.measured(_trial(0, 0.1))
        console.print(progress.panel())
    assert "1 of 2, 0 failed" in out.getvalue()
    assert "10.0 GFLOP/s" in out.getvalue()
    assert "of peak" not in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.1, "10.0 GFLOP/s (50% of peak)"),
        (1e-6, "1000.00 TFLOP/s (5000000% of peak)"),
    ],
)
def test_rates(seconds: float | None, text: str) -> None:
    assert TuneProgress(1, 10**9, 20.0, Console(file=io.StringIO())).rate(seconds) == text
