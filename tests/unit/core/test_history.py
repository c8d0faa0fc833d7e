"""History: what it answers does not depend on how it grew, and growing it copies nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.records import Candidate, Failed, History, Measured, Trial, Verdict


def trial(index: int, latency: float | None, parent: int | None, iteration: int, kernel: int = -1):
    outcome = Failed("build", "compile_error", "")
    if latency is not None:
        outcome = Measured(latency, "cycles", "simulated", 0.5, Verdict(()))
    parent_id = None if parent is None else Candidate(f"k{parent}").id
    source = f"k{index if kernel < 0 else kernel}"
    return Trial(index, iteration, Candidate(source, parent_id), outcome)


@st.composite
def trials(draw: st.DrawFn) -> list[Trial]:
    """With failures, ties, repeated kernels and iterations that gave nothing."""
    found = [trial(0, 9.0, None, 0)]
    iteration = 1
    for index in range(1, draw(st.integers(1, 20))):
        iteration += draw(st.sampled_from([0, 0, 0, 1, 3]))
        latency = draw(st.none() | st.integers(1, 9).map(float))
        kernel = draw(st.sampled_from([-1, -1, -1, index - 1]))
        found.append(trial(index, latency, draw(st.integers(0, index - 1)), iteration, kernel))
    return found


class Count:
    """An index that knows how many trials it was told of, and that they came in order."""

    def __init__(self) -> None:
        self.seen: list[Trial] = []

    def add(self, trial: Trial, history: History) -> None:
        assert history[-1] is trial
        assert len(history) == len(self.seen) + 1
        self.seen.append(trial)


def answers(history: History, iteration: int, candidate: str) -> list[object]:
    """By the plain definitions, over all trials."""
    every = list(history)
    measured = [t for t in every if t.latency is not None]
    return [
        next((t for t in every if t.candidate.id == candidate), None),
        [t for t in every if t.candidate.parent_id == candidate],
        min(measured, key=lambda t: (t.latency, t.index), default=None),
        [t for t in every if t.iteration < iteration],
        len({t.iteration for t in every if t.iteration > iteration}),
        every,
    ]


@given(trials(), st.data())
def test_every_view_answers_by_its_own_trials(every: list[Trial], data: st.DataObject) -> None:
    views = [History()]
    while len(views[-1]) < len(every):
        size = data.draw(st.integers(1, 5))
        views.append(views[-1].extended(every[len(views[-1]) : len(views[-1]) + size]))
        if data.draw(st.booleans()):
            views[-1].indexed(Count)
    for view in data.draw(st.permutations(views)):
        for one in (every[0], every[-1]):
            iteration, candidate = one.iteration, one.candidate.id
            assert [
                view.get(candidate),
                view.children(candidate),
                view.best,
                list(view.before(iteration)),
                view.iterations_after(iteration),
                view.indexed(Count).seen,
            ] == answers(view, iteration, candidate)


def test_extending_an_older_view_leaves_the_newer_one_alone() -> None:
    start = History([trial(0, 9.0, None, 0)])
    left = start.extended([trial(1, 5.0, 0, 1)])
    right = start.extended([trial(1, 7.0, 0, 1)])
    assert [t.latency for t in left] == [9.0, 5.0]
    assert [t.latency for t in right] == [9.0, 7.0]
    assert [len(h.children(start[0].candidate.id)) for h in (start, left, right)] == [0, 1, 1]


def test_what_is_new_is_told_only_of_the_same_history() -> None:
    start = History([trial(0, 9.0, None, 0)])
    later = start.extended([trial(1, 5.0, 0, 1)])
    assert later.since(start) == (later[1],)
    assert later.since(later) == ()
    assert start.since(later) is None
    assert later.since(History(start)) is None


def test_an_index_hears_of_each_trial_once_however_often_it_is_asked_for() -> None:
    history, told = History(), 0

    class Told(Count):
        def add(self, trial: Trial, history: History) -> None:
            nonlocal told
            told += 1
            super().add(trial, history)

    for index in range(100):
        history = history.extended([trial(index, 9.0, None, index)])
        history.indexed(Told)
    assert told == 100


def test_slices_and_positions_are_those_of_the_view() -> None:
    history = History(trial(i, 9.0, None, i) for i in range(5))
    first = history.before(3)
    assert [t.index for t in first[-2:]] == [1, 2]
    assert first[-1].index == 2
    with pytest.raises(IndexError):
        first[3]
