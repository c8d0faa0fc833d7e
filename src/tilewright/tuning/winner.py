"""Measures the finalists of a run together, and writes the winner to a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from tilewright.core.tuning_records import KnownKernel
from tilewright.timing import Comparison, Session, TimingPlan, compare
from tilewright.tuner.tvm.builder import Builder
from tilewright.tuner.tvm.references import missing_library, reference_kind, reference_name
from tilewright.tuner.tvm.result import export_database, launchable_kernel, write_result
from tilewright.tuner.tvm.runner import Measurement, Runner
from tilewright.tuner.tvm.setup import Search
from tilewright.tuner.tvm.trials import Trial
from tilewright.tuning.confirmation import confirmed

FINALISTS = 3
"""Number of the fastest candidates that are measured again together to find the winner."""

ROUNDS = 20


@dataclass(frozen=True)
class Winner:
    """The best kernel, measured again together with the other finalists in a separate process.

    `trial` is the trial with this kernel; None if another run, `found_by`, found it. `seconds` is
    the median of `samples`. `reference` is the comparison with a library for the same operation in
    the same rounds, if there is one. `failed` are finalists that failed when they were measured
    again. `own_source` is the CUDA C++ of the best kernel among this run's own trials, with
    `own_seconds`; None on a CPU, and if the kernel cannot be written as one function for the host.
    `no_baseline` then says why not.
    """

    trial: Trial | None
    samples: tuple[float, ...]
    reference_name: str | None = None
    reference: Comparison | None = None
    failed: Mapping[str, Measurement] = field(default_factory=dict)
    found_by: str | None = None
    own_source: str | None = None
    own_seconds: float = 0.0
    no_baseline: str = ""

    @property
    def seconds(self) -> float:
        """Median seconds of one call."""
        return float(np.median(self.samples))


@dataclass(frozen=True)
class NoWinner:
    """All finalists failed when they were measured again, so nothing is written. `failed` contains
    the failures.
    """

    failed: Mapping[str, Measurement]


def finish(
    search: Search,
    trials: Sequence[Trial],
    builder: Builder,
    runner: Runner,
    output: Path,
    about: Mapping[str, object],
    earlier: Sequence[KnownKernel] = (),
) -> tuple[Winner | NoWinner, list[Path], dict[str, object]]:
    """Measure the finalists together, and write the folder of the winner with its files and facts.

    `about` (the run's id, method and versions) becomes part of result.json. `trials` must contain
    one that did not fail. `earlier` are the best kernels of earlier runs, which are finalists too.
    """
    finalists = [*fastest(trials, FINALISTS), *among(trials, earlier)]
    finalists = list({trial.trace: trial for trial in finalists}.values())
    own = {trial.trace for trial in finalists}
    others = list({kernel.trace: kernel for kernel in earlier if kernel.trace not in own}.values())
    names = [f"trial {t.index}" for t in finalists] + [f"best of run {k.run_id}" for k in others]
    traces = [*(trial.trace for trial in finalists), *(kernel.trace for kernel in others)]
    times = [*(trial.seconds or 0.0 for trial in finalists), *(k.seconds for k in others)]
    # A kernel of another workload with the same loops may not be valid here, which is not an error.
    own_names = {
        *names[: len(finalists)],
        *(f"best of run {k.run_id}" for k in others if k.workload == search.program.name),
    }
    kind = reference_kind(search.anatomy.workload, search.target.is_gpu)
    again = confirmed(
        search.module,
        search.target.target,
        traces,
        builder,
        runner,
        rounds=ROUNDS,
        seed=1,
        reference=kind,
        slowest_s=max(times),
    )
    failed = {names[n]: f for n, f in again.failures.items() if names[n] in own_names}
    if not again.kernels:
        return NoWinner(failed), [], {**about, "failed_again": _told(failed)}
    best = min(again.kernels, key=lambda n: float(np.median(again.kernels[n].samples)))
    kernel = again.kernels[best]
    winner = Winner(
        finalists[best] if best < len(finalists) else None,
        kernel.samples,
        failed=failed,
        found_by=None if best < len(finalists) else others[best - len(finalists)].run_id,
    )
    if kind is not None and again.reference is not None:
        winner = replace(
            winner,
            reference_name=reference_name(kind),
            reference=paired(again.reference, kernel.samples),
        )
    own_kernels = [n for n in again.kernels if n < len(finalists)]
    if own_kernels:
        first = min(own_kernels, key=lambda n: float(np.median(again.kernels[n].samples)))
        own_best = again.kernels[first]
        source, problem = launchable_kernel(
            search.program.function, own_best.schedule, search.target.target
        )
        winner = replace(
            winner,
            own_source=source,
            own_seconds=float(np.median(own_best.samples)),
            no_baseline=_not_stored(problem) if problem else "",
        )
    found = {**about, **facts(search, trials, winner)}
    files = write_result(
        output,
        search.program.function,
        kernel.schedule,
        search.target.target,
        traces[best],
        kernel.library,
        found,
    )
    timed = [(t.trace, t.measurement.samples) for t in trials if t.seconds is not None]
    if winner.trial is None:
        timed.append((traces[best], winner.samples))
    export_database(output / "database", search.module, search.target.target, timed)
    return winner, files, found


def _not_stored(problem: str) -> str:
    return (
        "The project does not store the best kernel of this run as a baseline of searches, because "
        f"{problem}."
    )


def paired(baseline: tuple[float, ...], candidate: tuple[float, ...]) -> Comparison:
    """The comparison of a candidate with a baseline, from samples of the same rounds."""
    session = Session(baseline, candidate, (), "warm")
    return compare(session, TimingPlan(pairs=max(len(baseline), 10)), seed=0)


def facts(search: Search, trials: Sequence[Trial], winner: Winner) -> dict[str, object]:
    """The fields of result.json on the winner and the search."""
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
        "search_seconds": None if winner.trial is None else winner.trial.seconds,
        "trial": None if winner.trial is None else winner.trial.index,
        "ledger": asdict(search.ledger),
    }
    if winner.failed:
        found["failed_again"] = _told(winner.failed)
    if winner.no_baseline:
        found["no_baseline"] = winner.no_baseline
    if winner.trial is None:
        found["found_by"] = winner.found_by
    elif (point := winner.trial.point) is not None:
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
    elif missing := missing_library(search.anatomy.workload, search.target.is_gpu):
        found["no_library"] = missing
    best = f"best of {len(trials)} trials"
    if winner.found_by is not None:
        best = f"found by run {winner.found_by} and faster than the {best} of this one"
    found["sentence"] = (
        f"{flops / winner.seconds / 1e9:.1f} GFLOP/s measured on {search.target.device.name} with "
        f"{search.target.threads} thread(s), {best}."
    )
    return found


def _told(failed: Mapping[str, Measurement]) -> list[dict[str, object]]:
    return [
        {"kernel": name, "failure": failure.failure, "log": failure.log}
        for name, failure in failed.items()
    ]


def failures(trials: Sequence[Trial]) -> dict[str, int]:
    """The number of failed candidates for each kind of failure."""
    counts: dict[str, int] = {}
    for trial in trials:
        if (kind := trial.measurement.failure) is not None:
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def among(trials: Sequence[Trial], earlier: Sequence[KnownKernel]) -> list[Trial]:
    """The trials whose kernels are among the earlier ones."""
    known = {kernel.trace for kernel in earlier}
    return [t for t in trials if t.seconds is not None and t.trace in known]


def fastest(trials: Sequence[Trial], count: int) -> list[Trial]:
    """The trials with the lowest medians, fastest first, one for each candidate."""
    timed = {t.key: t for t in reversed(trials) if t.seconds is not None}
    return sorted(timed.values(), key=lambda t: (t.seconds or 0.0, t.index))[:count]
