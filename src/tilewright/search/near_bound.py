"""When a kernel is as good as done: within a small share of what no kernel can beat."""

from __future__ import annotations

from tilewright.core.records import History, Measured


def near_bound(history: History, share: float) -> str | None:
    """Why to stop: the best kernel is at most `share` above its bound. None with a share of 0.

    A kernel without a bound is never near it, nor is one that is faster than its bound, which must
    then be wrong. Every other kernel can gain no more than that either, so that the search is over
    as a whole.
    """
    best = history.best
    if not share or best is None or not isinstance(best.outcome, Measured):
        return None
    bound, latency = best.outcome.bound, best.outcome.latency
    if bound is None or not best.outcome.is_near_bound(share):
        return None
    return (
        f"the best kernel is {100 * (latency / bound - 1):.2f} % above the bound of {bound:,.0f} "
        f"{best.outcome.unit}, and --stop-within ends the search at {100 * share:.3g} %"
    )
