"""Computes the geometry of the report's charts in SVG user units, which the template draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tilewright.report.views import TrialView

WIDTH, HEIGHT = 960, 338
LEFT, RIGHT, TOP, BOTTOM = 88, 24, 34, 56
"""Margins around the plot. Trials without a latency are marked in the bottom margin."""
MISS_ROW = HEIGHT - BOTTOM + 38
GRAIN = 2.0
"""Marks whose centres are in one square of this width cover each other: their radius is 4."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled position on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    """The position of one trial in a chart."""

    x: float
    y: float
    trial: TrialView


@dataclass(frozen=True, slots=True)
class SpeedupChart:
    """Speedup over the starting kernel against evaluations.

    `line` is the best speedup so far as an SVG path, `points` are the measured trials, and `misses`
    the others, in a row below the axis. Of marks of one kind that would cover each other, only the
    last is in the chart.
    """

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    points: tuple[Mark, ...]
    misses: tuple[Mark, ...]
    line: str
    final: Mark
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    bottom: int = HEIGHT - BOTTOM
    miss_row: int = MISS_ROW

    @property
    def final_label_anchor(self) -> Literal["start", "end"]:
        """The SVG text anchor with which the label of the best point is inside the plot."""
        return "start" if self.final.x < (LEFT + WIDTH - RIGHT) / 2 else "end"


def speedup_chart(trials: Sequence[TrialView]) -> SpeedupChart | None:
    """The chart, or None if no trial was measured."""
    measured = [t for t in trials if t.speedup is not None]
    if not measured:
        return None
    y_ticks = nice_ticks(max(t.speedup or 0 for t in measured), 6)
    x_top = max(1, len(trials) - 1)

    def x(index: int) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * index / x_top, 1)

    def y(speedup: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * speedup / y_ticks[-1], 1)

    points = tuple(Mark(x(t.index), y(t.speedup or 0), t) for t in measured)
    misses = tuple(Mark(x(t.index), MISS_ROW, t) for t in trials if t.speedup is None)
    return SpeedupChart(
        x_ticks=tuple(
            Tick(x(int(v)), f"{v:g}") for v in nice_ticks(x_top, 8) if v <= x_top and v == int(v)
        ),
        y_ticks=tuple(Tick(y(v), f"{v:g}x") for v in y_ticks),
        points=_apart(points),
        misses=_apart(misses),
        line=_best_so_far(points, x(x_top)),
        final=max(points, key=lambda mark: (mark.trial.speedup or 0, -mark.trial.index)),
    )


def _apart(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """The last of the marks of each kind in each square of the grid, in their order."""
    last = {
        (mark.x // GRAIN, mark.y // GRAIN, mark.trial.state, mark.trial.winning): mark
        for mark in marks
    }
    return tuple(sorted(last.values(), key=lambda mark: mark.trial.index))


def nice_ticks(top: float, at_most: int) -> list[float]:
    """Round values 0, s, 2s, ... up to the first value that is at least `top`."""
    rough = max(top, 1e-9) / at_most
    magnitude = 10 ** math.floor(math.log10(rough))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= rough * (1 - 1e-9))
    count = max(1, math.ceil(top / step - 1e-9))
    return [round(i * step, 10) for i in range(count + 1)]


def _best_so_far(points: Sequence[Mark], x_end: float) -> str:
    """A step line through the points that were the fastest so far."""
    path = f"M{points[0].x} {points[0].y}"
    best = points[0].trial.speedup or 0
    for mark in points[1:]:
        speedup = mark.trial.speedup or 0
        if speedup > best:
            path += f"H{mark.x}V{mark.y}"
            best = speedup
    return f"{path}H{x_end}"
