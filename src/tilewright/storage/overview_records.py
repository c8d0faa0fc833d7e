"""Records of the fast queries for the live page (`overview`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.core.records import RunRecord
from tilewright.core.run_notes import Label


@dataclass(frozen=True, slots=True)
class RunOverview:
    """A run with its results so far; latencies are in the run's own unit.

    `noise` is the noise of the speedup, as a share. `usd` is the known cost of its calls to models,
    and `unpriced` the number of calls without a price.
    """

    run: RunRecord
    label: Label
    trials: int
    start: float | None
    best: float | None
    noise: float
    calls: int
    usd: float
    unpriced: int

    @property
    def speedup(self) -> float | None:
        """Speedup of the best kernel over the starting kernel, if both were measured."""
        return self.start / self.best if self.start and self.best else None


@dataclass(frozen=True, slots=True)
class TrialOverview:
    """A trial without its texts. `noise` is the noise of its latency as a share. `failure` is the
    kind, stage and line of its failure.

    `cause` is the largest entry of its breakdown. `values` are the values of a template's
    parameters, and `instance_of` is the candidate that introduced the template.
    """

    index: int
    iteration: int
    candidate_id: str
    parent_id: str | None
    proposer: str
    option: str
    expected_gain: float | None
    turn: int | None
    latency: float | None
    noise: float
    utilization: float | None
    unit: str
    quantity: str
    cause: str
    failure: tuple[str, str, int | None] | None
    wall_s: float
    cached: bool
    instance_of: str = ""
    values: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a run's log; `number` increases from line to line."""

    number: int
    at: str
    kind: str
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Payment:
    """A call to a model; `number` increases from call to call.

    `at` is the time at which the call ended, or None; `usd` is its known cost.
    """

    number: int
    at: str | None
    usd: float
