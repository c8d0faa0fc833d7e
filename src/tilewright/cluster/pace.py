"""How long evaluations and messages take, and so how many requests share a message."""

from __future__ import annotations

AHEAD = 2
"""Messages that a worker has at a time: one that it works on, one that waits there."""
MESSAGE_S = 0.3
"""As many requests go in a message as take a worker about so long: each message costs all parts of
a cluster some milliseconds, but what was evaluated is heard of only with the last of them."""
MOST_IN_MESSAGE = 32
MOST_AHEAD = AHEAD * MOST_IN_MESSAGE
"""Requests that a worker has at a time at most."""
LATE = 1.0
"""How many times as long as others, waiting included, that has been under way."""


class Pace:
    """Of one executor; the last evaluations and messages count before earlier ones."""

    def __init__(self) -> None:
        self._evaluation_s: float | None = None
        self._turn_s = 0.0

    def note_message(self, turn_s: float) -> None:
        """A message was answered so long after it was sent."""
        self._turn_s = 0.9 * (self._turn_s or turn_s) + 0.1 * turn_s

    def note_evaluation(self, took_s: float) -> None:
        """A worker needed so long for one request."""
        before_s = took_s if self._evaluation_s is None else self._evaluation_s
        self._evaluation_s = 0.9 * before_s + 0.1 * took_s

    @property
    def late_s(self) -> float:
        """How long a message may be under way before it is late."""
        return LATE * self._turn_s + MESSAGE_S

    def room(self, threads: int) -> int:
        """How many requests so many workers may have at a time."""
        return AHEAD * max(1, threads) * self._most_in_message()

    def in_message(self, waiting: int, threads: int) -> int:
        """How many requests share a message: no worker gets more than its share of what waits."""
        share = -(-waiting // (AHEAD * max(1, threads)))
        return max(1, min(self._most_in_message(), share))

    def _most_in_message(self) -> int:
        """As many as take a worker `MESSAGE_S`."""
        if self._evaluation_s is None:
            return 1
        return max(1, min(MOST_IN_MESSAGE, int(MESSAGE_S / max(self._evaluation_s, 1e-6))))
