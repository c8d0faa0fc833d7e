"""What a run keeps beside its trials, each note under its class; see `Storage.keep`.

Fields are what `core.codec` writes: a new one needs a default, so that older notes still read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tilewright.core.records import Baseline, LeftAlone, Measured, Schedule


@dataclass(frozen=True, slots=True)
class Baselines:
    """The kernels that the run is compared with; once."""

    kernels: tuple[Baseline, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """Code of the starting kernel that no proposer will touch; once."""

    parts: tuple[LeftAlone, ...]


@dataclass(frozen=True, slots=True)
class ReusedSchedule:
    """What an earlier run had found when this one began; for each that is reused, nearest first.

    `run` is the one that found it, and `chosen` says that nobody named it: it was the nearest.
    """

    schedule: Schedule
    run: str = ""
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Rechecked:
    """A winner that was built again and evaluated on fresh inputs, and whether it held.

    `first` is its earlier measurement where the second one took its place, `refuted` the one that
    did not hold.
    """

    candidate: str
    confirmed: bool
    first: Measured | None = None
    refuted: Measured | None = None


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of the run's models in US dollars per million tokens, and of which table; once."""

    table: str
    usd_per_mtok: Mapping[str, Mapping[str, float] | None]


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of the run's models in the work of one iteration, in the models' order."""

    iteration: int
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Replayed:
    """Calls that a session answered from a recording, and how many had another prompt there."""

    calls: int
    differing: int


@dataclass(frozen=True, slots=True)
class Closed:
    """A kernel in which no model saw anything worthwhile to change, and in which iteration."""

    candidate: str
    iteration: int


@dataclass(frozen=True, slots=True)
class AgentWork:
    """What one agent did on one kernel, and how it ended.

    `how` is "submitted", "exited", "timed out", "given up", "not started", "lost", or what it took
    too much of: "flooded", "forked", "memory", "disk". `log` has its calls with the first line of
    each answer, `output` the end of what it printed, `sources` the kernels that it had evaluated,
    each with one of the `notes`. `unhidden` says why it could read shipped baselines and the
    project's own files, "" where these were hidden from it.
    """

    iteration: int
    parent: str
    agent: str
    how: str
    detail: str
    submitted: str
    evaluations: int
    calls: int
    wall_s: float
    log: tuple[str, ...] = ()
    output: str = ""
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unhidden: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """What a user says of a run; the last one holds."""

    tags: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredOn:
    """The host of a cluster on which all kernels of the run are measured; once, where there is one.

    Latencies of two machines are not compared.
    """

    host: str


RunNote: TypeAlias = (
    Baselines
    | Survey
    | ReusedSchedule
    | Rechecked
    | Prices
    | Shares
    | Replayed
    | Closed
    | MeasuredOn
    | AgentWork
    | Label
)
Note = TypeVar("Note", bound=RunNote)
