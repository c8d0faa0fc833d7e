"""A winner is held to fresh sessions: processes, inputs and samples that did not make it one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import pytest

from tilewright.core.records import Failed
from tilewright.native.calls import CallFailedError, TimedKernel
from tilewright.native.candidate_timing import (
    FEWEST_PAIRS,
    PROBES,
    RANKING,
    REPORTING,
    OpenKernel,
    Timed,
    confirm_against,
    time_against,
)
from tilewright.timing import CHECKED, share_checked


class Steady:
    """A kernel that takes so many seconds, and so many more with every call."""

    def __init__(self, seconds: float, drift: float = 0.0) -> None:
        self.seconds, self.drift, self.calls = seconds, drift, 0

    def call(self, *, checked: float) -> float:
        self.calls += 1
        jitter = 1 + 0.001 * (self.calls % 5)
        return self.seconds * jitter * (1 + self.drift * self.calls)

    def account(self) -> None:
        """No other process computes."""

    def counts(self) -> dict[str, float]:
        return {"cycles": 3.0}


class Wrong(Steady):
    def call(self, *, checked: float) -> float:
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
        assert "speed of the machine changed" in outcome.warnings[0]


class Accompanied(Steady):
    """A kernel beside whose process others computed."""

    def account(self) -> None:
        raise CallFailedError(Failed("measure", "forbidden_call", "others computed."))


def test_hidden_cpu_time_is_the_outcome_of_every_timing() -> None:
    failed, opened = confirmed([Steady(0.05), Accompanied(0.05)])
    assert isinstance(failed, Failed)
    assert (failed.kind, opened) == ("forbidden_call", 2)
    kernels = cast(TimedKernel, Accompanied(0.05)), cast(TimedKernel, Steady(0.1))
    ranked = time_against(kernels[0], lambda: kernels[1], None, seed=1)
    assert isinstance(ranked, Failed)
    assert ranked.kind == "forbidden_call"


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
    assert "speed of the machine changed" in ranked.warnings[0]
    assert calls_of_one == 2 + 1 + ranked.details["timed_pairs"]
    reported, calls = timed_against(Steady(0.0001), limit_s=None, drift=0.02)
    assert isinstance(reported, Timed)
    assert calls == 2 + REPORTING.sessions * (1 + reported.details["timed_pairs"])


class Probed(Steady):
    """Takes other times in the first calls after the one whose outputs are compared."""

    def __init__(self, first_s: Sequence[float], seconds: float) -> None:
        super().__init__(seconds)
        self._first_s = iter([seconds, *first_s])

    def call(self, *, checked: float) -> float:
        usual = super().call(checked=checked)
        return next(self._first_s, usual)


def test_one_fast_probe_is_enough_to_be_timed_beside_the_baseline() -> None:
    """The slow ones may have been disturbed."""
    timed, baseline_calls = timed_against(
        Probed([0.002] * (PROBES - 1) + [0.0009], 0.0009), limit_s=0.001
    )
    assert isinstance(timed, Timed)
    assert baseline_calls > 0


class WrongWhenChecked(Steady):
    """Its outputs are wrong in calls after so many, or before; seen only where they are checked."""

    def __init__(self, seconds: float, first: bool) -> None:
        super().__init__(seconds)
        self._first = first

    def call(self, *, checked: float) -> float:
        seconds = super().call(checked=checked)
        if checked and (self.calls == 1) == self._first:
            raise CallFailedError(Failed("measure", "wrong_result", "1 instead of 2."))
        return seconds


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("limit_s", [None, 0.001])
def test_the_first_call_and_some_timed_ones_are_checked(first: bool, limit_s: float | None) -> None:
    failed, _ = timed_against(WrongWhenChecked(0.0001, first), limit_s)
    assert isinstance(failed, Failed)
    assert failed.kind == "wrong_result"


class Skips(Steady):
    """Does nothing in some of its calls, by their number from 0 on."""

    def __init__(self, seconds: float, skipped: Callable[[int], bool], seed: int) -> None:
        super().__init__(seconds)
        self._skipped, self._draw = skipped, random.Random(seed)
        self.shares: list[float] = []

    def call(self, *, checked: float) -> float:
        self.shares.append(checked)
        skipped = self._skipped(self.calls)
        seconds = super().call(checked=checked)
        if skipped and self._draw.random() < checked:
            raise CallFailedError(Failed("measure", "wrong_result", "1 instead of 2."))
        return 1e-9 if skipped else seconds


@pytest.mark.parametrize("limit_s", [None, 1.0])
@pytest.mark.parametrize(("seconds", "skipped"), [(0.5, 4), (0.5, 6), (0.001, 6)])
def test_a_kernel_that_skips_calls_of_few_pairs_is_caught(
    seconds: float, skipped: int, limit_s: float | None
) -> None:
    """Slow when it is planned how many pairs there are, then nothing in some calls of ten."""
    accepted = 0
    for seed in range(300):
        candidate = Skips(seconds, lambda n: n > 1 + PROBES and n % 10 < skipped, seed)
        timed, _ = timed_against(candidate, limit_s)
        accepted += isinstance(timed, Timed)
    assert accepted <= 0.02 * 300


def test_a_candidate_is_compared_in_pairs_and_the_baseline_never() -> None:
    candidate, baseline = (Skips(0.5, lambda n: False, 1) for _ in range(2))
    timed = time_against(
        cast(TimedKernel, candidate), lambda: cast(TimedKernel, baseline), None, seed=1
    )
    assert isinstance(timed, Timed)
    assert candidate.shares[: 1 + PROBES] == [1.0] + [CHECKED] * PROBES
    assert set(candidate.shares[1 + PROBES :]) == {share_checked(10)}
    assert set(baseline.shares) == {0.0}


def test_a_kernel_that_is_compared_with_itself_is_timed_in_one_session() -> None:
    candidate = cast(TimedKernel, drifting := Steady(0.3, drift=0.02))
    timed = time_against(candidate, lambda: candidate, None, seed=1)
    assert isinstance(timed, Timed)
    assert timed.warnings, "the machine drifts, for which other kernels are timed again"
    assert drifting.calls < 2 * (1 + PROBES + 2 * FEWEST_PAIRS)


def test_the_share_of_the_baseline_lies_in_its_interval() -> None:
    timed, _ = timed_against(Steady(0.005), limit_s=None)
    assert isinstance(timed, Timed)
    low, share, high = (timed.details[f"percent_of_baseline{end}"] for end in ("_low", "", "_high"))
    assert low < high
    assert low <= share <= high
