"""The wall-clock time of a run, and the part of its budget that is reserved for the
confirmation.
"""

from __future__ import annotations

from time import monotonic

from tilewright.core.budget import time_ended_before
from tilewright.core.errors import OutOfTimeError

MOST_RESERVED = 0.4
"""Maximum share of the budget that is reserved."""
TOLERATED = 0.03
"""Share of the budget by which necessary work may exceed it."""


class RunClock:
    """The wall-clock time of a run over all its sessions, compared with its budget.

    Args:
        budget_s: the seconds of the budget; None without a time limit.
        used_s: the seconds of earlier sessions.
        began: the beginning of the present session (`time.monotonic`).
    """

    def __init__(self, budget_s: float | None, used_s: float, began: float) -> None:
        self._budget_s = budget_s
        self._used_s = used_s
        self._began = began
        self._is_unlimited = budget_s is None or used_s >= budget_s
        self.reserved_s = 0.0

    def wall_s(self) -> float:
        """The wall-clock seconds of the run so far."""
        return self._used_s + monotonic() - self._began

    def left_s(self) -> float | None:
        """The remaining seconds of the budget; None without a time limit."""
        return None if self._budget_s is None else self._budget_s - self.wall_s()

    def reserve(self, seconds: float) -> None:
        """Reserve time for the confirmation of a faster kernel, in place of earlier
        reservations.
        """
        if self._budget_s is not None:
            self.reserved_s = min(seconds, MOST_RESERVED * self._budget_s)

    def require(self, what: str) -> None:
        """Raise `OutOfTimeError` if the time is used up before `what` ("the kernel was checked").

        A session that begins when the time is already used up may complete the necessary work of
        earlier sessions, so it has no limit.
        """
        if self._budget_s is None or self._is_unlimited:
            return
        if self.wall_s() > (1 + TOLERATED) * self._budget_s:
            raise OutOfTimeError(time_ended_before(self._budget_s, what))

    def charged_s(self, *, has_tried: bool) -> float:
        """The wall-clock seconds that the search is charged.

        They contain those that are reserved for the confirmation as soon as the first candidate has
        been evaluated (`has_tried`). Before that, a search on a busy machine would end without any
        candidate. It does not matter whether the candidate is faster, because one that is found
        later also needs time for its confirmation.
        """
        return self.wall_s() + self.reserved_s * has_tried
