from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import HISTORY, PARENT, PLAN, MemoryCalls, child

from tilewright.core.records import CallRecord, Candidate, History, Trial
from tilewright.proposers.llm.allocation import (
    FLOOR,
    AdaptiveShares,
    costs_of,
    gains_of,
    shares_of,
)
from tilewright.proposers.llm.prices import Price
from tilewright.proposers.model_shares import implementer, planner

MODELS = ("a", "b")
PRICES = {"a": Price(1.0, 10.0, 0.5, 1.0), "b": Price(2.0, 20.0, 1.0, 2.0)}


def call(model: str, tokens: int | None = 1_000_000, cached: bool = False) -> CallRecord:
    return CallRecord(
        "run",
        f"{model}{tokens}",
        model,
        "plan",
        "replied",
        cached,
        input_tokens=tokens,
        output_tokens=0,
        usd=0.0 if cached else 1.0,
    )


def faster(number: int, latency: float, planned_by: str, written_by: str) -> Trial:
    plan = replace(PLAN, proposer=planned_by)
    source = f"{PARENT.candidate.source}// {number}\n"
    candidate = Candidate(source, PARENT.candidate.id, plan, written_by)
    return replace(child(number, latency), candidate=candidate)


def later(number: int, latency: float) -> Trial:
    return replace(faster(number, latency, "a", "a"), iteration=2)


def test_gain_is_shared_by_planner_and_writer() -> None:
    history = HISTORY.extended([faster(1, 500.0, "a", "b"), faster(2, 250.0, "b", "b")])
    assert gains_of(MODELS, history) == [0.5, 2.5]
    assert gains_of(MODELS, history.extended([later(3, 300.0)])) == [0.5, 2.5]
    assert gains_of(MODELS, history.extended([later(3, 125.0)])) == [1.5, 2.5]


def test_slower_kernels_and_others_work_gain_nothing() -> None:
    history = HISTORY.extended([faster(1, 2000.0, "a", "a"), faster(2, 500.0, "c", "builtin")])
    assert gains_of(MODELS, history) == [0.0, 0.0]


def test_cost_is_what_tokens_cost_also_of_replies_paid_for_before() -> None:
    calls = [call("a"), call("b"), call("b", cached=True)]
    assert costs_of(MODELS, calls, PRICES) == [1.0, 4.0]


def test_cost_is_in_tokens_or_calls_where_nothing_better_is_known() -> None:
    calls = [call("a", 10), call("b", 30), call("b", 50)]
    assert costs_of(MODELS, calls, {"a": PRICES["a"], "b": None}) == [10.0, 80.0]
    assert costs_of(MODELS, [*calls, call("a", None)], PRICES) == [2.0, 2.0]


def test_shares_follow_gain_per_dollar() -> None:
    # Both gained two doublings over 20 calls, b at three times the cost of a: by the formula,
    # rates (2 + 2) / (1 + 2) and (2 + 2) / (3 + 2).
    rates = (4 / 3, 4 / 5)
    wanted = [0.15 + 0.7 * rate / sum(rates) for rate in rates]
    assert shares_of([2.0, 2.0], [1.0, 3.0], 20) == pytest.approx(wanted)


def test_shares_are_equal_before_anything_is_known() -> None:
    assert shares_of([0.0, 0.0], [0.0, 0.0], 0) == (0.5, 0.5)
    assert shares_of([0.0, 0.0], [1.0, 9.0], 30) == (0.5, 0.5)


amounts = st.just(0.0) | st.floats(1e-9, 1e6)


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=6), st.integers(0, 10_000))
def test_nobody_starves(record: list[tuple[float, float]], calls: int) -> None:
    shares = shares_of([g for g, _ in record], [c for _, c in record], calls)
    assert sum(shares) == pytest.approx(1)
    assert min(shares) >= FLOOR / len(record) * 0.999


@given(st.lists(st.floats(0.05, 1), min_size=2, max_size=4))
def test_work_is_dealt_by_the_shares(weights: list[float]) -> None:
    shares = [weight / sum(weights) for weight in weights]
    models = [f"m{i}" for i in range(len(shares))]
    planned = Counter(planner(models, slot, shares) for slot in range(400))
    written = Counter(
        implementer(models, slot, number, 2, shares) for slot in range(200) for number in range(2)
    )
    for model, share in zip(models, shares, strict=True):
        assert planned[model] == pytest.approx(400 * share, abs=8)
        assert written[model] == pytest.approx(400 * share, abs=8)


def test_models_implement_each_others_plans() -> None:
    pairs = Counter(
        (planner(MODELS, s, (0.5, 0.5)), implementer(MODELS, s, 0, 1, (0.5, 0.5)))
        for s in range(100)
    )
    assert len(pairs) == 4
    assert min(pairs.values()) >= 15


def test_shares_are_decided_once_and_survive_the_session() -> None:
    kept: dict[int, tuple[float, ...]] = {}
    store = MemoryCalls()

    def session() -> AdaptiveShares:
        return AdaptiveShares(
            MODELS, store=store, run_id="run", prices=PRICES, decided=kept, keep=keep
        )

    def keep(iteration: int, shares: Sequence[float]) -> None:
        assert iteration not in kept
        kept[iteration] = tuple(shares)

    shares = session()
    shares.begin(1, HISTORY)
    assert shares.of(1) == (0.5, 0.5)
    for model in MODELS:
        store.intend(call(model), {})
        store.finish(call(model), {})
    history: History = HISTORY.extended([faster(1, 500.0, "a", "a")])
    shares.begin(2, history)
    decided = shares.of(2)
    assert decided[0] > decided[1]
    store.intend(call("b", 5), {})
    store.finish(call("b", 5), {})
    resumed = session()
    resumed.begin(2, history)
    assert resumed.of(2) == decided
