"""Charts of the best throughput so far against trials, as one HTML file with SVG that loads no
other files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from statistics import median
from typing import Any

from tilewright.report.charts import nice_ticks
from tilewright.tuning.comparison_table import latest

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 520, 300, 56, 40, 28, 12
_COLOURS = (
    *("#1b6ac9", "#d1495b", "#2a9d8f", "#e09f3e"),
    *("#7b4fa3", "#555555", "#8d6e4f", "#e377c2"),
)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tuning: best so far</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em; color: #222; }}
svg {{ margin: 0 1em 1em 0; }} text {{ font-size: 11px; fill: #444; }}
.title {{ font-size: 13px; font-weight: 600; fill: #222; }} .key span {{ margin-right: 1.5em; }}
</style></head><body>
<h1>Best so far against trials</h1>
<p>Measured GFLOP/s of the fastest candidate up to each trial: the line is the median over seeds,
and the shaded area is the range of the seeds. The values are the searches' own single measurements,
of which some are too high; the numbers in the table were measured again.</p>
<p class="key">{key}</p>
{charts}
</body></html>
"""


def render_plots(runs: Sequence[Mapping[str, Any]]) -> str:
    """The page for all workloads of a comparison."""
    runs = latest(runs)
    arms = list(dict.fromkeys(run["arm"] for run in runs))
    colours = {arm: _COLOURS[n % len(_COLOURS)] for n, arm in enumerate(arms)}
    key = "".join(
        f'<span style="color:{colour}">&#9632; {escape(arm)}</span>'
        for arm, colour in colours.items()
    )
    panels = dict.fromkeys((run["workload"], run["threads"]) for run in runs)
    charts = "\n".join(
        _chart(
            f"{workload}, {threads} thread{'s' if threads > 1 else ''}",
            [r for r in runs if (r["workload"], r["threads"]) == (workload, threads)],
            colours,
        )
        for workload, threads in panels
    )
    return _PAGE.format(key=key, charts=charts)


def best_so_far(run: Mapping[str, Any]) -> list[float]:
    """GFLOP/s of the fastest candidate so far after each trial; 0 before the first correct one."""
    found, best = [], 0.0
    for _, seconds in run["curve"]:
        if seconds is not None:
            best = max(best, run["flops"] / seconds / 1e9)
        found.append(best)
    return found


def _chart(title: str, runs: Sequence[Mapping[str, Any]], colours: Mapping[str, str]) -> str:
    curves: dict[str, list[list[float]]] = {}
    for run in runs:
        curves.setdefault(run["arm"], []).append(best_so_far(run))
    trials = max(len(curve) for several in curves.values() for curve in several)
    top = max((max(c, default=0.0) for several in curves.values() for c in several), default=1.0)
    y_ticks = nice_ticks(top, 5)

    def x(count: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * count / max(trials, 1), 1)

    def y(value: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / y_ticks[-1], 1)

    parts = [f'<text class="title" x="{_LEFT}" y="16">{escape(title)}</text>']
    for value in y_ticks:
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value)}" y2="{y(value)}" '
            f'stroke="#ddd"/><text x="{_LEFT - 6}" y="{y(value) + 4}" '
            f'text-anchor="end">{value:g}</text>'
        )
    for value in nice_ticks(trials, 6):
        if value <= trials:
            parts.append(
                f'<text x="{x(value)}" y="{_HEIGHT - _BOTTOM + 16}" '
                f'text-anchor="middle">{value:g}</text>'
            )
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">trials</text>')
    parts.append(f'<text x="4" y="{_TOP - 2}">GFLOP/s</text>')
    for arm, several in curves.items():
        parts.append(_band(several, colours[arm], x, y))
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"{''.join(parts)}</svg>"
    )


def _band(curves: list[list[float]], colour: str, x: Any, y: Any) -> str:
    """A line through the medians and, after it, the range over seeds."""
    length = min(len(curve) for curve in curves)
    columns = [[curve[n] for curve in curves] for n in range(length)]
    steps = [n for n in range(length) if n in (0, length - 1) or columns[n] != columns[n - 1]]
    lows = [(x(n + 1), y(min(columns[n]))) for n in steps]
    highs = [(x(n + 1), y(max(columns[n]))) for n in steps]
    middle = [(x(n + 1), y(median(columns[n]))) for n in steps]
    area = " ".join(f"{a},{b}" for a, b in [*_stairs(highs), *reversed(_stairs(lows))])
    line = " ".join(f"{a},{b}" for a, b in _stairs(middle))
    return (
        f'<polygon points="{area}" fill="{colour}" fill-opacity="0.12"/>'
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
    )


def _stairs(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points with a corner before each step."""
    corners = points[:1]
    for before, here in pairwise(points):
        corners += [(here[0], before[1]), here]
    return corners
