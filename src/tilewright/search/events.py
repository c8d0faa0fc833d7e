"""The events that a search reports while it runs, as one small record for each step.

>>> import tilewright as tw
>>> latencies = []
>>> def hear(event):
...     if isinstance(event, tw.events.Evaluated):
...         latencies.append(event.trial.latency)
>>> run = tw.optimize("gemmini:gemm-16x16x16", budget="2 evaluations", on_event=hear)
>>> len(latencies)
2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import get_ident
from typing import TypeAlias

from tilewright.core.records import CallRecord, History, RunRecord, Trial
from tilewright.core.run_notes import AgentWork, ReusedSchedule


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins or is resumed. If it is resumed, `history` contains the trials of its earlier
    sessions.
    """

    run: RunRecord
    history: History


@dataclass(frozen=True, slots=True)
class IterationStarted:
    """The parents of an iteration (counted from 1) have been chosen; the best parent is first."""

    iteration: int
    iterations: int
    parents: tuple[Trial, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """The plans for one parent have been made."""

    iteration: int
    parent_id: str
    plans: int


@dataclass(frozen=True, slots=True)
class Implemented:
    """The plans for one parent have been implemented, with the new candidates and the number of
    duplicates that were dropped.
    """

    iteration: int
    parent_id: str
    candidates: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class ProposalFailed:
    """A step of the proposer raised an exception (a defect) or exceeded its time limit; `log` says
    which.

    The search continues without the proposals of this step.
    """

    iteration: int
    parent_id: str
    log: str


@dataclass(frozen=True, slots=True)
class EvaluationStarted:
    """The iteration's batch is passed to the executor (iteration 0 is the starting kernel)."""

    iteration: int
    candidates: int


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One candidate has been evaluated. These events are in the order in which evaluations finish.

    The trial's index is final, except in an iteration that ends early because the wall-clock time
    is used up.
    """

    trial: Trial


@dataclass(frozen=True, slots=True)
class IterationFinished:
    """All candidates of an iteration have been evaluated; `best` is the best trial of the whole
    run.
    """

    iteration: int
    evaluated: int
    best: Trial | None


@dataclass(frozen=True, slots=True)
class Called:
    """A model has answered, or a stored reply was used. These events may occur between any
    others.
    """

    call: CallRecord


@dataclass(frozen=True, slots=True)
class ModelsForecast:
    """An upper bound on the calls to models and their cost, before the first call of a run.

    `usd` is None if a price is unknown.
    """

    calls: int
    tokens: int
    usd: float | None


@dataclass(frozen=True, slots=True)
class SchedulesReused:
    """The run begins with schedules of earlier runs, the most similar workload first."""

    notes: tuple[ReusedSchedule, ...]


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """An agent that worked on a kernel has ended, together with all processes that it started."""

    work: AgentWork


@dataclass(frozen=True, slots=True)
class Noted:
    """A sentence about the run that the user should know, without its full stop."""

    text: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The search has ended, for this reason."""

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
    | SchedulesReused
    | AgentEnded
    | Noted
    | Stopped
)
OnEvent: TypeAlias = Callable[[Event], None]


class Relay:
    """Passes events from any thread to a listener, in the thread that constructed the relay."""

    def __init__(self, listener: OnEvent) -> None:
        self._listener = listener
        self._thread = get_ident()
        self._untold: SimpleQueue[Event] = SimpleQueue()

    def __call__(self, event: Event) -> None:
        """Pass an event on: immediately in the relay's own thread, and otherwise with the next
        `deliver`.
        """
        self._untold.put(event)
        if get_ident() == self._thread:
            self.deliver()

    def deliver(self) -> None:
        """Pass on the events of other threads. Call this method in the relay's own thread."""
        while not self._untold.empty():
            self._listener(self._untold.get())
