"""`timeline`: how busy each engine is in each tenth of a kernel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilewright.targets.trainium.latency.costs import DMA, ENGINES

PARTS = 10
"""Number of equal parts of the time after the launch."""


def timeline(
    engine: NDArray[np.int32],
    begin: NDArray[np.float64],
    end: NDArray[np.float64],
    work: NDArray[np.float64],
    completion_ns: float,
) -> Mapping[str, tuple[float, ...]]:
    """For each engine that works, the share of each part in which it works, from 0 to 1.

    The arrays have one entry for each instruction or transfer: its engine, its begin and end in ns
    after the launch, and the `work` in ns that it is for its engine. The work of a transfer is
    spread evenly over the time from its begin to `completion_ns` before its end.
    """
    finish = float(end.max(initial=0.0))
    if finish <= 0:
        return {}
    edges = np.linspace(0.0, finish, PARTS + 1)
    stop = np.where(engine == DMA, end - completion_ns, end)
    lasts = np.maximum(stop - begin, 1e-9)
    found = {}
    for number, name in enumerate(ENGINES):
        mine = np.flatnonzero((engine == number) & (work > 0))
        if not mine.size:
            continue
        first, last, amount = begin[mine], lasts[mine], work[mine]
        done = [float((np.clip((edge - first) / last, 0.0, 1.0) * amount).sum()) for edge in edges]
        found[name] = tuple(min(1.0, share) for share in (np.diff(done) * PARTS / finish).tolist())
    return found
