"""Finds messages that a worker does not answer although the scheduler hears from it.

A worker may hang, for instance because its disk does not answer, while another thread of it still
reports to the scheduler. Other hosts, or other workers of its host, then answer its messages. A
host that answers none is excluded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.cluster.connection import Connection
from tilewright.cluster.host_outcomes import Job
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.pending_messages import UnderWay

ASK_EVERY_S = 5.0
"""Minimum number of seconds between two questions to the scheduler about overdue messages."""
MOST_UNANSWERED = 3
"""Number of messages that a host may leave unanswered, without any answer in between, before it is
excluded.
"""


class Silence:
    """The hosts that do not answer, for one executor."""

    def __init__(self, connection: Connection, hosts: Hosts) -> None:
        self._connection = connection
        self._hosts = hosts
        self._asked_s = -ASK_EVERY_S
        self._silent_host = dict[str, str]()  # by message, the host that has not answered it
        self._unanswered = Counter[str]()

    def overdue(
        self, sent: UnderWay, now_s: float, after_s: float
    ) -> list[tuple[str, Sequence[Job], tuple[str, ...] | None]]:
        """The messages that others should answer too, because the worker that has them has not done
        so for `after_s` seconds, with the hosts or workers that may do it.

        `now_s` is the time on the clock of `Job.sent_s`.
        """
        if now_s < self._asked_s + ASK_EVERY_S:
            return []
        late = [
            (key, jobs)
            for key, jobs in sent.messages()
            if jobs[0].sent_s < now_s - after_s and sent.copy_of(key) is None
        ]
        if not late:
            return []
        self._asked_s = now_s
        holders = self._connection.holders([key for key, _ in late])
        found = []
        for key, jobs in late:
            worker = holders.get(key, "")
            host = self._hosts.of_worker(worker)
            without = {*jobs[0].heard_on, host}
            if host and self._hosts.has_others(without):
                self._silent_host[key] = host
                found.append((key, jobs, self._hosts.among(without)))
            elif host and (others := self._hosts.besides(worker, jobs[0].heard_on)):
                found.append((key, jobs, others))
        return found

    def note_heard(self, host: str) -> None:
        """Record that a host has answered a message, so it does not hang."""
        self._unanswered.pop(host, None)

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
