"""Training data for the cost model of a new run from earlier runs of the project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.core.tuning_records import TunedTrial, TuningRecord
from tilewright.storage.tunings import SqlTunings
from tilewright.tuner.candidates import Candidates
from tilewright.tuner.space import TileSpace
from tilewright.tuner.training_set import TrainingSet
from tilewright.tuner.tvm.setup import Method, features_of
from tilewright.tuner.tvm.targets import TuningTarget
from tilewright.tuning.stored import points_as_stored

CANDIDATES = 2000
"""Number of candidates after which no further run is read, so that training takes only seconds."""


@dataclass(frozen=True)
class EarlierRun:
    """One run, and its trials that are used for training, in the order of measurement."""

    record: TuningRecord
    trials: list[TunedTrial]


def nearest_runs(
    storage: SqlTunings, family: str, target: TuningTarget, extents: tuple[int, ...]
) -> list[EarlierRun]:
    """Runs of a family on a target, the nearest sizes first."""
    found: list[EarlierRun] = []
    count = 0
    for record in storage.nearest_runs(family, target.text, extents):
        if count >= CANDIDATES:
            break
        trials = storage.trials(record.id)
        count += len(trials)
        found.append(EarlierRun(record, trials))
    return found


def recorded_runs(storage: SqlTunings, counts: Mapping[str, int]) -> list[EarlierRun]:
    """The earlier runs that a resumed run used before. `counts` is the number of trials of each run
    at that time; later trials are left out.
    """
    found = []
    for run_id, count in counts.items():
        record = storage.run(run_id)
        if record is not None:
            found.append(EarlierRun(record, storage.trials(run_id)[:count]))
    return found


def training_set_of(
    runs: list[EarlierRun], space: TileSpace, target: TuningTarget, method: Method
) -> TrainingSet | None:
    """Features and throughput of the candidates that are points of a space like `space`.

    Throughput is relative to the fastest candidate of all runs with the same sizes; None if no
    candidate was correct.
    """
    sizes: dict[tuple[int, ...], list[TunedTrial]] = {}
    for run in runs:
        pointed = [trial for trial in run.trials if trial.point is not None]
        sizes.setdefault(run.record.extents, []).extend(pointed)
    sets = []
    for extents, trials in sizes.items():
        times = np.array([float(np.median(t.samples)) if t.samples else np.inf for t in trials])
        if not np.isfinite(times).any():
            continue
        workload = space.workload.resized(extents)
        points: Candidates = points_as_stored(
            TileSpace(workload, space.structure), [trial.point or {} for trial in trials]
        )
        rows = features_of(workload, space.structure, target, method)
        sets.append(
            TrainingSet(
                rows.names,
                (workload.signature,) * len(trials),
                rows(points),
                np.asarray(times.min() / times),
            )
        )
    return TrainingSet.concatenate(sets) if sets else None
