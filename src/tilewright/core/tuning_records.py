"""Records of tuning runs in the form in which they are stored, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

TuningStatus = Literal["running", "interrupted", "finished"]


@dataclass(frozen=True, slots=True)
class TuningRecord:
    """One tuning run. Runs of the same command have the same `identity`, with which the command
    finds an interrupted run. `family` is equal for workloads that differ only in their sizes. A run
    can start with tiles of another run of its family; `extents` are the sizes. `starts` are the
    points with which the run began.
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
    """One measured candidate of a tuning run. `point` contains its tile sizes and knobs, if the
    space has any; `trace` is the schedule as JSON. `samples` are seconds per call, each the mean of
    `calls` calls; empty with a `failure`.
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
class TunedKernel:
    """The best kernel among the trials of a tuning run on a GPU.

    `source` is CUDA C++ with a host function `kernel`, which takes the arrays of the workload and
    no sizes. `workload` is the tuner's name of the workload, `method` the name of the search,
    `trials` the number of its trials, and `seconds` the latency that the tuner measured at the end.
    """

    run_id: str
    workload: str
    device: str
    method: str
    trials: int
    seconds: float
    source: str

    @property
    def name(self) -> str:
        """Its name among the baselines of a workload."""
        return f"tune, {self.method}, {self.trials} trials"


@dataclass(frozen=True, slots=True)
class TunableWorkload:
    """The name under which the tuner stores its kernels for a workload and a device, and the words
    of a command that tunes the workload.
    """

    workload: str
    device: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownTile:
    """A point that was measured for a workload of the same family."""

    extents: tuple[int, ...]
    point: Mapping[str, object]
    seconds: float
