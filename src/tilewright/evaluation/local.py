"""`LocalExecutor`: evaluates on this machine, one worker process per core.

If a worker crashes, hangs or is killed, the outcome of its candidate is a `Failed`, and a new
worker evaluates the next candidate. The executor is synchronous and uses no threads.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic
from typing import Any, Self, TypeAlias, get_args

from tilewright.core.codec import to_json
from tilewright.core.errors import InternalError
from tilewright.core.records import EvaluationRequest, Failed, Outcome, Stage
from tilewright.core.roles import Checkpoint, More, OnOutcome, Target
from tilewright.core.tasks import target_for, target_versions
from tilewright.evaluation.batch import Batch, Pending
from tilewright.evaluation.outcome_cache import Lookup, OutcomeCache, Store
from tilewright.evaluation.remote_worker import RemoteWorker
from tilewright.evaluation.replies import ForgedError, outcome_of, raised
from tilewright.evaluation.sent_outcome import has_form
from tilewright.evaluation.timeouts import Allowance, StageTimeouts, load_in_words
from tilewright.evaluation.worker_process import WorkerProcess, start_worker

START_TIMEOUT_S = 120.0
"""Maximum time in seconds for a worker to import its target and open the task."""
_MOST_STAGES = 4
"""Maximum number of stages of one evaluation, each of which has its own time limit."""
CHECKPOINT_EVERY_S = 0.1
"""Maximum time in seconds between two calls of a batch's checkpoint."""


@dataclass(slots=True)
class _Job:
    """A request that a worker evaluates, with its present stage and the remaining time of the
    stage.
    """

    pending: Pending
    started: float = 0.0
    stage: Stage = "build"
    allowance: Allowance = field(default_factory=lambda: Allowance(START_TIMEOUT_S))
    begun: int = 0
    """The stages of the evaluation that the worker has begun."""
    is_repeated: bool = False
    """Whether it has been given to a second worker, because the first one ended with the process
    that had forked it."""


Worker: TypeAlias = WorkerProcess | RemoteWorker


class LocalExecutor:
    """The `Executor` role on this machine, or on one other that ssh reaches.

    Args:
        task: canonical name of the task, as in `core.tasks.OpenTask.name`.
        settings: the run's recorded settings, which every worker passes to the target. If they name
        a `host`, the workers run there. workers: maximum number of processes. lookup, store:
        functions of the outcome cache; without them, no outcome is cached. timeouts: the times
        after which a worker is killed; by default computed from `settings`. ignored_versions: names
        of versions that are not part of `context`.

    Workers end with the thread that started them, so use an executor only from one thread.
    """

    def __init__(
        self,
        task: str,
        settings: Mapping[str, object],
        workers: int,
        *,
        lookup: Lookup | None = None,
        store: Store | None = None,
        timeouts: StageTimeouts | None = None,
        ignored_versions: Collection[str] = (),
    ) -> None:
        opening: dict[str, object] = {"task": task, "settings": dict(settings)}
        if ignored_versions:
            opening["ignored_versions"] = sorted(ignored_versions)
        self._open_message: dict[str, Any] = {"open": opening}
        self._host = str(settings.get("host", ""))
        self._workers = workers
        self._lookup: Lookup = lookup or (lambda key: None)
        self._store: Store = store or (lambda key, outcome: None)
        self._timeouts = timeouts or StageTimeouts.from_settings(settings)
        self._idle: list[Worker] = []
        self._busy: dict[Worker, _Job] = {}
        self._opening: set[Worker] = set()  # the busy workers that have not reported a stage
        self._cache: OutcomeCache | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        """Outcomes in the order of the requests, followed by those of the requests from `more`.

        Equal requests are evaluated once. An exception (Ctrl-C, or from `on_outcome`, `checkpoint`
        or a target) stops the evaluations in progress. The executor can be used again afterwards.
        """
        batch = Batch(on_outcome)
        waiting: deque[_Job] = deque()
        try:
            self._admit(requests, batch, waiting, checkpoint)
            while waiting or self._busy or more is not None:
                if checkpoint is not None:
                    checkpoint()
                self._dispatch(waiting)
                wait = True
                if more is not None and len(self._busy) < self._workers:
                    further = more()
                    if further is None:
                        more = None
                    else:
                        self._admit(further, batch, waiting, checkpoint)
                    wait = False
                if self._busy:
                    self._collect(waiting, batch, wait)
        finally:
            self._opening.clear()
            for worker in list(self._busy):
                del self._busy[worker]
                worker.kill()
        return batch.outcomes()

    @property
    def context(self) -> str:
        """Hash of everything that determines an outcome, except the request. Opens the task."""
        if self._cache is None:
            self._idle.append(self._started())
        assert self._cache is not None
        return self._cache.context

    def close(self) -> None:
        """Stop every worker. Idempotent."""
        while self._idle:
            self._idle.pop().kill()

    def _admit(
        self,
        requests: Sequence[EvaluationRequest],
        batch: Batch,
        waiting: deque[_Job],
        checkpoint: Checkpoint | None,
    ) -> None:
        """Report the outcomes that are in the cache, and return the other requests, with equal
        requests merged.
        """
        if not requests:
            return
        if self._cache is None:
            self._idle.append(self._started(checkpoint))
        assert self._cache is not None
        waiting.extend(_Job(pending) for pending in batch.admit(requests, self._cache))

    def _started(self, checkpoint: Checkpoint | None = None) -> Worker:
        """A worker that has opened the task; raises the target's error if it cannot."""
        worker = self._start()
        try:
            allowance = Allowance(START_TIMEOUT_S)
            while not readable([worker], CHECKPOINT_EVERY_S):
                if checkpoint is not None:
                    checkpoint()
                if allowance.is_used():
                    raise _too_late()
            self._on_opened(worker.receive())
        except EOFError:
            raise _ended_at_start(worker, worker.kill()) from None
        except BaseException:
            worker.kill()
            raise
        return worker

    def _start(self) -> Worker:
        """A worker that is opening the task."""
        worker: Worker
        if self._host:
            worker = RemoteWorker(self._host, self._versions)
        else:
            opening = self._open_message["open"]
            worker = start_worker(opening["task"], opening["settings"])
        worker.send(self._open_message)
        return worker

    @cached_property
    def _versions(self) -> Mapping[str, str]:
        """The versions of the task's target on this machine."""
        return target_versions(self._target)

    @cached_property
    def _target(self) -> Target:
        message = self._open_message["open"]
        return target_for(message["task"], message["settings"])

    def _on_opened(self, reply: Mapping[str, Any]) -> None:
        """Process the first reply of a worker; raises the error of the target."""
        if "error" in reply:
            raise raised(reply["error"])
        self._cache = OutcomeCache(
            reply["ready"], self._target.brief().latency, self._lookup, self._store
        )

    def _dispatch(self, waiting: deque[_Job]) -> None:
        """Give waiting jobs to idle workers and to new ones, which open the task first."""
        while waiting and len(self._busy) < self._workers:
            if self._idle:
                self._give(self._idle.pop(), waiting.popleft())
                continue
            worker = self._start()
            self._opening.add(worker)
            self._give(worker, waiting.popleft())
            self._busy[worker].allowance = Allowance(START_TIMEOUT_S)

    def _give(self, worker: Worker, job: _Job) -> None:
        job.started = monotonic()
        job.allowance = Allowance(self._timeouts.of(job.stage))
        self._busy[worker] = job
        worker.send({"evaluate": to_json(job.pending.request)})

    def _collect(self, waiting: deque[_Job], batch: Batch, wait: bool) -> None:
        """Process replies that have arrived and workers that have timed out; with `wait`, wait a
        moment for a reply.
        """
        for worker in readable(list(self._busy), CHECKPOINT_EVERY_S * wait):
            try:
                self._on_reply(worker, worker.receive(), waiting, batch)
            except EOFError:
                self._on_death(worker, waiting, batch)
            except ForgedError as error:
                self._on_death(worker, waiting, batch, str(error))
        for worker, job in list(self._busy.items()):
            if job.allowance.is_used():
                self._on_timeout(worker, batch)

    def _on_reply(
        self,
        worker: Worker,
        reply: Mapping[str, Any],
        waiting: deque[_Job],
        batch: Batch,
    ) -> None:
        job = self._busy[worker]
        if not has_form(reply):
            raise ForgedError
        if worker in self._opening:
            self._on_opened(reply)
            self._opening.remove(worker)
            job.started = monotonic()
            return
        if "stage" in reply:
            job.begun += 1
            if reply["stage"] not in get_args(Stage) or job.begun > _MOST_STAGES:
                raise ForgedError
            job.stage = reply["stage"]
            job.allowance = Allowance(self._timeouts.of(job.stage))
            return
        outcome = None
        if "error" not in reply:
            latency = self._target.brief().latency
            outcome = outcome_of(reply, latency, job.pending.request)
        del self._busy[worker]
        if outcome is None:
            self._idle.append(worker)
            raise raised(reply["error"])
        if waiting:  # before the outcome is stored and reported, so that the worker need not wait
            self._give(worker, waiting.popleft())
        else:
            self._idle.append(worker)
        self._finish(job, outcome, batch)

    def _on_death(
        self, worker: Worker, waiting: deque[_Job], batch: Batch, problem: str = ""
    ) -> None:
        """Report the crash of a worker that ended, or whose reply is refused for this problem. If
        the worker ended with the process that had forked it, its job is repeated once.
        """
        job = self._busy.pop(worker)
        log = worker.kill()
        if worker.ended_with_server and not job.is_repeated:
            self._opening.discard(worker)
            waiting.appendleft(_Job(job.pending, is_repeated=True))
            return
        if worker in self._opening:
            raise _ended_at_start(worker, log)
        how = f"sent an invalid reply ({problem})" if problem else worker.exit_text
        text = f"the evaluating process {how}. {log}".strip()
        self._finish(job, Failed(job.stage, "crash", text), batch)

    def _on_timeout(self, worker: Worker, batch: Batch) -> None:
        job = self._busy.pop(worker)
        worker.kill()
        if worker in self._opening:
            raise _too_late()
        text = (
            f"the {job.stage} stage was stopped because it took more than "
            f"{job.allowance.seconds:g} s (load of the machine: {load_in_words()})."
        )
        self._finish(job, Failed(job.stage, "timeout", text), batch)

    def _finish(self, job: _Job, outcome: Outcome, batch: Batch) -> None:
        assert self._cache is not None
        self._cache.keep(job.pending.request, outcome)
        batch.finish(job.pending, outcome, monotonic() - job.started)


def _too_late() -> InternalError:
    return InternalError(f"a worker did not open the task in {START_TIMEOUT_S:g} s.")


def _ended_at_start(worker: Worker, log: str) -> InternalError:
    """The error of a killed worker that had ended before it had opened the task."""
    return InternalError(f"a worker {worker.exit_text} at its start: {log}")


def readable(workers: Sequence[Worker], timeout_s: float) -> list[Worker]:
    """The workers from which a reply, or the end of the channel, can be read."""
    poll, found = select.poll(), dict[int, Worker]()
    for worker in workers:
        found[worker.fileno()] = worker
        poll.register(worker, select.POLLIN)
    return [found[descriptor] for descriptor, _ in poll.poll(1000 * timeout_s)]
