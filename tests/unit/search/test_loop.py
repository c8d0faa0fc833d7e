"""Search: order of trials, resuming, budgets, interruption."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tilewright.core.config import Settings
from tilewright.core.records import (
    Brief,
    Candidate,
    EvaluationRequest,
    History,
    Outcome,
    Plan,
    Trial,
)
from tilewright.core.roles import Checkpoint, More, OnOutcome
from tilewright.core.text import counted
from tilewright.search.beam import BeamSearch
from tilewright.search.events import (
    Evaluated,
    Event,
    IterationFinished,
    IterationStarted,
    Stopped,
)
from tilewright.search.in_process import StepByStep
from tilewright.search.loop import Search
from tilewright.search.proposing import Batches, Parts
from tilewright.search.steps import SearchTask
from tilewright.testing.toy import (
    START,
    ToyExecutor,
    ToyProposer,
    ToyTarget,
    ToyTask,
    normal_form,
    toy_outcome,
    whole_batch,
)


class ShuffledExecutor:
    """Finishes requests in a fixed other order, one second of `clock` each."""

    def __init__(self, step: int = 7) -> None:
        self.clock = 0.0
        self.evaluated: list[str] = []
        self._step = step

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        requests = whole_batch(requests, more)
        outcomes = [toy_outcome(r.candidate.source, r.limit_latency) for r in requests]
        for position in sorted(range(len(requests)), key=lambda i: (i * self._step % 11, i)):
            self.clock += 1.0
            self.evaluated.append(requests[position].candidate.id)
            if on_outcome is not None:
                on_outcome(position, outcomes[position], 1.0, False)
        return outcomes

    def close(self) -> None:
        pass


class Killed(BaseException):
    """Stands for any sudden end."""


class World:
    """One search in the toy world, with what it records."""

    def __init__(self, settings: Settings, executor: ShuffledExecutor | None = None) -> None:
        self.settings = settings
        self.executor = executor or ShuffledExecutor()
        self.proposer = ToyProposer()
        self.trials: list[Trial] = []
        self.events: list[Event] = []
        self.die_after: int | None = None

    def append(self, trial: Trial) -> None:
        if self.die_after is not None and len(self.trials) >= self.die_after:
            raise Killed
        assert trial.index == len(self.trials)
        self.trials.append(trial)

    def search(self) -> tuple[History, str]:
        settings = self.settings
        strategy = BeamSearch(settings.beam, settings.iterations, settings.patience)
        task = SearchTask(ToyTask.workload, ToyTarget().brief(), self.proposer, settings)
        batches = Batches(task, strategy, StepByStep(task), self.events.append)
        search = Search(
            strategy=strategy,
            batches=batches,
            executor=self.executor,
            append=self.append,
            iterations=settings.iterations,
            budget=settings.budget,
            wall_s=lambda: self.executor.clock,
            on_event=self.events.append,
        )
        history = History(self.trials)
        return search.run(history or search.evaluate_start(Candidate(START)))

    def heard(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def test_a_search_improves_and_says_why_it_stopped() -> None:
    world = World(Settings(seed=1))
    history, reason = world.search()
    assert history.best is not None
    assert history.best.latency is not None
    assert history.best.latency < 140
    assert list(history) == world.trials
    assert reason == "all 15 iterations are done"
    assert world.events[-1] == Stopped(reason)


def test_the_order_of_completion_does_not_matter() -> None:
    worlds = [World(Settings(seed=3), ShuffledExecutor(step)) for step in (1, 7, 10)]
    for world in worlds:
        world.search()
    assert worlds[0].trials == worlds[1].trials == worlds[2].trials


def test_seeds_give_different_runs() -> None:
    worlds = [World(Settings(seed=seed, iterations=3)) for seed in (1, 2)]
    for world in worlds:
        world.search()
    assert worlds[0].trials != worlds[1].trials


def test_nothing_is_evaluated_twice() -> None:
    world = World(Settings(seed=4))
    world.search()
    forms = [normal_form(t.candidate.source) for t in world.trials]
    assert len(set(forms)) == len(forms)
    assert sorted(world.executor.evaluated) == sorted(t.candidate.id for t in world.trials)


@pytest.mark.parametrize("seed", range(3))
def test_a_search_that_dies_at_any_trial_goes_on_to_the_same_history(seed: int) -> None:
    settings = Settings(seed=seed, iterations=4, beam=3)
    undisturbed = World(settings)
    undisturbed.search()
    for die_after in range(len(undisturbed.trials)):
        world = World(settings)
        world.die_after = die_after
        with pytest.raises(Killed):
            world.search()
        assert world.trials == undisturbed.trials[:die_after]
        world.die_after = None
        world.search()
        assert world.trials == undisturbed.trials


def test_the_budget_of_evaluations_is_spent_exactly() -> None:
    full = World(Settings(seed=1))
    full.search()
    for limit in (1, 2, 13, 40, len(full.trials)):
        world = World(Settings(seed=1, max_evaluations=limit))
        _, reason = world.search()
        assert world.trials == full.trials[:limit]
        assert reason == f"the budget of {counted(limit, 'evaluation')} is spent"
    assert len(World(Settings(seed=1, max_evaluations=10**6)).search()[0]) == len(full.trials)


def test_nothing_more_is_waited_for_once_the_evaluations_are_spent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked_in_vain = 0

    def stream(self: Batches, *_: object) -> Parts:
        """Two candidates at once; the third takes for ever."""
        nonlocal asked_in_vain
        yield [EvaluationRequest(Candidate(f"{START}{n}", parent_id="p")) for n in range(2)]
        while asked_in_vain < 100:
            asked_in_vain += 1
            yield []

    monkeypatch.setattr(Batches, "stream", stream)
    world = World(Settings(seed=1, max_evaluations=3))
    history, reason = world.search()
    assert (len(history), asked_in_vain) == (3, 0)
    assert reason == "the budget of 3 evaluations is spent"


@pytest.mark.parametrize("wall_s", range(2, 60, 7))
def test_the_wall_time_stops_inside_an_iteration(wall_s: int) -> None:
    world = World(Settings(seed=1, max_wall_s=float(wall_s)))
    history, reason = world.search()
    assert reason == f"the budget of {wall_s} s is spent"
    assert len(world.executor.evaluated) == wall_s == len(history)
    # What was evaluated is recorded, though earlier requests of the batch never ran.
    assert {t.candidate.id for t in history} == set(world.executor.evaluated)
    assert [t.index for t in history] == list(range(wall_s))


def test_the_wall_time_stops_a_slow_proposer() -> None:
    world = World(Settings(seed=1, max_wall_s=30.0))

    class SlowProposer(ToyProposer):
        def implement(
            self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
        ) -> list[Candidate]:
            world.executor.clock += 4.0
            return super().implement(brief, parent, plan, count, seed)

    world.proposer = SlowProposer()
    _, reason = world.search()
    assert reason == "the budget of 30 s is spent"
    assert world.executor.clock < 35


def test_the_start_is_evaluated_whatever_the_budget() -> None:
    world = World(Settings(max_wall_s=0.001))
    history, reason = world.search()
    assert len(history) == 1
    assert " s is spent" in reason


def test_patience_ends_a_search_that_has_found_the_optimum() -> None:
    world = World(Settings(seed=1, iterations=200, patience=3))
    history, reason = world.search()
    assert reason == "3 iterations in a row found no faster kernel"
    assert history.best is not None
    last = world.heard(IterationFinished)[-1]
    assert isinstance(last, IterationFinished)
    assert last.iteration == history.best.iteration + 3


def test_iterations_are_reported_in_order() -> None:
    world = World(Settings(seed=1, iterations=4))
    world.search()
    started = [e.iteration for e in world.heard(IterationStarted)]  # type: ignore[union-attr]
    assert started == [1, 2, 3, 4]
    evaluated = [e.trial for e in world.heard(Evaluated)]  # type: ignore[union-attr]
    assert sorted(evaluated, key=lambda t: t.index) == world.trials
    finished = world.heard(IterationFinished)
    assert sum(e.evaluated for e in finished) == len(world.trials) - 1  # type: ignore[union-attr]


def test_an_interruption_in_the_executor_passes_through() -> None:
    class Interrupted(ShuffledExecutor):
        def evaluate(
            self,
            requests: Sequence[EvaluationRequest],
            on_outcome: OnOutcome | None = None,
            more: More | None = None,
            checkpoint: Checkpoint | None = None,
        ) -> list[Outcome]:
            if len(self.evaluated) > 20:
                raise KeyboardInterrupt
            return super().evaluate(requests, on_outcome, more, checkpoint)

    world = World(Settings(seed=1), Interrupted())
    with pytest.raises(KeyboardInterrupt):
        world.search()
    assert world.trials


def test_a_threaded_executor_gives_the_same_run() -> None:
    expected = World(Settings(seed=2, iterations=3))
    expected.search()
    world = World(Settings(seed=2, iterations=3))
    threaded = ToyExecutor(delay_s=0.001, workers=4)
    world.executor.evaluate = threaded.evaluate  # type: ignore[method-assign]
    world.search()
    assert [(t.candidate, t.outcome) for t in world.trials] == [
        (t.candidate, t.outcome) for t in expected.trials
    ]
