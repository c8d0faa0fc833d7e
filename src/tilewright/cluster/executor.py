"""`DaskExecutor`: the `Executor` role on the workers of a cluster.

A worker that dies costs time, never a candidate: its requests are answered by others. What a
candidate does to its evaluating process is seen there and is its outcome, as without a cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
"""Messages that a worker has at a time: one that it works on, one that waits there."""
MESSAGE_S = 0.2
"""As many requests go in a message as take a worker about so long: each message costs all parts of
a cluster some milliseconds, but what was evaluated is heard of only with the last of them."""
MOST_IN_MESSAGE = 32
MOST_AHEAD = AHEAD * MOST_IN_MESSAGE
"""Requests that a worker has at a time at most."""
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
        self._sent: dict[str, list[Job]] = {}
        self._threads = 1  # of all fitting workers
        self._mean_s: float | None = None  # of an evaluation, the last ones before others

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
                if more is not None and not waiting and self._under_way() < room:
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
            self._threads = max(1, sum(worker.threads for worker in fitting))
            return AHEAD * self._threads * self._most_in_message()
        self._alone_since = self._alone_since or monotonic()
        if self._hosts.all_left_out or monotonic() - self._alone_since > NO_WORKER_S:
            raise ClusterError(self._hosts.why_alone())
        return 0

    def _send(self, room: int, batch: Batch) -> None:
        by_hosts: dict[tuple[str, ...] | None, list[Job]] = {}
        size = self._in_message()
        for _ in range(min(len(self._waiting), room - self._under_way())):
            job = self._waiting.popleft()
            if job.heard and not self._hosts.has_others(job.heard_on):
                self._decide(job, batch)  # who should have been asked went away
                continue
            job.among = self._hosts.among(job.heard_on)
            by_hosts.setdefault(job.among, []).append(job)
        for among, jobs in by_hosts.items():
            parts = list(_parts(jobs, size))
            messages = [
                request_bytes(
                    self._digest,
                    [job.pending.request for job in part],
                    self._description if any(job.is_described for job in part) else None,
                )
                for part in parts
            ]
            keys = self._connection.send(messages, self._hosts.needs, among)
            self._sent.update(zip(keys, parts, strict=True))

    def _under_way(self) -> int:
        return sum(map(len, self._sent.values()))

    def _most_in_message(self) -> int:
        """As many as take a worker `MESSAGE_S`."""
        if self._mean_s is None:
            return 1
        return max(1, min(MOST_IN_MESSAGE, int(MESSAGE_S / max(self._mean_s, 1e-6))))

    def _in_message(self) -> int:
        """The same, but no worker gets more of what is left than its share."""
        share = -(-len(self._waiting) // (AHEAD * self._threads))
        return max(1, min(self._most_in_message(), share))

    def _take_back(self) -> None:
        """Requests for hosts that have no workers any more wait for others."""
        restricted = [(k, jobs) for k, jobs in self._sent.items() if jobs[0].among is not None]
        if not restricted:
            return
        there = {worker.host for worker in self._hosts.fitting()}
        for key, jobs in restricted:
            if there.isdisjoint(jobs[0].among or ()):
                self._connection.give_up([key])
                self._waiting.extendleft(reversed(self._sent.pop(key)))

    def _receive(self, batch: Batch, wait_s: float) -> None:
        for arrived in self._connection.receive(wait_s):
            jobs = self._sent.pop(arrived.key)
            if isinstance(arrived, Lost):
                for job in reversed(jobs):
                    self._on_loss(job, arrived, batch)
            else:
                self._on_answer(jobs, arrived, batch)

    def _on_loss(self, job: Job, lost: Lost, batch: Batch) -> None:
        job.losses += lost.died
        if job.losses <= MOST_LOSSES:
            self._waiting.appendleft(job)
            return
        log = "every worker that evaluated it ended: it may end whatever evaluates it."
        self._finish(job, Failed("check", "crash", log), batch)

    def _on_answer(self, jobs: Sequence[Job], answered: Answered, batch: Batch) -> None:
        host = self._hosts.of_worker(answered.worker)
        try:
            answer = read_answer(answered.message, len(jobs))
        except GarbageError as error:
            answer = Broken(f"its answer cannot be read: {error}", host)
            self._hosts.leave_out(host, f"sends what is no answer ({error})")
        match answer:
            case Evaluated(outcomes):
                for job, (outcome, took_s) in zip(jobs, outcomes, strict=True):
                    self._mean_s = 0.8 * (took_s if self._mean_s is None else self._mean_s)
                    self._mean_s += 0.2 * took_s
                    job.hear(host, outcome, took_s)
                    self._decide(job, batch)
            case Missing():
                jobs[0].is_described = True
                self._waiting.extendleft(reversed(jobs))
            case Refused(differences, named):
                name, (wanted, there) = next(iter(differences.items()))
                self._hosts.leave_out(host, f"has {name} {there}, and this run {wanted}")
                self._again_or_raise(jobs, f"the worker on {named} refuses")
            case RaisedThere(reported):
                raise raised(reported)
            case Broken(text, named):
                self._again_or_raise(jobs, f"the worker on {named or host} fails ({text})")
            case Unwanted():  # it was given up as lost, but the answer was under way
                self._waiting.extendleft(reversed(jobs))

    def _again_or_raise(self, jobs: Sequence[Job], problem: str) -> None:
        for job in jobs:
            job.breaks += 1
        if max(job.breaks for job in jobs) > MOST_BREAKS:
            raise ClusterError(
                f"{problem}: correct that, or stop it; then run the same command again, which goes "
                "on."
            )
        self._waiting.extendleft(reversed(jobs))

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


def _parts(jobs: Sequence[Job], size: int) -> Iterator[list[Job]]:
    """Jobs by message; one that was lost or failed goes alone: it may be what ends workers."""
    part = list[Job]()
    for job in jobs:
        if job.losses or job.breaks:
            yield [job]
            continue
        part.append(job)
        if len(part) >= size:
            yield part
            part = []
    if part:
        yield part
