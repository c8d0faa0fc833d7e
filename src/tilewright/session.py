"""One process's work on one run: its search, its baselines, its winner, its event log."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from time import monotonic

from tilewright.core.codec import from_json, to_json
from tilewright.core.config import Settings
from tilewright.core.errors import StorageError, TilewrightError
from tilewright.core.plugins import load_proposer
from tilewright.core.records import (
    Baseline,
    Candidate,
    Failed,
    History,
    LeftAlone,
    Measured,
    RunRecord,
    Schedule,
    Trial,
)
from tilewright.core.roles import Attackable, Executor, Proposer, Storage, Surveyor
from tilewright.core.tasks import OpenTask
from tilewright.evaluation.screening import refutation
from tilewright.executors import create_executor, evaluate_baselines, worker_count
from tilewright.models import Models
from tilewright.proposers.mixed import Member, MixedProposer
from tilewright.search.ahead import AheadBatches
from tilewright.search.apart import ApartBatches
from tilewright.search.beam import BeamSearch
from tilewright.search.events import (
    Called,
    Event,
    IterationFinished,
    ModelsForecast,
    OnEvent,
    ProposalFailed,
    RunStarted,
    Stopped,
)
from tilewright.search.loop import Search
from tilewright.search.proposing import Batches, SearchTask
from tilewright.search.reuse import schedule_of
from tilewright.search.streaming import StreamedBatches
from tilewright.search.summary import Summary, summarize
from tilewright.verification import as_winner, recheck, start_error

SCHEDULE_EVENT = "Schedule"
"""Entry of a run's event log that holds the schedule of an earlier run it was told to reuse."""

CLOCK_EVERY_S = 1.0
"""How often the wall time of a run is made durable: what a kill may leave uncounted."""

BASELINES_EVENT = "Baselines"
"""Entry of a run's event log that holds the outcomes of the target's baselines."""

LEFT_ALONE_EVENT = "LeftAlone"
"""Entry of a run's event log: code of the starting kernel that no proposer understands."""

RECHECKED_EVENT = "Rechecked"
"""Entry of a run's event log: a winner that was rebuilt and evaluated on fresh inputs."""


def baselines(storage: Storage, run_id: str) -> tuple[Baseline, ...]:
    """What a run is compared with; empty until its starting kernel is measured."""
    found = [data for _, kind, data in storage.events(run_id) if kind == BASELINES_EVENT]
    return tuple(from_json(found[0]["kernels"])) if found else ()


def confirmed(storage: Storage, run_id: str) -> str | None:
    """Id of the candidate that fresh inputs confirmed as the run's best, if any."""
    found = [data for _, kind, data in storage.events(run_id) if kind == RECHECKED_EVENT]
    return str(found[-1]["candidate"]) if found and found[-1]["confirmed"] else None


def left_alone(storage: Storage, run_id: str) -> tuple[LeftAlone, ...]:
    """The code of a run's starting kernel that the built-in rewriter does not understand."""
    found = [data for _, kind, data in storage.events(run_id) if kind == LEFT_ALONE_EVENT]
    return tuple(from_json(found[0]["parts"])) if found else ()


class _StartFailedError(Exception):
    """The starting kernel is no start: the run is over, and `error` is what the user is told."""

    def __init__(self, error: TilewrightError) -> None:
        self.error = error


class Session:
    """One process's work on one run."""

    def __init__(
        self,
        opened: OpenTask,
        settings: Settings,
        storage: Storage,
        run: RunRecord,
        models: Models,
        on_event: OnEvent,
    ) -> None:
        self._models = models
        self._opened = opened
        self._settings = settings
        self._storage = storage
        self._run = run
        self._on_event = on_event
        self._started = self._clocked = monotonic()

    def work(self, workers: int | None) -> Summary:
        """Search until it is over; the run's status says afterwards how it ended."""
        try:
            self._set("running", "")
            reason = self._search(workers)
        except KeyboardInterrupt:
            return self._end("interrupted", "interrupted by the user")
        except _StartFailedError as failure:
            self._end("finished", str(failure.error))
            raise failure.error from None
        except BaseException as error:
            with suppress(StorageError):  # of a database that is away, the first error says so
                self._end("interrupted", f"{type(error).__name__}: {error}")
            raise
        return self._end("finished", reason)

    def _search(self, workers: int | None) -> str:
        history = self._storage.history(self._run.id)
        self._hear(RunStarted(self._run, history))
        with ExitStack() as stack:
            executor = create_executor(self._opened, self._settings, workers, self._storage)
            stack.enter_context(closing(executor))
            search = self._assemble(executor, worker_count(self._opened, workers), stack)
            if not history:
                history = search.evaluate_start(Candidate(self._opened.task.start))
            _require_start(self._opened.name, history)
            self._evaluate_baselines(executor)
            self._survey()
            if self._models.names and history[-1].iteration == 0:
                self._hear(
                    ModelsForecast(*self._models.forecast(self._opened, self._storage, self._run))
                )
            reason = search.run(history)[1]
        self._confirm_best()
        return reason

    def _confirm_best(self) -> None:
        """Evaluate the winner again on fresh inputs; one that fails gives way to the next best.

        Of a latency that varies, the second measurement is kept: the best of many noisy ones looks
        better than it is. Where another kernel is then ahead, that one is evaluated again too.
        """
        if not isinstance(self._opened.task, Attackable):
            return  # its inputs are not known to follow from a seed
        held: set[str] = set()
        while (best := self._storage.history(self._run.id).best) is not None:
            if best.index == 0 or confirmed(self._storage, self._run.id) == best.candidate.id:
                return
            if best.candidate.id in held:
                data: dict[str, object] = {"candidate": best.candidate.id, "confirmed": True}
                self._storage.append_event(self._run.id, RECHECKED_EVENT, data)
                return
            assert isinstance(best.outcome, Measured)
            settings = as_winner(self._settings.recorded())
            again = recheck(self._opened.name, settings, best.candidate)
            refuted = refutation(best.outcome, again)
            data = {"candidate": best.candidate.id, "confirmed": refuted is None}
            if isinstance(again, Measured) and refuted is None and again.quantity == "measured":
                held.add(best.candidate.id)
                data["first"] = to_json(best.outcome)
                self._storage.amend_trial(self._run.id, best.index, again)
            if refuted is not None:
                data["refuted"] = to_json(best.outcome)
                self._storage.amend_trial(self._run.id, best.index, refuted)
            self._storage.append_event(self._run.id, RECHECKED_EVENT, data)

    def _evaluate_baselines(self, executor: Executor) -> None:
        """Once per run, with the search's executor and cache; they are no trials of the run."""
        if not self._opened.task.baselines or baselines(self._storage, self._run.id):
            return
        kernels = list(evaluate_baselines(self._opened, executor))
        self._storage.append_event(self._run.id, BASELINES_EVENT, {"kernels": to_json(kernels)})

    def _survey(self) -> None:
        """Once per run: which parts of the starting kernel a proposer will not touch, and why."""
        if any(kind == LEFT_ALONE_EVENT for _, kind, _ in self._storage.events(self._run.id)):
            return
        brief, source = self._opened.target.brief(), self._opened.task.start
        parts = [
            part
            for proposer in self._others()
            if isinstance(proposer, Surveyor)
            for part in proposer.left_alone(brief, source)
        ]
        self._storage.append_event(self._run.id, LEFT_ALONE_EVENT, {"parts": to_json(parts)})

    def _others(self) -> list[Proposer]:
        """The run's proposers that are no language models."""
        models = self._models.names
        return [load_proposer(n) for n in self._settings.proposers if n not in models]

    def _assemble(self, executor: Executor, workers: int, stack: ExitStack) -> Search:
        settings, opened = self._settings, self._opened
        processes = min(workers, settings.beam, len(os.sched_getaffinity(0)))
        strategy = BeamSearch(settings.beam, settings.iterations, settings.patience)
        proposer, models_stop = self._proposer(stack)
        make_batches: Callable[..., Batches] = AheadBatches
        if getattr(proposer, "waits", False):
            make_batches = StreamedBatches
        elif getattr(proposer, "parallel", False):
            make_batches = partial(ApartBatches, processes=processes)
        task = SearchTask(
            opened.task.workload, opened.target.brief(), proposer, settings, self._schedule()
        )
        batches = make_batches(task, strategy, self._hear)
        if isinstance(batches, ApartBatches):
            stack.enter_context(batches)
        return Search(
            strategy=strategy,
            batches=batches,
            executor=executor,
            append=self._append,
            iterations=settings.iterations,
            budget=settings.budget,
            wall_s=self._wall_s,
            on_event=self._hear,
            repairs=settings.repairs,
            models_stop=models_stop,
        )

    def _schedule(self) -> Schedule | None:
        """What an earlier run found, as it was when this run began."""
        if not self._settings.schedule_from:
            return None
        storage, run_id = self._storage, self._run.id
        for _, kind, data in storage.events(run_id):
            if kind == SCHEDULE_EVENT:
                stored: Schedule = from_json(data["schedule"])
                return stored
        source = storage.run(self._settings.schedule_from)
        schedule = schedule_of(source, storage.history(source.id))
        storage.append_event(run_id, SCHEDULE_EVENT, {"schedule": to_json(schedule)})
        return schedule

    def _proposer(self, stack: ExitStack) -> tuple[Proposer, Callable[[], str | None]]:
        """The run's proposer, and what says why its models are asked no more."""
        models = self._models.names
        members = [Member(proposer, (proposer.name,)) for proposer in self._others()]
        if not models:
            return _only_or_mixed(members), lambda: None
        llm, ledger = self._models.create_proposer(
            self._storage, self._run, stack, lambda call: self._hear(Called(call))
        )
        members.append(Member(llm, self._models.asked))
        return _only_or_mixed(members), lambda: ledger.stop_reason

    def _append(self, trial: Trial) -> None:
        self._storage.append_trial(self._run.id, trial)
        if monotonic() - self._clocked >= CLOCK_EVERY_S:
            self._set("running", "")

    def _hear(self, event: Event) -> None:
        """Keep the event log, then tell the listener."""
        data: dict[str, object] | None = None
        if isinstance(event, RunStarted):
            data = {"process": os.getpid(), "trials": len(event.history)}
        elif isinstance(event, IterationFinished):
            best = event.best.latency if event.best else None
            data = {"iteration": event.iteration, "trials": event.evaluated, "best": best}
        elif isinstance(event, ProposalFailed):
            data = {"iteration": event.iteration, "parent": event.parent_id, "log": event.log}
        elif isinstance(event, Stopped):
            data = {"reason": event.reason}
        if data is not None:
            self._storage.append_event(self._run.id, type(event).__name__, data)
        self._on_event(event)

    def _wall_s(self) -> float:
        return self._run.wall_s + monotonic() - self._started

    def _set(self, status: str, reason: str) -> None:
        self._clocked = monotonic()
        self._storage.update_run(
            self._run.id, status=status, stop_reason=reason, wall_s=self._wall_s()
        )

    def _end(self, status: str, reason: str) -> Summary:
        self._set(status, reason)
        storage, run_id = self._storage, self._run.id
        return summarize(
            storage.run(run_id),
            storage.history(run_id),
            baselines(storage, run_id),
            confirmed(storage, run_id),
            left_alone(storage, run_id),
        )


def _only_or_mixed(members: Sequence[Member]) -> Proposer:
    return members[0].proposer if len(members) == 1 else MixedProposer(members)


def _require_start(task: str, history: History) -> None:
    outcome = history[0].outcome
    if isinstance(outcome, Failed):
        raise _StartFailedError(start_error(task, outcome))
