"""Records of a search: its proposals, their outcomes, and the time that each part took."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from tilewright.tuner.candidates import Candidates
from tilewright.tuner.tvm.runner import Measurement


@dataclass(frozen=True)
class Proposal:
    """A candidate to measure.

    `schedule` is None for a tile point that TVM rejected. `predicted` is the model's score, that is
    the throughput relative to the best measured one at the time of the proposal; None if no model
    was used.
    """

    key: str
    schedule: Any | None
    point: Candidates | None = None
    predicted: float | None = None


@dataclass(frozen=True)
class Trial:
    """One measured candidate. `trace` is the schedule's trace as JSON, or "" for a rejected
    schedule."""

    index: int
    key: str
    trace: str
    measurement: Measurement
    point: Candidates | None
    predicted: float | None
    elapsed_s: float

    @property
    def seconds(self) -> float | None:
        """Median seconds per call; None for a failure."""
        return self.measurement.seconds


@dataclass
class Ledger:
    """The wall time of a search, in seconds, by activity.

    `search_s` is the time for the search itself, predictions and training; `replay_s` for
    converting points to schedules; `build_s` for waiting for the compiler; `measure_s` for waiting
    for the device. The rest of `wall_s` is bookkeeping.
    """

    wall_s: float = 0.0
    search_s: float = 0.0
    replay_s: float = 0.0
    build_s: float = 0.0
    measure_s: float = 0.0

    @property
    def overhead(self) -> float:
        """Share of the wall time that predictions and replay take, 0 to 1."""
        return (self.search_s + self.replay_s) / self.wall_s if self.wall_s else 0.0


def trace_text(schedule: Any) -> str:
    """The trace of a schedule, without postprocessing, as one line of JSON."""
    trace = schedule.trace.simplified(remove_postproc=True)
    return json.dumps(_plain(trace.as_json()), separators=(",", ":"))


def trace_key(text: str) -> str:
    """A short name for a trace."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def point_key(point: Candidates) -> str:
    """A short name for the single candidate in `point`."""
    return hashlib.sha256(point.row_keys()[0]).hexdigest()[:32]


def schedule_from_trace(module: Any, text: str) -> Any:
    """The schedule that a stored trace produces on an unscheduled module, before postprocessing."""
    from tvm.s_tir import Schedule, Trace

    schedule = Schedule(module, seed=1, error_render_level="none")
    Trace.apply_json_to_schedule(json.loads(text), schedule)
    return schedule


def _plain(value: Any) -> Any:
    """Converts TVM's JSON-like objects to Python's own."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "__iter__"):
        return [_plain(item) for item in value]
    return value.value if hasattr(value, "value") else value
