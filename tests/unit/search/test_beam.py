"""BeamSearch: its contract, and its own invariants on random histories."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.config import Settings
from tilewright.core.records import (
    Candidate,
    Failed,
    History,
    Measured,
    Plan,
    Trial,
    Verdict,
)
from tilewright.search.beam import VALUES_ARE_FOUND, BeamSearch
from tilewright.testing.search import SearchStrategyContract


class TestBeamSearchContract(SearchStrategyContract):
    @pytest.fixture(params=[1, 3, 6])
    def strategy(self, request: pytest.FixtureRequest) -> BeamSearch:
        return BeamSearch(width=request.param, iterations=20, patience=5)


def measured(latency: float, digest: str = "") -> Measured:
    return Measured(latency, "cycles", "simulated", 0.5, Verdict(()), artifact_digest=digest)


def trial(index: int, latency: float | None, parent: int | None, iteration: int = 1) -> Trial:
    """Trial `index`, whose source and binary are its own; the parent is named by its index."""
    outcome = Failed("build", "compile_error", "") if latency is None else measured(latency)
    parent_id = None if parent is None else Candidate(f"k{parent}").id
    return Trial(index, iteration, Candidate(f"k{index}", parent_id), outcome)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A measured start, then trials with earlier trials as parents; small latencies, so ties."""
    trials = [trial(0, float(draw(st.integers(5, 9))), None, 0)]
    for index in range(1, draw(st.integers(1, 25))):
        latency = draw(st.none() | st.integers(1, 10).map(float))
        parent = draw(st.integers(0, index - 1))
        trials.append(trial(index, latency, parent, 1 + index // 5))
    return History(trials)


@given(histories(), st.integers(1, 8))
def test_the_beam_is_full_or_holds_every_improvement(history: History, width: int) -> None:
    beam = BeamSearch(width=width).select(history)
    improved = 0
    for one in history:
        parent = history.get(one.candidate.parent_id or "")
        limit = parent.latency if parent else None
        if one.latency is not None and (limit is None or one.latency < limit):
            improved += 1
            if one not in beam:
                assert len(beam) == width
                assert beam[-1].latency is not None
                assert beam[-1].latency <= one.latency
        else:
            assert one not in beam
    assert len(beam) == min(width, improved)


@given(histories())
def test_the_best_of_the_run_leads_the_beam_or_did_not_beat_its_parent(history: History) -> None:
    best, lead = history.best, BeamSearch().select(history)[0]
    assert best is not None
    # A parent that failed has no latency to beat: such a child still counts.
    assert lead.latency == best.latency


@given(histories(), st.data())
def test_members_of_a_beam_stay_eligible(history: History, data: st.DataObject) -> None:
    """A wider history never drops a member without six at least as good."""
    cut = data.draw(st.integers(1, len(history)))
    later = BeamSearch().select(history)
    for member in BeamSearch().select(History(history[:cut])):
        assert member in later or len(later) == 6


def test_equal_binaries_are_one_member() -> None:
    start = trial(0, 10.0, None, 0)
    parent_id = start.candidate.id
    twins = [
        Trial(i, 1, Candidate(f"k{i}", parent_id), measured(5.0, digest="same")) for i in (1, 2)
    ]
    assert BeamSearch().select(History([start, *twins])) == [twins[0], start]


@pytest.mark.parametrize("repeated", [5.0, 4.0])
def test_only_the_first_trial_of_a_candidate_counts(repeated: float) -> None:
    start = trial(0, 10.0, None, 0)
    child = trial(1, 5.0, 0)
    again = Trial(2, 2, child.candidate, measured(repeated))
    assert BeamSearch().select(History([start, child, again])) == [child, start]


@pytest.mark.parametrize("latencies", [(10.0, 10.0), (10.0, 20.0, 20.0)])
def test_an_equally_fast_child_is_not_kept(latencies: tuple[float, ...]) -> None:
    """Nor one of a parent that is not kept itself."""
    children = [trial(i, latency, i - 1) for i, latency in enumerate(latencies) if i]
    history = History([trial(0, latencies[0], None, 0), *children])
    assert [t.index for t in BeamSearch().select(history)] == [0]


def test_a_search_for_values_ends_with_the_first_iteration_that_proposes_none() -> None:
    settings = Settings(without=("structure",), iterations=8, patience=3)
    strategy = BeamSearch.of(settings)
    tried = History([trial(0, 10.0, None, 0), trial(1, 20.0, 0, 1)])
    assert strategy.should_stop(tried, 2) is None
    assert strategy.should_stop(tried, 3) == VALUES_ARE_FOUND
    assert BeamSearch.of(replace(settings, without=())).should_stop(tried, 3) is None


@pytest.mark.parametrize(
    ("iterations", "reason"),
    [
        ([], "7 iterations in a row proposed nothing new"),
        ([1, 2], None),
        ([1, 2, 3], "3 iterations in a row found no faster kernel"),
        ([1, 1, 1, 5, 5], None),
        ([1, 1, 5, 7], "3 iterations in a row found no faster kernel"),
    ],
)
def test_patience_counts_iterations_that_tried_something(
    iterations: list[int], reason: str | None
) -> None:
    stale = [trial(i + 1, 20.0, 0, iteration) for i, iteration in enumerate(iterations)]
    history = History([trial(0, 10.0, None, 0), *stale])
    assert BeamSearch(iterations=8, patience=3).should_stop(history, 8) == reason
    better = trial(len(history), 5.0, 0, max(iterations, default=2))
    assert BeamSearch(iterations=8, patience=3).should_stop(history.extended([better]), 8) is None


def test_iterations_run_out() -> None:
    history = History([trial(0, 10.0, None, 0), trial(1, 5.0, 0, 8)])
    assert BeamSearch(iterations=8).should_stop(history, 8) is None
    assert BeamSearch(iterations=8).should_stop(history, 9) == "all 8 iterations are done"


def test_the_search_of_a_templates_values_uses_up_neither_iterations_nor_patience() -> None:
    """It calls no model: without this, a model was asked in one of eight iterations."""
    values: dict[str, str | int] = {"instance": "i"}
    plan = Plan(Candidate("k0").id, "parameters", "Set TM = 16.", "p", parameters=values)
    trials = [trial(0, 9.0, None, 0), trial(1, 8.0, 0, 1)]
    for n in range(2, 9):
        made = trial(n, 8.5, 1, n)
        trials.append(replace(made, candidate=replace(made.candidate, plan=plan)))
    strategy = BeamSearch(iterations=3, patience=2)
    assert strategy.should_stop(History(trials), 9) is None
    two = History([*trials, trial(9, 9.5, 1, 9), trial(10, 9.5, 1, 10)])
    assert strategy.should_stop(two, 11) == "all 3 iterations are done"
    patient = replace(strategy, iterations=20)
    assert patient.should_stop(two, 11) == "2 iterations in a row found no faster kernel"
    mixed = History([*trials, trial(9, 9.5, 1, 8)])
    assert BeamSearch(iterations=2).should_stop(mixed, 9) == "all 2 iterations are done", (
        "an iteration that also made a new kernel counts"
    )


def test_the_limit_is_the_parents_latency() -> None:
    assert BeamSearch().limit_latency(trial(0, 10.0, None)) == 10.0


def test_variations_of_one_kernel_take_one_place() -> None:
    """Children that are barely faster, and their children, come after the fastest of them."""
    start, child = trial(0, 1000.0, None, 0), trial(1, 900.0, 0)
    barely = [trial(2, 899.0, 1), trial(3, 898.0, 1), trial(4, 897.0, 2)]
    other = trial(5, 950.0, 0)
    beam = BeamSearch().select(History([start, child, *barely, other]))
    assert [t.index for t in beam] == [4, 5, 0]


def test_equally_fast_kernels_of_one_plan_take_one_place() -> None:
    start = trial(0, 1000.0, None, 0)
    plan = Plan(start.candidate.id, "unroll", "unroll it", "builtin")
    other = replace(plan, text="unroll it twice", parameters={"variant_of": plan.text})
    plans = (plan, other, plan)
    made = [Candidate(f"made {n}", start.candidate.id, p) for n, p in enumerate(plans)]
    speeds = (900.0, 899.0, 700.0)
    trials = [
        Trial(n + 1, 1, c, measured(s)) for n, (c, s) in enumerate(zip(made, speeds, strict=True))
    ]
    beam = BeamSearch().select(History([start, *trials]))
    assert [t.index for t in beam] == [3, 2, 0]


def test_the_instances_of_a_template_take_one_place_however_much_they_differ() -> None:
    """The template is a little slower than its parent and still has a place of its own, so that its
    values are searched."""
    start = trial(0, 1000.0, None, 0)
    brings = Plan(start.candidate.id, "tile", "Tile it.", "model", {"template": "TUNE(A, 1, 2, 3)"})
    first = Candidate("A = 1", start.candidate.id, brings)
    kept = [Trial(1, 1, first, measured(1001.0))]
    assert [t.index for t in BeamSearch().select(History([start, *kept]))] == [0, 1]
    for value, latency in ((2, 900.0), (3, 880.0)):
        plan = Plan(first.id, "parameters", f"Set A = {value}.", "", {"instance": first.id})
        made = Candidate(f"A = {value}", first.id, plan)
        kept.append(Trial(value, 2, made, measured(latency)))
    other = trial(4, 950.0, 0)
    beam = BeamSearch().select(History([start, *kept, other]))
    assert [t.index for t in beam] == [3, 4, 0]


def test_a_template_that_is_barely_faster_takes_the_place_of_its_parent() -> None:
    start, parent, other = trial(0, 1000.0, None, 0), trial(1, 900.0, 0), trial(2, 950.0, 0)
    brings = Plan(parent.candidate.id, "tile", "Tile it.", "model", {"template": "TUNE(A, 1, 2)"})
    first = Trial(3, 2, Candidate("A = 1", parent.candidate.id, brings), measured(899.0))
    beam = BeamSearch().select(History([start, parent, other, first]))
    assert [t.index for t in beam] == [3, 2, 0]


def begun(index: int, latency: float, parent: int, iteration: int = 1, *, anew: bool) -> Trial:
    """The same by a plan, which may begin anew."""
    plain = trial(index, latency, parent, iteration)
    parent_id = plain.candidate.parent_id
    assert parent_id is not None
    plan = Plan(parent_id, "option", f"{index}", "p", {"anew": 1} if anew else {})
    return replace(plain, candidate=replace(plain.candidate, plan=plan))


def latencies(history: History, width: int) -> list[float | None]:
    return [t.latency for t in BeamSearch(width=width).select(history)]


def test_what_begins_anew_has_two_thirds_of_the_beam_until_it_leads() -> None:
    given = [trial(n, 20.0 - 2 * n, n - 1, n) for n in range(1, 5)]  # 18, 16, 14, 12
    new = [begun(5, 40.0, 0, anew=True), begun(6, 35.0, 0, anew=True)]
    later = [begun(7, 30.0, 5, 2, anew=False), begun(8, 36.0, 6, 2, anew=False)]
    history = History([trial(0, 20.0, None, 0), *given, *new])
    assert latencies(history, 4) == [12.0, 14.0, 35.0, 40.0]
    assert latencies(history, 1) == [12.0]
    history = history.extended(later)  # the last one did not beat its parent
    assert latencies(history, 4) == [12.0, 14.0, 30.0, 35.0]
    assert latencies(history, 3) == [12.0, 30.0, 35.0]
    assert latencies(history, 2) == [12.0, 30.0]
    assert latencies(history, 6) == [12.0, 14.0, 16.0, 30.0, 35.0, 40.0]
    history = history.extended([begun(9, 11.0, 7, 3, anew=False)])
    assert latencies(history, 4) == [11.0, 12.0, 14.0, 16.0]


def test_what_begins_anew_fills_places_that_the_given_schedule_leaves() -> None:
    new = [begun(n, 30.0 + n, 0, anew=True) for n in range(1, 4)]
    history = History([trial(0, 20.0, None, 0), *new])
    assert latencies(history, 4) == [20.0, 31.0, 32.0, 33.0]


def test_patience_waits_for_either_line() -> None:
    history = History([trial(0, 20.0, None, 0), begun(1, 40.0, 0, 1, anew=True)])
    for iteration in range(2, 5):
        history = history.extended(
            [begun(iteration, 40.0 - 5 * iteration, iteration - 1, iteration, anew=False)]
        )
    strategy = BeamSearch(patience=3)
    history = history.extended([trial(9, 50.0, 0, 5), trial(10, 51.0, 0, 6)])
    assert strategy.should_stop(history, 7) is None
    history = history.extended([trial(11, 52.0, 0, 7)])
    assert strategy.should_stop(history, 8) == "3 iterations in a row found no faster kernel"
