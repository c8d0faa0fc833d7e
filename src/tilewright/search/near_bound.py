"""Ends a search whose best kernel is close to a bound that no kernel can beat."""

from __future__ import annotations

from tilewright.core.records import History, Measured


def near_bound(history: History, share: float) -> str | None:
    """The reason to stop if the best kernel is at most `share` above its bound, else None. With a
    share of 0, always None.

    A kernel without a bound never ends the search, and neither does a kernel that is faster than
    its bound, which must then be wrong. The bound holds for all kernels of the workload, so the
    whole search ends.
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
