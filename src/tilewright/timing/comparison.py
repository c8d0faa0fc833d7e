"""Decides from raw samples whether a candidate is faster, with a confidence interval of the
speedup.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tilewright.timing.plan import TimingPlan
from tilewright.timing.sessions import Session
from tilewright.timing.statistics import (
    log_ratios,
    median_interval,
    relative_drift,
    relative_spread,
)

Decision = Literal["faster", "slower", "same", "unsteady"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of one or more sessions.

    `ratio`: the median over all pairs of the baseline's time divided by the candidate's time.
    `low`, `high`: the ends of the bootstrap interval of `ratio`.
    `baseline_s`, `candidate_s`: median times in seconds.
    `drift`: the largest relative change of the baseline's time within a session.
    `spread`: half the interquartile range of the candidate's samples, divided by their median.

    `decision`: "faster" if the whole interval lies above 1 + minimum effect, "slower" if it lies
    below 1 - minimum effect, and "same" otherwise; "unsteady" if the baseline drifted beyond the
    limit.
    """

    ratio: float
    low: float
    high: float
    baseline_s: float
    candidate_s: float
    drift: float
    spread: float
    decision: Decision

    def sentence(self) -> str:
        """One sentence with the decision, the ratio and its interval."""
        what = {
            "faster": "faster than the baseline",
            "slower": "slower than the baseline",
            "same": "not distinguishable from the baseline",
            "unsteady": f"not decided: the baseline's time drifted by {self.drift:.1%}",
        }[self.decision]
        return f"{what}; ratio {self.ratio:.3f}, interval {self.low:.3f} to {self.high:.3f}."


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The confirmation of a winner: the fresh sessions, the comparison of each, and the pooled
    comparison.

    Report `pooled.ratio`. It does not include the samples of the search, because the best of many
    noisy candidates looks faster than it is.
    """

    sessions: tuple[Session, ...]
    comparisons: tuple[Comparison, ...]
    pooled: Comparison


def compare(session: Session, plan: TimingPlan, seed: int) -> Comparison:
    """The comparison for one session."""
    return _decide([session], plan, seed)


def confirm(open_session: Callable[[int], Session], plan: TimingPlan, seed: int) -> Confirmation:
    """Measure a winner in `plan.sessions` fresh sessions and pool them.

    `open_session(i)` starts new processes with new inputs and returns session i. The pooled
    decision is "faster" only if no single session contradicts it (its ratio is above 1) and
    none was unsteady.
    """
    sessions = tuple(open_session(i) for i in range(plan.sessions))
    comparisons = tuple(compare(session, plan, seed) for session in sessions)
    pooled = _decide(sessions, plan, seed)
    contradicted = any(comparison.ratio <= 1 for comparison in comparisons)
    if pooled.decision == "faster" and contradicted:
        pooled = replace(pooled, decision="same")
    return Confirmation(sessions, comparisons, pooled)


def _decide(sessions: Sequence[Session], plan: TimingPlan, seed: int) -> Comparison:
    ratios = np.concatenate([log_ratios(s.baseline_s, s.candidate_s) for s in sessions])
    low, high = median_interval(ratios, plan.confidence, seed)
    candidate_s = [sample for session in sessions for sample in session.candidate_s]
    baseline_s = [sample for session in sessions for sample in session.baseline_s]
    drift = max((relative_drift(session.baseline_s) for session in sessions), key=abs)
    effect = math.log1p(plan.minimum_effect)
    decision: Decision = "same"
    if abs(drift) > plan.drift_limit:
        decision = "unsteady"
    elif low > effect:
        decision = "faster"
    elif high < -effect:
        decision = "slower"
    return Comparison(
        ratio=math.exp(float(np.median(ratios))),
        low=math.exp(low),
        high=math.exp(high),
        baseline_s=float(np.median(baseline_s)),
        candidate_s=float(np.median(candidate_s)),
        drift=drift,
        spread=relative_spread(candidate_s),
        decision=decision,
    )
