"""The notes that a run stores in addition to its trials, by class; see `Storage.keep`.

`core.codec` writes the fields. A new field needs a default, so that older notes can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tilewright.core.records import Baseline, LeftAlone, Measured, Schedule


@dataclass(frozen=True, slots=True)
class Baselines:
    """The kernels with which the run is compared. A run has one such note."""

    kernels: tuple[Baseline, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """Code of the starting kernel that no proposer changes. A run has one such note."""

    parts: tuple[LeftAlone, ...]


@dataclass(frozen=True, slots=True)
class ReusedSchedule:
    """A schedule of an earlier run with which this run begins, the most similar schedule first.

    `run` is the earlier run. `chosen` is true if tilewright selected it, and false if the user did.
    """

    schedule: Schedule
    run: str = ""
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Rechecked:
    """A winner that was built again and evaluated on fresh inputs, and whether it was confirmed.

    `first` is the earlier measurement if the second one replaced it, and `refuted` a measurement
    that was not confirmed.
    """

    candidate: str
    confirmed: bool
    first: Measured | None = None
    refuted: Measured | None = None


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of the run's models in US dollars per million tokens, and their source."""

    table: str
    usd_per_mtok: Mapping[str, Mapping[str, float] | None]


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of the run's models in the work of one iteration, in the order of the models."""

    iteration: int
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The number of calls that a recording answered, and of those whose prompts differ from it."""

    calls: int
    differing: int


@dataclass(frozen=True, slots=True)
class Closed:
    """A kernel that no model considers worth changing, and the iteration of this finding."""

    candidate: str
    iteration: int


@dataclass(frozen=True, slots=True)
class AgentWork:
    """The work of one agent on one kernel, and how the agent ended.

    `how` is "submitted", "exited", "timed out", "given up", "not started" or "lost", or names the
    limit that the agent exceeded: "flooded" (output), "forked" (processes), "memory" or "disk".
    `log` contains its calls with the first line of each answer, `output` the end of what it
    printed, and `sources` the kernels that were evaluated for it, each with one of the `notes`.
    `unhidden` says why the agent could read the baselines and the project's files, and is "" if
    they were hidden from it.
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
    """A user's tags and note for a run; the last label applies."""

    tags: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredOn:
    """The host of a cluster on which all kernels of the run are measured.

    All measurements use one host, because latencies of different machines are not comparable.
    """

    host: str


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A request to stop the work on the run, for the process that works on it at that time."""


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
    | StopRequest
)
Note = TypeVar("Note", bound=RunNote)
