"""Cache keys, and what may be answered from the cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.core.records import (
    Candidate,
    Check,
    EvaluationRequest,
    Failed,
    LatencyKind,
    Measured,
    Outcome,
    Verdict,
)
from tilewright.evaluation.batch import Batch
from tilewright.evaluation.outcome_cache import OutcomeCache
from tilewright.evaluation.replies import request_id

LATENCY = LatencyKind("simulated", "cycles")
MEASURED = Measured(100.0, "cycles", "simulated", 0.5, Verdict(()))


def request(source: str = "a", limit: float | None = None) -> EvaluationRequest:
    return EvaluationRequest(Candidate(source), limit)


def slower(bound: float) -> Failed:
    return Failed("measure", "slower_than_limit", "", bound=bound)


@pytest.fixture
def kept() -> dict[str, Outcome]:
    return {}


@pytest.fixture
def cache(kept: dict[str, Outcome]) -> OutcomeCache:
    return OutcomeCache("context", LATENCY, kept.get, kept.setdefault)


def test_a_measurement_answers_every_limit(cache: OutcomeCache) -> None:
    cache.keep(request(limit=500.0), MEASURED)
    for limit in (None, 50.0, 500.0, 5000.0):
        assert cache.find(request(limit=limit)) == MEASURED


def test_a_measurement_with_fewer_comparisons_does_not_answer(cache: OutcomeCache) -> None:
    checked = replace(MEASURED, verdict=Verdict((Check("seed", "small"),) * 4))
    cache.keep(request(), checked)
    assert cache.find(EvaluationRequest(Candidate("a"), comparisons=4)) == checked
    assert cache.find(EvaluationRequest(Candidate("a"), comparisons=5)) is None


def test_a_candidate_with_the_text_of_a_baseline_does_not_get_its_outcome(
    cache: OutcomeCache,
) -> None:
    """What a baseline is depends on its name, so its text alone is not the same kernel."""
    baseline = EvaluationRequest(Candidate("a", proposer="PyTorch"), is_baseline=True)
    cache.keep(baseline, MEASURED)
    assert cache.find(request()) is None
    assert cache.find(EvaluationRequest(Candidate("a", proposer="PyTorch"))) is None
    assert cache.find(replace(baseline, candidate=Candidate("a", proposer="other"))) is None
    assert cache.find(baseline) == MEASURED
    assert request_id(baseline) != request_id(request())
    empty = OutcomeCache("other", LATENCY, {}.get, {}.setdefault)
    assert len(Batch(None).admit([request(), request(), baseline], empty)) == 2


def test_a_failure_answers_every_limit(cache: OutcomeCache) -> None:
    failed = Failed("check", "wrong_result", "")
    cache.keep(request(), failed)
    assert cache.find(request(limit=3.0)) == failed


def test_a_stopped_simulation_answers_only_limits_its_bound_covers(cache: OutcomeCache) -> None:
    cache.keep(request(limit=50.0), slower(50.0))
    assert cache.find(request(limit=50.0)) == slower(50.0)
    assert cache.find(request(limit=51.0)) is None
    assert cache.find(request()) is None


def test_a_stopped_simulation_with_a_bound_below_its_limit_answers_nothing(
    cache: OutcomeCache,
) -> None:
    cache.keep(request(limit=50.0), slower(40.0))
    assert cache.find(request(limit=50.0)) is None


def test_a_measurement_can_follow_a_stopped_simulation(cache: OutcomeCache) -> None:
    cache.keep(request(limit=50.0), slower(50.0))
    cache.keep(request(limit=200.0), MEASURED)
    assert cache.find(request()) == MEASURED


@pytest.mark.parametrize("kind", ["crash", "timeout"])
def test_what_the_machine_did_is_forgotten(
    cache: OutcomeCache, kept: dict[str, Outcome], kind: str
) -> None:
    cache.keep(request(), Failed("check", kind, ""))  # type: ignore[arg-type]
    assert kept == {}


def test_contexts_and_sources_do_not_mix(kept: dict[str, Outcome]) -> None:
    first = OutcomeCache("one", LATENCY, kept.get, kept.setdefault)
    first.keep(request("a"), MEASURED)
    assert first.find(request("b")) is None
    assert OutcomeCache("two", LATENCY, kept.get, kept.setdefault).find(request("a")) is None


@pytest.mark.parametrize(
    "other", [LatencyKind("simulated", "ns"), LatencyKind("modelled", "cycles")]
)
def test_a_latency_of_another_kind_is_not_used(
    kept: dict[str, Outcome], cache: OutcomeCache, other: LatencyKind
) -> None:
    """A cache that a stranger filled with other units would win every comparison."""
    OutcomeCache("context", other, kept.get, kept.setdefault).keep(request(), MEASURED)
    assert cache.find(request()) == MEASURED
    assert OutcomeCache("context", other, kept.get, kept.setdefault).find(request()) is None
