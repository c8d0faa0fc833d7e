"""Contract suite of the `SearchStrategy` role.

Subclass `SearchStrategyContract` in a test module and define the fixture `strategy`. Pytest
collects the inherited tests. They run searches with the toy target of `testing.toy`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tilewright.core.records import Candidate, History, Trial
from tilewright.core.roles import SearchStrategy
from tilewright.testing.toy import DIGITS, START, digits_of, toy_outcome


def toy_history(seed: int, trials: int) -> History:
    """The history of a random search, with several iterations, failures, duplicates and worse
    kernels."""
    rng = random.Random(seed)
    history = History([Trial(0, 0, Candidate(START), toy_outcome(START))])
    while len(history) < trials:
        parent = rng.choice([t for t in history if t.latency is not None]).candidate
        digits = digits_of(parent.source)
        digits[rng.randrange(DIGITS)] -= rng.randint(-1, 3)
        source = f"toy {' '.join(map(str, digits))}"
        child = Candidate(source, parent.id, proposer="toy")
        iteration = 1 + len(history) // 8
        history = history.extended([Trial(len(history), iteration, child, toy_outcome(source))])
    return history


def histories() -> Iterator[History]:
    """Histories of many sizes, in order of size."""
    for seed in range(40):
        yield toy_history(seed, 1 + 2 * seed)


class SearchStrategyContract:
    """Tests that every search strategy must pass."""

    @pytest.fixture
    def strategy(self) -> SearchStrategy:
        """The strategy under test."""
        raise NotImplementedError

    def test_parents_are_distinct_measured_trials_of_the_history(
        self, strategy: SearchStrategy
    ) -> None:
        """Parents are distinct measured trials of the history, never failed ones."""
        for history in histories():
            parents = strategy.select(history)
            assert all(p.latency is not None and p in list(history) for p in parents)
            assert len({p.candidate.id for p in parents}) == len(parents)

    def test_there_is_a_parent_once_a_trial_is_measured(self, strategy: SearchStrategy) -> None:
        """A search whose starting kernel was measured always has a parent to continue from."""
        assert all(strategy.select(history) for history in histories())

    def test_nothing_measured_gives_no_parent(self, strategy: SearchStrategy) -> None:
        """An empty history, and one whose starting kernel failed, have no parents."""
        wrong = "toy " + " ".join(["-1"] * DIGITS)
        failed = History([Trial(0, 0, Candidate(wrong), toy_outcome(wrong))])
        assert strategy.select(History()) == []
        assert strategy.select(failed) == []

    def test_the_history_alone_decides(self, strategy: SearchStrategy) -> None:
        """The result depends only on the history, not on the order of the calls."""
        first = [strategy.select(h) for h in histories()]
        again = [strategy.select(h) for h in reversed(list(histories()))]
        assert first == again[::-1]
        stops = [strategy.should_stop(h, 3) for h in histories()]
        assert stops == [strategy.should_stop(h, 3) for h in histories()]

    def test_how_the_history_came_about_does_not_matter(self, strategy: SearchStrategy) -> None:
        """The result is the same whether the strategy was called after every trial or only once."""
        for seed in range(5):
            whole = toy_history(seed, 60)
            grown = History()
            for trial in whole:
                grown = grown.extended([trial])
                fresh = History(grown)
                assert strategy.select(grown) == strategy.select(fresh)
                following = trial.iteration + 1
                stops = [strategy.should_stop(h, following) for h in (grown, fresh)]
                assert stops[0] == stops[1]

    def test_an_earlier_history_gives_what_it_gave(self, strategy: SearchStrategy) -> None:
        """The result for an earlier history does not change after a call with a later one."""
        history = toy_history(2, 60)
        cuts = [history.before(iteration) for iteration in range(1, 8)]
        first = [strategy.select(cut) for cut in cuts]
        strategy.select(history)
        assert [strategy.select(cut) for cut in cuts] == first

    def test_a_child_at_its_limit_is_not_kept(self, strategy: SearchStrategy) -> None:
        """A child that was stopped at its limit would not have been selected."""
        for history in histories():
            for parent in strategy.select(history):
                limit = strategy.limit_latency(parent)
                for child in history:
                    first = history.get(child.candidate.id) is child
                    kept = first and child in strategy.select(history)
                    if kept and child.candidate.parent_id == parent.candidate.id:
                        assert limit is None or (child.latency or 0.0) < limit

    def test_a_search_without_progress_ends(self, strategy: SearchStrategy) -> None:
        """After some number of iterations without a faster kernel, the search ends."""
        history = toy_history(1, 20)
        assert any(strategy.should_stop(history, i) for i in range(1, 10_000))
