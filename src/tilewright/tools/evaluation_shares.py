"""Computes the number of evaluations of a proposal, which is smaller if earlier proposals for the
kernel gained nothing.
"""

from __future__ import annotations

from tilewright.core.records import History, Trial

LEAST_SHARE = 2
"""Minimum number of evaluations of a proposal."""


def share_of(share: int, parent: Trial, history: History) -> int:
    """The share, halved for each earlier iteration whose work on this kernel gained nothing.

    Therefore, most evaluations of a run are used for kernels that can still be improved. If a
    faster kernel was made from this kernel, the share is not halved.
    """
    children = history.children(parent.candidate.id)
    latency = parent.latency
    if latency is None or any(c.latency is not None and c.latency < latency for c in children):
        return share
    in_vain = len({child.iteration for child in children})
    return min(share, max(LEAST_SHARE, share >> in_vain))
