"""What a search reports while it runs, one small record per step.

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
    """A step of the proposer raised (a defect), or computed for too long; `log` tells.

    It counts as having proposed nothing; the search goes on with the others.
    """

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
    """A model answered (or its reply was known already); told between other events."""

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
class SchedulesReused:
    """The run takes up what earlier ones found, the nearest first, before it searches on."""

    notes: tuple[ReusedSchedule, ...]


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """An agent that worked on a kernel is over, with all that it started."""

    work: AgentWork


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
    | SchedulesReused
    | AgentEnded
    | Stopped
)
OnEvent: TypeAlias = Callable[[Event], None]


class Relay:
    """Tells a listener of events in the thread that made the relay, whichever thread has them."""

    def __init__(self, listener: OnEvent) -> None:
        self._listener = listener
        self._thread = get_ident()
        self._untold: SimpleQueue[Event] = SimpleQueue()

    def __call__(self, event: Event) -> None:
        """Tell of an event: at once in the relay's own thread, else with the next `deliver`."""
        self._untold.put(event)
        if get_ident() == self._thread:
            self.deliver()

    def deliver(self) -> None:
        """Tell what other threads had; to be called in the relay's own thread."""
        while not self._untold.empty():
            self._listener(self._untold.get())
