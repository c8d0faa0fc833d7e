"""Builds the best kernels again from their traces, and measures them in the same rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.tuner.tvm.builder import Builder
from tilewright.tuner.tvm.result import finished_schedule
from tilewright.tuner.tvm.runner import Measurement, Runner


@dataclass(frozen=True)
class Confirmed:
    """A kernel that was built and measured again. `samples` are seconds per call."""

    schedule: Any
    library: Path
    samples: tuple[float, ...]


@dataclass(frozen=True)
class Confirmation:
    """The result for each trace, by its position, in either `kernels` or `failures`."""

    kernels: Mapping[int, Confirmed]
    failures: Mapping[int, Measurement]
    reference: tuple[float, ...] | None


def confirmed(
    module: Any,
    target: Any,
    traces: Sequence[str],
    builder: Builder,
    runner: Runner,
    *,
    rounds: int,
    seed: int,
    reference: str | None,
    slowest_s: float,
) -> Confirmation:
    """Build and time the kernels of `traces` and the reference. A failure of one kernel does not
    affect the others.

    The compiled libraries exist as long as the builder. `slowest_s` is the longest of the kernels'
    times.
    """
    schedules: dict[int, Any] = {}
    failures: dict[int, Measurement] = {}
    for n, trace in enumerate(traces):
        try:
            schedules[n] = finished_schedule(module, trace, target)
        except Exception as error:  # TVM raises errors of many kinds
            lines = str(error).strip().splitlines() or [type(error).__name__]
            failures[n] = Measurement(failure="build", log=lines[-1])
    built: dict[int, Path] = {}
    for n, result in zip(schedules, builder.build(list(schedules.values())), strict=True):
        if result.library is None:
            failures[n] = Measurement(failure=result.failure or "build", log=result.log)
        else:
            built[n] = result.library
    found = runner.interleave(list(built.values()), rounds, seed, reference, slowest_s)
    positions = list(built)
    failures |= {positions[k]: failure for k, failure in found.failures.items()}
    kernels = {
        positions[k]: Confirmed(schedules[positions[k]], built[positions[k]], samples)
        for k, samples in found.samples.items()
    }
    return Confirmation(kernels, failures, found.reference)
