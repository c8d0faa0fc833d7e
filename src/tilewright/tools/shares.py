"""How many evaluations a proposal gets: what gains nothing gets less, so that others get more."""

from __future__ import annotations

from tilewright.core.records import History, Trial

LEAST_SHARE = 2
"""Evaluations at least, however often the kernel was worked on in vain."""


def share_of(share: int, parent: Trial, history: History) -> int:
    """Half of the share for each earlier iteration whose work on this kernel gained nothing.

    So the evaluations of a run go to kernels that still gain. From a kernel that was bettered, all
    of them: what is faster is worked on beside it.
    """
    children = history.children(parent.candidate.id)
    latency = parent.latency
    if latency is None or any(c.latency is not None and c.latency < latency for c in children):
        return share
    in_vain = len({child.iteration for child in children})
    return min(share, max(LEAST_SHARE, share >> in_vain))
