"""What timed calls are given: values that earlier calls tell nothing about."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import pairwise
from typing import cast

import numpy as np
import pytest

from tilewright.native import calls as calls_module
from tilewright.native.calls import (
    ATTEMPTS,
    AWAY_S,
    LONG_CALL_S,
    MOST_REPEATED,
    CallFailedError,
    FreshValues,
    OtherValues,
    TimedKernel,
)
from tilewright.native.process import KernelProcess, ProcessGoneError, threads_wait
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.targets.host_c.problems import create_problem
from tilewright.targets.host_c.shapes import parse_shape

CALLS = 6


def process() -> KernelProcess:
    """One that is told apart from others, and never called."""
    return cast(KernelProcess, object())


def fresh_values(name: str) -> FreshValues:
    shape = parse_shape(name)
    cases = Cases(shape.workload("host-c"), create_problem(shape), 5)
    return FreshValues(cases.timed(), np.random.default_rng(5))


@pytest.mark.parametrize("name", ["gemm-8x8x8", "softmax-4x16", "attention-8x4"])
def test_no_call_gets_a_permutation_or_a_multiple_of_earlier_values(name: str) -> None:
    values, called = fresh_values(name), process()
    cases = [values.for_call_of(called) for _ in range(CALLS)]
    given = [a.name for a in cases[0].workload.arguments if a.is_given]
    for argument in given:
        arrays = [case.initial[argument].ravel().astype(np.float64) for case in cases]
        assert len(np.unique(np.concatenate(arrays))) == sum(len(a) for a in arrays)
        ratios = [np.sort(a / b) for a, b in pairwise(arrays)]
        assert all(r[-1] - r[0] > 1e-3 for r in ratios)


def test_both_processes_of_a_pair_may_share_values_and_none_sees_them_twice() -> None:
    values = fresh_values("gemm-8x8x8")
    candidate, baseline = process(), process()
    order = [candidate, baseline, baseline, candidate, candidate, baseline, candidate]
    seen = [(called, values.for_call_of(called)) for called in order]
    assert len({(id(called), id(case)) for called, case in seen}) == len(order)
    drawn = [case for _, case in seen]
    assert drawn[0] is drawn[1]
    assert drawn[2] is drawn[3]
    assert drawn[4] is drawn[5]


def test_expected_outputs_are_those_of_the_values_that_were_drawn() -> None:
    values, called = fresh_values("gemm-8x8x8"), process()

    def product(case: Case) -> dict[str, bytes]:
        result = case.initial["A"].astype(np.float64) @ case.initial["B"].astype(np.float64)
        return {"C": result.astype(np.float32).tobytes()}

    first, second = values.for_call_of(called), values.for_call_of(called)
    assert first.mismatch(product(first)) is None
    assert second.mismatch(product(second)) is None
    assert second.mismatch(product(first)) is not None


def test_what_outputs_hold_before_a_timed_call_varies() -> None:
    values, called = fresh_values("gemm-8x8x8"), process()
    fills = [values.for_call_of(called).initial["C"] for _ in range(60)]
    shares = [float(np.isnan(fill).mean()) for fill in fills]
    assert {0.0, 1.0} < set(shares), "NaN alone, none, and both"
    assert any(0.2 < share < 0.8 for share in shares)


def test_other_values_have_each_distribution_once_before_any_comes_again() -> None:
    others = OtherValues(range(5), lambda number: cast(Case, number))
    rounds = [[cast(int, others.next()) for _ in range(5)] for _ in range(20)]
    assert all(sorted(found) == [0, 1, 2, 3, 4] for found in rounds)
    assert len({tuple(found) for found in rounds}) > 1, "in another order"


class Pair:
    """A process of two threads whose CPU time the system has not brought up to date."""

    threads = 2

    def __init__(self, asleep: bool) -> None:
        self.asleep = asleep
        self.arrays = self
        self.wall_s = 0.1

    def is_asleep(self) -> bool:
        return self.asleep

    def cpu_s(self) -> float:
        return 1.0

    def place(self, arrays: object) -> None:
        return None

    def read(self) -> None:
        return None

    def call(self, stage: str, timeout_s: float) -> None:
        self.wall_s += 0.5


@pytest.mark.parametrize("asleep", [True, False])
def test_threads_that_still_run_are_taken_to_have_run_since_the_last_call(
    asleep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(asleep)
    called = TimedKernel(cast(KernelProcess, pair), fresh_values("gemm-8x8x8"), 1.0)
    monkeypatch.setattr(time, "perf_counter", lambda: pair.wall_s)
    monkeypatch.setattr(called, "_returned_s", 0.0)
    assert called.call(checked=0.0) == pytest.approx(0.5 if asleep else 0.7)


class Clocked:
    """A process of one thread that gets its core late in some of its calls."""

    threads = 1

    def __init__(self, late_s: Iterable[float], seconds: float) -> None:
        self.arrays = self
        self.wall_s = self.used_s = 0.0
        self.calls = 0
        self._late_s, self._seconds = iter(late_s), seconds

    def cpu_s(self) -> float:
        return self.used_s

    def place(self, arrays: object) -> None:
        return None

    def read(self) -> None:
        return None

    def call(self, stage: str, timeout_s: float) -> None:
        self.calls += 1
        self.used_s += self._seconds
        self.wall_s += self._seconds + next(self._late_s)


LATE_S = 2 * AWAY_S


@pytest.mark.parametrize(
    ("late_s", "seconds", "calls"),
    [
        ([0.0], 1e-4, 1),
        ([LATE_S, LATE_S, 0.0], 1e-4, 3),
        ([LATE_S] * ATTEMPTS, 1e-4, ATTEMPTS),
        ([LATE_S], 2 * LONG_CALL_S, 1),
    ],
)
def test_a_short_call_is_repeated_where_the_core_was_taken_away(
    late_s: list[float], seconds: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked = Clocked(late_s, seconds)
    monkeypatch.setattr(time, "perf_counter", lambda: clocked.wall_s)
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    called = TimedKernel(cast(KernelProcess, clocked), fresh_values("gemm-8x8x8"), 1.0)
    assert called.call(checked=0.0) == pytest.approx(seconds)
    assert clocked.calls == calls


def test_calls_are_not_repeated_where_the_core_is_taken_away_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocked = Clocked([LATE_S] * 100, 1e-4)
    monkeypatch.setattr(time, "perf_counter", lambda: clocked.wall_s)
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    called = TimedKernel(cast(KernelProcess, clocked), fresh_values("gemm-8x8x8"), 1.0)
    for _ in range(20):
        called.call(checked=0.0)
    assert clocked.calls == 20 + MOST_REPEATED


def test_whether_a_repeated_call_is_compared_does_not_follow_from_the_call_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocked = Clocked([LATE_S, LATE_S, 0.0], 1e-4)
    monkeypatch.setattr(time, "perf_counter", lambda: clocked.wall_s)
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    draws = iter([False, True, False])
    shares: list[float] = []
    compared_at: list[int] = []

    def is_checked(share: float) -> bool:
        shares.append(share)
        return next(draws)

    monkeypatch.setattr(calls_module, "is_checked", is_checked)
    monkeypatch.setattr(calls_module, "compared", lambda *_: compared_at.append(clocked.calls))
    called = TimedKernel(cast(KernelProcess, clocked), fresh_values("gemm-8x8x8"), 1.0)
    called.call(checked=0.7)
    assert compared_at == [2]
    assert shares == [0.7] * 3, "no fewer are compared where calls are repeated"


def test_a_call_on_other_values_is_compared_and_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clocked = Clocked([0.0] * 2, 1e-4)
    monkeypatch.setattr(time, "perf_counter", lambda: clocked.wall_s)
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    monkeypatch.setattr(calls_module, "is_checked", lambda share: share > 0)
    compared: list[object] = []
    monkeypatch.setattr(calls_module, "compared", lambda _, case, __: compared.append(case))
    values = fresh_values("gemm-8x8x8")
    other = values.for_call_of(process())
    called = TimedKernel(
        cast(KernelProcess, clocked), values, 1.0, OtherValues([3], lambda number: other)
    )
    clocked.used_s += 5e-4  # work that was put off until after an earlier call
    assert called.call(checked=0.0) == pytest.approx(1e-4 + 5e-4)
    assert clocked.calls == 2
    assert compared == [other]


class Gone(Clocked):
    """A process that ends when it has answered."""

    def cpu_s(self) -> float:
        if self.calls:
            raise ProcessGoneError
        return 0.0


@pytest.mark.parametrize(
    ("process", "kind"),
    [
        (Clocked([0.0], 0.0), "invalid"),
        (Clocked([0.0], -1e-4), "invalid"),
        (Gone([0.0], 1e-4), "crash"),
    ],
)
def test_a_clock_that_says_nothing_is_a_failure_of_the_kernel(process: Clocked, kind: str) -> None:
    called = TimedKernel(cast(KernelProcess, process), fresh_values("gemm-8x8x8"), 1.0)
    with pytest.raises(CallFailedError) as failure:
        called.call(checked=0.0)
    assert (failure.value.failed.stage, failure.value.failed.kind) == ("measure", kind)


class Accompanied(Clocked):
    """A process in whose control group others compute too."""

    def __init__(self, hidden_s: float) -> None:
        super().__init__([], 0.0)
        self._hidden_s = hidden_s
        self.used_s = 1.0

    def hidden_s(self) -> float:
        return self._hidden_s


@pytest.mark.parametrize("hidden_s", [0.0, 0.02, -0.5])
def test_a_control_group_that_shows_nothing_more_is_no_failure(hidden_s: float) -> None:
    process = cast(KernelProcess, Accompanied(hidden_s))
    TimedKernel(process, fresh_values("gemm-8x8x8"), 1.0).account()


def test_cpu_time_that_only_the_control_group_shows_is_a_failure_of_the_kernel() -> None:
    process = cast(KernelProcess, Accompanied(0.03))
    with pytest.raises(CallFailedError, match=r"other than the kernel's used 0\.03 s") as failure:
        TimedKernel(process, fresh_values("gemm-8x8x8"), 1.0).account()
    assert failure.value.failed.kind == "forbidden_call"


def test_whether_threads_wait_is_seen_from_outside() -> None:
    assert not threads_wait(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as waiting:
        while not threads_wait(waiting.pid):
            time.sleep(0.01)
        waiting.communicate()
