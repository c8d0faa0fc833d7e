"""The final table: the starting kernel, the baselines and the best kernel."""

from __future__ import annotations

from rich.console import Console

from tilewright.cli.searching import summary_json
from tilewright.cli.summary_table import search_comparison
from tilewright.core.records import Baseline, Candidate, Failed, History, Trial
from tilewright.search.summary import Summary, summarize
from tilewright.testing.runs import measured, run_record

START, BEST = Candidate("start"), Candidate("best", parent_id=Candidate("start").id)
TRIALS = History([Trial(0, 0, START, measured(4e6)), Trial(1, 1, BEST, measured(1e6))])
BASELINES = (
    Baseline("naive", START.id, measured(4e6)),
    Baseline("library", "other", measured(2e6)),
    Baseline("tuned", "another", Failed("check", "wrong_result", "wrong")),
)


def rows(summary: Summary) -> list[list[str]]:
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(search_comparison(summary, TRIALS))
    return [line.split() for line in captured.get().splitlines()[1:]]


def test_each_baseline_has_a_row_and_the_start_only_one() -> None:
    start, library, tuned, best = rows(summarize(run_record(), TRIALS, BASELINES))
    assert start[:4] == ["starting", "kernel", "(naive)", "4,000,000"]
    assert start[-2:] == ["1.00x", "4.00x"]
    assert library[:2] == ["library", "2,000,000"]
    assert library[-2:] == ["2.00x", "2.00x"]
    assert tuned[:2] == ["tuned", "failed"]
    assert best[-2:] == ["4.00x", "1.00x"]


def test_without_baselines_only_start_and_best() -> None:
    start, best = rows(summarize(run_record(), TRIALS))
    assert start[:2] == ["starting", "kernel"]
    assert best[:2] == ["best", "kernel"]


def test_json_says_how_much_faster_than_each() -> None:
    written = summary_json(summarize(run_record(), TRIALS, BASELINES))["baselines"]
    assert isinstance(written, dict)
    assert list(written) == ["naive", "library", "tuned"]
    assert written["library"]["speedup"] == 2
    assert written["tuned"] == {
        "verdict": "wrong_result", "cycles": None, "utilization": None, "speedup": None,
    }  # fmt: skip
