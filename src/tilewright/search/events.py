"""What a search reports while it runs, one small record per step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.core.records import CallRecord, History, RunRecord, Trial


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins, or goes on: then `history` holds the trials of its earlier sessions."""

    run: RunRecord
    history: History


@dataclass(frozen=True, slots=True)
class IterationStarted:
    """The parents of one iteration (counted from 1) are chosen, best first."""

    iteration: int
    iterations: int
    parents: tuple[Trial, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """One parent's plans are made."""

    iteration: int
    parent_id: str
    plans: int


@dataclass(frozen=True, slots=True)
class Implemented:
    """One parent's plans are implemented: new candidates, and duplicates left out."""

    iteration: int
    parent_id: str
    candidates: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class ProposalFailed:
    """The proposer raised: a defect. The step counts as having proposed nothing; `log` tells."""

    iteration: int
    parent_id: str
    log: str


@dataclass(frozen=True, slots=True)
class EvaluationStarted:
    """The iteration's batch goes to the executor (iteration 0 is the starting kernel)."""

    iteration: int
    candidates: int


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One candidate is evaluated, in the order of completion.

    The trial's index is final except in an iteration that the wall-time budget cuts short.
    """

    trial: Trial


@dataclass(frozen=True, slots=True)
class IterationFinished:
    """All candidates of an iteration are evaluated; `best` is the best of the whole run."""

    iteration: int
    evaluated: int
    best: Trial | None


@dataclass(frozen=True, slots=True)
class Called:
    """A model answered (or its reply was known already). Heard from any thread, at any time."""

    call: CallRecord


@dataclass(frozen=True, slots=True)
class ModelsForecast:
    """Before the first call of a run: what calls to models may use at most.

    `usd` is None where a price is unknown.
    """

    calls: int
    tokens: int
    usd: float | None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The search ended, and why."""

    reason: str


Event: TypeAlias = (
    RunStarted
    | IterationStarted
    | Planned
    | Implemented
    | ProposalFailed
    | EvaluationStarted
    | Evaluated
    | IterationFinished
    | Called
    | ModelsForecast
    | Stopped
)
OnEvent: TypeAlias = Callable[[Event], None]
