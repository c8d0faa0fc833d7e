"""A winner is held to fresh sessions: processes, inputs and samples that did not make it one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import pytest

from tilewright.core.records import Failed
from tilewright.native.timed import CallFailedError, Timed, TimedKernel, confirm_against


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
    def open_kernels(index: int) -> Iterator[tuple[TimedKernel, TimedKernel]]:
        assert index == next(opened)
        candidate = candidates[index]
        baseline = candidate if itself else Steady(0.1, drift)
        yield cast(TimedKernel, candidate), cast(TimedKernel, baseline)

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
