"""Batches: dropout, derived seeds, duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.config import Settings
from tilewright.core.errors import ConfigurationError
from tilewright.core.records import (
    Brief,
    Candidate,
    EvaluationRequest,
    History,
    MenuOption,
    Plan,
    Trial,
)
from tilewright.search.beam import BeamSearch
from tilewright.search.events import Event, Implemented, Planned, ProposalFailed
from tilewright.search.in_process import StepByStep
from tilewright.search.proposing import MEASURED_BEYOND, Batches
from tilewright.search.steps import Children, Expansion, SearchTask, Steps, derived_seed
from tilewright.testing.search import toy_history
from tilewright.testing.toy import START, ToyProposer, ToyTarget, ToyTask, normal_form, toy_outcome

MENU = [MenuOption(f"option-{i}", "") for i in range(10)]


def offered(
    menu: Sequence[MenuOption], dropout: float, seed: int, number: int = 0
) -> tuple[MenuOption, ...]:
    toy = ToyTarget()
    task = toy.open("digits-4", {})
    brief = Brief(task.workload, toy.brief(), tuple(menu), 1, 15, dropout=dropout, seed=seed)
    return brief.offered(number)


@given(st.integers(0, 2**64), st.integers(1, 10), st.floats(0, 0.99))
def test_dropout_keeps_some_options_in_their_order(seed: int, size: int, dropout: float) -> None:
    menu = MENU[:size]
    kept = offered(menu, dropout, seed)
    assert kept
    assert list(kept) == [option for option in menu if option in kept]
    assert offered(menu, dropout, seed) == kept


def test_dropout_drops_with_its_probability_and_anew_for_every_plan() -> None:
    draws = [offered(MENU, 0.7, seed, number) for seed in range(1000) for number in range(2)]
    assert 0.28 < sum(map(len, draws)) / (2000 * len(MENU)) < 0.32
    assert sum(a != b for a, b in zip(draws[::2], draws[1::2], strict=True)) > 900


def test_no_dropout_keeps_the_menu() -> None:
    assert offered(MENU, 0.0, 1) == tuple(MENU)
    assert offered([], 0.7, 1) == ()


def test_seeds_differ_by_everything_they_are_derived_from() -> None:
    seeds = {
        derived_seed(seed, iteration, parent, purpose)
        for seed in range(3)
        for iteration in range(3)
        for parent in ("a", "b")
        for purpose in ("plan", "dropout")
    }
    assert len(seeds) == 36


class RecordingProposer(ToyProposer):
    """Keeps the briefs it is given."""

    def __init__(self) -> None:
        self.briefs: list[Brief] = []

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        self.briefs.append(brief)
        return super().plan(brief, parent, history, count, seed)


class WaitingProposer(ToyProposer):
    """As one that asks models."""

    waits = True


def propose(
    history: History, settings: Settings, iteration: int = 3, proposer: ToyProposer | None = None
) -> tuple[list[EvaluationRequest], list[Event]]:
    events: list[Event] = []
    strategy = BeamSearch(settings.beam)
    task = SearchTask(ToyTask.workload, ToyTarget().brief(), proposer or ToyProposer(), settings)
    batches = Batches(task, strategy, StepByStep(task), events.append)
    parts = batches.stream(iteration, strategy.select(history), history)
    return [request for part in parts for request in part], events


@pytest.mark.parametrize("seed", range(10))
def test_a_batch_has_nothing_twice_and_nothing_old(seed: int) -> None:
    history = toy_history(seed, 60)
    requests, _ = propose(history, Settings(seed=seed))
    forms = [normal_form(r.candidate.source) for r in requests]
    assert len(set(forms)) == len(forms)
    assert not set(forms) & {normal_form(t.candidate.source) for t in history}


def test_the_batch_depends_on_the_seed_and_nothing_else() -> None:
    history = toy_history(1, 40)
    first, events = propose(history, Settings(seed=1))
    again, same_events = propose(history, Settings(seed=1))
    other, _ = propose(history, Settings(seed=2))
    assert (first, events) == (again, same_events)
    assert first != other


def test_each_parent_and_iteration_has_a_menu_of_its_own() -> None:
    history, proposer = toy_history(1, 60), RecordingProposer()
    for iteration in (1, 2, 3):
        propose(history, Settings(), iteration, proposer)
    assert {b.iteration for b in proposer.briefs} == {1, 2, 3}
    assert [b.rank for b in proposer.briefs] == [0, 1, 2, 3, 4, 5] * 3
    assert len({b.offered() for b in proposer.briefs}) > 3
    assert all(len(b.target.menu) == 5 for b in proposer.briefs)


class BeginningAnew(ToyProposer):
    """Its plans leave nothing of what the parent was."""

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        plans = super().plan(brief, parent, history, count, seed)
        return [replace(p, parameters={**p.parameters, "anew": 1}) for p in plans]


def test_what_begins_anew_has_no_limit() -> None:
    requests, _ = propose(toy_history(1, 60), Settings(), proposer=BeginningAnew())
    assert requests
    assert {request.limit_latency for request in requests} == {None}


def test_limits_and_counts_follow_the_parents() -> None:
    history, settings = toy_history(1, 60), Settings(plans=3, implementations=2, dropout=0.2)
    requests, events = propose(history, settings)
    for request in requests:
        parent = history.get(request.candidate.parent_id or "")
        assert parent is not None
        assert request.limit_latency == parent.latency
    planned = [e for e in events if isinstance(e, Planned)]
    implemented = [e for e in events if isinstance(e, Implemented)]
    assert [e.parent_id for e in planned] == [e.parent_id for e in implemented]
    assert all(e.plans <= 3 for e in planned)
    assert sum(e.candidates for e in implemented) == len(requests)
    totals = [e.candidates + e.duplicates for e in implemented]
    assert totals == [2 * e.plans for e in planned]


def test_somewhat_slower_candidates_of_a_proposer_that_waits_are_measured() -> None:
    history = toy_history(1, 60)
    requests, _ = propose(history, Settings(), proposer=WaitingProposer())
    assert requests
    for request in requests:
        parent = history.get(request.candidate.parent_id or "")
        assert parent is not None
        assert parent.latency is not None
        assert request.limit_latency == MEASURED_BEYOND * parent.latency > parent.latency


class SlowPlanner(ToyProposer):
    """Its second plan is never made."""

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        yield self.plan(brief, parent, history, count, seed)[0]
        raise AssertionError("asked for the second plan")


def test_the_kernels_of_a_plan_are_handed_on_before_the_next_plan_is_made() -> None:
    settings, history = Settings(), toy_history(1, 4)
    task = SearchTask(ToyTask.workload, ToyTarget().brief(), SlowPlanner(), settings)
    messages = Steps(task).expand(Expansion(1, 0, history[0].candidate.id), history)
    assert isinstance(next(messages), Children)
    assert isinstance(next(messages), ProposalFailed)
    assert next(messages) == Planned(1, history[0].candidate.id, 1)


def test_iterations_that_only_try_values_do_not_change_later_random_choices() -> None:
    """With a single instance in between, a search missed a kernel that the search without instances
    found by chance.
    """
    start = Trial(0, 0, Candidate(START), toy_outcome(START))
    values = Plan(start.candidate.id, "parameters", "Set A = 2.", "x", {"instance": "a"})
    slower = Candidate(START + " # 1", start.candidate.id, values, "x")
    instance = Trial(1, 2, slower, toy_outcome(START))

    def plans(iteration: int, *trials: Trial) -> list[str]:
        proposer = RecordingProposer()
        settings = Settings(beam=1, plans=2)
        requests, _ = propose(History([start, *trials]), settings, iteration, proposer)
        return [str(proposer.briefs[0].seed), *(r.candidate.source for r in requests)]

    assert plans(3, instance) == plans(2)
    assert plans(3) != plans(2)


def test_the_menu_follows_the_settings_of_the_target() -> None:
    option = MenuOption("low", "", allowed_by=("precision=low",))
    brief = replace(ToyTarget().brief(), menu=(option,))

    def menu(**settings: str) -> tuple[MenuOption, ...]:
        chosen = Settings(target_settings=settings)
        return SearchTask(ToyTask.workload, brief, ToyProposer(), chosen).menu

    assert menu() == menu(precision="high") == ()
    assert menu(precision="low") == (option,)


class SilentProposer(ToyProposer):
    """Has no plan."""

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        return []


class StubbornProposer(ToyProposer):
    """Proposes the starting kernel again and again, in another layout."""

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        return [Candidate(f"{START}  # {i}", parent.candidate.id, plan) for i in range(count)]


@pytest.mark.parametrize("proposer", [SilentProposer(), StubbornProposer()])
def test_no_new_idea_is_an_empty_batch(proposer: ToyProposer) -> None:
    start: Sequence[Trial] = [Trial(0, 0, Candidate(START), toy_outcome(START))]
    requests, _ = propose(History(start), Settings(), proposer=proposer)
    assert requests == []


class DefectiveProposer(ToyProposer):
    """Cannot implement the option on digit 2."""

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        if plan.option == "lower-2":
            raise StopIteration
        return super().implement(brief, parent, plan, count, seed)


def test_a_defect_in_the_proposer_costs_one_step() -> None:
    history, settings = toy_history(1, 40), Settings(dropout=0.0)
    sound, _ = propose(history, settings)
    found, events = propose(history, settings, proposer=DefectiveProposer())
    failures = [e for e in events if isinstance(e, ProposalFailed)]
    assert len(failures) == 6
    assert all("StopIteration" in e.log for e in failures)
    options = {r.candidate.plan.option for r in found if r.candidate.plan}
    assert options == {"lower-0", "lower-1", "lower-3", "lower-4"}
    assert len(found) < len(sound)


class KeylessProposer(ToyProposer):
    """Lacks something that only the user can give."""

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        raise ConfigurationError("no key is set: set one.")


def test_what_the_user_must_mend_ends_the_search() -> None:
    with pytest.raises(ConfigurationError):
        propose(toy_history(1, 40), Settings(), proposer=KeylessProposer())
