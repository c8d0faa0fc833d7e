"""Records of tuning runs as they are stored: plain values, no tuner and no compiler in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

TuningStatus = Literal["running", "interrupted", "finished"]


@dataclass(frozen=True, slots=True)
class TuningRecord:
    """One tuning run.

    `identity` is equal for runs that would do the same: the same command finds it again. `family`
    is equal for workloads that differ in sizes only, whose tiles can be starts of each other;
    `extents` are those sizes. `starts` are the points the run began with.
    """

    id: str
    identity: str
    workload: str
    family: str
    extents: tuple[int, ...]
    target: str
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    starts: tuple[Mapping[str, object], ...] = ()
    status: TuningStatus = "running"
    wall_s: float = 0.0
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class TunedTrial:
    """One measured candidate of a tuning run.

    `point` holds its tiles and knobs where the space has any; `trace` is the schedule as JSON.
    `samples` are seconds per call, each the mean of `calls` calls; empty with a `failure`.
    """

    key: str
    point: Mapping[str, object] | None
    trace: str
    samples: tuple[float, ...]
    calls: int
    failure: str | None
    log: str
    predicted: float | None
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class KnownKernel:
    """The fastest kernel that runs of one workload found; `trace` is its schedule as JSON."""

    run_id: str
    workload: str
    trace: str
    seconds: float


@dataclass(frozen=True, slots=True)
class KnownTile:
    """A point that was measured for a workload of the same family."""

    extents: tuple[int, ...]
    point: Mapping[str, object]
    seconds: float
