"""Where cycles went in the starting and the best kernel, side by side.

Causes overlap, since the units of an accelerator work at the same time, so they are bars beside
each other and never parts of a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.report.views import TrialView

SMALLEST_SHARE = 0.005
"""Causes below this share of both kernels' cycles are left out."""


@dataclass(frozen=True, slots=True)
class KernelBar:
    """One kernel's cycles of a cause: as share of its own cycles, and the bar's length (0..1)."""

    kernel: str
    cycles: float
    share: float
    length: float


@dataclass(frozen=True, slots=True)
class CauseBars:
    """One cause in both kernels. All lengths of a chart are on one scale."""

    name: str
    bars: tuple[KernelBar, KernelBar]


def cycle_bars(before: TrialView | None, after: TrialView | None) -> tuple[CauseBars, ...]:
    """The total and every cause that matters in either kernel, the largest first.

    Empty unless both were measured and at least one has a breakdown.
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
    return tuple(
        _cause(name, pair, totals, longest) for name, pair in [("total", totals), *ordered]
    )


def _cause(
    name: str, cycles: tuple[float, float], totals: tuple[float, float], longest: float
) -> CauseBars:
    (old, new), (old_total, new_total) = cycles, totals
    return CauseBars(
        name,
        (
            KernelBar("start", old, old / old_total, old / longest),
            KernelBar("best", new, new / new_total, new / longest),
        ),
    )
