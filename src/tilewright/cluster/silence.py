"""Finds messages whose answers do not arrive, although the scheduler can be reached.

A worker may hang, for instance because its disk does not answer, while another thread of it still
reports to the scheduler. Other workers then answer its messages too, and a host that answers none
is excluded. If workers have messages and none answers this search or another one for longer than
the evaluations of a message may take, the run ends. The stream from the scheduler to the search may
stop, for instance because the clock of the scheduler's machine was set back. The scheduler then no
longer works on a message whose answer has not arrived, and the search connects again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from tilewright.cluster.connection import Connection
from tilewright.cluster.host_outcomes import Job
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.pending_messages import UnderWay
from tilewright.cluster.settings import AGAIN
from tilewright.core.errors import ClusterError

QUIET_S = 30.0
"""Seconds after which the scheduler is asked about a message."""
ASK_EVERY_S = 5.0
"""Minimum number of seconds between two such questions."""
MOST_UNANSWERED = 3
"""Number of messages that a host may leave unanswered, without any answer in between, before it is
excluded.
"""
MOST_STEP_S = 30.0
"""Maximum number of seconds of silence that count between two questions to the scheduler, because
the search may have been stopped in between.
"""
NOTE_S = 120.0
"""Seconds without any answer after which the user is told."""
MOST_REOPENED = 3
"""Number of times that a search connects again, without any answer in between, before it ends."""


class Silence:
    """Messages without an answer, for one executor.

    Args:
        evaluation_s: the seconds that an evaluation may take. The run ends if workers have messages
        and do not answer for this time, multiplied by the number of requests in a message.
        on_note: called with a sentence for the user, once, when the silence is long.
    """

    def __init__(
        self,
        connection: Connection,
        hosts: Hosts,
        evaluation_s: float = math.inf,
        on_note: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._evaluation_s = evaluation_s
        self._on_note = on_note
        self._is_told = False
        self._silent_s = 0.0  # since the last answer, while workers had messages
        self._counted_s: float | None = None  # the time until which `_silent_s` has been counted
        self._connection = connection
        self._hosts = hosts
        self._asked_s = -ASK_EVERY_S
        self._others = frozenset[str]()  # messages of other searches at workers with ours
        self._gone = frozenset[str]()  # unanswered messages on which nobody worked when last asked
        self._reopened = 0
        self._silent_host = dict[str, str]()  # by message, the host that has not answered it
        self._unanswered = Counter[str]()

    def overdue(
        self, sent: UnderWay, now_s: float, after_s: float
    ) -> list[tuple[str, Sequence[Job], str]]:
        """The messages that others should answer too, because the worker that has them has not done
        so for `after_s` seconds, each with this worker.

        `now_s` is the time on the clock of `Job.sent_s`. Connects again if the scheduler sends no
        answers, and raises `ClusterError` if that does not help, or if no worker answers.
        """
        if now_s < self._asked_s + ASK_EVERY_S:
            return []
        quiet = [(k, jobs) for k, jobs in sent.messages() if jobs[0].sent_s < now_s - QUIET_S]
        if not quiet:
            self._counted_s = None
            return []
        self._asked_s = now_s
        held = self._connection.held([key for key, _ in quiet])
        if held is None:
            return []
        self._note_gone(frozenset(key for key, _ in quiet if key not in held))
        self._count([(held[key], len(jobs)) for key, jobs in quiet if held.get(key)], now_s)
        found = []
        for key, jobs in quiet:
            is_late = jobs[0].sent_s < now_s - after_s and sent.copy_of(key) is None
            if is_late and (worker := held.get(key)):
                self._silent_host[key] = self._hosts.of_worker(worker)
                found.append((key, jobs, worker))
        return found

    def _note_gone(self, gone: frozenset[str]) -> None:
        """Connect again if messages were already gone when the scheduler was asked before, because
        their answers would have arrived since.
        """
        is_silent, self._gone = bool(gone & self._gone), gone
        if not is_silent:
            return
        if self._reopened == MOST_REOPENED:
            raise ClusterError(
                f"the scheduler at {self._hosts.shown} can be reached, but its answers do not "
                f"arrive, even after {MOST_REOPENED} new connections. Start it again, then "
                f"{AGAIN}."
            )
        self._reopened += 1
        self._gone = frozenset()
        self._connection.reopen()

    def _count(self, silent: Sequence[tuple[str, int]], now_s: float) -> None:
        """Add the time since the last question to the silence, tell the user that no worker
        answers, and later end the run. `silent` are the workers with messages, each with the number
        of requests in its message, which it evaluates one after another.
        """
        if not silent:  # all messages wait, because no suitable worker is connected
            self._counted_s = None
            return
        others = frozenset[str]().union(*(self._connection.others.get(w, ()) for w, _ in silent))
        is_working, self._others = bool(self._others - others), others
        if is_working:  # a worker with our messages has answered another search in between
            self._silent_s, self._counted_s = 0.0, None
        if self._counted_s is not None:
            self._silent_s += min(now_s - self._counted_s, MOST_STEP_S)
        self._counted_s = now_s
        ends_after_s = self._evaluation_s * max(requests for _, requests in silent)
        where = " and ".join(sorted({self._hosts.of_worker(worker) for worker, _ in silent}))
        answers = f"no worker of {self._hosts.shown} has answered for"
        if self._silent_s >= ends_after_s:
            raise ClusterError(
                f"{answers} {_minutes(self._silent_s)}, which is longer than an evaluation may "
                f"take. The workers on {where} have kernels to evaluate and do not answer. Stop "
                f"these workers, start new ones, and {AGAIN}."
            )
        if self._silent_s >= NOTE_S and not self._is_told:
            self._is_told = True
            self._on_note(
                f"{answers} {_minutes(self._silent_s)}; those on {where} have kernels to evaluate. "
                f"If none answers for {_minutes(ends_after_s)}, the run ends and can be "
                "continued"
            )

    def note_heard(self, host: str) -> None:
        """Record that a host has answered a message, so it does not hang."""
        self._unanswered.pop(host, None)
        self._silent_s, self._counted_s = 0.0, None
        self._reopened = 0

    def note_answer(self, key: str, other: str) -> None:
        """Record that of two copies of a message, `key` was answered and `other` was not."""
        self._silent_host.pop(key, None)
        host = self._silent_host.pop(other, "")
        if not host:
            return
        self._unanswered[host] += 1
        if self._unanswered[host] >= MOST_UNANSWERED and self._hosts.has_others((host,)):
            self._hosts.leave_out(host, "does not answer")

    def clear(self) -> None:
        """Forget the messages, but not the hosts that did not answer."""
        self._silent_host.clear()
        self._silent_s, self._counted_s = 0.0, None
        self._gone = frozenset()


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
