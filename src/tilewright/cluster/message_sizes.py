"""Measures the durations of evaluations and messages, and computes how many requests a message
contains.
"""

from __future__ import annotations

from math import ceil

AHEAD = 2
"""Number of messages that a worker has at the same time: one in progress, and one that waits."""
MESSAGE_S = 1.0
"""Maximum number of seconds of evaluation in one message with several requests. Each message costs
about 8 ms of CPU time in all parts of a cluster together, but outcomes are reported only when all
requests of the message are finished.
"""
LEAST_S = 0.2
"""Seconds of evaluation below which a message is not made smaller, even at the end of a batch."""
ROUND = 1.6
"""A round, which is one message for each worker, contains the requests that wait divided by this
number. If a round contained all of them, the batch would wait for the slowest worker.
"""
LAST_ROUND = 2
"""A round is the last one if its messages need to be at most this many times the smallest size."""
MOST_IN_MESSAGE = 32
MOST_AHEAD = AHEAD * MOST_IN_MESSAGE
"""Maximum number of requests that a worker has at the same time."""
LATE = 1.0
"""A message is late if its duration, including waiting, is this many times that of others, and
`LATE_S` seconds more.
"""
LATE_S = 0.3
OVERDUE = 10.0
"""A message is overdue if its duration, including waiting, is this many times that of others, and
at least `OVERDUE_S` seconds.
"""
OVERDUE_S = 30.0


class Pace:
    """The durations of one executor, in which recent evaluations and messages have more weight."""

    def __init__(self) -> None:
        self._evaluation_s: float | None = None
        self._turn_s = 0.0
        self._size, self._left_in_round = 1, 0

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
        return LATE * self._turn_s + LATE_S

    @property
    def overdue_s(self) -> float:
        """The seconds after which the worker of a message may hang."""
        return max(OVERDUE_S, OVERDUE * self._turn_s)

    def room(self, threads: int) -> int:
        """The number of requests that this number of workers may have at the same time."""
        return AHEAD * threads * self._in(MESSAGE_S)

    def sizes(self, waiting: int, under_way: int, threads: int, more_follow: bool) -> list[int]:
        """The numbers of requests in the messages that are sent now.

        The messages of a round have the same size, and those of the next round are smaller, so all
        workers finish a batch at about the same time.

        Args:
            waiting: the number of requests that wait to be sent.
            under_way: the number of messages that have been sent and not been answered.
            threads: the number of evaluations that the workers carry out at the same time.
            more_follow: whether further requests may follow. Then a few requests wait for them
                while every worker has a message.
        """
        least, most, found = self._in(LEAST_S), self._in(MESSAGE_S), list[int]()
        if not under_way:
            self._left_in_round = 0
        while waiting and under_way + len(found) < AHEAD * threads:
            if more_follow and waiting < least and under_way + len(found) >= threads:
                break
            if not self._left_in_round:
                is_last = waiting <= LAST_ROUND * least * threads
                share = ceil(waiting / ((1 if is_last else ROUND) * threads))
                self._size, self._left_in_round = max(least, min(most, share)), threads
            self._left_in_round -= 1
            found.append(min(waiting, self._size))
            waiting -= found[-1]
        return found

    def _in(self, seconds: float) -> int:
        """The number of requests that take a worker this time, at least 1."""
        if self._evaluation_s is None:
            return 1
        return max(1, min(MOST_IN_MESSAGE, int(seconds / max(self._evaluation_s, 1e-6))))
