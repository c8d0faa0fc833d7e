"""Measurements of other workloads, with which a cost model can be trained before a run."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tilewright.core.errors import ConfigurationError
from tilewright.tuner.candidates import Booleans, Floats, Integers
from tilewright.tuner.workload import TensorWorkload

_FOLDER = Path(__file__).parent / "training_sets"


@dataclass(frozen=True)
class TrainingSet:
    """Measured candidates of any workloads with their features.

    `workloads` (n,) is the signature of each candidate's workload. `rows` (n, len(names)) are its
    closed-form features. `throughput` (n,) is relative to the best measured throughput of its
    workload, and 0 for a failed candidate.
    """

    names: tuple[str, ...]
    workloads: tuple[str, ...]
    rows: Floats
    throughput: Floats

    def __getitem__(self, rows: Booleans | Integers) -> TrainingSet:
        """The candidates in these rows."""
        workloads = tuple(str(name) for name in np.array(self.workloads, dtype=object)[rows])
        return TrainingSet(self.names, workloads, self.rows[rows], self.throughput[rows])

    def without(self, workload: TensorWorkload) -> TrainingSet:
        """The set without the candidates of one workload, whatever its name."""
        return self[np.array([known != workload.signature for known in self.workloads], bool)]

    def without_family(self, family: str) -> TrainingSet:
        """The set without the candidates of all workloads of a family."""
        return self[np.array([known.split()[0] != family for known in self.workloads], bool)]

    @staticmethod
    def concatenate(sets: Sequence[TrainingSet]) -> TrainingSet:
        """All candidates of one or more sets with the same features, in order."""
        return TrainingSet(
            sets[0].names,
            tuple(name for known in sets for name in known.workloads),
            np.concatenate([known.rows for known in sets]),
            np.concatenate([known.throughput for known in sets]),
        )


@cache
def shipped_training_set(names: tuple[str, ...]) -> TrainingSet | None:
    """The measurements in the package for the features with these names; None if there are none."""
    for file in sorted(_FOLDER.glob("*.csv.gz")):
        known = read_training_set(file)
        if known.names == names:
            return known
    return None


def shipped_digest() -> str:
    """A digest that changes with any of the measurements in the package."""
    found = hashlib.sha256()
    for file in sorted(_FOLDER.glob("*.csv.gz")):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def read_training_set(file: Path) -> TrainingSet:
    """The candidates of a compressed CSV file: `workload`, the features, `throughput`.

    `ConfigurationError` names the file and what is wrong with it.
    """
    try:
        with gzip.open(file, "rt", encoding="utf-8", newline="") as opened:
            head, *lines = csv.reader(opened)
        numbers = np.array([[float(cell) for cell in line[1:]] for line in lines])
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, ValueError) as error:
        raise ConfigurationError(f"training set {file} cannot be read: {error}.") from error
    expected = len(head) - 1
    if head[:1] != ["workload"] or head[-1] != "throughput" or numbers.shape[1:] != (expected,):
        raise ConfigurationError(
            f"training set {file} must have the columns workload, one for each feature, and "
            "throughput, and at least one row. Write it again with benchmarks/pretraining.py."
        )
    return TrainingSet(
        names=tuple(head[1:-1]),
        workloads=tuple(line[0] for line in lines),
        rows=numbers[:, :-1],
        throughput=numbers[:, -1],
    )


def write_training_set(file: Path, known: TrainingSet) -> None:
    """Write candidates as compressed CSV. Equal candidates give equal bytes."""
    with (
        file.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as opened,
    ):
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["workload", *known.names, "throughput"])
        for name, row, throughput in zip(
            known.workloads, known.rows, known.throughput, strict=True
        ):
            writer.writerow([name, *(f"{value:.4g}" for value in row), f"{throughput:.3f}"])
