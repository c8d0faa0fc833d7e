"""Estimates how strongly each parameter of a template affects the latency, from the measured
instances.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FEWEST = 8
"""Minimum number of measured instances for an estimate. With fewer, chance would determine it."""


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A parameter of a template and the effect of its values.

    `importance` is the share of the variance of log latency that the parameter explains alone, 0 to
    1, less what values without any effect would seem to explain (epsilon squared of a one-way
    analysis of variance). None if there are fewer than `FEWEST` instances, if all are equally fast,
    or if no value was measured twice. Parameters that have an effect only in combination have low
    shares. A search measures fast points more often than slow ones, so the share describes the
    measured points and not the whole template.
    """

    name: str
    values: tuple[int, ...]
    best: int
    importance: float | None


def parameter_rows(measured: Sequence[tuple[Mapping[str, int], float]]) -> list[ParameterRow]:
    """One row for each parameter of the instances of one template, most important first.

    `measured` contains the values and the latency (any unit, above 0) of each measured instance.
    """
    if not measured:
        return []
    fastest, _ = min(measured, key=lambda instance: instance[1])
    rows = [
        ParameterRow(
            name,
            tuple(sorted({values[name] for values, _ in measured})),
            fastest[name],
            _importance([(values[name], math.log(latency)) for values, latency in measured]),
        )
        for name in fastest
    ]
    return sorted(rows, key=lambda row: (-(row.importance or 0.0), row.name))


def _importance(points: Sequence[tuple[int, float]]) -> float | None:
    groups: dict[int, list[float]] = {}
    for value, log_latency in points:
        groups.setdefault(value, []).append(log_latency)
    total = _squares([y for _, y in points])
    spare = len(points) - len(groups)
    if len(points) < FEWEST or total <= 0 or spare < 1:
        return None
    within = sum(map(_squares, groups.values()))
    by_chance = (len(groups) - 1) * within / spare
    return min(1.0, max(0.0, (total - within - by_chance) / total))


def _squares(values: Sequence[float]) -> float:
    """Sum of squared differences from the mean."""
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)
