"""`DaskExecutor`, which evaluates on the workers of a cluster.

If a worker dies, other workers evaluate its requests. A candidate that crashes its evaluating
process fails, as without a cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from tilewright.cluster.connection import Answered, Connection, Lost
from tilewright.cluster.host_outcomes import Job
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.message_sizes import Pace
from tilewright.cluster.messages import (
    Evaluated,
    GarbageError,
    Missing,
    RaisedThere,
    Refused,
    TaskDescription,
    Unwanted,
    read_answer,
    request_bytes,
)
from tilewright.cluster.pending_messages import UnderWay, apart
from tilewright.cluster.silence import Silence
from tilewright.core.errors import ClusterError, DiskFullError, InternalError, TilewrightError
from tilewright.core.records import EvaluationRequest, Failed, Measured, Outcome
from tilewright.core.roles import Checkpoint, More, OnOutcome
from tilewright.evaluation.batch import Batch
from tilewright.evaluation.outcome_cache import Lookup, OutcomeCache, Store
from tilewright.evaluation.replies import is_tilewright_error, raised

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
MOST_LOSSES = 4
"""Number of times that a request is sent again after its worker ended, before the outcome is a
crash.
"""
MOST_BREAKS = 4
"""Number of times that a request is sent again after workers that could not evaluate it."""


class DaskExecutor:
    """An `Executor` that uses the workers of a cluster.

    Args:
        connection: the connection to the scheduler, which only this executor uses.
        description: the description with which workers open the task.
        hosts: the workers that take part.
        lookup, store: functions of the outcome cache; without them, no outcome is cached.
        on_close: ends everything that was started only for this executor, including the connection.

    A latency with which a candidate may win is evaluated again on another host, if there is one,
    because no single worker is trusted. If two hosts disagree, a third host decides, and the host
    whose result deviates is excluded.
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
    ) -> None:
        self._connection = connection
        self._hosts = hosts
        self._on_close = on_close or connection.close
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
        self._silence = Silence(connection, hosts)

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
        self._alone_since, self._finished = None, 0
        try:
            waiting.extend(map(Job, batch.admit(requests, self._cache)))
            while waiting or sent or more is not None:
                if checkpoint is not None:
                    checkpoint()
                threads = self._threads()
                self._take_back()
                self._send(threads, batch, more is not None)
                for late in self._silence.overdue(sent, monotonic(), self._pace.overdue_s):
                    self._send_copy(*late)
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
                    self._receive(batch, CHECKPOINT_EVERY_S * wait)
        finally:
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

    def _send(self, threads: int, batch: Batch, more_follow: bool) -> None:
        by_hosts: dict[tuple[str, ...] | None, list[list[Job]]] = {}
        sizes = self._pace.sizes(len(self._waiting), self._sent.count, threads, more_follow)
        for size in sizes:
            parts: dict[tuple[str, ...] | None, list[Job]] = {}
            for job in [self._waiting.popleft() for _ in range(size)]:
                if job.heard and not self._hosts.has_others(job.heard_on):
                    self._decide(job, batch)  # the worker that would get the request has ended
                    continue
                parts.setdefault(self._hosts.among(self._avoided(job)), []).append(job)
            # dask would send a message that no worker may get to any worker
            self._waiting.extendleft(reversed(parts.pop((), [])))
            for among, jobs in parts.items():
                by_hosts.setdefault(among, []).extend(apart(jobs))
        for among, messages in by_hosts.items():
            for first in range(0, len(messages), TOGETHER):
                self._send_together(messages[first : first + TOGETHER], among)

    def _avoided(self, job: Job) -> tuple[str, ...]:
        """The hosts that should not evaluate a request: those that have answered it, and, if there
        are others, those whose workers ended with it.
        """
        avoided = (*job.heard_on, *job.lost_on)
        return avoided if self._hosts.has_others(avoided) else job.heard_on

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
        first answer. If all measurements are made on one host, this is not done, because only one
        can run at a time.
        """
        if self._hosts.stays or self._hosts.threads < MANY:
            return
        if self._sent.requests > LAST * self._finished:
            return
        late = monotonic() - self._pace.late_s
        for key, jobs in self._sent.messages():
            if self._sent.copy_of(key) is None and jobs[0].sent_s < late:
                among = self._hosts.among(jobs[0].heard_on)
                if among != ():
                    self._send_copy(key, jobs, among)

    def _send_copy(self, key: str, jobs: Sequence[Job], among: tuple[str, ...] | None) -> None:
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
                    self._waiting.extendleft(reversed(jobs))

    def _receive(self, batch: Batch, wait_s: float) -> None:
        for arrived in self._connection.receive(wait_s):
            if arrived.key not in self._sent:
                continue  # its copy was reported just before
            copy = self._sent.copy_of(arrived.key)
            jobs = self._sent.take(arrived.key)
            if copy is not None:
                if isinstance(arrived, Lost):
                    continue  # the copy has not arrived yet
                self._connection.give_up([copy])
                self._sent.take(copy)
                self._silence.note_answer(arrived.key, copy)
            if isinstance(arrived, Lost):
                for job in reversed(jobs):
                    self._on_loss(job, arrived, batch)
            else:
                self._on_answer(jobs, arrived, batch)

    def _on_loss(self, job: Job, lost: Lost, batch: Batch) -> None:
        job.losses += lost.died
        if host := self._hosts.of_worker(lost.worker):
            job.lost_on = (*job.lost_on, host)
        if job.losses <= MOST_LOSSES:
            self._waiting.appendleft(job)
            return
        ended = sorted(set(job.lost_on).difference(job.heard_on))
        if job.heard and ended:  # another host could evaluate it
            for host in ended:
                self._hosts.leave_out(host, "ends when it evaluates")
            job.losses, job.lost_on = 0, ()
            self._waiting.appendleft(job)
            return
        log = (
            "every worker that evaluated this kernel ended: the kernel may end any process that "
            "evaluates it."
        )
        self._finish(job, Failed("check", "crash", log), batch)

    def _on_answer(self, jobs: Sequence[Job], answered: Answered, batch: Batch) -> None:
        host = self._hosts.of_worker(answered.worker)
        self._silence.note_heard(host)
        try:
            answer = read_answer(
                answered.message, self._description, [job.pending.request for job in jobs]
            )
        except GarbageError as error:
            self._hosts.leave_out(host, f"sends messages that are not answers ({error})")
            self._again_or_raise(jobs, host, f"sends messages that are not answers ({error})")
            return
        match answer:
            case Evaluated(outcomes):
                self._pace.note_message(monotonic() - jobs[0].sent_s)
                for job, (outcome, took_s) in zip(jobs, outcomes, strict=True):
                    self._pace.note_evaluation(took_s)
                    job.hear(host, outcome, took_s)
                    self._decide(job, batch)
            case Missing() if not jobs[0].is_described:
                jobs[0].is_described = True
                self._waiting.extendleft(reversed(jobs))
            case Missing():
                self._hosts.leave_out(host, "asks again for a task that was sent to it")
                self._again_or_raise(jobs, host, "does not store the task")
            case Refused(differences):
                name, (wanted, there) = next(iter(differences.items()))
                self._hosts.leave_out(host, f"has {name} {there}, but this run needs {wanted}")
                self._again_or_raise(jobs, host, f"has a different {name}")
            case RaisedThere(reported):
                theirs = raised(reported)
                if isinstance(theirs, DiskFullError):
                    self._hosts.leave_out(host, f"has no space left on its disk ({theirs})")
                    self._waiting.extendleft(reversed(jobs))
                elif not is_tilewright_error(reported) and not self._hosts.has_others((host,)):
                    self._again_or_raise(jobs, host, f"fails ({reported['type']}: {theirs})")
                elif self._is_doubted(theirs, host):
                    self._hosts.leave_out(host, f"reports an error ({theirs})")
                    self._again_or_raise(jobs, host, f"reports an error ({theirs})")
                else:
                    raise theirs
            case Unwanted():  # it was regarded as lost, but the answer arrived later
                self._again_or_raise(jobs, host, "rejects evaluations that are still needed")

    def _is_doubted(self, error: TilewrightError, host: str) -> bool:
        """Whether an error that a worker reports may be caused by the worker and not by the task. A
        run does not end because of an internal error that another machine reports, or as long as
        another machine can evaluate the request. Workers that tilewright started itself have no
        host.
        """
        return bool(host) and (isinstance(error, InternalError) or self._hosts.has_others((host,)))

    def _again_or_raise(self, jobs: Sequence[Job], host: str, problem: str) -> None:
        for job in jobs:
            job.breaks += 1
        if max(job.breaks for job in jobs) > MOST_BREAKS:
            raise ClusterError(
                f"the worker on {host or 'this machine'} {problem}. Correct this problem, or stop "
                "the worker; then run the same command again, which continues the run."
            )
        self._waiting.extendleft(reversed(jobs))

    def _decide(self, job: Job, batch: Batch) -> None:
        """Finish a request if enough hosts agree on its outcome. The outcome of a measured kernel,
        which may become the winner, is first verified on a second host.
        """
        others = self._hosts.has_others(job.heard_on)
        if len(job.heard) == 1 and isinstance(job.first, Measured) and others:
            self._waiting.appendleft(job)
            return
        decided = job.decided()
        if decided is None:
            if others:
                self._waiting.appendleft(job)
                return
            raise ClusterError(
                f"the workers on {' and '.join(job.heard_on)} disagree on a kernel "
                f"({job.difference()}): one of them is wrong, so find out which, stop it, and run "
                "the same command again, which continues the run."
            )
        for host in job.alone():
            self._hosts.leave_out(host, "gave a different outcome than two other workers")
        self._finish(job, decided, batch)

    def _finish(self, job: Job, outcome: Outcome, batch: Batch) -> None:
        self._finished += 1
        self._cache.keep(job.pending.request, outcome)
        batch.finish(job.pending, outcome, job.took_s)
