"""An earlier run's schedule: what it is, and that it reaches proposers unchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.core.errors import InputError
from tilewright.core.records import Candidate, History, Measured, Plan, RunRecord, Trial, Verdict
from tilewright.search.reuse import schedule_of

RUN = RunRecord("r1", "toy:digits", "toy", {}, {}, "2026-11-21")


def measured(index: int, source: str, latency: float, plan: Plan | None = None) -> Trial:
    outcome = Measured(latency, "cycles", "simulated", 0.5, Verdict(()))
    parent = plan.parent_id if plan else None
    return Trial(index, index, Candidate(source, parent, plan), outcome)


def plan(parent: Trial, option: str, base: Trial | None = None) -> Plan:
    parameters = {"base": base.candidate.id} if base else {}
    return Plan(parent.candidate.id, option, f"Do {option}.", "p", parameters)


START = measured(0, "start", 100.0)
FIRST = measured(1, "first", 80.0, plan(START, "a"))
SECOND = measured(2, "second", 60.0, plan(FIRST, "b"))


def test_it_is_the_way_to_the_best_kernel() -> None:
    other = measured(3, "other", 70.0, plan(START, "c"))
    found = schedule_of(RUN, History([START, FIRST, SECOND, other]))
    assert [p.option for p in found.plans] == ["a", "b"]
    assert found.latencies == (100.0, 80.0, 60.0)
    assert (found.workload, found.unit) == ("toy:digits", "cycles")


def test_a_plan_that_went_back_follows_on_what_it_went_back_to() -> None:
    back = measured(3, "back", 50.0, plan(SECOND, "d", base=FIRST))
    found = schedule_of(RUN, History([START, FIRST, SECOND, back]))
    assert [p.option for p in found.plans] == ["a", "d"]
    assert found.latencies == (100.0, 80.0, 50.0)


@pytest.mark.parametrize("trials", [[], [START], [replace(START, outcome=FIRST.outcome)]])
def test_nothing_found_is_nothing_to_reuse(trials: list[Trial]) -> None:
    with pytest.raises(InputError, match="no faster kernel yet"):
        schedule_of(RUN, History(trials))
