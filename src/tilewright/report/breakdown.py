"""The time by cause, for one kernel, and for the starting kernel and the best kernel side by side.

Most causes overlap, because the units of an accelerator work at the same time. Therefore, the chart
shows separate bars that are not stacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.core.records import Cause
from tilewright.report.views import TrialView

SMALLEST_SHARE = 0.005
"""Causes below this share of both kernels' cycles are left out."""


@dataclass(frozen=True, slots=True)
class KernelBar:
    """The cycles of one cause in one kernel, as a share of the kernel's cycles, and the length of
    the bar (0 to 1).
    """

    kernel: str
    cycles: float
    share: float
    length: float


@dataclass(frozen=True, slots=True)
class CauseBars:
    """One cause in both kernels, and its meaning. All lengths of a chart have the same scale."""

    name: str
    meaning: str
    bars: tuple[KernelBar, KernelBar]


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """The causes of one kernel with name, meaning and time, the largest first."""

    title: str
    rows: tuple[tuple[str, str, float], ...]


def cause_groups(breakdown: Mapping[str, float], known: Sequence[Cause]) -> tuple[CauseGroup, ...]:
    """The causes of one kernel that are not zero, beginning with those that add up to the total.

    `known` are the target's causes. If all causes may overlap, there is one group without a title.
    """
    causes = {cause.name: cause for cause in known}
    alone: list[tuple[str, str, float]] = []
    others: list[tuple[str, str, float]] = []
    for name, value in sorted(breakdown.items(), key=lambda item: -item[1]):
        if value:
            cause = causes.get(name, Cause(name, ""))
            (alone if cause.exclusive else others).append((name, cause.meaning, value))
    titles = (
        ("These causes add up to the total:", "These causes overlap with those above:")
        if alone
        else ("", "")
    )
    groups = zip(titles, (alone, others), strict=True)
    return tuple(CauseGroup(title, tuple(rows)) for title, rows in groups if rows)


def cause_bars(
    before: TrialView | None, after: TrialView | None, known: Sequence[Cause]
) -> tuple[CauseBars, ...]:
    """The total, and every cause with a relevant share in one of the kernels, the largest first.

    `known` are the target's causes, which are shown with their meanings.

    The result is empty unless both kernels were measured and at least one has a breakdown.
    """
    if before is None or after is None or not before.latency or not after.latency:
        return ()
    totals = (before.latency, after.latency)
    causes = {
        name: (before.breakdown.get(name, 0.0), after.breakdown.get(name, 0.0))
        for name in dict.fromkeys((*before.breakdown, *after.breakdown))
    }
    shown = {
        name: pair
        for name, pair in causes.items()
        if any(part >= SMALLEST_SHARE * whole for part, whole in zip(pair, totals, strict=True))
    }
    if not shown:
        return ()
    longest = max(*totals, *(max(pair) for pair in shown.values()))
    ordered = sorted(shown.items(), key=lambda item: -max(item[1]))
    meanings = {cause.name: cause.meaning for cause in known}
    return tuple(
        CauseBars(name, meanings.get(name, ""), _pair(pair, totals, longest))
        for name, pair in [("total", totals), *ordered]
    )


def _pair(
    cycles: tuple[float, float], totals: tuple[float, float], longest: float
) -> tuple[KernelBar, KernelBar]:
    (old, new), (old_total, new_total) = cycles, totals
    return (
        KernelBar("start", old, old / old_total, old / longest),
        KernelBar("best", new, new / new_total, new / longest),
    )
