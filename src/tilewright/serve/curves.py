"""The curves of several runs in one chart: the best speedup so far against what was spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.report.step_chart import COLOURS, Series, step_chart
from tilewright.serve.axes import LiveAxes
from tilewright.serve.project import LiveRun

Curve = tuple[tuple[float, float], ...]
_Place = Callable[[int, int], float]
"""Computes a trial's position on an axis from its index and its iteration."""


def curve_charts(runs: Sequence[tuple[str, LiveRun]]) -> list[str]:
    """An SVG for each axis on which something is known of every run; names are escaped."""
    charts = [_chart("evaluations", runs, [_evaluations] * len(runs))]
    if runs and all(live.axes.rows for _, live in runs):
        ends = [_ends(live.axes, 1) for _, live in runs]
        charts.append(_chart("seconds", runs, ends))
        if any(live.axes.has_costs for _, live in runs):
            charts.append(_chart("US dollars", runs, [_ends(live.axes, 2) for _, live in runs]))
    return charts


def curve_colours(names: Sequence[str]) -> list[tuple[str, str]]:
    """The colour and the name of each run."""
    return [(COLOURS[number % len(COLOURS)], name) for number, name in enumerate(names)]


def _chart(axis: str, runs: Sequence[tuple[str, LiveRun]], places: Sequence[_Place]) -> str:
    series = [
        Series(name, (_curve(live, place),))
        for (name, live), place in zip(runs, places, strict=True)
    ]
    return step_chart(f"Speedup against {axis}", axis, "speedup", series)


def _curve(live: LiveRun, place: _Place) -> Curve:
    """The points at which the best speedup rises, in the order of trials, and the last trial's."""
    points: list[tuple[float, float]] = []
    for view in live.trials.views:
        if view.speedup is not None and (not points or view.speedup > points[-1][1]):
            points.append((place(view.index, view.iteration), view.speedup))
    if points:
        last = live.trials.views[-1]
        points.append((place(last.index, last.iteration), points[-1][1]))
    return tuple(points)


def _evaluations(index: int, iteration: int) -> float:
    return index


def _ends(axes: LiveAxes, column: int) -> _Place:
    """What was spent at the end of a trial's iteration; for the current one, all that is known."""
    found = {row[0]: row[column] for row in axes.rows}
    last = axes.rows[-1][column]
    return lambda index, iteration: found.get(iteration, last) if index else 0.0
