"""Kernels for which the models found no worthwhile change, so that no further plans are requested
for them.

A kernel is closed after an iteration in which every plan for it found no worthwhile change. It is
not closed during this iteration, so that a resumed run makes the same calls as the first session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping


class Branches:
    """The closed kernels, with the iterations that closed them. Thread-safe.

    Args:
        closed: iteration by candidate id, of an earlier session of the run.
        keep: stores another closed kernel.
    """

    def __init__(
        self,
        closed: Mapping[str, int] | None = None,
        keep: Callable[[str, int], None] = lambda candidate_id, iteration: None,
    ) -> None:
        self._closed = dict(closed or {})
        self._keep = keep
        self._lock = threading.Lock()

    def close(self, candidate_id: str, iteration: int) -> None:
        """Close a kernel in this iteration, unless it is closed already."""
        with self._lock:
            if candidate_id not in self._closed:
                self._keep(candidate_id, iteration)
                self._closed[candidate_id] = iteration

    def closed_before(self, iteration: int) -> frozenset[str]:
        """The candidates that earlier iterations closed."""
        with self._lock:
            return frozenset(c for c, closed in self._closed.items() if closed < iteration)
