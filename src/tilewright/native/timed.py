"""Timed calls: a candidate against the baseline, on values and addresses that change each time.

The clock is the operating system's count of CPU time of the kernel's process, read outside it. All
that the process uses between two calls is part of the call before: work that is put off until after
the return, or done before a call on values that already lie there, is counted too. Waiting for
other processes of the machine is not.

Of several threads the CPU time says what all took together, not how long it took: there a call is
its wall time, and all CPU time that the process used since the call before. The system adds what a
thread runs on another core only when that waits, or at a tick: of a process that still runs when
the next call begins, all threads are taken to have run since the call before.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from tilewright.core.records import Failed, Stage
from tilewright.native.counters import Counters, why_not
from tilewright.native.process import KernelProcess
from tilewright.parts.cases import Case, Cases
from tilewright.timing import (
    Comparison,
    Session,
    TimingPlan,
    Variant,
    compare,
    confirm,
    measure_pairs,
)

PROBES = 5
"""Calls after which a kernel that is far over its limit is given up."""
LIMIT_MARGIN = 1.1
"""So many times over its limit must the fastest probe be."""
FEWEST_PAIRS = 10
SESSIONS = 3
"""Sessions at most, when the baseline itself did not hold still."""


COUNTED_CALLS = 5
"""Further calls, whose counters are read: counting may slow a process down."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Most pairs of a session, and what they may take together where that allows more than few."""

    pairs: int
    seconds: float


RANKING = Effort(20, 0.25)
"""Of the sessions by which a search ranks candidates: many are to be tried."""
CONFIRMING = Effort(40, 1.0)
"""Of the sessions that bear a winner out."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A kernel's median seconds, their relative spread, further numbers, and what is doubtful.

    `counted` says in words what hardware counters showed, or why they could not be read. `samples`
    are the raw nanoseconds of each session and variant; sample i of both variants is pair i.
    """

    latency_s: float
    noise: float
    details: Mapping[str, float]
    warnings: tuple[str, ...]
    counted: str
    samples: Mapping[str, tuple[float, ...]]


class CallFailedError(Exception):
    """A timed call ended in a failure instead of a duration."""

    def __init__(self, failed: Failed) -> None:
        self.failed = failed


class FreshValues:
    """New values for every timed call.

    What a process saw in one call tells it nothing about the values of another: none are a
    permutation or a multiple of earlier ones. The two processes of a pair cannot talk to each
    other and may be given the same, which halves what drawing costs.
    """

    def __init__(self, cases: Cases, case: Case, rng: np.random.Generator) -> None:
        self._cases = cases
        self._case = case
        self._rng = rng
        self._seen_by: set[KernelProcess] = set()

    def for_call_of(self, process: KernelProcess) -> Case:
        """A case that this process has not seen."""
        if not self._seen_by or process in self._seen_by:
            self._case = self._cases.redrawn(self._case, self._rng)
            self._seen_by.clear()
        self._seen_by.add(process)
        return self._case


class TimedKernel:
    """A kernel's process and what its calls are timed on."""

    def __init__(self, process: KernelProcess, values: FreshValues, timeout_s: float) -> None:
        self._process = process
        self._values = values
        self._timeout_s = timeout_s
        self._clock_s, self._returned_s = process.cpu_s(), time.perf_counter()

    def call(self, *, check: bool) -> float:
        """Seconds of one call. Raises `CallFailedError`."""
        case = self._values.for_call_of(self._process)
        # Written by this core just before the call: warm, as a producer would leave them.
        self._process.arrays.place(case.initial)
        between_s, started = self._late_s(), time.perf_counter()
        failed = self._process.call("measure", self._timeout_s)
        wall_s = time.perf_counter() - started
        if failed is None and self._process.threads > 1:
            self._clock_s, self._returned_s = self._process.cpu_s(), time.perf_counter()
        if failed is None and check:
            failed = compared(self._process, case, "measure")
        if failed is not None:
            raise CallFailedError(failed)
        if self._process.threads > 1:
            return wall_s + between_s
        before, self._clock_s = self._clock_s, self._process.cpu_s()
        return self._clock_s - before

    def _late_s(self) -> float:
        """CPU seconds of several threads since the call before."""
        if self._process.threads == 1:
            return 0.0  # part of that call
        if self._process.is_asleep():
            return self._process.cpu_s() - self._clock_s
        return (time.perf_counter() - self._returned_s) * self._process.threads

    def counts(self) -> dict[str, float]:
        """Hardware counters per call. Raises `CallFailedError` and `OSError`."""
        counters = Counters(self._process.pid)
        try:
            for _ in range(COUNTED_CALLS):
                self.call(check=False)
            return {name: n / COUNTED_CALLS for name, n in counters.counts().items()}
        finally:
            counters.close()


def time_against(
    candidate: TimedKernel, baseline: TimedKernel, limit_s: float | None, seed: int
) -> Timed | Failed:
    """Median seconds of the candidate, timed side by side with the baseline.

    The two may be the same. A failure of either is the outcome. The measuring core is held by the
    caller.
    """
    try:
        return _timed(candidate, baseline, limit_s, seed)
    except CallFailedError as failure:
        return failure.failed


def _timed(
    candidate: TimedKernel, baseline: TimedKernel, limit_s: float | None, seed: int
) -> Timed | Failed:
    probes = _probe(candidate)
    if limit_s is not None and min(probes) > LIMIT_MARGIN * limit_s:
        log = f"stopped after {PROBES} calls of at least {min(probes) * 1e9:,.0f} ns each."
        return Failed("measure", "slower_than_limit", log, bound=min(probes) * 1e9)
    plan = _plan(probes, baseline, RANKING)
    for session in range(SESSIONS):
        measured = _pairs(candidate, baseline, plan, seed + session)
        comparison = compare(measured, plan, seed)
        if comparison.decision != "unsteady":
            break
    counts, words = counted(candidate)
    return _outcome(comparison, [measured], counts, words)


OpenKernels = Callable[[int], AbstractContextManager[tuple[TimedKernel, TimedKernel]]]
"""Candidate and baseline of a session, by its number, in new processes; may be the same kernel."""


def confirm_against(open_kernels: OpenKernels, sessions: int, seed: int) -> Timed | Failed:
    """What fresh sessions say together of a candidate that is taken for faster than the baseline.

    `unconfirmed` where it is not: one contradicting session is enough. A failure of either kernel
    is the outcome.
    """
    itself, words = False, ""
    numbers = {"fresh_sessions": float(sessions)}

    def open_session(index: int) -> Session:
        nonlocal itself, words
        with open_kernels(index) as (candidate, baseline):
            itself = candidate is baseline
            plan = _plan(_probe(candidate), baseline, CONFIRMING)
            session = _pairs(candidate, baseline, plan, seed + index)
            if index == sessions - 1:
                counts, words = counted(candidate)
                numbers.update(counts)
            return session

    try:
        confirmation = confirm(open_session, TimingPlan(sessions=sessions), seed)
    except CallFailedError as failure:
        return failure.failed
    pooled = confirmation.pooled
    ratios = [comparison.ratio for comparison in confirmation.comparisons]
    won = pooled.decision == "faster" or (pooled.decision == "unsteady" and min(ratios) > 1)
    if not (itself or won):
        log = (
            f"in {sessions} fresh sessions it is {pooled.sentence()[:-1]}; ratios of the sessions "
            f"{', '.join(f'{ratio:.3f}' for ratio in ratios)}."
        )
        return Failed("measure", "unconfirmed", log)
    return _outcome(pooled, confirmation.sessions, numbers, words)


def _probe(candidate: TimedKernel) -> list[float]:
    """Seconds of a few calls, after one whose outputs are compared."""
    candidate.call(check=True)
    return [candidate.call(check=False) for _ in range(PROBES)]


def _plan(probes: Sequence[float], baseline: TimedKernel, effort: Effort) -> TimingPlan:
    both_s = statistics.median(probes) + min(baseline.call(check=False) for _ in range(2))
    wanted = min(float(effort.pairs), effort.seconds / both_s)
    return TimingPlan(pairs=int(max(FEWEST_PAIRS, wanted)), warmups=1)


def _pairs(candidate: TimedKernel, baseline: TimedKernel, plan: TimingPlan, seed: int) -> Session:
    kernels: Mapping[Variant, TimedKernel] = {"baseline": baseline, "candidate": candidate}

    def time_call(variant: Variant, check: bool) -> float:
        return kernels[variant].call(check=check and variant == "candidate")

    return measure_pairs(time_call, plan, seed)


def _outcome(
    comparison: Comparison, sessions: Sequence[Session], numbers: Mapping[str, float], counted: str
) -> Timed:
    details = {
        "baseline_ns": comparison.baseline_s * 1e9,
        "percent_of_baseline": 100 / comparison.ratio,
        "percent_of_baseline_low": 100 / comparison.high,
        "percent_of_baseline_high": 100 / comparison.low,
        "timed_pairs": float(sum(len(session.candidate_s) for session in sessions)),
        **numbers,
    }
    return Timed(
        comparison.candidate_s,
        comparison.spread,
        details,
        _warnings(comparison),
        counted,
        _samples(sessions),
    )


def _samples(sessions: Sequence[Session]) -> dict[str, tuple[float, ...]]:
    """Raw nanoseconds by session and variant."""
    series: dict[str, tuple[float, ...]] = {}
    for number, session in enumerate(sessions, 1):
        series[f"session {number} baseline"] = tuple(s * 1e9 for s in session.baseline_s)
        series[f"session {number} candidate"] = tuple(s * 1e9 for s in session.candidate_s)
    return series


def counted(candidate: TimedKernel) -> tuple[dict[str, float], str]:
    """Hardware counters per call as numbers and in words; the words say why there are none."""
    try:
        counts = candidate.counts()
    except OSError as error:
        return {}, f"No hardware counters: {why_not(error)}."
    said = ", ".join(f"{count:,.0f} {name.replace('_', ' ')}" for name, count in counts.items())
    if counts.get("cycles") and "instructions" in counts:
        said += f" ({counts['instructions'] / counts['cycles']:.2f} instructions per cycle)"
    per_call = {f"{name}_per_call": count for name, count in counts.items()}
    return per_call, f"Hardware counters per call, in user mode: {said}."


def _warnings(comparison: Comparison) -> tuple[str, ...]:
    if comparison.decision != "unsteady":
        return ()
    return (
        f"the machine did not hold still: the baseline drifted by {comparison.drift:.1%} while "
        "the kernel was timed.",
    )


def compared(process: KernelProcess, case: Case, stage: Stage) -> Failed | None:
    """How the arrays after the last call differ from what a right kernel leaves, or None."""
    beside = process.arrays.written_beside()
    if beside is not None:
        return Failed(stage, "illegal_address", f"{beside}.")
    mismatch = case.mismatch(process.arrays.outputs_now())
    return None if mismatch is None else Failed(stage, "wrong_result", f"{mismatch}.")
