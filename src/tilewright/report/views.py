"""The records from which a report is drawn, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tilewright.core.gains import is_gain
from tilewright.core.records import LeftAlone
from tilewright.report import text
from tilewright.report.costs import Cost

TrialState = Literal["start", "kept", "rejected", "stopped", "unconfirmed", "failed"]
"""start: the starting kernel; kept: faster than its parent; rejected: correct, but not faster;
stopped: too slow, so the measurement ended early; unconfirmed: faster at first, but wrong or slower
when it was evaluated again; failed: the build or a check failed.
"""

_OUTCOMES = {
    "start": "the starting kernel",
    "kept": "correct and faster than its parent",
    "rejected": "correct, but not faster than its parent",
    "stopped": "stopped early, because it was slower than its parent",
    "unconfirmed": "faster at first, but wrong or slower when it was evaluated again",
}


@dataclass(frozen=True, slots=True)
class TrialView:
    """One trial. Latencies are in the report's unit; `speedup` is over the starting kernel.

    `noise` is the noise of the latency as a share; 0 if the latency repeats exactly.
    `gain` is the speedup over the parent, and `expected_gain` the speedup that the plan expected.
    `turn` is the turn of its proposal; None if proposals have only one turn.
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
    noise: float
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
        """The outcome in a few words."""
        return _OUTCOMES.get(self.state, self.failure)

    @property
    def name(self) -> str:
        """What a drawn trial is called: its index, option, outcome and speedup."""
        option = f", {text.words(self.option)}" if self.option else ""
        fast = (
            f", {text.ratio(self.speedup)} as fast as the starting kernel" if self.speedup else ""
        )
        return f"Trial {self.index}{option}: {self.outcome}{fast}"


@dataclass(frozen=True, slots=True)
class BaselineView:
    """A kernel with which the best kernel is compared; `speedup` is that of the best kernel over
    it.
    """

    name: str
    latency: float | None
    utilization: float | None
    speedup: float | None
    failure: str


@dataclass(frozen=True, slots=True)
class ReportView:
    """A whole run. `baseline` and `best` are None if no kernel was measured.

    `costs` has a row per model and phase, and a row for their sum if there are several.
    `evaluations` is the number of all evaluations, of which `measured` gave a latency; `trials` are
    the shown ones. `unconfirmed` are trials that were faster at first, but wrong or slower when
    they were evaluated again, and `unconfirmed_words` counts them by this reason. `noise` is the
    noise of the speedup of the best kernel, as a share.
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
    unconfirmed_words: str = ""
    cost_words: str = ""
    evaluations: int = 0
    measured: int = 0
    noise: float = 0.0

    @property
    def is_faster(self) -> bool:
        """Whether the best kernel is faster than the starting kernel by more than the noise."""
        return is_gain(self.best.speedup if self.best else None, self.noise)

    @property
    def is_sample(self) -> bool:
        """Whether only a sample of the trials is shown."""
        return len(self.trials) < self.evaluations

    @property
    def metric(self) -> str:
        """The quantity and the unit of latencies, for instance "simulated cycles"."""
        return f"{self.quantity} {self.unit}"

    def count(self, *states: TrialState) -> int:
        """Number of trials in one of `states`."""
        return sum(trial.state in states for trial in self.trials)
