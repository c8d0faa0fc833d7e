"""Authors that work in turns hear of all outcomes of a turn together, also of equal kernels."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tilewright.core.budget import Budget
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
from tilewright.search.beam import BeamSearch
from tilewright.search.in_process import ManyThreads
from tilewright.search.loop import Search
from tilewright.search.proposing import Batches
from tilewright.search.steps import SearchTask
from tilewright.testing.toy import (
    START,
    ToyProposer,
    ToyTarget,
    ToyTask,
    digits_of,
    toy_outcome,
    whole_batch,
)


class InTurns(ToyProposer):
    """Two kernels a turn, of which the second is the same in every proposal and turn."""

    waits = True

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.heard: list[tuple[int, list[tuple[str, float | None]]]] = []
        self.lock = threading.Lock()

    def kernels(self, parent: Trial, plan: Plan, turn: int) -> list[Candidate]:
        number = int(plan.option.rpartition("-")[2])
        digits = digits_of(parent.candidate.source)
        own = list(digits)
        own[number] = max(0, own[number] - turn)
        common = f"toy {' '.join(['8'] * len(digits))}  # of {number} in turn {turn}"
        said = Plan(plan.parent_id, plan.option, plan.text, self.name, {"turn": turn})
        made = (f"toy {' '.join(map(str, own))}", common)
        return [Candidate(source, plan.parent_id, said, self.name) for source in made]

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        return self.kernels(parent, plan, 1)

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        plan = trials[0].candidate.plan
        assert plan is not None
        assert plan.turn is not None
        assert all(trial.iteration == brief.iteration for trial in trials) or brief.iteration > 1
        assert len(history) == len(history.before(brief.iteration))
        with self.lock:
            said = [(trial.candidate.source, trial.latency) for trial in trials]
            self.heard.append((plan.turn, said))
        return self.kernels(parent, plan, plan.turn + 1) if plan.turn < self.turns else []


class LastFirst:
    """Evaluates a batch from its end."""

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        batch = whole_batch(requests, more)
        outcomes = [toy_outcome(request.candidate.source) for request in batch]
        for position in reversed(range(len(batch))):
            if on_outcome is not None:
                on_outcome(position, outcomes[position], 0.0, False)
        return outcomes

    def close(self) -> None:
        pass


def searched(proposer: InTurns, known: Sequence[Trial] = (), rounds: int = 3) -> list[Trial]:
    """The trials of one iteration in which three proposals are made."""
    settings = Settings(dropout=0.0, plans=3, implementations=1, iterations=1)
    task = SearchTask(ToyTask.workload, ToyTarget().brief(), proposer, settings)
    strategy = BeamSearch(1, 1, 1)
    trials: list[Trial] = list(known)
    search = Search(
        strategy=strategy,
        batches=Batches(task, strategy, ManyThreads(task), lambda event: None),
        executor=LastFirst(),
        append=trials.append,
        iterations=1,
        budget=Budget(),
        wall_s=lambda: 0.0,
        on_event=lambda event: None,
        rounds=rounds,
    )
    start = History(known) if known else search.evaluate_start(Candidate(START))
    search.run(start)
    return trials


def test_every_turn_hears_of_all_its_kernels_in_their_order() -> None:
    proposer = InTurns(3)
    searched(proposer)
    assert sorted(turn for turn, _ in proposer.heard) == [1] * 3 + [2] * 3 + [3] * 3
    for turn, said in proposer.heard:
        assert [latency for _, latency in said] == [
            getattr(toy_outcome(source), "latency", None) for source, _ in said
        ]
        assert f"in turn {turn}" in said[1][0]


def test_equal_kernels_are_evaluated_once_and_told_to_all() -> None:
    proposer = InTurns(3)
    trials = searched(proposer)
    forms = [tuple(digits_of(trial.candidate.source)) for trial in trials]
    assert len(forms) == len(set(forms))
    assert all(latency == 220.0 for _, said in proposer.heard for _, latency in said[1:])


def test_turns_end_with_the_rounds() -> None:
    proposer = InTurns(9)
    searched(proposer, rounds=1)
    assert {turn for turn, _ in proposer.heard} <= {1, 2}


def test_a_search_that_goes_on_asks_the_same_and_evaluates_only_the_rest() -> None:
    whole = searched(InTurns(3))
    for known in range(1, len(whole)):
        proposer = InTurns(3)
        assert searched(proposer, whole[:known]) == whole
        assert len(proposer.heard) == 9
