"""Where cycles went in the starting and the best kernel, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.report.views import TrialView


@dataclass(frozen=True, slots=True)
class CauseBars:
    """One cause: cycles before and after, and both as shares (0..1) of the longest bar."""

    name: str
    before: float
    after: float
    before_share: float
    after_share: float


def cycle_bars(before: TrialView | None, after: TrialView | None) -> tuple[CauseBars, ...]:
    """Bars for every cause that either kernel has, the largest first; none without both."""
    if before is None or after is None:
        return ()
    names = dict.fromkeys((*before.breakdown, *after.breakdown))
    pairs = {n: (before.breakdown.get(n, 0.0), after.breakdown.get(n, 0.0)) for n in names}
    longest = max((max(pair) for pair in pairs.values()), default=0.0) or 1.0
    return tuple(
        CauseBars(name, old, new, old / longest, new / longest)
        for name, (old, new) in sorted(pairs.items(), key=lambda item: -max(item[1]))
        if old or new
    )
