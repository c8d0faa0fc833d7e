"""The curves of the comparison: the best speedup so far, on each axis that is known."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tilewright.serve.curves import curve_charts
from tilewright.serve.project import LiveRun
from tilewright.storage.project import open_overview
from tilewright.testing.runs import history

from .conftest import store
from .test_live_axes import calls, log


def live_run(folder: Path) -> LiveRun:
    run = store(folder, history(30, lines=8))
    with closing(open_overview(folder)) as overview:
        return LiveRun().update(overview, run.id)


def test_a_curve_ends_at_the_best_speedup(tmp_path: Path) -> None:
    live = live_run(tmp_path)
    (chart,) = curve_charts([("<b>one</b>", live)])
    assert "<b>" not in chart
    line = chart.partition('<polyline points="')[2].partition('"')[0].split()
    heights = [float(point.partition(",")[2]) for point in line]
    assert heights == sorted(heights, reverse=True)
    best = max(view.speedup or 0.0 for view in live.trials.views)
    assert best > 1
    assert len(set(heights)) > 1


def test_time_and_cost_have_a_chart_of_their_own_where_they_are_known(tmp_path: Path) -> None:
    live = live_run(tmp_path)
    timed = LiveRun()
    timed.trials = live.trials
    timed.axes.extend(log(), [])
    assert len(curve_charts([("a", timed), ("b", live)])) == 1
    assert len(curve_charts([("a", timed), ("b", timed)])) == 2
    timed.axes.extend([], calls())
    titles = [
        chart.partition('aria-label="')[2].partition('"')[0]
        for chart in curve_charts([("a", timed)])
    ]
    assert titles == [
        f"Speedup against {axis}" for axis in ("evaluations", "seconds", "US dollars")
    ]
