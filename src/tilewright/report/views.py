"""The records a report is drawn from: plain values, nothing left to compute but layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tilewright.core.records import LeftAlone
from tilewright.report.costs import Cost

TrialState = Literal["start", "kept", "rejected", "stopped", "unconfirmed", "failed"]
"""start: the starting kernel; kept: faster than the kernel it was made from; rejected: correct, but
not faster; stopped: measurement ended early because it could no longer be kept; unconfirmed: looked
faster and did not hold when it was evaluated again; failed: build or check."""

_OUTCOMES = {
    "start": "the starting kernel",
    "kept": "correct and faster than the kernel it was made from",
    "rejected": "correct, but not faster than the kernel it was made from",
    "stopped": "stopped early, because it was slower than the kernel it was made from",
    "unconfirmed": "looked faster at first, but not when measured again",
}


@dataclass(frozen=True, slots=True)
class TrialView:
    """One trial. Latencies are in the report's unit; `speedup` is over the starting kernel.

    `gain` is the speedup over the parent, `expected_gain` what the plan foresaw of it. `turn` is
    the one of its proposal in which a model made it, None where there is one only.
    """

    index: int
    iteration: int
    parent: int | None
    state: TrialState
    winning: bool
    option: str
    proposer: str
    plan: str
    turn: int | None
    expected: str
    expected_gain: float | None
    latency: float | None
    speedup: float | None
    gain: float | None
    utilization: float | None
    breakdown: Mapping[str, float]
    details: Mapping[str, float]
    feedback: str
    warnings: tuple[str, ...]
    failure: str
    log: str
    wall_s: float
    cached: bool
    diff: tuple[str, ...]

    @property
    def outcome(self) -> str:
        """What became of it, in a few words."""
        return _OUTCOMES.get(self.state, self.failure)


@dataclass(frozen=True, slots=True)
class BaselineView:
    """A kernel the best one is compared with; `speedup` is the best kernel's over it."""

    name: str
    latency: float | None
    utilization: float | None
    speedup: float | None
    failure: str


@dataclass(frozen=True, slots=True)
class ReportView:
    """A whole run. `baseline` and `best` are None when no kernel was measured.

    `costs` has a row per model and phase, and one for all of them if there are several.
    `evaluations` are all of the run, of which `correct` gave a latency and `trials` are shown.
    `unconfirmed` are the trials that looked faster and did not hold when they were evaluated again.
    """

    task: str
    target: str
    run_id: str
    created_at: str
    status: str
    stop_reason: str
    wall_s: float
    unit: str
    quantity: str
    trials: tuple[TrialView, ...]
    baseline: TrialView | None
    best: TrialView | None
    schedule: tuple[TrialView, ...]
    checks: str
    start_source: str
    best_source: str
    compared: tuple[BaselineView, ...]
    left_alone: tuple[LeftAlone, ...]
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    costs: tuple[Cost, ...] = ()
    unconfirmed: tuple[TrialView, ...] = ()
    cost_words: str = ""
    evaluations: int = 0
    correct: int = 0

    @property
    def is_sample(self) -> bool:
        """Whether there are too many trials to show all."""
        return len(self.trials) < self.evaluations

    @property
    def metric(self) -> str:
        """What kind of number a latency is, for instance "simulated cycles"."""
        return f"{self.quantity} {self.unit}"

    def count(self, *states: TrialState) -> int:
        """Number of trials in one of `states`."""
        return sum(trial.state in states for trial in self.trials)
