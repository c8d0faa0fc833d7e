"""The work of one process on one run: the search, the baselines, the winner and the event log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic

from tilewright.authors import Authors
from tilewright.cluster.address import Place
from tilewright.confirming import Winner
from tilewright.core.config import Settings
from tilewright.core.errors import OutOfTimeError, StorageError, TilewrightError
from tilewright.core.records import (
    Candidate,
    Failed,
    History,
    RunRecord,
    Schedule,
    Trial,
)
from tilewright.core.roles import (
    Attackable,
    ComparesFurther,
    Executor,
    ExplainsCode,
    FindsUnsupportedCode,
    KeepsTunedKernels,
    Proposer,
    SearchStrategy,
    Storage,
)
from tilewright.core.run_notes import Baselines, Survey
from tilewright.core.tasks import OpenTask
from tilewright.evaluation.code_notes import CodeNotes
from tilewright.evaluation.screening import ScreenedExecutor
from tilewright.examining import Examination
from tilewright.executors import (
    create_cluster_executor,
    create_executor,
    evaluate_baselines,
    tuned_baselines,
    usable_cores,
    worker_count,
)
from tilewright.models import Models
from tilewright.run_clock import RunClock
from tilewright.run_log import log_line
from tilewright.run_metadata import baselines, summary_of
from tilewright.search.events import (
    Evaluated,
    EvaluationStarted,
    Event,
    ModelsForecast,
    Noted,
    OnEvent,
    Relay,
    RunStarted,
    SchedulesReused,
)
from tilewright.search.in_process import ManyThreads, OneThread
from tilewright.search.loop import Search
from tilewright.search.processes import Coming, Processes
from tilewright.search.proposing import Batches, Way
from tilewright.search.reuse import ReuseFirst, reused_schedules
from tilewright.search.steps import SearchTask
from tilewright.search.stepwise import Stepwise
from tilewright.search.summary import Summary
from tilewright.stopping import StopRequests
from tilewright.verification import RECHECK_COMPARISONS, start_error

RESERVED_STARTS = 2.0
"""Time that a search reserves for the confirmation, as a number of evaluations of the starting
kernel. A confirmation evaluates twice, in a new process.
"""
MODELLED_STARTS = 1.0
"""The same number if latencies are modelled. A confirmation then evaluates once."""
EXPLAINING_S = 2.0
"""Wall-clock seconds that are reserved for building the winner once more for the compiler's
notes.
"""
EXAMINED = (
    "the starting kernel had been compared with the reference and the correctness check had been "
    "tested with wrong kernels"
)
CONFIRMED = "the fastest kernel had been evaluated again on new inputs"
"""The necessary work after a search."""
CLOCK_EVERY_S = 1.0
"""Seconds between two times at which the wall-clock time of a run is stored. After a kill, this
much time may be missing.
"""


class _StartFailedError(Exception):
    """The starting kernel cannot be used, so the run ends with `error`."""

    def __init__(self, error: TilewrightError) -> None:
        self.error = error


@dataclass(frozen=True, slots=True)
class Parts:
    """The strategy and the proposers of a run; `others` are the proposers that are neither models
    nor agents.
    """

    strategy: SearchStrategy
    models: Models
    others: Sequence[Proposer]


class Session:
    """One process's work on one run.

    The wall-clock time of the budget is counted from `began` (`time.monotonic`), so it includes
    everything before the search. Candidates are evaluated on the cluster at `place`, or on this
    machine if `place` is None. With an `examination`, the task is examined during the search.
    """

    def __init__(
        self,
        opened: OpenTask,
        settings: Settings,
        storage: Storage,
        run: RunRecord,
        parts: Parts,
        on_event: OnEvent,
        secret: int,
        began: float,
        place: Place | None,
        examination: Examination | None,
    ) -> None:
        self._examination = examination
        self._secret = secret
        self._place = place
        self._parts = parts
        self._opened = opened
        self._settings = settings
        self._storage = storage
        self._run = run
        self._on_event = on_event
        self._hear = Relay(self._tell)
        self._authors = Authors(
            opened, settings, storage, run, parts.models, parts.others, self._hear
        )
        self._stops = StopRequests(storage, run.id)
        self._reason = ""
        self._clock = RunClock(settings.budget.wall_s, run.wall_s, began)
        self._clocked = monotonic()
        self._limited = ""  # the necessary work in progress, which the clock limits
        self._has_tried = False
        self._has_survey = False
        self._is_holding: Callable[[], bool] = lambda: False
        self._compared = False
        self._has_baselines = bool(baselines(storage, run.id))

    def work(self, workers: int | None) -> Summary:
        """Perform the search, and store in the run's status how it ended."""
        with suppress(KeyboardInterrupt), self._searching(workers) as (search, history):
            self._reason = search.run(history)[1]
        return summary_of(self._storage, self._run.id)

    @contextmanager
    def stepwise(self, workers: int | None) -> Iterator[Stepwise]:
        """The run for a caller with a loop of their own, as a context manager.

        When the block ends, the run is finished if its budget is spent, and otherwise interrupted.
        """
        with self._searching(workers) as (search, history):
            steps = Stepwise(search, history)
            with closing(steps):
                yield steps
            self._reason = steps.over

    @contextmanager
    def _searching(self, workers: int | None) -> Iterator[tuple[Search, History]]:
        """The search and the history so far, as a context manager that finally stores how the run
        ended.
        """
        try:
            self._set("running", "")
            with self._stops.watched():
                with ExitStack() as stack:
                    yield self._begin(workers, stack)
                late = self._finish()
        except KeyboardInterrupt:
            self._end("interrupted", "the user interrupted the search")
            raise
        except _StartFailedError as failure:
            self._end("finished", str(failure.error))
            raise failure.error from None
        except OutOfTimeError as error:
            self._end("finished", error.reason)
            raise
        except BaseException as error:
            with suppress(StorageError):  # if the database is unavailable, the first error says so
                self._end("interrupted", f"{type(error).__name__}: {error}")
            raise
        finally:
            if self._examination is not None:
                self._examination.cancel()
        if late:
            self._end("interrupted", late)
        elif self._reason:
            self._end("finished", self._reason)
        else:
            self._end("interrupted", "its caller ended the search before the budget was spent")

    def _begin(self, workers: int | None, stack: ExitStack) -> tuple[Search, History]:
        """Begin or resume: return the search, and a history with the measured starting kernel."""
        history = self._storage.history(self._run.id)
        self._hear(RunStarted(self._run, history))
        self._has_tried = len(history) > 1
        evaluated = self._settings.evaluated_with(self._secret)
        if self._examination is not None:
            self._examination.begin(evaluated, self._storage)
        executor = self._executor(evaluated, workers)
        stack.enter_context(closing(executor))
        if isinstance(executor, ScreenedExecutor):
            self._is_holding = lambda: executor.is_holding
        search = self._assemble(executor, worker_count(self._opened, workers), history, stack)
        began = monotonic()
        if not history and self._examination is not None:
            history = self._modelled_start(self._examination, evaluated)
        elif not history:
            # Preflight does not compare the starting kernel of such a task.
            further = isinstance(self._opened.task, ComparesFurther)
            comparisons = RECHECK_COMPARISONS if further else 0
            with self._within_budget(f"the starting kernel of {self._opened.name} was evaluated"):
                history = search.evaluate_start(Candidate(self._opened.task.start), comparisons)
        self._require_start(history)
        if self._examination is None:
            self._reserve(RESERVED_STARTS * max(history[0].wall_s, monotonic() - began))
            self._evaluate_baselines(executor)
        if self._parts.models.names and history[-1].iteration == 0:
            self._hear(
                ModelsForecast(*self._parts.models.forecast(self._opened, self._storage, self._run))
            )
        return search, history

    def _require_start(self, history: History) -> None:
        outcome = history[0].outcome
        if isinstance(outcome, Failed):
            error = start_error(self._opened.name, outcome, self._opened.task.start)
            raise _StartFailedError(error)

    def _modelled_start(self, examination: Examination, evaluated: Mapping[str, object]) -> History:
        self._hear(EvaluationStarted(0, 1))
        what = f"the latency of the starting kernel of {self._opened.name} was known"
        trial = examination.modelled_start(evaluated, lambda: self._clock.require(what))
        self._hear(Evaluated(trial))
        self._append(trial)
        return History([trial])

    @contextmanager
    def _within_budget(self, what: str) -> Iterator[None]:
        """Limit the time of a block whose work calls `_deliver`; see `RunClock.require`."""
        self._limited = what
        try:
            yield
        finally:
            self._limited = ""

    def _deliver(self) -> None:
        """Pass on the events of other threads, and raise the exception of the examination if it has
        one, `KeyboardInterrupt` after a request to stop, or `OutOfTimeError`.
        """
        self._hear.deliver()
        if self._limited:
            self._clock.require(self._limited)
        if self._stops.is_pending:
            raise KeyboardInterrupt
        found = self._examination
        if found is None:
            return
        if found.start is not None and not self._compared:
            self._compared = True
            self._storage.amend_trial(self._run.id, 0, found.start.outcome)
            self._reserve(MODELLED_STARTS * found.start.wall_s)
        try:
            found.look()
        except TilewrightError as error:
            if found.start is not None and isinstance(found.start.outcome, Failed):
                raise _StartFailedError(error) from error
            raise  # the run cannot continue, but its kernels are not the cause
        if found.baselines and not self._has_baselines:
            self._has_baselines = True
            self._storage.keep(self._run.id, Baselines(found.baselines))

    def _finish(self) -> str:
        """Complete the examination, and confirm and explain the winner. Returns the reason why this
        is not complete, if the time ended; a later session may complete it.
        """
        self._survey()
        winner = Winner(
            self._storage,
            self._run.id,
            self._opened,
            self._settings,
            self._clock.left_s,
            self._deliver,
        )
        try:
            with self._within_budget(EXAMINED):
                self._finish_examination()
            with self._within_budget(CONFIRMED):
                winner.confirm()
        except OutOfTimeError as error:
            return error.reason
        if self._reason:
            with ExitStack() as stack:
                require = partial(self._clock.require, CONFIRMED)
                winner.explain(lambda: CodeNotes(self._authors.builds(stack, require)).of)
        return ""

    def _finish_examination(self) -> None:
        if self._examination is not None:
            self._examination.wait(self._deliver)
            self._deliver()

    def _executor(self, evaluated: Mapping[str, object], workers: int | None) -> Executor:
        if self._place is None:
            return create_executor(self._opened, evaluated, workers, self._storage)
        return create_cluster_executor(
            self._opened,
            evaluated,
            workers,
            self._storage,
            self._place,
            self._run.id,
            lambda sentence: self._hear(Noted(sentence)),
        )

    def _reserve(self, confirming_s: float) -> None:
        """Reserve wall-clock time to confirm a faster kernel within the budget."""
        if isinstance(self._opened.task, Attackable):
            explaining_s = EXPLAINING_S * isinstance(self._opened.task, ExplainsCode)
            self._clock.reserve(confirming_s + explaining_s)

    def _charged_s(self) -> float:
        """The wall-clock seconds that the search is charged.

        A candidate whose outcome is held back counts as tried: its confirmation takes the place of
        the second evaluation if there is no time for both.
        """
        return self._clock.charged_s(has_tried=self._has_tried or self._is_holding())

    def _evaluate_baselines(self, executor: Executor) -> None:
        """Evaluate the baselines once per run, with the executor and cache of the search. They are
        not trials of the run.
        """
        if baselines(self._storage, self._run.id):
            return
        tuned: Mapping[str, str] = {}
        if isinstance(self._storage, KeepsTunedKernels):
            tuned, missing = tuned_baselines(self._opened, self._storage.tuned_kernels)
            if missing:
                self._hear(Noted(missing))
        if not self._opened.task.baselines and not tuned:
            return
        with suppress(OutOfTimeError), self._within_budget("the baselines were evaluated"):
            kernels = evaluate_baselines(self._opened, executor, self._deliver, tuned)
            self._storage.keep(self._run.id, Baselines(kernels))

    @property
    def _readers(self) -> tuple[FindsUnsupportedCode, ...]:
        return tuple(p for p in self._parts.others if isinstance(p, FindsUnsupportedCode))

    def _survey(self) -> None:
        """Find once per run the parts of the starting kernel that a proposer does not change, with
        the reasons. This takes seconds for a large kernel, in which other processes already make
        the first proposals.
        """
        if self._has_survey or self._storage.kept(self._run.id, Survey):
            return
        self._has_survey = True
        brief, source = self._opened.target.brief(), self._opened.task.start
        parts = (
            part
            for proposer in self._readers
            for part in proposer.left_alone(brief, source, self._opened.task.workload)
        )
        self._storage.keep(self._run.id, Survey(tuple(parts)))

    def _assemble(
        self, executor: Executor, workers: int, history: History, stack: ExitStack
    ) -> Search:
        settings, opened = self._settings, self._opened
        processes = min(workers, settings.beam, usable_cores())
        author = self._authors.open(stack)
        task = SearchTask(
            opened.task.workload,
            opened.target.brief(),
            author.proposer,
            settings,
            self._schedules(),
            templates=author.templates,
        )
        strategy, phase = self._parts.strategy, task.phase.iterations
        if phase:
            strategy = ReuseFirst(strategy, phase, settings.patience, settings.iterations)
        way: Way = OneThread(task)
        if getattr(author.proposer, "waits", False):
            way = ManyThreads(task)
        elif getattr(author.proposer, "parallel", False):
            coming = None if history else Coming(opened.task.start, self._readers)
            way = Processes(task, processes, meanwhile=self._survey, coming=coming)
            stack.enter_context(way)
        return Search(
            strategy=strategy,
            batches=Batches(task, strategy, way, self._hear),
            executor=executor,
            append=self._append,
            iterations=settings.iterations + phase,
            budget=settings.budget,
            wall_s=self._charged_s,
            on_event=self._hear,
            rounds=max(settings.repairs, settings.turns_taken - 1, len(self._authors.agents)),
            models_stop=author.models_stop,
            deliver=self._deliver,
            stop_within=settings.stop_within,
            closed=author.closed,
        )

    def _schedules(self) -> tuple[Schedule, ...]:
        """The schedules of earlier runs that were selected when this run began."""
        notes = reused_schedules(self._run, self._settings, self._storage)
        if notes:
            self._hear(SchedulesReused(tuple(notes)))
        return tuple(note.schedule for note in notes)

    def _append(self, trial: Trial) -> None:
        self._storage.append_trial(self._run.id, trial)
        if monotonic() - self._clocked >= CLOCK_EVERY_S:
            self._set("running", "")

    def _tell(self, event: Event) -> None:
        """Write an event to the event log, and pass it to the listener."""
        if isinstance(event, Evaluated):
            self._has_tried |= event.trial.index > 0
        data = log_line(event)
        if data is not None:
            self._storage.append_event(self._run.id, type(event).__name__, data)
        self._on_event(event)

    def _set(self, status: str, reason: str) -> None:
        self._clocked = monotonic()
        self._storage.update_run(
            self._run.id, status=status, stop_reason=reason, wall_s=self._clock.wall_s()
        )

    def _end(self, status: str, reason: str) -> None:
        self._hear.deliver()
        self._set(status, reason)
