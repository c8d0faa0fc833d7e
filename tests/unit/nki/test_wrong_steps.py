"""Wrong results of a search: the steps that made them are not proposed again, for any rewriter."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from nki_kernels import naive, opened

from tilewright.core.records import (
    Brief,
    Candidate,
    Failed,
    History,
    Measured,
    MenuOption,
    Outcome,
    Plan,
    Trial,
    Verdict,
)
from tilewright.proposers.builtin import BuiltinProposer
from tilewright.proposers.nki.planning.planner import draw
from tilewright.proposers.plan_variants import lengthened
from tilewright.proposers.wrong_steps import Lessons, lessons
from tilewright.targets.trainium import create_target

ATTENTION = "sd_attention-512x64"
START = Trial(0, 0, Candidate("start"), Measured(100.0, "ns", "modelled", None, Verdict(())))
CORRECT = Measured(50.0, "ns", "modelled", None, Verdict(()))
WRONG = Failed("check", "wrong_result", "")
WRONG_AGAIN = Failed("measure", "unconfirmed", "", cause="wrong_result")
SLOWER_AGAIN = Failed("measure", "unconfirmed", "")


def plan(*steps: str) -> Plan:
    return Plan(START.candidate.id, "o", "T.", "builtin", {"steps": "; ".join(steps)})


def brief(techniques: Sequence[str] = ("jam", "narrow", "strip", "hoist"), rank: int = 0) -> Brief:
    menu = tuple(MenuOption(t, "", t) for t in techniques)
    target = replace(create_target().brief(), menu=menu)
    return Brief(opened(ATTENTION).workload, target, menu, 1, 9, rank)


def learned(*tried: tuple[Sequence[str], Outcome], rank: int = 0) -> Lessons:
    trials = [
        Trial(n, 1, Candidate(f"k{n}", START.candidate.id, plan(*steps), "builtin"), outcome)
        for n, (steps, outcome) in enumerate(tried, 1)
    ]
    return lessons(History([START, *trials]), brief(rank=rank))


@pytest.mark.parametrize("outcome", [WRONG, WRONG_AGAIN])
def test_a_technique_that_was_wrong_alone_is_excluded(outcome: Failed) -> None:
    assert learned((["strip 1 512"], outcome)).excluded == {"strip"}
    assert learned((["jam i 2", "strip 1 512"], outcome), (["jam j 4"], CORRECT)).excluded == {
        "strip"
    }
    assert learned((["jam i 2", "narrow a"], outcome)).excluded == {"narrow"}


def test_failures_for_other_reasons_exclude_nothing() -> None:
    found = learned((["strip 1 512"], SLOWER_AGAIN), (["jam i 2"], Failed("build", "timeout", "")))
    assert not found.excluded
    assert found.allows(["strip 1 512"])


def test_the_technique_that_wrong_kernels_have_in_common_is_excluded() -> None:
    once = (["jam i 2", "strip 1 512"], WRONG)
    assert not learned(once).excluded
    assert learned(once, (["strip 2 512", "hoist a i"], WRONG)).excluded == {"strip"}
    two_products = (["narrow a", "narrow b"], WRONG)
    assert not learned(two_products).excluded
    assert learned(two_products, (["narrow c", "narrow d"], WRONG)).excluded == {"narrow"}


def test_steps_that_were_wrong_together_are_not_tried_together_again() -> None:
    found = learned((["jam i 2", "narrow a", "narrow b"], WRONG))
    assert not found.allows(["narrow b", "hoist x i", "narrow a"])
    assert found.allows(["narrow a", "jam i 2"])


def test_a_technique_that_was_correct_once_is_only_refused_at_the_places_that_were_wrong() -> None:
    found = learned((["narrow a"], CORRECT), (["narrow b"], WRONG), (["narrow b", "jam i"], WRONG))
    assert not found.excluded
    assert found.allows(["narrow a"])
    assert not found.allows(["narrow a", "narrow b"])
    together = learned((["narrow a"], CORRECT), (["narrow a", "narrow b"], WRONG))
    assert not together.allows(["narrow b"])


def told(found: Lessons) -> list[tuple[str, ...]]:
    made = (plan("narrow a"), plan("narrow b"), plan("jam i 2"))
    return [p.steps for p in found.allowed(made)]


def test_an_unproven_technique_is_used_in_one_plan() -> None:
    assert told(learned()) == [("narrow a",), ("jam i 2",)]
    assert told(learned((["narrow z"], CORRECT))) == [("narrow a",), ("narrow b",), ("jam i 2",)]
    assert told(learned((["narrow z"], WRONG))) == [("jam i 2",)]
    assert told(learned(rank=1)) == [("jam i 2",)]


def test_the_text_of_a_longer_plan_names_all_steps() -> None:
    first = replace(plan("jam i 2"), text="Jam `i`. This should save 3 cycles.")
    longer = lengthened(first, ["narrow a", "narrow b"], ["narrow `a`", "narrow `b`"])
    assert longer.text == "Jam `i`; then narrow `a`; then narrow `b`. This should save 3 cycles."
    assert longer.base_text == first.text == first.base_text
    assert longer.steps == ("jam i 2", "narrow a", "narrow b")
    assert lengthened(replace(first, text="Jam."), ["x"], ["do x"]).text == "Jam; then do x."
    assert lengthened(first, [], []) == first


def test_variants_of_a_plan_say_what_their_steps_are() -> None:
    task = opened(ATTENTION)
    menu = tuple(MenuOption(t, "", t) for t in ("narrow", "jam", "hoist"))
    offered = replace(brief(), workload=task.workload, menu=menu)
    start = Trial(0, 0, Candidate(task.start), CORRECT)
    proposer = BuiltinProposer()
    plans = proposer.plan(replace(offered, iteration=2), start, History([start]), 2, 0)
    made = [c for p in plans for c in proposer.implement(offered, start, p, 3, 0)]
    assert len(made) > len(plans)
    for candidate in made:
        assert candidate.plan is not None
        assert candidate.plan.text.count("; then ") == len(candidate.plan.steps) - 1


def test_a_technique_that_is_wrong_as_often_as_correct_is_unproven() -> None:
    once, wrong = (["narrow a"], CORRECT), (["narrow b"], WRONG)
    assert not learned(once).unproven
    assert learned(once, wrong).unproven == {"narrow"}
    assert not learned(once, wrong, (["jam i 2", "narrow c"], CORRECT)).unproven


class Rewriter:
    """Records the menu and the number of kernels that it is asked for."""

    def __init__(self) -> None:
        self.menu: list[str] = []
        self.count = 0

    def plan(self, brief: Brief, *_: Any) -> Iterator[Plan]:
        self.menu = [o.technique for o in brief.target.menu]
        yield from (plan("jam i 2"), plan("strip 3 512"))

    def implement(self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int) -> Any:
        self.menu, self.count = [o.technique for o in brief.target.menu], count
        return []


def test_every_rewriter_is_given_the_menu_without_what_was_wrong() -> None:
    proposer, rewriter = BuiltinProposer(), Rewriter()
    proposer._for = lambda target: rewriter  # type: ignore[method-assign, assignment, return-value]
    bad = Trial(1, 1, Candidate("k", START.candidate.id, plan("strip 1 512"), "builtin"), WRONG)
    plans = proposer.plan(brief(), START, History([START, bad]), 4, 0)
    assert rewriter.menu == ["jam", "narrow", "hoist"]
    assert [p.steps for p in plans] == [("jam i 2",)]
    proposer.implement(brief(), START, plans[0], 3, 0)
    assert (rewriter.menu, rewriter.count) == (["jam", "hoist"], 3)
    risked = replace(plan("narrow a"), parameters={"steps": "narrow a", "avoided": "narrow"})
    proposer.implement(brief(), START, risked, 3, 0)
    assert rewriter.count == 1


@pytest.mark.slow
def test_drafts_use_an_unproven_technique_once_and_no_refuted_steps() -> None:
    kernel, techniques = naive(ATTENTION), ("narrow", "jam")
    menu = [MenuOption(t, "", t) for t in techniques]

    def drafts(found: Lessons) -> list[set[str]]:
        made = draw(kernel, menu, techniques, History(()), 6, random.Random(0), lessons=found)
        return [{s for s in map(str, d.steps) if s.startswith("narrow")} for d in made]

    free = drafts(Lessons())
    assert sum(map(bool, free)) > 1
    once = drafts(Lessons(unproven=frozenset({"narrow"})))
    assert len(once) == len(free)
    (risked,) = filter(None, once)
    refuted = Lessons(wrong=(frozenset(risked),), unproven=frozenset({"narrow"}))
    assert not any(risked <= steps for steps in drafts(refuted))
    assert not any(drafts(Lessons(unproven=frozenset({"narrow"}), may_risk=False)))
