"""Measures the durations of evaluations and messages, and computes how many requests a message
contains.
"""

from __future__ import annotations

AHEAD = 2
"""Number of messages that a worker has at the same time: one in progress, and one that waits."""
MESSAGE_S = 0.3
"""Seconds of evaluation in one message. Each message costs several milliseconds in all parts of a
cluster, but outcomes are reported only when all requests of the message are finished.
"""
MOST_IN_MESSAGE = 32
MOST_AHEAD = AHEAD * MOST_IN_MESSAGE
"""Maximum number of requests that a worker has at the same time."""
LATE = 1.0
"""A message is late if its duration, including waiting, is this many times that of others."""


class Pace:
    """The durations of one executor, in which recent evaluations and messages have more weight."""

    def __init__(self) -> None:
        self._evaluation_s: float | None = None
        self._turn_s = 0.0

    def note_message(self, turn_s: float) -> None:
        """Record the time between sending a message and its answer."""
        self._turn_s = 0.9 * (self._turn_s or turn_s) + 0.1 * turn_s

    def note_evaluation(self, took_s: float) -> None:
        """Record the time of a worker for one request."""
        before_s = took_s if self._evaluation_s is None else self._evaluation_s
        self._evaluation_s = 0.9 * before_s + 0.1 * took_s

    @property
    def late_s(self) -> float:
        """The seconds after which a message is late."""
        return LATE * self._turn_s + MESSAGE_S

    def room(self, threads: int) -> int:
        """The number of requests that this number of workers may have at the same time."""
        return AHEAD * max(1, threads) * self._most_in_message()

    def in_message(self, waiting: int, threads: int) -> int:
        """The number of requests in a message, which is at most a worker's share of the waiting
        requests.
        """
        share = -(-waiting // (AHEAD * max(1, threads)))
        return max(1, min(self._most_in_message(), share))

    def _most_in_message(self) -> int:
        """As many as take a worker `MESSAGE_S`."""
        if self._evaluation_s is None:
            return 1
        return max(1, min(MOST_IN_MESSAGE, int(MESSAGE_S / max(self._evaluation_s, 1e-6))))
