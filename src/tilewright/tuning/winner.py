"""The end of a run: finalists measured side by side, and the winner as a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from tilewright.core.errors import InternalError
from tilewright.timing import Comparison, Session, TimingPlan, compare
from tilewright.tuner.tvm.references import reference_kind, reference_name
from tilewright.tuner.tvm.result import export_database, write_result
from tilewright.tuner.tvm.runner import Measurement, Runner
from tilewright.tuner.tvm.setup import Search
from tilewright.tuner.tvm.trials import Trial
from tilewright.tuning.confirmation import confirmed

FINALISTS = 3
"""How many of the fastest candidates are measured again, side by side, to find the winner."""

ROUNDS = 20


@dataclass(frozen=True)
class Winner:
    """The best candidate, measured again beside the other finalists in a process of its own.

    `seconds` is the median of `samples`; `reference` compares with a library that does the same
    work, timed in the same rounds, where there is one. `failed` are finalists that failed when they
    were measured again.
    """

    trial: Trial
    samples: tuple[float, ...]
    reference_name: str | None = None
    reference: Comparison | None = None
    failed: Mapping[int, Measurement] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Median seconds of one call."""
        return float(np.median(self.samples))


def finish(
    search: Search,
    trials: Sequence[Trial],
    runner: Runner,
    output: Path,
    about: Mapping[str, object],
) -> tuple[Winner, list[Path], dict[str, object]]:
    """Measure the finalists side by side, and write the winner's folder: winner, files, facts.

    `about` (the run's id, method and versions) becomes part of result.json. `trials` must hold one
    that did not fail.
    """
    finalists = fastest(trials, FINALISTS)
    kind = None if search.target.is_gpu else reference_kind(search.anatomy.workload)
    with confirmed(
        search.module,
        search.target.target,
        [trial.trace for trial in finalists],
        runner,
        rounds=ROUNDS,
        seed=1,
        reference=kind,
        slowest_s=max(trial.seconds or 0.0 for trial in finalists),
    ) as again:
        if not again.kernels:
            raise InternalError("the best candidates fail when they are measured again.")
        best = min(again.kernels, key=lambda n: float(np.median(again.kernels[n].samples)))
        kernel = again.kernels[best]
        winner = Winner(
            finalists[best],
            kernel.samples,
            failed={finalists[n].index: failure for n, failure in again.failures.items()},
        )
        if kind is not None and again.reference is not None:
            winner = replace(
                winner,
                reference_name=reference_name(kind),
                reference=paired(again.reference, kernel.samples),
            )
        found = {**about, **facts(search, trials, winner)}
        files = write_result(
            output,
            search.program.function,
            kernel.schedule,
            search.target.target,
            winner.trial.trace,
            kernel.library,
            found,
        )
    timed = [(t.trace, t.measurement.samples) for t in trials if t.seconds is not None]
    export_database(output / "database", search.module, search.target.target, timed)
    return winner, files, found


def paired(baseline: tuple[float, ...], candidate: tuple[float, ...]) -> Comparison:
    """Candidate against baseline, from samples of the same rounds."""
    session = Session(baseline, candidate, (), (), "warm")
    return compare(session, TimingPlan(pairs=max(len(baseline), 10)), seed=0)


def facts(search: Search, trials: Sequence[Trial], winner: Winner) -> dict[str, object]:
    """What result.json says of the winner and the search."""
    flops = search.anatomy.workload.flops
    found: dict[str, object] = {
        "workload": search.program.name,
        "target": json.loads(search.target.text),
        "device": search.target.device.name,
        "threads": search.target.threads,
        "kind": "measured",
        "trials": len(trials),
        "failures": failures(trials),
        "seconds": winner.seconds,
        "gflops": flops / winner.seconds / 1e9,
        "samples": list(winner.samples),
        "search_seconds": winner.trial.seconds,
        "trial": winner.trial.index,
        "ledger": asdict(search.ledger),
    }
    if winner.failed:
        found["failed_again"] = [
            {"trial": index, "failure": failure.failure, "log": failure.log}
            for index, failure in winner.failed.items()
        ]
    if (point := winner.trial.point) is not None:
        found["tiles"] = point.tiles[0].tolist()
        found["knobs"] = dict(
            zip(
                (knob.name for knob in search.structure.knobs),
                (
                    knob.choices[int(n)]
                    for knob, n in zip(search.structure.knobs, point.knobs[0], strict=True)
                ),
                strict=True,
            )
        )
    if winner.reference is not None:
        found["reference"] = {"name": winner.reference_name, **asdict(winner.reference)}
    found["sentence"] = (
        f"{flops / winner.seconds / 1e9:.1f} GFLOP/s measured on {search.target.device.name} with "
        f"{search.target.threads} thread(s), best of {len(trials)} trials."
    )
    return found


def failures(trials: Sequence[Trial]) -> dict[str, int]:
    """How many candidates failed, by kind."""
    counts: dict[str, int] = {}
    for trial in trials:
        if (kind := trial.measurement.failure) is not None:
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def fastest(trials: Sequence[Trial], count: int) -> list[Trial]:
    """The trials with the best medians, fastest first, one for each candidate."""
    timed = {t.key: t for t in reversed(trials) if t.seconds is not None}
    return sorted(timed.values(), key=lambda t: (t.seconds or 0.0, t.index))[:count]
