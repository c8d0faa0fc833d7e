"""Time and money of iterations, taken in piece by piece, are those that the whole log says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tilewright.core.records import CallRecord, Failed
from tilewright.core.run_notes import Rechecked
from tilewright.serve.axes import LiveAxes
from tilewright.serve.project import LiveRun
from tilewright.serve.run_updates import PageState, axes_after, rows_after
from tilewright.storage.overview_records import Event, Payment
from tilewright.storage.project import open_calls, open_overview, open_project
from tilewright.testing.runs import history

from .conftest import store


def at(second: int) -> str:
    return f"2026-11-21T02:{second // 60:02}:{second % 60:02}+00:00"


def log() -> list[Event]:
    """Two sessions of 10 iterations, 3 s each, with an hour's pause that does not count."""
    events = [Event(1, at(0), "RunStarted", {})]
    events += [Event(2 + i, at(3 * i + 3), "IterationFinished", {"iteration": i}) for i in range(9)]
    events.append(Event(11, "2026-11-21T03:30:00+00:00", "RunStarted", {"iteration": 9}))
    events.append(Event(12, "2026-11-21T03:30:03+00:00", "IterationFinished", {"iteration": 10}))
    return events


def calls() -> list[Payment]:
    """One each second of the first session, for 1 dollar."""
    return [Payment(number, at(number), 1.0) for number in range(1, 28)]


def test_pauses_do_not_count_and_money_is_that_spent_until_then() -> None:
    axes = LiveAxes()
    axes.extend(log(), calls())
    assert axes.rows[:2] == [(0, 3.0, 3.0), (1, 6.0, 6.0)]
    assert axes.rows[-1] == (10, 30.0, 27.0)
    assert axes.has_costs
    assert axes.settled == 27


@pytest.mark.parametrize("seed", range(20))
def test_piece_by_piece_is_the_same_as_at_once(seed: int) -> None:
    """Calls are told in any order of their answers, some only after the end of an iteration."""
    whole = LiveAxes()
    whole.extend(log(), calls())
    axes, chance = LiveAxes(), random.Random(seed)
    answered: set[int] = set()
    rest, page, told, generation = log(), list[object](), 0, 0
    while rest or len(answered) < len(calls()):
        now, rest = split(rest, chance)
        answered |= {p.number for p in chance.sample(calls(), 4)}
        asked = [
            p if p.number in answered else Payment(p.number, None, 0.0)
            for p in calls()
            if p.number > axes.settled
        ]
        axes.extend(now, asked)
        if axes.generation != generation:
            generation, told = axes.generation, 0
        news = axes_after(axes, told)
        page[news["first"] :] = news["rows"]
        told = len(page)
    assert axes.rows == whole.rows
    assert page == whole.rows, "what a page was told piece by piece"
    assert axes.settled == whole.settled


def split(events: list[Event], chance: random.Random) -> tuple[Sequence[Event], list[Event]]:
    count = chance.randrange(4)
    return events[:count], events[count:]


def test_what_other_processes_write_is_taken_in(tmp_path: Path) -> None:
    trials = history(30, lines=8)
    run = store(tmp_path, trials[:20])  # type: ignore[arg-type]
    live, told = LiveRun(), PageState()
    with (
        closing(open_overview(tmp_path)) as overview,
        closing(open_project(tmp_path)) as storage,
        closing(open_calls(tmp_path)) as spending,
    ):
        assert len(live.update(overview, run.id).trials.views) == 20
        call = CallRecord(run.id, "k1", "model", "plan", "intended")
        spending.intend(call, {})
        assert not live.update(overview, run.id).axes.has_costs
        spending.finish(call, None)
        assert live.update(overview, run.id).axes.has_costs
        for trial in trials[20:]:
            storage.append_trial(run.id, trial)
        live.update(overview, run.id)
        assert [row[0] for row in rows_after(live.trials, 19)["rows"]] == list(range(20, 30))
        assert told.axes_generation == live.axes.generation
        best = trials.best
        assert best is not None
        assert rows_after(live.trials, -1)["winning"][-1] == best.index
        storage.amend_trial(run.id, best.index, Failed("check", "unconfirmed", "slower"))
        storage.keep(run.id, Rechecked(best.candidate.id, confirmed=False))
        live.update(overview, run.id)
        assert live.trials.generation == 1
        assert live.trials.views[best.index].state == "unconfirmed"
        assert live.trials.best is not None
        assert live.trials.best.index != best.index
        views = live.trials.views
        assert live.trials.measured == sum(v.latency is not None for v in views)
        assert live.trials.failed == sum(v.state == "failed" for v in views)
        assert live.trials.stopped == sum(v.state == "stopped" for v in views)
        assert [v.index for v in views if v.winning] == sorted(live.trials.winning)
