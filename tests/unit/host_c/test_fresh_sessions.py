"""A winner is held to fresh sessions: processes, inputs and samples that did not make it one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import pytest

from tilewright.core.records import Failed
from tilewright.native.calls import CallFailedError, TimedKernel
from tilewright.native.timed import (
    PROBES,
    RANKING,
    REPORTING,
    OpenKernel,
    Timed,
    confirm_against,
    time_against,
)


class Steady:
    """A kernel that takes so many seconds, and so many more with every call."""

    def __init__(self, seconds: float, drift: float = 0.0) -> None:
        self.seconds, self.drift, self.calls = seconds, drift, 0

    def call(self, *, check: bool) -> float:
        self.calls += 1
        jitter = 1 + 0.001 * (self.calls % 5)
        return self.seconds * jitter * (1 + self.drift * self.calls)

    def counts(self) -> dict[str, float]:
        return {"cycles": 3.0}


class Wrong(Steady):
    def call(self, *, check: bool) -> float:
        raise CallFailedError(Failed("measure", "wrong_result", "1 instead of 2."))


def confirmed(
    candidates: Sequence[Steady], drift: float = 0.0, itself: bool = False
) -> tuple[Timed | Failed, int]:
    """The verdict over one session per candidate, against a baseline of 0.1 s."""
    opened = itertools.count()

    @contextmanager
    def open_kernels(index: int) -> Iterator[tuple[TimedKernel, OpenKernel]]:
        assert index == next(opened)
        candidate = candidates[index]
        baseline = candidate if itself else Steady(0.1, drift)
        yield cast(TimedKernel, candidate), lambda: cast(TimedKernel, baseline)

    return confirm_against(open_kernels, len(candidates), seed=1), next(opened)


def test_a_faster_kernel_is_confirmed_by_samples_of_all_sessions() -> None:
    timed, opened = confirmed([Steady(0.05), Steady(0.05), Steady(0.05)])
    assert isinstance(timed, Timed)
    assert opened == 3
    assert timed.details["fresh_sessions"] == 3
    assert timed.details["timed_pairs"] == 30
    assert timed.details["percent_of_baseline"] == pytest.approx(50, rel=0.01)
    assert timed.latency_s == pytest.approx(0.05, rel=0.01)
    assert timed.warnings == ()
    assert {name: len(series) for name, series in timed.samples.items()} == {
        f"session {n} {variant}": 10 for n in (1, 2, 3) for variant in ("baseline", "candidate")
    }
    assert timed.samples["session 2 candidate"][0] == pytest.approx(0.05e9, rel=0.01)
    assert timed.details["cycles_per_call"] == 3
    assert "3 cycles" in timed.counted


@pytest.mark.parametrize(
    "seconds", [(0.05, 0.05, 0.12), (0.1, 0.1, 0.1), (0.2, 0.2, 0.2), (0.0998, 0.0998, 0.0998)]
)
def test_what_a_session_contradicts_or_none_shows_is_unconfirmed(seconds: Sequence[float]) -> None:
    failed, _ = confirmed([Steady(s) for s in seconds])
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.kind) == ("measure", "unconfirmed")
    assert "in 3 fresh sessions" in failed.log
    assert failed.log.count(".\n") == 0


def test_the_starting_kernel_need_not_be_faster_than_itself() -> None:
    timed, _ = confirmed([Steady(0.1), Steady(0.1)], itself=True)
    assert isinstance(timed, Timed)


@pytest.mark.parametrize(("seconds", "held"), [(0.05, True), (0.3, False)])
def test_where_the_machine_drifts_every_session_must_agree(seconds: float, held: bool) -> None:
    outcome, _ = confirmed([Steady(seconds), Steady(seconds)], drift=0.02)
    assert isinstance(outcome, Timed) == held
    if isinstance(outcome, Timed):
        assert "did not hold still" in outcome.warnings[0]


def test_a_wrong_result_of_a_session_is_the_outcome() -> None:
    failed, opened = confirmed([Steady(0.05), Wrong(0.05), Steady(0.05)])
    assert isinstance(failed, Failed)
    assert (failed.kind, opened) == ("wrong_result", 2)


def timed_against(
    candidate: Steady, limit_s: float | None, drift: float = 0.0
) -> tuple[Timed | Failed, int]:
    """The outcome, and how often a baseline of 10 ms was called."""
    opened: list[Steady] = []

    def open_baseline() -> TimedKernel:
        opened.append(Steady(0.01, drift))
        return cast(TimedKernel, opened[-1])

    outcome = time_against(cast(TimedKernel, candidate), open_baseline, limit_s, seed=1)
    return outcome, sum(baseline.calls for baseline in opened)


def test_a_kernel_over_its_limit_is_not_timed_beside_the_baseline() -> None:
    candidate = Steady(0.002)
    failed, baseline_calls = timed_against(candidate, limit_s=0.001)
    assert isinstance(failed, Failed)
    assert failed.kind == "slower_than_limit"
    assert (candidate.calls, baseline_calls) == (1 + PROBES, 0)
    assert failed.bound == pytest.approx(0.002e9, rel=0.01)


def test_a_kernel_that_is_asked_for_is_timed_longer_than_one_that_is_ranked() -> None:
    ranked, _ = timed_against(Steady(0.0001), limit_s=0.001)
    reported, _ = timed_against(Steady(0.0001), limit_s=None)
    assert isinstance(ranked, Timed)
    assert isinstance(reported, Timed)
    assert ranked.details["timed_pairs"] <= RANKING.pairs
    assert RANKING.pairs < reported.details["timed_pairs"] <= REPORTING.pairs


def test_only_what_is_reported_is_timed_again_where_the_baseline_drifts() -> None:
    ranked, calls_of_one = timed_against(Steady(0.0001), limit_s=0.001, drift=0.02)
    assert isinstance(ranked, Timed)
    assert "did not hold still" in ranked.warnings[0]
    assert calls_of_one == 2 + 1 + ranked.details["timed_pairs"]
    reported, calls = timed_against(Steady(0.0001), limit_s=None, drift=0.02)
    assert isinstance(reported, Timed)
    assert calls == 2 + REPORTING.sessions * (1 + reported.details["timed_pairs"])
