"""Kernels in which the models see nothing worthwhile to change: they are asked about them no more.

A kernel is closed by an iteration in which every plan that was made for it said so. It stays open
within that iteration, so that a resumed run asks what the first session asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping


class Branches:
    """Which kernels are closed, and since which iteration. Thread-safe.

    Args:
        closed: iteration by candidate id, of an earlier session of the run.
        keep: makes a further one durable.
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
        """The plans of this iteration saw nothing worthwhile; the first such iteration counts."""
        with self._lock:
            if candidate_id not in self._closed:
                self._keep(candidate_id, iteration)
                self._closed[candidate_id] = iteration

    def closed_before(self, iteration: int) -> frozenset[str]:
        """The candidates that earlier iterations closed."""
        with self._lock:
            return frozenset(c for c, closed in self._closed.items() if closed < iteration)
