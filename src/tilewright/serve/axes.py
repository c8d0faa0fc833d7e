"""The time and cost of a run's iterations, for the other axes of its chart, which are updated with
the run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate

from tilewright.storage.overview_records import Event, Payment

STEPS = ("RunStarted", "IterationFinished", "Stopped")
"""The kinds of log lines from which the times of iterations are computed."""


class LiveAxes:
    """One row for each finished iteration: its number, and the seconds of work and the US dollars
    until its end. The time between the sessions of a run is not included.

    `generation` changes if earlier rows change, which happens if a call to a model is recorded
    after the end of an iteration that ended later.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[int, float, float]] = []
        self.generation = 0
        self._ended: list[str] = []
        """The end times of the iterations in `rows`, ascending."""
        self._worked_s = 0.0
        self._session_s = 0.0
        self._began: datetime | None = None
        self._paid: dict[int, tuple[str, float]] = {}
        self._times: list[str] = []
        self._totals: list[float] = []
        self.settled = 0
        """All calls up to this number are answered and included."""

    @property
    def has_costs(self) -> bool:
        """Whether any call to a model was answered."""
        return bool(self._paid)

    def extend(self, steps: Sequence[Event], payments: Sequence[Payment]) -> None:
        """Add the next lines of the log, and the calls whose numbers are above `settled`."""
        self._pay(payments)
        for event in steps:
            at = datetime.fromisoformat(event.at)
            if event.kind == "RunStarted" or self._began is None:
                self._worked_s += self._session_s
                self._began = at
            self._session_s = (at - self._began).total_seconds()
            iteration = event.data.get("iteration")
            if isinstance(iteration, int):
                self._ended.append(event.at)
                worked_s = round(self._worked_s + self._session_s, 3)
                self.rows.append((iteration, worked_s, self._spent(event.at)))

    def _pay(self, payments: Sequence[Payment]) -> None:
        new = [p for p in payments if p.at is not None and p.number not in self._paid]
        open_calls = [p.number for p in payments if p.at is None]
        self.settled = max([self.settled, *(p.number for p in payments)])
        if open_calls:
            self.settled = min(open_calls) - 1
        if not new:
            return
        self._paid |= {p.number: (p.at or "", p.usd) for p in new}
        in_order = sorted(self._paid.values())
        self._times = [at for at, _ in in_order]
        self._totals = list(accumulate(usd for _, usd in in_order))
        first = bisect_left(self._ended, min(p.at or "" for p in new))
        for place in range(first, len(self.rows)):
            iteration, seconds, _ = self.rows[place]
            self.rows[place] = (iteration, seconds, self._spent(self._ended[place]))
        self.generation += first < len(self.rows)

    def _spent(self, at: str) -> float:
        calls = bisect_right(self._times, at)
        return round(self._totals[calls - 1], 6) if calls else 0.0
