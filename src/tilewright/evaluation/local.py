"""`LocalExecutor`: evaluates on this machine, one worker process per core.

A worker that crashes, hangs or is killed costs one candidate: it becomes a `Failed`, and a fresh
worker takes the next one. The executor itself is synchronous and holds no threads.
"""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Any, Self

from tilewright.core import errors
from tilewright.core.codec import from_json, to_json
from tilewright.core.errors import InternalError, TilewrightError
from tilewright.core.records import EvaluationRequest, Failed, Outcome, Stage
from tilewright.core.roles import OnOutcome
from tilewright.evaluation.outcome_cache import Lookup, OutcomeCache, Store
from tilewright.evaluation.worker_process import WorkerProcess

START_TIMEOUT_S = 120.0
"""For a worker to import its target and open the task."""

GRACE_S = 15.0
"""On top of a stage's own time-outs, which end a stage with a better message than a kill."""


@dataclass(frozen=True, slots=True)
class StageTimeouts:
    """Wall seconds after which a worker is killed, by stage."""

    build: float
    check: float
    measure: float

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Self:
        """From `compile_timeout_s`, `simulation_timeout_s` and `checks` (defaults 20, 60, 3)."""
        compile_s = float(str(settings.get("compile_timeout_s", 20.0)))
        simulation_s = float(str(settings.get("simulation_timeout_s", 60.0)))
        checks = int(str(settings.get("checks", 3)))
        return cls(compile_s + GRACE_S, simulation_s * checks + GRACE_S, simulation_s + GRACE_S)

    def of(self, stage: Stage) -> float:
        """Seconds for this stage."""
        return {"build": self.build, "check": self.check, "measure": self.measure}[stage]


@dataclass(slots=True)
class _Job:
    """A request on a worker: all its positions in the batch, the stage and when that must end."""

    request: EvaluationRequest
    positions: list[int]
    started: float = 0.0
    stage: Stage = "build"
    deadline: float = 0.0


class LocalExecutor:
    """The `Executor` role on this machine.

    Args:
        task: canonical name of the task, as in `core.tasks.OpenTask.name`.
        settings: the run's recorded settings; handed to the target in every worker.
        workers: processes to use at most.
        lookup, store: outcome cache by content key; without them nothing is remembered.
        timeouts: when to kill a worker; by default taken from `settings`.

    Workers die with the thread that started them, so an executor belongs to one thread.
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
    ) -> None:
        self._open_message = {"open": {"task": task, "settings": dict(settings)}}
        self._workers = workers
        self._lookup: Lookup = lookup or (lambda key: None)
        self._store: Store = store or (lambda key, outcome: None)
        self._timeouts = timeouts or StageTimeouts.from_settings(settings)
        self._idle: list[WorkerProcess] = []
        self._busy: dict[WorkerProcess, _Job] = {}
        self._cache: OutcomeCache | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def evaluate(
        self, requests: Sequence[EvaluationRequest], on_outcome: OnOutcome | None = None
    ) -> list[Outcome]:
        """Outcomes in the order of the requests.

        Equal requests are evaluated once. Whatever is raised in between (Ctrl-C, `on_outcome`, an
        error that is not a candidate's) stops the evaluations under way and leaves the executor
        usable.
        """
        if not requests:
            return []
        batch = _Batch(len(requests), on_outcome)
        try:
            waiting = self._answer_from_cache(requests, batch)
            while waiting or self._busy:
                self._dispatch(waiting)
                self._collect(waiting, batch)
        finally:
            for worker in list(self._busy):
                del self._busy[worker]
                worker.kill()
        return batch.outcomes()

    def close(self) -> None:
        """Stop every worker. Idempotent."""
        while self._idle:
            self._idle.pop().kill()

    def _answer_from_cache(
        self, requests: Sequence[EvaluationRequest], batch: _Batch
    ) -> deque[_Job]:
        """Report what the cache knows; the rest, equal requests merged, still has to be done."""
        if self._cache is None:
            self._idle.append(self._start())
        cache = self._cache
        assert cache is not None
        jobs: dict[tuple[str, float | None], _Job] = {}
        for position, request in enumerate(requests):
            found = cache.find(request)
            if found is not None:
                batch.finish([position], found, 0.0, cached=True)
                continue
            key = (request.candidate.source, request.limit_latency)
            jobs.setdefault(key, _Job(request, [])).positions.append(position)
        return deque(jobs.values())

    def _start(self) -> WorkerProcess:
        """A worker that has opened the task; raises the target's error if it cannot."""
        worker = WorkerProcess()
        try:
            worker.send(self._open_message)
            if not readable([worker], START_TIMEOUT_S):
                raise InternalError(f"a worker did not open the task in {START_TIMEOUT_S:g} s.")
            reply = worker.receive()
            if "error" in reply:
                raise raised(reply["error"])
        except EOFError:
            log = worker.kill()
            raise InternalError(f"a worker {worker.exit_text} at its start: {log}") from None
        except BaseException:
            worker.kill()
            raise
        self._cache = OutcomeCache(reply["ready"], self._lookup, self._store)
        return worker

    def _dispatch(self, waiting: deque[_Job]) -> None:
        while waiting and len(self._busy) < self._workers:
            worker = self._idle.pop() if self._idle else self._start()
            self._give(worker, waiting.popleft())

    def _give(self, worker: WorkerProcess, job: _Job) -> None:
        job.started = monotonic()
        job.deadline = job.started + self._timeouts.of(job.stage)
        self._busy[worker] = job
        worker.send({"evaluate": to_json(job.request)})

    def _collect(self, waiting: deque[_Job], batch: _Batch) -> None:
        """Wait for the next reply or time-out and act on what is there."""
        nearest = min(job.deadline for job in self._busy.values())
        for worker in readable(list(self._busy), max(0.0, nearest - monotonic())):
            try:
                self._on_reply(worker, worker.receive(), waiting, batch)
            except EOFError:
                self._on_death(worker, batch)
        for worker, job in list(self._busy.items()):
            if monotonic() >= job.deadline:
                self._on_timeout(worker, batch)

    def _on_reply(
        self,
        worker: WorkerProcess,
        reply: Mapping[str, Any],
        waiting: deque[_Job],
        batch: _Batch,
    ) -> None:
        job = self._busy[worker]
        if "stage" in reply:
            job.stage = reply["stage"]
            job.deadline = monotonic() + self._timeouts.of(job.stage)
            return
        del self._busy[worker]
        if "error" in reply:
            self._idle.append(worker)
            raise raised(reply["error"])
        if waiting:  # before the outcome is kept and told: the worker need not wait for that
            self._give(worker, waiting.popleft())
        else:
            self._idle.append(worker)
        self._finish(job, from_json(reply["outcome"]), batch)

    def _on_death(self, worker: WorkerProcess, batch: _Batch) -> None:
        job = self._busy.pop(worker)
        log = worker.kill()
        text = f"the evaluating process {worker.exit_text}. {log}".strip()
        self._finish(job, Failed(job.stage, "crash", text), batch)

    def _on_timeout(self, worker: WorkerProcess, batch: _Batch) -> None:
        job = self._busy.pop(worker)
        worker.kill()
        text = f"killed: {job.stage} took more than {self._timeouts.of(job.stage):g} s."
        self._finish(job, Failed(job.stage, "timeout", text), batch)

    def _finish(self, job: _Job, outcome: Outcome, batch: _Batch) -> None:
        assert self._cache is not None
        self._cache.keep(job.request, outcome)
        batch.finish(job.positions, outcome, monotonic() - job.started, cached=False)


class _Batch:
    """Outcomes of one call, and who hears of them."""

    def __init__(self, size: int, on_outcome: OnOutcome | None) -> None:
        self._size = size
        self._outcomes: dict[int, Outcome] = {}
        self._on_outcome = on_outcome

    def finish(
        self, positions: Sequence[int], outcome: Outcome, wall_s: float, cached: bool
    ) -> None:
        """Record an outcome; only the first of equal requests took the time."""
        for number, position in enumerate(positions):
            self._outcomes[position] = outcome
            if self._on_outcome is not None:
                repeated = number > 0
                self._on_outcome(position, outcome, 0.0 if repeated else wall_s, cached or repeated)

    def outcomes(self) -> list[Outcome]:
        """All outcomes by position."""
        return [self._outcomes[position] for position in range(self._size)]


def readable(workers: Sequence[WorkerProcess], timeout_s: float) -> list[WorkerProcess]:
    """Workers with a reply, or their end, to be read."""
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker, selectors.EVENT_READ, worker)
        return [key.data for key, _ in selector.select(timeout_s)]


def raised(error: Mapping[str, str]) -> TilewrightError:
    """The worker's exception, of the same class where it takes just a message."""
    kind = getattr(errors, error["type"], InternalError)
    if kind is errors.UnknownNameError:
        kind = errors.InputError
    error_of_worker: TilewrightError = kind(error["message"])
    return error_of_worker
