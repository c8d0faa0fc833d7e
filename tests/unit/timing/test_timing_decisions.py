"""The decision rule on clocks whose true ratio is known."""

from __future__ import annotations

import math

import pytest

from tilewright.core.errors import ConfigurationError, InternalError
from tilewright.testing.clocks import Noise, synthetic_clock
from tilewright.timing import (
    Comparison,
    Session,
    TimingPlan,
    Variant,
    compare,
    confirm,
    measure_pairs,
    share_checked,
)
from tilewright.timing.statistics import relative_spread

PLAN = TimingPlan()


def decided(ratio: float, noise: Noise, seed: int, plan: TimingPlan = PLAN) -> Comparison:
    return compare(measure_pairs(synthetic_clock(ratio, noise, seed), plan, seed), plan, seed)


def share_of_wins(ratio: float, noise: Noise, trials: int) -> float:
    return sum(decided(ratio, noise, seed).decision == "faster" for seed in range(trials)) / trials


@pytest.mark.slow
def test_equal_kernels_win_in_less_than_one_of_a_hundred_trials() -> None:
    assert share_of_wins(1.0, Noise(), trials=1000) < 0.01


@pytest.mark.slow
def test_three_percent_is_found_in_nine_of_ten_trials() -> None:
    assert share_of_wins(1.03, Noise(), trials=1000) > 0.9


@pytest.mark.parametrize(
    "noise", [Noise(spikes=0.05), Noise(wander=0.005), Noise(spread=0.05), Noise(drift=0.04)]
)
def test_interrupts_wandering_clocks_and_drift_make_no_wins(noise: Noise) -> None:
    assert share_of_wins(1.0, noise, trials=300) < 0.01


def test_a_gain_below_the_minimum_effect_is_no_win_however_certain() -> None:
    assert decided(1.003, Noise(spread=0.0001), seed=1).decision == "same"
    assert decided(1.01, Noise(spread=0.0001), seed=1).decision == "faster"


def test_slower_is_said() -> None:
    comparison = decided(0.9, Noise(), seed=3)
    assert comparison.decision == "slower"
    assert comparison.low <= comparison.ratio <= comparison.high < 1


def test_a_drifting_machine_decides_nothing() -> None:
    comparison = decided(1.2, Noise(drift=0.3), seed=5)
    assert comparison.decision == "unsteady"
    assert comparison.drift == pytest.approx(0.23, abs=0.08)
    assert "drifted" in comparison.sentence()


def test_the_interval_covers_the_true_ratio() -> None:
    covered = sum(
        c.low <= 1.1 <= c.high for c in (decided(1.1, Noise(), seed) for seed in range(300))
    )
    assert covered >= 0.95 * 300


def test_the_same_seed_decides_the_same() -> None:
    assert decided(1.05, Noise(), seed=11) == decided(1.05, Noise(), seed=11)


def test_pairs_are_interleaved_in_both_orders_and_some_are_checked() -> None:
    calls: list[tuple[Variant, float]] = []

    def time_call(variant: Variant, checked: float) -> float:
        calls.append((variant, checked))
        return 1.0

    session = measure_pairs(time_call, PLAN, seed=2)
    assert len(session.baseline_s) == len(session.candidate_s) == PLAN.pairs
    timed = calls[2 * PLAN.warmups :]
    for pair in range(PLAN.pairs):
        first, second = timed[2 * pair : 2 * pair + 2]
        assert {first[0], second[0]} == {"baseline", "candidate"}
        assert (first[0] == "candidate") == session.candidate_first[pair]
    assert 0.25 < sum(session.candidate_first) / PLAN.pairs < 0.75
    assert {share for _, share in calls} == {share_checked(PLAN.pairs)}, "warming up is no tell"


@pytest.mark.parametrize("pairs", [10, 11, 20, 40, 48, 49, 200])
def test_a_kernel_that_skips_a_third_of_its_calls_is_caught(pairs: int) -> None:
    missed = (1 - share_checked(pairs)) ** math.ceil(pairs / 3)
    assert missed <= 0.01 + 1e-12
    assert 0.25 <= share_checked(pairs) < 1
    assert share_checked(pairs) == 0.25 or missed > 0.009, "no more is compared than it takes"


def test_a_winner_is_measured_in_fresh_sessions_and_one_contradiction_undoes_it() -> None:
    def sessions(ratios: tuple[float, ...]) -> list[Session]:
        return [
            measure_pairs(synthetic_clock(ratio, Noise(), 50 + i), PLAN, i)
            for i, ratio in enumerate(ratios)
        ]

    steady = sessions((1.1, 1.1, 1.1))
    confirmation = confirm(steady.__getitem__, PLAN, seed=1)
    assert confirmation.sessions == tuple(steady)
    assert confirmation.pooled.decision == "faster"
    assert confirmation.pooled.ratio == pytest.approx(1.1, abs=0.01)
    once = sessions((1.1, 1.1, 0.95))
    assert confirm(once.__getitem__, PLAN, seed=1).pooled.decision == "same"


@pytest.mark.parametrize("duration", [0.0, -1.0, float("nan"), float("inf")])
def test_a_clock_that_returns_no_duration_is_a_defect(duration: float) -> None:
    with pytest.raises(InternalError, match="must be positive"):
        measure_pairs(lambda variant, checked: duration, PLAN, seed=0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pairs", 5),
        ("warmups", -1),
        ("cache", "tepid"),
        ("confidence", 1.0),
        ("minimum_effect", -0.1),
        ("drift_limit", 0.0),
        ("sessions", 1),
    ],
)
def test_plans_out_of_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"timing: {field} = {value}"):
        TimingPlan(**{field: value})  # type: ignore[arg-type]


def session_of(baseline_s: list[float]) -> Session:
    candidate_s = tuple(s / 1.5 for s in baseline_s)
    no = (False,) * len(baseline_s)
    return Session(tuple(baseline_s), candidate_s, no, PLAN.cache)


def test_a_baseline_that_gets_faster_is_as_unsteady_as_one_that_gets_slower() -> None:
    pairs = PLAN.pairs
    steady = session_of([1.0] * pairs)
    speeding = session_of([1.0 - 0.2 * i / (pairs - 1) for i in range(pairs)])
    slowing = session_of([1.0 + 0.01 * i / (pairs - 1) for i in range(pairs)])
    assert compare(speeding, PLAN, seed=1).decision == "unsteady"
    for sessions in ([steady, speeding, steady], [slowing, speeding, steady]):
        plan = TimingPlan(sessions=len(sessions))
        pooled = confirm(sessions.__getitem__, plan, seed=1).pooled
        assert pooled.decision == "unsteady"
        assert pooled.drift == pytest.approx(-0.22, abs=0.01)


def test_the_spread_is_half_the_range_of_the_middle_half_over_the_median() -> None:
    assert relative_spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(1 / 3)
    assert relative_spread([2.0, 2.0, 2.0, 2.0, 900.0]) == 0.0
