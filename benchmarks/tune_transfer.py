"""How well the tuner's cost model ranks candidates of workloads that it was not trained on.

Uses the measurements of the shipped training set, so nothing is compiled or timed, and other
programs on the machine make no difference. Each workload is left out in turn, and models are
trained on:

    families   the workloads of all other families (a family is a computation, whatever its sizes)
    +2, +4     the same, and 100 random candidates of each of the 2 or 4 workloads of its own family
               that are nearest in size, as if a project had tuned these before
    far        all other workloads but those 4
    far+4      the same, and 100 random candidates of each of those 4
    all        all other workloads: what `tilewright tune` uses in a project without earlier runs

For each model two numbers are printed: the rank correlation between predicted and measured
throughput over the workload's candidates, and the mean throughput of the 16 candidates that are
predicted to be fastest, relative to the workload's fastest one. `any` is that mean over all
candidates of the workload, which is what a model without knowledge reaches.

    uv run --extra tune python benchmarks/tune_transfer.py [--json FILE]     # about four minutes
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright.tuner.candidates import Floats
from tilewright.tuner.cost_model import fit_known
from tilewright.tuner.features.cpu import FEATURES
from tilewright.tuner.training_set import TrainingSet, shipped_training_set

FIRST = 16
"""Initial points of a pretrained search."""
OF_A_RUN = 100
"""Candidates that an earlier run of a project leaves."""
COLUMNS = ("families", "+2", "+4", "far", "far+4", "all")


def distance(one: str, other: str) -> float:
    """Between the sizes of two signatures of a family, as the project's storage measures it."""
    sizes = zip(one.split()[1].split("x"), other.split()[1].split("x"), strict=True)
    return sum(abs(math.log2(int(a) / int(b))) for a, b in sizes)


def some(known: TrainingSet, workload: str) -> TrainingSet:
    """Random candidates of a workload, relative to the best of them."""
    rows = np.flatnonzero(np.array(known.workloads) == workload)
    rows = np.random.default_rng(0).permutation(rows)[:OF_A_RUN]
    found = known[rows]
    return TrainingSet(
        found.names, found.workloads, found.rows, found.throughput / found.throughput.max()
    )


def ranks(values: Floats) -> Floats:
    """The rank of each value, equal ones sharing the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])


def scores(known: TrainingSet, own: TrainingSet) -> tuple[float, float]:
    """Rank correlation, and the mean throughput of the first predictions."""
    predicted: Floats = fit_known(known, seed=0, threads=1)(own.rows)
    first = np.argsort(-predicted, kind="stable")[:FIRST]
    correlation = np.corrcoef(ranks(predicted), ranks(own.throughput))[0, 1]
    return float(correlation), float(own.throughput[first].mean())


def measured(known: TrainingSet, workload: str) -> dict[str, tuple[float, float]]:
    """What each model says of one workload's candidates."""
    names = np.array(known.workloads)
    family = workload.split()[0]
    relatives = [w for w in dict.fromkeys(known.workloads) if w.split()[0] == family]
    near = sorted(
        (w for w in relatives if w != workload), key=lambda other: distance(workload, other)
    )[:4]
    own, others = known[names == workload], known.without_family(family)
    far = known[~np.isin(names, [workload, *near])]
    sets = {"families": others, "all": known[names != workload]}
    if len(near) == 4:
        runs = [some(known, other) for other in near]
        sets |= {
            "+2": TrainingSet.concatenate([others, *runs[:2]]),
            "+4": TrainingSet.concatenate([others, *runs]),
            "far": far,
            "far+4": TrainingSet.concatenate([far, *runs]),
        }
    found = {column: scores(taught, own) for column, taught in sets.items()}
    return {"any": (0.0, float(own.throughput.mean())), **found}


def line(title: str, found: dict[str, tuple[float, float]]) -> str:
    """One row: correlation / throughput of each model."""
    cells = [
        f"{found[c][0]:5.2f}/{found[c][1]:.2f}" if c in found else f"{'-':>10}" for c in COLUMNS
    ]
    return f"{title:<46} {found['any'][1]:4.2f} {' '.join(cells)}"


def mean_of(
    rows: Sequence[dict[str, tuple[float, float]]],
) -> dict[str, tuple[float, float]]:
    """Means over workloads, of the models that all of them have."""
    shared = [column for column in ("any", *COLUMNS) if all(column in row for row in rows)]
    return {
        column: (
            float(np.mean([row[column][0] for row in rows])),
            float(np.mean([row[column][1] for row in rows])),
        )
        for column in shared
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    known = shipped_training_set(FEATURES)
    assert known is not None
    print(
        f"{'rank correlation / throughput of the first 16':<46}  any "
        f"{' '.join(f'{column:>10}' for column in COLUMNS)}"
    )
    rows: dict[str, dict[str, tuple[float, float]]] = {}
    families: dict[str, list[str]] = {}
    for workload in dict.fromkeys(known.workloads):
        rows[workload] = measured(known, workload)
        families.setdefault(workload.split()[0], []).append(workload)
        print(line(workload, rows[workload]), flush=True)
    for family, members in families.items():
        print(line(f"{family}, mean of {len(members)}", mean_of([rows[w] for w in members])))
    print(line(f"mean of all {len(rows)}", mean_of(list(rows.values()))))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
