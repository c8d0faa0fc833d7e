"""`DaskExecutor`, which evaluates on the workers of a cluster.

If a worker dies, other workers evaluate its requests. A candidate that crashes its evaluating
process fails, as without a cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from tilewright.cluster.arrivals import Lost
from tilewright.cluster.connection import Connection
from tilewright.cluster.host_outcomes import Job
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.message_sizes import Pace
from tilewright.cluster.messages import TaskDescription, request_bytes
from tilewright.cluster.pending_messages import UnderWay, apart
from tilewright.cluster.second_machine import SecondMachine
from tilewright.cluster.silence import Silence
from tilewright.cluster.verdicts import Verdicts
from tilewright.core.errors import ClusterError
from tilewright.core.records import EvaluationRequest, Failed, Measured, Outcome
from tilewright.core.roles import Checkpoint, More, OnOutcome
from tilewright.evaluation.batch import Batch
from tilewright.evaluation.local import START_TIMEOUT_S
from tilewright.evaluation.outcome_cache import Lookup, OutcomeCache, Store

CHECKPOINT_EVERY_S = 0.1
"""Maximum number of seconds between two calls of a batch's checkpoint."""
TOGETHER = 16
"""Number of messages for which the scheduler chooses from the same few workers."""
LAST = 0.1
"""Share of a batch after which the remaining requests are sent a second time, so that a slow worker
does not delay the batch.
"""
MANY = 8
"""Minimum number of workers for this, because the worker that answers later has to start a new
process.
"""
NO_WORKER_S = 30.0
"""Seconds for which a batch waits if no worker offers the required resources, because a worker may
be restarting.
"""


class DaskExecutor:
    """An `Executor` that uses the workers of a cluster.

    Args:
        connection: the connection to the scheduler, which only this executor uses.
        description: the description with which workers open the task.
        hosts: the workers that take part.
        lookup, store: functions of the outcome cache; without them, no outcome is cached.
        on_close: ends everything that was started only for this executor, including the connection.
        second: evaluates kernels again that were measured on one machine.
        on_finish: called with a job and its outcome, before the batch's callback.
        on_note: called with sentences for the user.

    `Verdicts` decides which answers are believed.
    """

    def __init__(
        self,
        connection: Connection,
        description: TaskDescription,
        hosts: Hosts,
        *,
        lookup: Lookup | None = None,
        store: Store | None = None,
        on_close: Callable[[], None] | None = None,
        second: SecondMachine | None = None,
        on_finish: Callable[[Job, Outcome], None] = lambda job, outcome: None,
        on_note: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._connection = connection
        self._hosts = hosts
        self._on_close = on_close or connection.close
        self._second = second
        self._on_finish = on_finish
        self._description = description
        self._digest = description.digest
        self._cache = OutcomeCache(
            description.context,
            description.latency,
            lookup or (lambda key: None),
            store or (lambda key, outcome: None),
        )
        self._alone_since: float | None = None
        self._waiting = deque[Job]()
        self._sent = UnderWay()
        self._finished = 0  # the requests of this batch
        self._names = hosts.names  # of the workers that requests under way may be at
        self._pace = Pace()
        longest_s = START_TIMEOUT_S + sum(description.timeouts.values())
        self._silence = Silence(connection, hosts, longest_s, on_note)
        self._batch = Batch(None)
        self._verdicts = Verdicts(
            description, hosts, self._pace, again=self._again, finish=self._finish
        )

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        """Outcomes in the order of the requests, followed by those of the requests from `more`.

        Equal requests are evaluated once. An exception ends the evaluations in progress, also on
        the workers, and the executor can be used again. Raises `ClusterError` if the scheduler or
        all suitable workers remain unavailable, or if hosts disagree and no other host can decide.
        """
        batch, waiting, sent = Batch(on_outcome), self._waiting, self._sent
        self._batch = batch
        self._alone_since, self._finished = None, 0
        try:
            waiting.extend(map(Job, batch.admit(requests, self._cache)))
            while waiting or sent or more is not None or self._is_verifying:
                if checkpoint is not None:
                    checkpoint()
                threads = self._threads()
                self._take_back()
                self._send(threads, more is not None)
                for key, jobs, worker in self._silence.overdue(
                    sent, monotonic(), self._pace.overdue_s
                ):
                    self._send_copy(key, jobs, worker)
                if more is None and not waiting:
                    self._send_rest_again()
                wait = True
                room = self._pace.room(threads) - sent.requests
                if more is not None and len(waiting) < room:
                    further = more()
                    if further is None:
                        more = None
                    else:
                        waiting.extend(map(Job, batch.admit(further, self._cache)))
                    wait = False
                if sent or waiting:
                    self._receive(CHECKPOINT_EVERY_S * wait)
                self._hear_second(CHECKPOINT_EVERY_S * (wait and not (sent or waiting)))
        finally:
            if self._second is not None:
                self._second.stop()
            self._connection.give_up(sent)
            waiting.clear()
            sent.clear()
            self._silence.clear()
        return batch.outcomes()

    def close(self) -> None:
        """Leave the cluster. May be called again."""
        self._on_close()

    def _threads(self) -> int:
        """How many requests can be evaluated at once; `ClusterError` after a while without
        workers.
        """
        if self._hosts.threads:
            self._alone_since = None
            return self._hosts.threads
        if not (self._waiting or self._sent):  # further requests may arrive before a worker
            self._alone_since = None
            return 1
        self._alone_since = self._alone_since or monotonic()
        if self._hosts.all_left_out or monotonic() - self._alone_since > NO_WORKER_S:
            raise ClusterError(self._hosts.why_alone())
        return 0

    def _send(self, threads: int, more_follow: bool) -> None:
        by_hosts: dict[tuple[str, ...] | None, list[list[Job]]] = {}
        sizes = self._pace.sizes(len(self._waiting), self._sent.count, threads, more_follow)
        for size in sizes:
            parts: dict[tuple[str, ...] | None, list[Job]] = {}
            for job in [self._waiting.popleft() for _ in range(size)]:
                if job.heard and not self._hosts.has_others(job.heard_on):
                    self._verdicts.decide(job)  # the worker that would get the request has ended
                    continue
                parts.setdefault(self._hosts.among([job]), []).append(job)
            # dask would send a message that no worker may get to any worker
            self._waiting.extendleft(reversed(parts.pop((), [])))
            for among, jobs in parts.items():
                by_hosts.setdefault(among, []).extend(apart(jobs))
        for among, messages in by_hosts.items():
            for first in range(0, len(messages), TOGETHER):
                self._send_together(messages[first : first + TOGETHER], among)

    def _send_together(
        self, parts: Sequence[Sequence[Job]], among: tuple[str, ...] | None
    ) -> list[str]:
        """A message for each part, to workers on these hosts, or on any; their keys."""
        messages = [
            request_bytes(
                self._description if any(job.is_described for job in part) else self._digest,
                [job.pending.request for job in part],
            )
            for part in parts
        ]
        needs, asked = self._hosts.asked(among)
        for part in parts:
            for job in part:
                job.among, job.sent_s = asked, monotonic()
        keys = self._connection.send(messages, needs, asked)
        self._sent.add(keys, parts)
        return keys

    def _send_rest_again(self) -> None:
        """Send the last requests of a batch to other workers too, if they take long, and use the
        first answer.
        """
        if self._hosts.threads < MANY or self._sent.requests > LAST * self._finished:
            return
        late = monotonic() - self._pace.late_s
        for key, jobs in self._sent.messages():
            if self._sent.copy_of(key) is None and jobs[0].sent_s < late:
                self._send_copy(key, jobs)

    def _send_copy(self, key: str, jobs: Sequence[Job], slow_worker: str = "") -> None:
        """Send a message to another worker too, if there is one. If all measurements are made on
        one host, this is not done, because only one can run at a time.
        """
        among = self._hosts.among(jobs, slow_worker)
        if among != () and not self._hosts.stays:
            (copy,) = self._send_together([jobs], among)
            self._sent.note_copy(key, copy)

    def _take_back(self) -> None:
        """Let requests wait again if the workers or hosts that they were sent to are gone."""
        there = self._hosts.names
        if there is self._names:
            return
        self._names = there
        for key, jobs in self._sent.messages():
            if jobs[0].among is not None and there.isdisjoint(jobs[0].among):
                self._connection.give_up([key])
                has_copy = self._sent.copy_of(key) is not None
                self._sent.take(key)
                if not has_copy:
                    self._again(jobs)

    def _receive(self, wait_s: float) -> None:
        for arrived in self._connection.receive(wait_s):
            if arrived.key not in self._sent:
                continue  # its copy was reported just before
            copy = self._sent.copy_of(arrived.key)
            jobs = self._sent.take(arrived.key)
            if isinstance(arrived, Lost):
                if copy is None:  # otherwise the copy will arrive
                    for job in reversed(jobs):
                        self._verdicts.lose(job, arrived)
                continue
            if copy is not None:
                self._connection.give_up([copy])
                self._sent.take(copy)
                self._silence.note_answer(arrived.key, copy)
            self._silence.note_heard(self._hosts.of_worker(arrived.worker))
            took_s = monotonic() - jobs[0].sent_s
            if self._verdicts.hear(jobs, arrived):
                self._pace.note_message(took_s)

    def _again(self, jobs: Sequence[Job]) -> None:
        """Let requests wait again, before all others."""
        self._waiting.extendleft(reversed(jobs))

    @property
    def _is_verifying(self) -> bool:
        return self._second is not None and self._second.is_busy

    def _hear_second(self, wait_s: float) -> None:
        """Report the outcomes that the second machine has verified."""
        if self._second is not None:
            for job, outcome in self._second.decided(wait_s):
                self._report(job, outcome)

    def _finish(self, job: Job, outcome: Outcome) -> None:
        self._finished += 1
        if self._second is not None and isinstance(outcome, Measured):
            self._second.verify(job, outcome)
        else:
            self._report(job, outcome)

    def _report(self, job: Job, outcome: Outcome) -> None:
        if not (isinstance(outcome, Failed) and outcome.kind == "unconfirmed"):  # may be by chance
            self._cache.keep(job.pending.request, outcome)
        self._on_finish(job, outcome)
        self._batch.finish(job.pending, outcome, job.took_s)
