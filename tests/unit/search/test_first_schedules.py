"""The first schedules of a rewriter: all are planned, and the most promising ones are evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.core.factors import PlannedSchedules, StepFactors
from tilewright.core.records import (
    Brief,
    Candidate,
    Failed,
    History,
    LatencyKind,
    Measured,
    Outcome,
    Plan,
    Schedule,
    TargetBrief,
    Trial,
    Verdict,
    Workload,
)
from tilewright.core.templates import TriedPoint
from tilewright.parts.languages import C
from tilewright.proposers.first_schedules import FirstSchedules
from tilewright.proposers.parameters import ParametersFirst
from tilewright.tuner.parameters.searches import GuidedParameters

BRIEF = Brief(
    Workload("toy:x", "toy", (), 1),
    TargetBrief("toy", "", "", (), (), {}, {}, C, LatencyKind("simulated", "cycles")),
    (),
    iteration=1,
    iterations=9,
    dropout=0.5,
)
ESTIMATES = (90.0, 60.0, 80.0, 70.0, 65.0, 75.0)


class Planner:
    """Plans one schedule for each estimate, or one change of a kernel that is not the start."""

    name = "structure"

    def __init__(self, estimates: Sequence[float] = ESTIMATES, gains: Sequence[float] = ()) -> None:
        self.estimates, self.gains = estimates, gains
        self.asked: list[tuple[Brief, int]] = []

    def offers_factors(self, target: TargetBrief) -> bool:
        return True

    def factors(self, target: TargetBrief, kernel: Trial, history: History) -> StepFactors | None:
        return None

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        return list(self.each_plan(brief, parent, history, count, seed))

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        self.asked.append((brief, seed))
        if parent.candidate.parent_id is not None or len(history) > 1:
            yield Plan(parent.candidate.id, "o", "Change it.", self.name)
            return
        for n, cycles in enumerate(self.estimates):
            estimated = {"total": cycles, "array": cycles * (1.0 if n % 2 else 0.5)}
            yield Plan(
                parent.candidate.id,
                "o",
                f"Schedule {n} by {seed}.",
                self.name,
                {"steps": f"s{n}"},
                estimated=estimated,
                expected_gain=self.gains[n] if self.gains else None,
            )

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        made = (f"{parent.candidate.source}; {plan.text} {n}" for n in range(count))
        return [Candidate(source, parent.candidate.id, plan, self.name) for source in made]

    def normalize(self, source: str, target: TargetBrief) -> str:
        return source


def measured(latency: float) -> Measured:
    return Measured(latency, "cycles", "simulated", 0.5, Verdict())


class Run:
    """A search that evaluates what the proposer makes for the best kernel."""

    def __init__(self, estimates: Sequence[float] = ESTIMATES) -> None:
        self.rewriter = Planner(estimates)
        self.proposer = self.new()
        self.history = History([Trial(0, 0, Candidate("start"), measured(100.0))])

    def new(self) -> FirstSchedules:
        search = GuidedParameters()
        others = ParametersFirst(self.rewriter, search, None, None, self.rewriter)
        return FirstSchedules(self.rewriter, others, search)

    def made(self, parent: Trial | None = None, seed: int = 7, **brief: object) -> list[Candidate]:
        """The candidates of the next iteration."""
        parent = parent or self.history.best or self.history[0]
        data = replace(BRIEF, iteration=self.history[-1].iteration + 1)
        data = replace(data, **brief)  # type: ignore[arg-type]
        plans = self.proposer.plan(data, parent, self.history, 6, seed)
        return [c for p in plans for c in self.proposer.implement(data, parent, p, 2, seed)]

    def step(self, *outcomes: float | Outcome, seed: int = 7) -> list[str]:
        """Evaluate the next candidates with these outcomes; the texts of their plans."""
        made, iteration = self.made(seed=seed), self.history[-1].iteration + 1
        assert len(made) == len(outcomes)
        for candidate, found in zip(made, outcomes, strict=True):
            outcome = measured(found) if isinstance(found, float) else found
            trial = Trial(len(self.history), iteration, candidate, outcome)
            self.history = self.history.extended([trial])
        return [c.plan.text for c in made if c.plan is not None]


def test_the_schedules_with_the_lowest_estimates_are_evaluated_first_without_variants() -> None:
    run = Run()
    made = run.made()
    assert [c.source for c in made] == ["start; Schedule 1 by 7. 0", "start; Schedule 4 by 7. 0"]
    assert all(c.plan is not None and c.plan.is_instance for c in made)


def test_the_first_schedule_with_an_estimated_gain_does_not_wait_for_the_plans_of_the_others() -> (
    None
):
    run = Run()
    run.rewriter.gains = (1.001, 0.9, 1.2, 1.3, 1.4, 1.5)
    plans = run.proposer.each_plan(BRIEF, run.history[0], run.history, 6, 7)
    texts = [plan.text if plan is not None else "" for plan in plans]
    chosen = ["Schedule 1 by 7.", "Schedule 4 by 7."]
    assert texts == ["", "", "Schedule 2 by 7.", "", "", "", *chosen]


def test_a_schedule_that_promises_far_more_than_the_first_does_not_wait_either() -> None:
    run = Run()
    run.rewriter.gains = (1.1, 2.2, 2.3, 4.5, 4.7, 3.0)
    plans = run.proposer.each_plan(BRIEF, run.history[0], run.history, 6, 7)
    texts = [plan.text if plan is not None else "" for plan in plans]
    early = ["Schedule 0 by 7.", "", "Schedule 2 by 7.", "", "Schedule 4 by 7.", ""]
    assert texts == [*early, "Schedule 1 by 7."]


def test_a_schedule_that_came_first_is_not_chosen_once_more() -> None:
    run = Run()
    run.rewriter.gains = (0.5, 1.6, 1.2, 1.3, 1.4, 1.5)
    assert run.step(62.0, 67.0) == ["Schedule 1 by 7.", "Schedule 4 by 7."]
    assert run.step(71.0, 76.0) == ["Schedule 3 by 7.", "Schedule 5 by 7."]


def test_after_a_gain_further_schedules_are_tried_all_from_the_starting_kernel() -> None:
    """The next iteration has other parents and another seed, but the schedules are the same."""
    run = Run()
    run.step(61.0, 66.0)
    assert run.step(71.0, 76.0, seed=8) == ["Schedule 3 by 7.", "Schedule 5 by 7."]
    assert [t.candidate.parent_id for t in run.history[1:]] == [run.history[0].candidate.id] * 4


def test_the_schedules_are_planned_from_the_whole_menu_and_again_in_a_new_process() -> None:
    run = Run()
    first = run.made()
    run.step(61.0, 66.0)
    expected = run.made()
    run.proposer = run.new()  # as after a resume
    assert run.made() == expected
    assert {(brief.iteration, brief.dropout, seed) for brief, seed in run.rewriter.asked} == {
        (1, 0.0, 7)
    }
    assert len(run.rewriter.asked) == 2  # once in each process
    assert not {c.source for c in first} & {c.source for c in expected}


def test_only_the_first_kernel_of_the_beam_has_plans_while_schedules_are_tried() -> None:
    run = Run()
    run.step(61.0, 66.0)
    assert run.made(run.history[0], rank=1) == run.made(run.history[2], rank=2) == []
    assert len(run.made(run.history[1])) == 2


def test_schedules_are_tried_if_the_strategy_selects_only_the_starting_kernel() -> None:
    """`best-of-n` does so even if another kernel is the best."""
    run = Run()
    run.step(61.0, 66.0)
    assert run.made(run.history[0]) == run.made(run.history[1])


def test_a_result_corrects_the_estimates_of_similar_schedules() -> None:
    """If the array is busy all the time, the latency is three times the estimate."""
    run = Run()
    assert run.step(180.0, 65.0) == ["Schedule 1 by 7.", "Schedule 4 by 7."]
    assert run.step(80.0, 90.0) == ["Schedule 2 by 7.", "Schedule 0 by 7."]


def test_other_kernels_follow_after_some_schedules_without_a_gain() -> None:
    run = Run((60.0,) * 12)
    run.step(60.0, 61.0)
    run.step(61.0, 61.0)  # the third one without a gain
    run.step(59.9, 61.0)  # not a gain of 0.5 %
    assert run.step(50.0) == ["Change it."]
    assert run.step(49.0) == ["Change it."]  # for good


def widths(run: Run, **brief: object) -> list[int]:
    """The number of candidates for each kernel of the beam."""
    parent = run.history.best or run.history[0]
    return [len(run.made(parent, rank=rank, **brief)) for rank in range(9)]


def test_few_kernels_are_continued_after_a_gain_and_more_while_there_is_none() -> None:
    run = Run(())
    run.history = run.history.extended([Trial(1, 1, Candidate("a"), measured(90.0))])
    assert widths(run) == [1] * 2 + [0] * 7
    run.step(95.0)
    assert widths(run) == [1] * 4 + [0] * 5
    run.step(96.0)
    assert widths(run) == [2] * 8 + [0]  # plans have variants again
    run.step(97.0, 80.0)
    assert widths(run) == [1] * 2 + [0] * 7


def test_failed_and_stopped_schedules_are_not_proposed_again() -> None:
    run = Run()
    wrong, slow = Failed("check", "wrong_result", ""), Failed("run", "slower", "", bound=90.0)
    run.step(wrong, slow)
    assert len(set(run.step(71.0, 76.0))) == 2


def test_a_kernel_without_estimated_plans_is_left_to_the_other_proposer() -> None:
    run = Run(())
    assert run.made() == []
    assert len(run.rewriter.asked) == 2


def test_an_iteration_with_only_known_kernels_ends_the_schedules() -> None:
    """Otherwise, the same duplicates would be proposed until the search ends."""
    run = Run()
    run.step(61.0, 66.0)
    assert [c.plan.text for c in run.made(iteration=3) if c.plan] == ["Change it."]


def test_schedules_of_earlier_runs_take_the_place_of_first_schedules() -> None:
    run = Run()
    made = run.made(schedules=(Schedule("w", (), (), "cycles"),))
    assert not any(c.plan.is_instance for c in made if c.plan)


def test_a_space_of_plans_has_their_estimates_and_the_share_of_each_unit() -> None:
    plans = [
        Plan("p", "o", str(n), "x", estimated={"total": t, "moves": 5.0, "array": t})
        for n, t in enumerate((10.0, 20.0))
    ]
    space = PlannedSchedules(tuple(plans))
    assert space.points() == ((0,), (1,))
    assert space.estimates() == (10.0, 20.0)
    assert space.counts() == ((1.0, 0.5), (1.0, 0.25))
    assert GuidedParameters().next_points(space, [TriedPoint((0,), 10.0)], 5, 0) == [(1,)]
