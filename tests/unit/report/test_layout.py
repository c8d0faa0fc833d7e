import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.core.records import Candidate, Cause, Failed, History, Trial
from tilewright.report import charts, text, tree
from tilewright.report.breakdown import cause_bars, cause_groups
from tilewright.report.diffs import cut, unified_diff
from tilewright.report.queries import report_view
from tilewright.testing.runs import history, run_record

any_history = st.builds(
    history, st.integers(1, 90), per_iteration=st.integers(1, 30), seed=st.integers(0, 99)
)


@settings(max_examples=40)
@given(any_history)
def test_tree_places_every_trial_apart_and_right_of_its_parent(trials: History) -> None:
    view = report_view(run_record(), trials)
    laid = tree.beam_tree(view.trials)
    assert [node.trial.index for node in laid.nodes] == list(range(len(trials)))
    places = {node.trial.index: node for node in laid.nodes}
    assert len({(node.x, node.y) for node in laid.nodes}) == len(trials)
    for node in laid.nodes:
        assert 0 < node.x < laid.width
        assert tree.TOP <= node.y <= laid.height
        if node.trial.parent is not None:
            assert places[node.trial.parent].x < node.x
    for column in {node.x for node in laid.nodes}:
        rows = sorted(node.y for node in laid.nodes if node.x == column)
        assert all(b - a > tree.ROW_PITCH - 0.2 for a, b in pairwise(rows))
    assert sum(edges.path.count("M") for edges in laid.edges) == len(trials) - 1


@settings(max_examples=40)
@given(any_history)
def test_chart_shows_every_trial_inside_its_frame(trials: History) -> None:
    chart = charts.speedup_chart(report_view(run_record(), trials).trials)
    assert chart is not None
    shown = (*chart.points, *chart.misses)
    squares = {
        (m.x // charts.GRAIN, m.y // charts.GRAIN, m.trial.state, m.trial.winning) for m in shown
    }
    assert len(squares) == len(shown) <= len(trials)
    if len(trials) < (chart.right - chart.left) / charts.GRAIN:
        assert len(shown) == len(trials)
    for mark in chart.points:
        assert chart.left <= mark.x <= chart.right
        assert charts.TOP <= mark.y <= chart.bottom
    assert chart.final.trial.latency == min(t.latency for t in trials if t.latency)
    assert chart.line.startswith("M")
    assert f"V{chart.final.y}" in chart.line or chart.final.trial.index == 0


def test_a_chart_of_a_long_run_has_no_marks_that_others_of_their_kind_cover() -> None:
    trials = report_view(run_record(), history(1500, lines=4)).trials
    chart = charts.speedup_chart(trials)
    assert chart is not None
    for shown in (chart.points, chart.misses):
        kinds = [
            (m.x // charts.GRAIN, m.y // charts.GRAIN, m.trial.state)
            for m in shown
            if not m.trial.winning
        ]
        assert len(set(kinds)) == len(kinds)
    assert {m.trial.index for m in chart.points} >= {t.index for t in trials if t.winning}


def test_no_chart_without_a_measured_trial() -> None:
    failed = Failed("build", "compile_error", "")
    view = report_view(run_record(), History([Trial(0, 0, Candidate("x"), failed)]))
    assert charts.speedup_chart(view.trials) is None
    assert cause_bars(view.baseline, view.best, ()) == ()
    assert len(tree.beam_tree(view.trials).nodes) == 1


@given(st.floats(1e-3, 1e6), st.integers(2, 10))
def test_ticks_are_even_and_reach_the_top(top: float, at_most: int) -> None:
    ticks = charts.nice_ticks(top, at_most)
    assert ticks[0] == 0
    assert ticks[-1] >= top * (1 - 1e-6)
    assert len(ticks) <= at_most + 1
    steps = [b - a for a, b in pairwise(ticks)]
    assert all(math.isclose(step, steps[0], rel_tol=1e-5) for step in steps)


def test_bars_compare_both_kernels_largest_cause_first() -> None:
    view = report_view(run_record(), history(100))
    assert view.baseline is not None
    assert view.best is not None
    bars = cause_bars(view.baseline, view.best, ())
    assert [b.name for b in bars[:2]] == ["total", "dma_wait"]
    start, best = bars[0].bars
    assert (start.cycles, start.share, start.length) == (view.baseline.latency, 1.0, 1.0)
    assert best.cycles == view.best.latency
    sizes = [max(bar.cycles for bar in cause.bars) for cause in bars]
    assert sizes == sorted(sizes, reverse=True)
    assert all(0 <= bar.length <= 1 for cause in bars for bar in cause.bars)


def test_bars_leave_out_what_hardly_counts() -> None:
    view = report_view(run_record(), history(100))
    assert view.baseline is not None
    tiny = replace(view.baseline, breakdown={"fence": 1.0, "cpu": 1e6})
    assert [b.name for b in cause_bars(tiny, tiny, ())] == ["total", "cpu"]
    assert cause_bars(replace(tiny, breakdown={}), replace(tiny, breakdown={}), ()) == ()


def test_a_diff_is_cut_where_its_room_ends() -> None:
    before, after = "a\n" * 500, "b\n" * 500
    whole = unified_diff(before, after, 10_000)
    assert len(whole) == 1001
    short = unified_diff(before, after, 100)
    assert short[-1] == f"@@ {1001 - (len(short) - 1)} more lines are not shown @@"
    assert unified_diff("same", "same", 100) == ()


def test_a_cut_text_keeps_both_ends() -> None:
    assert cut("short", 100) == "short"
    shown = cut("<" + "x" * 500 + ">", 100)
    assert shown.startswith("<")
    assert shown.endswith(">")
    assert "402 characters not shown" in shown


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.42, "0.42 s"), (9.94, "9.9 s"), (38.4, "38 s"), (59.7, "1 min 0 s"), (125, "2 min 5 s"),
     (4320, "1 h 12 min")],
)  # fmt: skip
def test_durations(seconds: float, expected: str) -> None:
    assert text.duration(seconds) == expected


def test_numbers() -> None:
    assert text.number(2900000.0) == "2,900,000"
    assert text.number(2900000.6) == "2,900,001"
    assert text.number(0.123456) == "0.1235"
    assert text.moment("2026-11-21T02:40:09.123+00:00") == "2026-11-21 02:40 UTC"
    assert text.number(None) == "-"
    assert text.percent(0.931) == "93.1 %"
    assert text.ratio(2.906) == "2.91x"
    assert (text.ratio(0.997), text.ratio(1.0), text.ratio(1.0001)) == ("0.997x", "1.00x", "1.00x")


def test_causes_are_grouped_by_whether_they_add_up() -> None:
    known = (Cause("idle", "nothing works", exclusive=True), Cause("wait", "the core waits"))
    groups = cause_groups({"wait": 9.0, "idle": 4.0, "new": 1.0, "none": 0.0}, known)
    assert [[row[0] for row in group.rows] for group in groups] == [["idle"], ["wait", "new"]]
    assert groups[0].rows[0][1] == "nothing works"
    assert [group.title[:5] for group in cause_groups({"wait": 1.0}, known)] == [""]


def test_bars_say_what_a_cause_means() -> None:
    view = report_view(run_record(), history(100))
    known = [Cause("dma_wait", "waits for a load")]
    bars = {bar.name: bar.meaning for bar in cause_bars(view.baseline, view.best, known)}
    assert bars["dma_wait"] == "waits for a load"
    assert bars["total"] == ""
