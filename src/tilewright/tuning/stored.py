"""Converts the tuner's objects to records of the project database and back."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.core.files import read_bytes
from tilewright.core.tuning_records import KnownKernel, TunedTrial, TuningRecord
from tilewright.storage.rows import unreadable
from tilewright.tuner.candidates import Candidates, Integers
from tilewright.tuner.space import TileSpace
from tilewright.tuner.training_set import shipped_digest
from tilewright.tuner.tvm.loading import tvm_version
from tilewright.tuner.tvm.programs import Program
from tilewright.tuner.tvm.runner import Measurement, MeasuringRules
from tilewright.tuner.tvm.setup import Method, Search
from tilewright.tuner.tvm.targets import TuningTarget
from tilewright.tuner.tvm.trials import Trial

_MOST_BYTES = 16 << 20
"""Maximum size of a file of results, which are some kilobytes."""


@dataclass(frozen=True)
class TuneSettings:
    """The settings of a tuning run. `fresh` ignores earlier runs of the project."""

    method: Method = field(default_factory=Method)
    trials: int = 100
    seconds: float | None = None
    seed: int = 0
    fresh: bool = False
    rules: MeasuringRules = field(default_factory=MeasuringRules)


def identity_of(program: Program, target: TuningTarget, settings: TuneSettings) -> str:
    """A hash that is equal for runs with the same settings. It does not include the budget, because
    a run can be extended.
    """
    parts = [
        str(program.function),
        target.text,
        str(target.threads),
        repr(settings.method),
        repr(settings.rules),
        str(settings.seed),
        tvm_version(),
    ]
    if settings.method.pretrained:
        parts.append(shipped_digest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def family_of(space: TileSpace) -> str:
    """A text that is equal for spaces which differ only in their sizes, so that points of one can
    be initial points of another.
    """
    workload, structure = space.workload, space.structure
    parts = [
        [loop.kind.value for loop in workload.loops],
        [access.dims for access in (*workload.inputs, workload.output)],
        [access.element_bytes for access in (*workload.inputs, workload.output)],
        len(workload.padded),
        structure.bands,
        sorted(structure.frozen),
        [[knob.name, knob.choices] for knob in structure.knobs],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def new_record(
    program: Program,
    target: TuningTarget,
    settings: TuneSettings,
    identity: str,
    search: Search,
    starts: Sequence[Mapping[str, object]],
    learned_from: Mapping[str, int],
) -> TuningRecord:
    """The record of a new run."""
    space = TileSpace(search.anatomy.workload, search.structure)
    return TuningRecord(
        id=uuid.uuid4().hex[:16],
        identity=identity,
        workload=program.name,
        family=family_of(space),
        extents=search.anatomy.workload.extents,
        target=target.text,
        settings={
            **asdict(settings.method),
            "seed": settings.seed,
            "threads": target.threads,
            "learned_from": dict(learned_from),
        },
        versions={"tilewright": version("tilewright"), "tvm": tvm_version()},
        starts=tuple(starts),
    )


def learned_from(record: TuningRecord) -> dict[str, int]:
    """The runs on which a run's cost model was trained, with the number of trials that each of them
    had then.
    """
    found = record.settings.get("learned_from", {})
    if not isinstance(found, dict) or not all(type(n) is int and n >= 0 for n in found.values()):
        raise unreadable("what a tuning run learned from is not a number of trials for each run")
    return found


def kernel_in(folder: Path, workload: str, target: TuningTarget) -> list[KnownKernel]:
    """The kernel in a folder of results, if it belongs to this workload and target."""
    try:
        facts = json.loads(read_bytes(folder / "result.json", _MOST_BYTES))
        trace = json.loads(read_bytes(folder / "trace.json", _MOST_BYTES))
        about = (facts["workload"], facts["target"], facts["threads"])
        run, seconds = str(facts.get("found_by") or facts["run"]), float(facts["seconds"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []  # these are not results of tilewright
    if about != (workload, json.loads(target.text), target.threads):
        return []
    return [KnownKernel(run, workload, json.dumps(trace, separators=(",", ":")), seconds)]


def stored_trial(trial: Trial) -> TunedTrial:
    """The record of a trial."""
    point = trial.point
    stored = None
    if point is not None:
        stored = {"tiles": point.tiles[0].tolist(), "knobs": point.knobs[0].tolist()}
    return TunedTrial(
        key=trial.key,
        point=stored,
        trace=trial.trace,
        samples=trial.measurement.samples,
        calls=trial.measurement.calls,
        failure=trial.measurement.failure,
        log=trial.measurement.log,
        predicted=trial.predicted,
        elapsed_s=trial.elapsed_s,
    )


def trial_of(row: Mapping[str, Any]) -> TunedTrial:
    """A trial from its stored JSON, without the other fields of the row."""
    values = {field.name: row[field.name] for field in fields(TunedTrial)}
    return TunedTrial(**{**values, "samples": tuple(row["samples"])})


def measurement_of(trial: TunedTrial) -> Measurement:
    """The measurement of a stored trial, or its failure."""
    return Measurement(trial.samples, trial.calls, trial.failure, trial.log)  # type: ignore[arg-type]


def points_of(space: TileSpace, stored: Sequence[Mapping[str, object]]) -> Candidates:
    """Stored points, of this or another size of the same family, as points of `space`."""
    if not stored:
        return space.nothing
    points = _points(space, stored)
    return space.nearest(points.tiles, points.knobs)


def points_as_stored(space: TileSpace, stored: Sequence[Mapping[str, object]]) -> Candidates:
    """Stored points of exactly this space; `StorageError` for any other point."""
    points = _points(space, stored)
    extents = np.array(space.workload.extents)
    choices = np.array([len(knob.choices) for knob in space.structure.knobs], dtype=np.int64)
    whole = (points.tiles > 0).all() and (points.tiles.prod(axis=2) == extents).all()
    if not whole or not ((points.knobs >= 0) & (points.knobs < choices)).all():
        raise unreadable("a tuning point is not one of its run's space")
    return points


def _points(space: TileSpace, stored: Sequence[Mapping[str, object]]) -> Candidates:
    """Stored points as arrays; `StorageError` if the number of values is wrong."""
    loops, levels, knobs = len(space.workload.loops), space.levels, len(space.structure.knobs)
    tiles = np.array([_numbers(point.get("tiles"), loops * levels) for point in stored])
    chosen = np.array([_numbers(point.get("knobs"), knobs) for point in stored])
    return Candidates(tiles.reshape(-1, loops, levels), chosen)


def _numbers(stored: object, count: int) -> Integers:
    """The whole numbers of a stored point in one row, so many; `StorageError` for anything else."""
    try:
        found = np.array(stored)
    except ValueError as error:  # rows of several lengths
        raise unreadable(error) from error
    if found.size != count or (count and found.dtype != np.int64):
        raise unreadable(f"the numbers of a tuning point are not {count} whole numbers")
    return found.reshape(-1).astype(np.int64)
