"""Times a candidate against the baseline, in order to rank, report or confirm it."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tilewright.core.records import Artifact, Check, Failed, Measured, Verdict
from tilewright.native.calls import CallFailedError
from tilewright.native.counters import why_not
from tilewright.native.settings import LATENCY
from tilewright.timing import (
    CHECKED,
    Comparison,
    Session,
    TimingPlan,
    Variant,
    compare,
    confirm,
    measure_pairs,
)

PROBES = 5
"""Number of calls after which the measurement of a kernel that exceeds its limit stops, before the
baseline is called.
"""
LIMIT_MARGIN = 1.1
"""Ratio to the limit that the fastest of these calls must exceed."""
FEWEST_PAIRS = 10


def starting_kernel_fails(built: Failed) -> Failed:
    """The failure of a measurement because the starting kernel does not build."""
    words = "the starting kernel, with which other kernels are compared,"
    return Failed("measure", built.kind, f"{words} {built.words}: {built.log}")


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of a measurement: at most `pairs` pairs in a session, within `seconds`.

    At least `FEWEST_PAIRS` are measured, even if they take longer. `seconds` are wall-clock
    seconds, including the preparation of calls and waiting for the core. `sessions` is the number
    of sessions that may be measured if the latency of the baseline drifts.
    """

    pairs: int
    seconds: float
    sessions: int = 1


RANKING = Effort(20, 0.3)
"""The effort with which a search ranks candidates. It is low, because many candidates are tried and
winners are measured again.
"""
REPORTING = Effort(200, 2.0, sessions=3)
"""The effort for a kernel without a limit, such as a starting kernel."""
CONFIRMING = Effort(40, 1.0)
"""The effort for the sessions that confirm a winner."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The median seconds of a kernel, their relative spread, further numbers, and warnings.

    `counted` describes the values of hardware counters, or the reason why they could not be read.
    `samples` are the raw nanoseconds of each session and variant; sample i of both variants is pair
    i.
    """

    latency_s: float
    noise: float
    details: Mapping[str, float]
    warnings: tuple[str, ...]
    counted: str
    samples: Mapping[str, tuple[float, ...]]

    def measured(
        self,
        artifact: Artifact,
        checks: Sequence[Check],
        utilization: float,
        numbers: Mapping[str, float],
        versions: Mapping[str, str],
        feedback: str,
    ) -> Measured:
        """The outcome of an artifact that passed `checks`, in nanoseconds.

        `numbers` are added to the details; `bound_ns` is the lower bound of the latency if it is
        among them.
        """
        return Measured(
            latency=self.latency_s * 1e9,
            unit=LATENCY.unit,
            quantity=LATENCY.quantity,
            utilization=utilization,
            verdict=Verdict(tuple(checks)),
            details={**self.details, **numbers},
            bound=numbers.get("bound_ns"),
            versions={"compiler": artifact.toolchain, **versions},
            artifact_digest=artifact.digest,
            feedback=feedback,
            warnings=self.warnings,
            noise=self.noise,
            samples=self.samples,
        )


class TimedKernel(Protocol):
    """A kernel that can be called and timed, one sample at a time."""

    def call(self, *, checked: float) -> float:
        """The seconds of one call. Its outputs are compared with the probability `checked`.

        Raises `CallFailedError`.
        """
        ...

    def account(self) -> None:
        """Search once, after the calls of a session, for work that the clock did not include.

        Raises `CallFailedError`.
        """
        ...

    def counts(self) -> dict[str, float]:
        """Hardware counters per call. Raises `CallFailedError`, and `OSError` if there are none."""
        ...


OpenKernel = Callable[[], TimedKernel]
"""Starts a kernel, or returns the candidate if the baseline is the same kernel."""


def time_against(
    candidate: TimedKernel, open_baseline: OpenKernel, limit_s: float | None, seed: int
) -> Timed | Failed:
    """The median seconds of the candidate, which is timed in pairs with the baseline.

    With a limit, only as many pairs are measured as are needed to rank the candidate, and none if
    it clearly exceeds the limit. If one of the kernels fails, the failure is the outcome. The
    caller must hold the lock of the measuring core.
    """
    try:
        return _timed(candidate, open_baseline, limit_s, seed)
    except CallFailedError as failure:
        return failure.failed


def _timed(
    candidate: TimedKernel, open_baseline: OpenKernel, limit_s: float | None, seed: int
) -> Timed | Failed:
    probes = _probe(candidate)
    if limit_s is not None and min(probes) > LIMIT_MARGIN * limit_s:
        log = f"stopped after {PROBES} calls of at least {min(probes) * 1e9:,.0f} ns each."
        return Failed("measure", "slower_than_limit", log, bound=min(probes) * 1e9)
    effort = REPORTING if limit_s is None else RANKING
    baseline = open_baseline()
    plan = _plan(probes, baseline, effort)
    # The ratio of a kernel to itself is known, so further sessions would show nothing new.
    for _ in range(1 if baseline is candidate else effort.sessions):
        measured = _pairs(candidate, baseline, plan)
        comparison = compare(measured, plan, seed)
        if comparison.decision != "unsteady":
            break
    counts, words = counted(candidate)
    return _outcome(comparison, [measured], counts, words)


OpenKernels = Callable[[int], AbstractContextManager[tuple[TimedKernel, OpenKernel]]]
"""Starts the candidate and the baseline of a session, by its number, in new processes. They may be
the same kernel.
"""


def confirm_against(open_kernels: OpenKernels, sessions: int, seed: int) -> Timed | Failed:
    """The result of fresh sessions for a candidate that seemed to be faster than the baseline.

    The result is `unconfirmed` if it is not faster, for which one contradicting session suffices.
    If one of the kernels fails, the failure is the outcome.
    """
    itself, words = False, ""
    numbers = {"fresh_sessions": float(sessions)}

    def open_session(index: int) -> Session:
        nonlocal itself, words
        with open_kernels(index) as (candidate, open_baseline):
            baseline = open_baseline()
            itself = candidate is baseline
            plan = _plan(_probe(candidate), baseline, CONFIRMING)
            session = _pairs(candidate, baseline, plan)
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
    candidate.call(checked=1.0)
    return [candidate.call(checked=CHECKED) for _ in range(PROBES)]


def _plan(probes: Sequence[float], baseline: TimedKernel, effort: Effort) -> TimingPlan:
    started = time.perf_counter()
    both_s = statistics.median(probes) + min(baseline.call(checked=0.0) for _ in range(2))
    both_s = max(both_s, time.perf_counter() - started)  # two calls, as in a pair
    wanted = min(float(effort.pairs), effort.seconds / both_s)
    return TimingPlan(pairs=int(max(FEWEST_PAIRS, wanted)), warmups=1)


def _pairs(candidate: TimedKernel, baseline: TimedKernel, plan: TimingPlan) -> Session:
    """A session with a random order that other evaluations of the kernel cannot know."""
    kernels: Mapping[Variant, TimedKernel] = {"baseline": baseline, "candidate": candidate}

    def time_call(variant: Variant, checked: float) -> float:
        return kernels[variant].call(checked=checked if variant == "candidate" else 0.0)

    session = measure_pairs(time_call, plan, secrets.randbits(63))
    candidate.account()
    return session


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
    """Hardware counters per call as numbers and in words. If there are none, the words give the
    reason.
    """
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
        "the speed of the machine changed: the latency of the starting kernel drifted by "
        f"{100 * comparison.drift:.1f} % while the kernel was timed.",
    )
