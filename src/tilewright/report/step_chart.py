"""Draws curves of the best result so far as one SVG: the median as steps, and the range as an
area.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from tilewright.report.charts import nice_ticks

COLOURS = (
    *("#1b6ac9", "#d1495b", "#2a9d8f", "#e09f3e"),
    *("#7b4fa3", "#7f7f7f", "#8d6e4f", "#e377c2"),
    *("#17becf", "#9aa800", "#ff6f3c", "#6c8ebf"),
)
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 520, 300, 56, 44, 28, 12
_SAMPLES = 120
"""Number of x positions at which curves are drawn."""


@dataclass(frozen=True, slots=True)
class Series:
    """The curves of one arm, each a list of (x, y) with ascending x. Between two points, y is
    constant.
    """

    name: str
    curves: tuple[tuple[tuple[float, float], ...], ...]


def step_chart(title: str, x_name: str, y_name: str, series: Sequence[Series]) -> str:
    """The SVG. Colours depend on the order of the series, and names are escaped."""
    points = [p for s in series for curve in s.curves for p in curve]
    x_ticks = nice_ticks(max((x for x, _ in points), default=1.0) or 1.0, 6)
    y_ticks = nice_ticks(max((y for _, y in points), default=1.0) or 1.0, 5)
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def at(x: float, y: float) -> str:
        across = _LEFT + (right - _LEFT) * x / x_ticks[-1]
        return f"{across:.1f},{bottom - (bottom - _TOP) * y / y_ticks[-1]:.1f}"

    parts = [
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{escape(title)}">',
        f'<text class="title" x="{_LEFT}" y="16">{escape(title)}</text>',
    ]
    for tick in y_ticks:
        place = at(0, tick).split(",")[1]
        parts.append(f'<path d="M{_LEFT} {place}H{right}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{place}" text-anchor="end">{tick:g}</text>')
    for tick in x_ticks:
        place = at(tick, 0).split(",")[0]
        parts.append(f'<text x="{place}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
    parts.append(f'<text x="{right}" y="{bottom + 34}" text-anchor="end">{escape(x_name)}</text>')
    parts.append(f'<text x="4" y="16">{escape(y_name)}</text>')
    for number, one in enumerate(series):
        parts += _drawn(one, COLOURS[number % len(COLOURS)], x_ticks[-1], at)
    return "\n".join([*parts, "</svg>"])


def _drawn(one: Series, colour: str, last: float, at) -> list[str]:  # type: ignore[no-untyped-def]
    """The range of the curves as an area, and their median as a line."""
    rows = []
    for number in range(_SAMPLES + 1):
        x = last * number / _SAMPLES
        found = [y for curve in one.curves if (y := _value(curve, x)) is not None]
        if found and len(found) == len(one.curves):
            rows.append((x, min(found), median(found), max(found)))
    if not rows:
        return []
    area = [at(x, low) for x, low, _, _ in rows] + [at(x, high) for x, *_, high in rows[::-1]]
    line = [at(x, middle) for x, _, middle, _ in rows]
    return [
        f'<polygon points="{" ".join(area)}" fill="{colour}" opacity="0.12"/>',
        f'<polyline points="{" ".join(line)}" fill="none" stroke="{colour}" stroke-width="1.8"/>',
    ]


def _value(curve: Sequence[tuple[float, float]], x: float) -> float | None:
    found = None
    for at, y in curve:
        if at > x:
            break
        found = y
    return found
