"""Instances of templates in a search: planned from the history, tried before anything else."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tilewright.core.factors import StepFactors
from tilewright.core.records import (
    Brief,
    Candidate,
    Failed,
    History,
    LatencyKind,
    Measured,
    Outcome,
    Plan,
    TargetBrief,
    Trial,
    Verdict,
    Workload,
)
from tilewright.core.templates import (
    MACROS,
    KernelTemplate,
    Parameter,
    ParameterSpace,
    Point,
    TriedPoint,
    parse_template,
)
from tilewright.parts.languages import C
from tilewright.proposers import parameters
from tilewright.proposers.parameters import ENOUGH, NAME, ParametersFirst
from tilewright.proposers.template_proposer import TemplateProposer
from tilewright.search.beam import BeamSearch

TEXT = "TUNE(A, 1, 2, 4, 8, 16, 32)\nTUNE(B, 1, 2, 4, 8, 16)\nvoid kernel(void) {}\n"
BRIEF = Brief(
    Workload("toy:x", "toy", (), 1),
    TargetBrief("toy", "", "", (), (), {}, {}, C, LatencyKind("simulated", "cycles")),
    (),
    iteration=1,
    iterations=9,
)


@pytest.fixture(autouse=True)
def few_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameters, "INSTANCES", 3)


class InOrder:
    """The points in their order, and what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[TriedPoint, ...]] = []

    def next_points(
        self, space: ParameterSpace, tried: Sequence[TriedPoint], count: int, seed: int
    ) -> list[Point]:
        self.asked.append(tuple(tried))
        known = {found.point for found in tried}
        return [point for point in space.points() if point not in known][:count]


class Structure:
    """Another proposer, whose plans say so."""

    name = "structure"
    parallel = True

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        return [Plan(parent.candidate.id, "structure", "Change it.", self.name)]

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        return [Candidate(parent.candidate.source + "//", parent.candidate.id, plan, self.name)]

    def normalize(self, source: str, target: TargetBrief) -> str:
        return source


def template() -> KernelTemplate:
    found = parse_template(TEXT, MACROS)
    assert found is not None
    return found


def proposer(start: KernelTemplate | None, search: InOrder | None = None) -> ParametersFirst:
    return ParametersFirst(Structure(), search or InOrder(), start, MACROS)


def measured(latency: float) -> Measured:
    return Measured(latency, "cycles", "simulated", 0.5, Verdict())


def trial(index: int, candidate: Candidate, outcome: Outcome) -> Trial:
    return Trial(index, index, candidate, outcome)


def start() -> Trial:
    text = template()
    return trial(0, Candidate(text.instance(text.first)), measured(100.0))


def instances(
    of: ParametersFirst, parent: Trial, history: History, count: int = 3
) -> list[Candidate]:
    plans = of.plan(BRIEF, parent, history, count, seed=0)
    return [made for p in plans for made in of.implement(BRIEF, parent, p, 1, 0)]


def test_the_start_of_a_folder_gives_instances_with_their_values_in_the_plan() -> None:
    made = instances(proposer(template()), start(), History([start()]))
    assert [c.source for c in made] == [template().instance({"A": 1, "B": b}) for b in (2, 4, 8)]
    plan = made[0].plan
    assert plan is not None
    assert plan.text == "Set A = 1, B = 2."
    assert {k: plan.parameters[f"tune.{k}"] for k in "AB"} == {"A": 1, "B": 2}
    assert plan.parameters["instance"] == start().candidate.id


def test_the_number_of_plans_does_not_limit_the_instances() -> None:
    """With `--plans 1`, which limits calls to models, a template had one instance per iteration."""
    for plans in (1, 9):
        assert len(instances(proposer(template()), start(), History([start()]), plans)) == 3


def timed(latency: float) -> Measured:
    """Twenty samples whose median has an interval of about 1 % in both directions."""
    samples = tuple(latency * (1 + 0.002 * n) for n in range(-10, 11))
    return replace(
        measured(latency), unit="ns", quantity="measured", samples={"session 1 candidate": samples}
    )


@pytest.mark.parametrize(("tenth", "evaluations"), [(99.4, ENOUGH), (97.0, 10 + ENOUGH)])
def test_the_search_of_values_does_not_follow_noise(tenth: float, evaluations: int) -> None:
    """Instances that were faster by chance counted as gains, so the search did not end."""
    of, history = proposer(template()), History([trial(0, start().candidate, timed(100.0))])
    while (best := history.best) is not None:
        plans = [p for p in of.plan(BRIEF, best, history, 1, seed=0) if p.proposer == NAME]
        if not plans:
            break
        (made,) = of.implement(BRIEF, best, plans[0], 1, 0)
        latency = tenth if len(history) == 10 else 101.0
        history = history.extended([trial(len(history), made, timed(latency))])
    assert len(history) - 1 == evaluations


def test_outcomes_of_instances_are_what_the_search_is_told() -> None:
    search = InOrder()
    of = proposer(template(), search)
    history = History([start()])
    outcomes = [measured(120.0), Failed("measure", "slower_than_limit", "", bound=400.0)]
    outcomes.append(Failed("check", "wrong_result", ""))
    made = instances(of, start(), history)
    history = history.extended(
        [trial(n, c, o) for n, (c, o) in enumerate(zip(made, outcomes, strict=True), 1)]
    )
    instances(of, start(), history)
    assert search.asked[-1] == (
        TriedPoint((1, 1), 100.0),
        TriedPoint((1, 2), 120.0),
        TriedPoint((1, 4), None, 400.0),
        TriedPoint((1, 8)),
    )


def test_only_the_fastest_instance_gives_others_and_the_first_are_measured_far_beyond() -> None:
    of = proposer(template())
    history = History([start()])
    faster = trial(1, instances(of, start(), history)[0], measured(50.0))
    history = history.extended([faster])
    assert of.plan(BRIEF, start(), history, 3, 0) == []
    plans = of.plan(BRIEF, faster, history, 3, 0)
    assert [p.parent_id for p in plans] == [faster.candidate.id] * 3
    assert plans[0].measured_beyond == 4.0


def test_measuring_goes_less_far_from_rung_to_rung_and_ends_when_nothing_gets_faster() -> None:
    of = proposer(template())
    history = History([start()])
    beyond = []
    while (plans := of.plan(BRIEF, start(), history, 1, 0))[0].proposer == NAME:
        beyond.append(plans[0].measured_beyond)
        made = of.implement(BRIEF, start(), plans[0], 1, 0)[0]
        history = history.extended([trial(len(history), made, measured(200.0))])
    assert plans[0].proposer == "structure"
    assert len(history) == 1 + ENOUGH
    assert beyond == sorted(beyond, reverse=True)
    assert {4.0, 2.0} <= set(beyond)


def test_a_template_in_a_candidate_is_taken_up_when_its_first_instance_was_measured() -> None:
    of = proposer(None)
    assert of.plan(BRIEF, start(), History([start()]), 1, 0)[0].proposer == "structure"
    text = template()
    plan = Plan(start().candidate.id, "tile", "Tile it.", "model", {"template": TEXT})
    brought = Candidate(text.instance(text.first) + "\n", start().candidate.id, plan, "model")
    brought_trial = trial(1, brought, measured(80.0))
    history = History([start(), brought_trial])
    made = instances(of, brought_trial, history)
    assert [c.proposer for c in made] == [NAME] * 3
    assert made[0].plan is not None
    assert made[0].plan.parameters["instance"] == brought.id
    child = trial(2, made[0], measured(70.0))
    assert instances(of, child, history.extended([child]))[0].proposer == NAME


def test_a_template_is_kept_although_its_first_values_are_slow() -> None:
    plan = Plan(start().candidate.id, "tile", "Tile it.", "model", {"template": TEXT})
    slower = trial(1, Candidate("slow", start().candidate.id, plan, "model"), measured(300.0))
    plain = replace(plan, parameters={})
    other = trial(2, Candidate("other", start().candidate.id, plain, "model"), measured(300.0))
    kept = BeamSearch(4, 9, 4).select(History([start(), slower, other]))
    assert [t.index for t in kept] == [0, 1]


def test_without_other_structure_nothing_follows_settled_values() -> None:
    of = ParametersFirst(TemplateProposer("builtin"), InOrder(), template(), MACROS)
    history = History([start()])
    while plans := of.plan(BRIEF, start(), history, 1, 0):
        assert plans[0].proposer == NAME
        made = of.implement(BRIEF, start(), plans[0], 1, 0)[0]
        history = history.extended([trial(len(history), made, measured(200.0))])
    assert len(history) == 1 + ENOUGH


def test_it_can_be_sent_to_another_process_and_says_how_the_others_work() -> None:
    of = ParametersFirst(Structure(), InOrder(), template(), MACROS)
    copy = pickle.loads(pickle.dumps(of))
    assert copy.parallel
    assert not copy.waits
    history = History([start()])
    assert copy.plan(BRIEF, start(), history, 2, 0) == of.plan(BRIEF, start(), history, 2, 0)


class Numbered(Structure):
    """A proposer whose steps have one number, from 2 to 4, and who is asked of which kernels."""

    def __init__(self, *numbers: int) -> None:
        self.numbers, self.asked = numbers, list[str]()

    def offers_factors(self, target: TargetBrief) -> bool:
        return target.name == "toy"

    def factors(self, target: TargetBrief, kernel: Trial, history: History) -> StepFactors | None:
        self.asked.append(kernel.candidate.source)
        plans = {
            (n,): Plan(kernel.candidate.id, "o", f"Take {n}.", self.name, {"instance": "x"})
            for n in self.numbers
        }
        own = (1,)
        tried = (TriedPoint(own, kernel.latency),)
        axis = Parameter("n", (1, *self.numbers))
        return StepFactors((axis,), plans, tried, dict.fromkeys([own, *plans], 1.0))


def by_steps(index: int, latency: float, iteration: int) -> Trial:
    plan = Plan("p", "o", "text", "structure", {"steps": "retile i 1"})
    return Trial(index, iteration, Candidate(f"// {index}", "p", plan), measured(latency))


def texts(of: Numbered, parent: Trial, history: History, iteration: int) -> list[str]:
    search = ParametersFirst(of, InOrder(), None, None, of)
    brief = replace(BRIEF, iteration=iteration)
    return [plan.text for plan in search.plan(brief, parent, history, 4, seed=0)]


def test_after_a_gain_other_numbers_in_the_best_kernels_steps_are_tried_and_nothing_else() -> None:
    of, other, best = Numbered(2, 3, 4), by_steps(1, 90.0, 1), by_steps(2, 80.0, 1)
    history = History([start(), other, best])
    assert texts(of, best, history, 2) == ["Take 2.", "Take 3."]
    assert texts(of, other, history, 2) == []
    assert of.asked == [best.candidate.source]


def test_without_a_gain_in_the_last_iteration_structure_is_next() -> None:
    of, best = Numbered(2, 3), by_steps(1, 80.0, 1)
    instance = by_steps(2, 79.9, 2)  # faster by less than counts
    history = History([start(), best, instance])
    assert texts(of, best, history, 3) == texts(of, instance, history, 3) == ["Change it."]
    assert texts(of, start(), History([start()]), 1) == ["Change it."]
    assert of.asked == []


def test_a_kernel_without_numbers_gives_structure_alone() -> None:
    of, other, best = Numbered(), by_steps(1, 90.0, 1), by_steps(2, 80.0, 1)
    history = History([start(), other, best])
    assert texts(of, best, history, 2) == ["Change it."]
    assert texts(of, other, history, 2) == []


def test_where_no_numbers_are_offered_every_kernel_gives_structure() -> None:
    of, other, best = Numbered(2), by_steps(1, 90.0, 1), by_steps(2, 80.0, 1)
    history = History([start(), other, best])
    elsewhere = replace(BRIEF, iteration=2, target=replace(BRIEF.target, name="other"))
    search = ParametersFirst(of, InOrder(), None, None, of)
    assert [p.text for p in search.plan(elsewhere, other, history, 2, 0)] == ["Change it."]
    plain = ParametersFirst(of, InOrder(), None, None)
    brief = replace(BRIEF, iteration=2)
    assert [p.text for p in plain.plan(brief, other, history, 2, 0)] == ["Change it."]
