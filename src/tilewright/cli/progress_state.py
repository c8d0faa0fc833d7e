"""The state of the live panel, which is computed from the events of the search."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.core.budget import Budget
from tilewright.core.gains import noise_of_speedup
from tilewright.core.records import Failed, Trial
from tilewright.search.events import (
    Called,
    Evaluated,
    EvaluationStarted,
    Event,
    Implemented,
    IterationStarted,
    ModelsForecast,
    Noted,
    Planned,
    ProposalFailed,
    RunStarted,
    SchedulesReused,
    Stopped,
)


@dataclass(frozen=True, slots=True)
class Improvement:
    """A new best kernel: its trial, its speedup over the starting kernel, and the wall-clock
    seconds until it was found.
    """

    trial: Trial
    speedup: float
    wall_s: float


@dataclass(slots=True)
class ProgressState:
    """Counts of the run so far and of the current iteration's batch.

    `budget` applies to all sessions of a run, so evaluations and seconds of earlier sessions are
    included. `clock` returns seconds since any fixed time.
    """

    budget: Budget
    clock: Callable[[], float] = time.monotonic
    task: str = ""
    run_id: str = ""
    iteration: int = 0
    iterations: int = 0
    stage: str = ""
    plans: int = 0
    candidates: int = 0
    duplicates: int = 0
    steps_failed: int = 0
    batch: int = 0
    batch_done: int = 0
    evaluations: int = 0
    measured: int = 0
    stopped_early: int = 0
    failed: int = 0
    baseline: Trial | None = None
    best: Trial | None = None
    fastest_here: Trial | None = None  # in this iteration
    failed_here: int = 0
    improvements: list[Improvement] = field(default_factory=list)
    stop_reason: str = ""
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    has_reserved_tokens: bool = False  # of calls whose tokens nobody counted
    forecast: ModelsForecast | None = None
    reused: SchedulesReused | None = None
    notes: list[str] = field(default_factory=list)
    _started: float = 0.0
    _earlier_s: float = 0.0
    _evaluations_at_start: int = 0
    _first_iteration: int = 0
    _first_iteration_at: float = 0.0

    def __post_init__(self) -> None:
        self._started = self.clock()

    def apply(self, event: Event) -> Improvement | None:
        """Update the counts with one event, and return the improvement if there is a new best
        kernel.
        """
        match event:
            case RunStarted(run=run, history=history):
                self.task, self.run_id, self._earlier_s = run.task, run.id, run.wall_s
                self._started = self.clock()  # the budget does not cover the opening of a workload
                for trial in history:
                    self._count(trial)
                self._evaluations_at_start = self.evaluations
            case IterationStarted(iteration=iteration, iterations=iterations):
                if self.iteration == 0:
                    self._first_iteration, self._first_iteration_at = iteration, self.clock()
                self.iteration, self.iterations = iteration, iterations
                self.plans = self.candidates = self.duplicates = self.steps_failed = 0
                self.batch = self.batch_done = self.failed_here = 0
                self.fastest_here = None
                self.stage = "planning"
            case Planned(plans=plans):
                self.plans += plans
                self.stage = "implementing"
            case Implemented(candidates=candidates, duplicates=duplicates):
                self.candidates += candidates
                self.duplicates += duplicates
            case ProposalFailed():
                self.steps_failed += 1
            case EvaluationStarted(candidates=candidates):
                self.batch += candidates
                self.stage = "evaluating"
            case Evaluated(trial=trial):
                self.batch_done += 1
                return self._count(trial)
            case Called(call=call):
                self.calls += 1
                self.tokens += call.counted_tokens
                self.usd += call.usd or 0.0
                self.unpriced += call.usd is None
                if call.input_tokens is None and call.counted_tokens:
                    self.has_reserved_tokens = True
            case ModelsForecast():
                self.forecast = event
            case SchedulesReused():
                self.reused = event
            case Noted(text=text):
                self.notes.append(text)
            case Stopped(reason=reason):
                self.stop_reason = reason
        return None

    @property
    def wall_s(self) -> float:
        """Wall-clock seconds of the run, summed over its sessions."""
        return self._earlier_s + self.clock() - self._started

    @property
    def speedup(self) -> float | None:
        """Speedup of the best kernel over the starting kernel."""
        return self.speedup_of(self.best) if self.best else None

    def seconds_left(self) -> float | None:
        """Seconds until the budget or the iterations are used up, at the present rate; None before
        the first evaluation.

        It is an upper estimate: a search without progress stops earlier.
        """
        now = self.clock()
        left = []
        if self.budget.wall_s is not None:
            left.append(self.budget.wall_s - self.wall_s)
        here = self.evaluations - self._evaluations_at_start
        if self.budget.evaluations is not None and here > 0:
            pace_s = (now - self._started) / here
            left.append((self.budget.evaluations - self.evaluations) * pace_s)
        finished = self.iteration - self._first_iteration
        if finished > 0:
            spent_s = now - self._first_iteration_at
            expected_s = spent_s / finished * (self.iterations - self._first_iteration + 1)
            left.append(expected_s - spent_s)
        return max(0.0, min(left)) if left else None

    def forecast_usd(self) -> float | None:
        """Upper estimate of the cost of this session's calls in dollars, at the present rate; None
        before the first call.

        It is an upper estimate: a search without progress stops earlier.
        """
        finished = self.iteration - self._first_iteration
        if finished <= 0 or not self.usd:
            return None
        return self.usd / finished * (self.iterations - self._first_iteration + 1)

    def _count(self, trial: Trial) -> Improvement | None:
        self.evaluations += 1
        if isinstance(trial.outcome, Failed):
            if trial.outcome.kind == "slower_than_limit":
                self.stopped_early += 1
            else:
                self.failed += 1
                self.failed_here += 1
            return None
        self.measured += 1
        if self.fastest_here is None or (trial.latency or 0.0) < (self.fastest_here.latency or 0.0):
            self.fastest_here = trial
        if self.baseline is None:
            self.baseline = self.best = trial
            return None
        return self._improve(trial)

    def _improve(self, trial: Trial) -> Improvement | None:
        if self.best is None or trial.latency is None or self.best.latency is None:
            return None
        if trial.latency >= self.best.latency * (1 - noise_of_speedup(trial, self.best)):
            return None
        self.best = trial
        improvement = Improvement(trial, self.speedup_of(trial), self.wall_s)
        self.improvements.append(improvement)
        return improvement

    def speedup_of(self, trial: Trial) -> float:
        """Speedup of a kernel over the starting kernel; 1 if one of them was not timed."""
        if self.baseline is None or not self.baseline.latency or not trial.latency:
            return 1.0
        return self.baseline.latency / trial.latency
