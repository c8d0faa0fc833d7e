"""`DaskExecutor`: the `Executor` role on the workers of a cluster.

A worker that dies costs time, never a candidate: its requests are answered by others. What a
candidate does to its evaluating process is seen there and is its outcome, as without a cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from tilewright.cluster.connection import Answered, Connection, Lost
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.messages import (
    Broken,
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
from tilewright.cluster.opinions import Job
from tilewright.core.errors import ClusterError
from tilewright.core.records import EvaluationRequest, Failed, Measured, Outcome
from tilewright.core.roles import Checkpoint, More, OnOutcome
from tilewright.evaluation.batch import Batch
from tilewright.evaluation.local import raised
from tilewright.evaluation.outcome_cache import Lookup, OutcomeCache, Store

CHECKPOINT_EVERY_S = 0.1
"""Between two calls of a batch's checkpoint at most."""
AHEAD = 2
"""Requests that a worker has at a time: one that it evaluates, one that waits there."""
NO_WORKER_S = 30.0
"""How long a batch waits where no worker offers what it needs: one may be starting again."""
MOST_LOSSES = 4
"""How often a request is sent once more after workers ended with it, before it is a crash."""
MOST_BREAKS = 4
"""How often a request is sent once more after workers that could not do their work."""


class DaskExecutor:
    """The `Executor` role on a cluster.

    Args:
        connection: to the scheduler; it belongs to this executor.
        description: of the task, as workers open it.
        hosts: which workers take part.
        lookup, store: outcome cache by content key; without them nothing is remembered.
        on_close: ends what was started for this executor alone, the connection among it.

    What a host measured is evaluated once more on another one, where there is one: a worker is not
    believed by itself. Where two disagree a third decides, and whoever is alone takes no further
    part.
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
            description.context, lookup or (lambda key: None), store or (lambda key, outcome: None)
        )
        self._alone_since: float | None = None
        self._waiting = deque[Job]()
        self._sent: dict[str, Job] = {}

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        """Outcomes in the order of the requests, then of those that `more` adds.

        Equal requests are evaluated once. Whatever is raised in between ends the evaluations under
        way, on their workers too, and leaves the executor usable. `ClusterError` where the
        scheduler or every fitting worker stays away, or hosts disagree and none can decide.
        """
        batch, waiting, sent = Batch(on_outcome), self._waiting, self._sent
        self._alone_since = None
        try:
            waiting.extend(map(Job, batch.admit(requests, self._cache)))
            while waiting or sent or more is not None:
                if checkpoint is not None:
                    checkpoint()
                room = self._room()
                self._take_back()
                self._send(room, batch)
                wait = True
                if more is not None and not waiting and len(sent) < room:
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
        return batch.outcomes()

    def close(self) -> None:
        """Leave the cluster. Idempotent."""
        self._on_close()

    def _room(self) -> int:
        """How many requests may be under way; `ClusterError` after a while without workers."""
        fitting = self._hosts.fitting()
        if fitting or not (self._waiting or self._sent):
            self._alone_since = None
            return max(1, AHEAD * sum(worker.threads for worker in fitting))
        self._alone_since = self._alone_since or monotonic()
        if self._hosts.all_left_out or monotonic() - self._alone_since > NO_WORKER_S:
            raise ClusterError(self._hosts.why_alone())
        return 0

    def _send(self, room: int, batch: Batch) -> None:
        by_hosts: dict[tuple[str, ...] | None, list[Job]] = {}
        for _ in range(min(len(self._waiting), room - len(self._sent))):
            job = self._waiting.popleft()
            if job.heard and not self._hosts.has_others(job.heard_on):
                self._decide(job, batch)  # who should have been asked went away
                continue
            job.among = self._hosts.among(job.heard_on)
            by_hosts.setdefault(job.among, []).append(job)
        for among, jobs in by_hosts.items():
            messages = [
                request_bytes(
                    self._digest,
                    job.pending.request,
                    self._description if job.is_described else None,
                )
                for job in jobs
            ]
            keys = self._connection.send(messages, self._hosts.needs, among)
            self._sent.update(zip(keys, jobs, strict=True))

    def _take_back(self) -> None:
        """Requests for hosts that have no workers any more wait for others."""
        restricted = [(key, job) for key, job in self._sent.items() if job.among is not None]
        if not restricted:
            return
        there = {worker.host for worker in self._hosts.fitting()}
        for key, job in restricted:
            if there.isdisjoint(job.among or ()):
                self._connection.give_up([key])
                self._waiting.appendleft(self._sent.pop(key))

    def _receive(self, batch: Batch, wait_s: float) -> None:
        for arrived in self._connection.receive(wait_s):
            job = self._sent.pop(arrived.key)
            if isinstance(arrived, Lost):
                self._on_loss(job, arrived, batch)
            else:
                self._on_answer(job, arrived, batch)

    def _on_loss(self, job: Job, lost: Lost, batch: Batch) -> None:
        job.losses += lost.died
        if job.losses <= MOST_LOSSES:
            self._waiting.appendleft(job)
            return
        log = "every worker that evaluated it ended: it may end whatever evaluates it."
        self._finish(job, Failed("check", "crash", log), batch)

    def _on_answer(self, job: Job, answered: Answered, batch: Batch) -> None:
        host = self._hosts.of_worker(answered.worker)
        try:
            answer = read_answer(answered.message)
        except GarbageError as error:
            answer = Broken(f"its answer cannot be read: {error}", host)
            self._hosts.leave_out(host, f"sends what is no answer ({error})")
        match answer:
            case Evaluated(outcome, took_s):
                job.hear(host, outcome, took_s)
                self._decide(job, batch)
            case Missing():
                job.is_described = True
                self._waiting.appendleft(job)
            case Refused(differences, named):
                name, (wanted, there) = next(iter(differences.items()))
                self._hosts.leave_out(host, f"has {name} {there}, and this run {wanted}")
                self._again_or_raise(job, f"the worker on {named} refuses")
            case RaisedThere(reported):
                raise raised(reported)
            case Broken(text, named):
                self._again_or_raise(job, f"the worker on {named or host} fails ({text})")
            case Unwanted():  # it was given up as lost, but the answer was under way
                self._waiting.appendleft(job)

    def _again_or_raise(self, job: Job, problem: str) -> None:
        job.breaks += 1
        if job.breaks > MOST_BREAKS:
            raise ClusterError(
                f"{problem}: correct that, or stop it; then run the same command again, which goes "
                "on."
            )
        self._waiting.appendleft(job)

    def _decide(self, job: Job, batch: Batch) -> None:
        """Finish what enough hosts agree on; what may win is heard from a second one before."""
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
                "the same command again, which goes on."
            )
        for host in job.alone():
            self._hosts.leave_out(host, "gave an outcome that two others did not")
        self._finish(job, decided, batch)

    def _finish(self, job: Job, outcome: Outcome, batch: Batch) -> None:
        self._cache.keep(job.pending.request, outcome)
        batch.finish(job.pending, outcome, job.took_s)
