"""Compares ways to search on a GPU: equal trials, arms interleaved, one JSON line a finished run.

Runs every (seed, workload, arm) that is not in FOLDER/runs.jsonl yet, arms next to each other, and
stops after --seconds; every candidate is a line of a file in FOLDER/measurements as soon as it is
measured, and the same command goes on after the last one. Then it prints the
table of all finished runs and writes it to FOLDER/table.txt. Speedups are against the default arm
(MetaSchedule's own search in its own space) with all trials, by medians over seeds; the library is
cuBLAS or cuDNN in fp32 through torch, where torch is installed.

    python benchmarks/gpu/compare.py FOLDER [--arms default af-ds ...] [--workloads M4 R2 ...]
        [--trials 100] [--seeds 2] [--seconds 500] [--target cuda] [--mock]

--mock measures nothing: times come from an analytical model with noise (see mock_device.py), the
table and every line say so.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from comparison_table import Run, table
from library_reference import library_seconds
from mock_device import LABEL, MockBuilder, MockRunner

from tilewright.core.errors import TilewrightError
from tilewright.tuner.tvm.builder import Builder, open_builder
from tilewright.tuner.tvm.cuda import cuda_space
from tilewright.tuner.tvm.programs import Program, benchmark_program
from tilewright.tuner.tvm.runner import MeasuringRules, Runner
from tilewright.tuner.tvm.session import Budget, Tuning
from tilewright.tuner.tvm.setup import ARMS, open_search
from tilewright.tuner.tvm.targets import TuningTarget, parse_target
from tilewright.tuner.tvm.task_files import task_files
from tilewright.tuner.tvm.trials import Ledger, Trial
from tilewright.tuning.json_lines import append, read_lines
from tilewright.tuning.stored import measurement_of, stored_trial, trial_of

RULES = MeasuringRules(repeats=5, sample_s=0.005, timeout_s=20.0)


@contextmanager
def measuring(
    program: Program, target: TuningTarget, arm: str, seed: int, mock: bool
) -> Iterator[tuple[Builder, Runner]]:
    """What builds and what measures one run."""
    if mock:
        restricted = ARMS[arm].space == "restricted"
        space = cuda_space(program, target, restricted=restricted)
        yield MockBuilder(target.target, space), MockRunner(seed)
        return
    with (
        open_builder(target) as builder,
        task_files(program, seed) as task,
        Runner(task, "cuda", 1, RULES) as runner,
    ):
        yield builder, runner


def one_run(
    identifier: str,
    target: TuningTarget,
    arm: str,
    trials: int,
    seed: int,
    mock: bool,
    folder: Path,
    end: float,
) -> Run | None:
    """One search to its last trial, from what `folder` keeps of it; None if `end` came before.

    `end` is a time of the monotonic clock.
    """
    program = benchmark_program(identifier)
    search = open_search(program, target, ARMS[arm], trials, seed)
    file = folder / "measurements" / f"{identifier}-{arm}-s{seed}-n{trials}.jsonl"
    file.parent.mkdir(exist_ok=True)
    rows = list(read_lines(file))
    known = {row["key"]: measurement_of(trial_of(row)) for row in rows}

    def keep(trial: Trial) -> None:
        if trial.key not in known:
            ledger = {**vars(search.ledger), "wall_s": trial.elapsed_s}
            append(file, [{**asdict(stored_trial(trial)), "ledger": ledger}])

    spent = Ledger(**rows[-1]["ledger"]) if rows else None
    with measuring(program, target, arm, seed, mock) as (builder, runner):
        tuning = Tuning(search, builder, runner, Budget(trials), known, keep, spent=spent)
        while tuning.step(lambda: time.monotonic() > end):
            pass
    if len(tuning.trials) < trials and time.monotonic() > end:
        return None
    elapsed = {row["key"]: row["elapsed_s"] for row in rows}
    failures: dict[str, int] = {}
    for trial in tuning.trials:
        if (kind := trial.measurement.failure) is not None:
            failures[kind] = failures.get(kind, 0) + 1
    return Run(
        workload=identifier,
        arm=arm,
        seed=seed,
        trials=trials,
        flops=search.anatomy.workload.flops,
        seconds=[trial.seconds for trial in tuning.trials],
        elapsed_s=[elapsed.get(trial.key, trial.elapsed_s) for trial in tuning.trials],
        failures=failures,
        ledger={name: round(value, 3) for name, value in vars(search.ledger).items()},
        kind="mock" if mock else "measured",
        device=target.device.name,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--workloads", nargs="+", default=["M4", "R2", "R11", "Y7"])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--mock", action="store_true")
    arguments = parser.parse_args()
    started = time.monotonic()
    try:
        target = parse_target(arguments.target)
    except TilewrightError as error:
        parser.error(str(error))
    if not arguments.mock and not target.present:
        parser.error(f"{target.device.name} is not here: measure on it, or give --mock")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    file = arguments.folder / "runs.jsonl"
    done = [Run(**row) for row in read_lines(file)]
    if any((run.kind == "mock") != arguments.mock for run in done):
        parser.error(f"{file} holds runs of the other kind: name another folder")
    finished = {(r.workload, r.arm, r.seed, r.trials) for r in done}
    for seed in range(arguments.seeds):
        for workload in arguments.workloads:
            for arm in arguments.arms:
                end = started + arguments.seconds
                if (workload, arm, seed, arguments.trials) in finished or time.monotonic() > end:
                    continue
                run = one_run(
                    workload,
                    target,
                    arm,
                    arguments.trials,
                    seed,
                    arguments.mock,
                    arguments.folder,
                    end,
                )
                if run is None:
                    continue
                append(file, [vars(run)])
                done.append(run)
                print(f"{workload} {arm} seed {seed}: {run.summary()}", flush=True)
    report(arguments.folder, done, target, arguments.mock)


def report(folder: Path, done: list[Run], target: TuningTarget, mock: bool) -> None:
    """The table, printed and written, with what the library takes beside it."""
    title = f"{target.device.name}: {LABEL if mock else 'measured'}"
    # Written before the library is asked, in case the time ends meanwhile.
    (folder / "table.txt").write_text(table(title, done, {}))
    library: dict[str, float] = {}
    if not mock:
        workloads = sorted({run.workload for run in done})
        library = {name: seconds for name in workloads if (seconds := library_seconds(name))}
    text = table(title, done, library)
    (folder / "table.txt").write_text(text)
    (folder / "library.json").write_text(json.dumps(library))
    print(text)


if __name__ == "__main__":
    main()
