r"""Measures the training set of the tuner's cost model for CPUs, and writes it.

The script runs gradient searches on the template's space, over matrix products and convolutions
that are not in the benchmark set. Every candidate becomes a line of DIR as soon as it is measured,
and the same command continues after an interruption. Another seed, or the model of the shipped set,
adds further candidates. The measurements of a comparison (its folder, `--comparison`) are added if
the template can express them; a search on a workload never learns from that workload's own
candidates.

    uv run --extra tune python benchmarks/pretraining.py DIR                  # about half an hour
    uv run --extra tune python benchmarks/pretraining.py DIR --seed 1 --pretrained
    uv run --extra tune python benchmarks/pretraining.py DIR --comparison tune-cpu --write \
        src/tilewright/tuner/training_sets/cpu.csv.gz
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from tilewright.core.tuning_records import TunedTrial
from tilewright.tuner.benchmark_set import IDENTIFIERS
from tilewright.tuner.candidates import Candidates, Floats
from tilewright.tuner.training_set import TrainingSet, write_training_set
from tilewright.tuner.tvm.builder import open_builder
from tilewright.tuner.tvm.loading import require_tvm
from tilewright.tuner.tvm.programs import Program, benchmark_program, conv2d, matmul
from tilewright.tuner.tvm.runner import MeasuringRules, Runner
from tilewright.tuner.tvm.session import Budget, Tuning
from tilewright.tuner.tvm.setup import ARMS, Method, features_of, open_search
from tilewright.tuner.tvm.strategies import TileStrategy
from tilewright.tuner.tvm.targets import TuningTarget, parse_target
from tilewright.tuner.tvm.task_files import task_files
from tilewright.tuner.tvm.trials import Trial, schedule_from_trace
from tilewright.tuning.json_lines import append, read_lines
from tilewright.tuning.stored import measurement_of, stored_trial, trial_of

TEMPLATE = ARMS["af-ds-knobs"]
ROWS = 700
"""Candidates of one workload at most: the fastest half, and any of the rest."""


def batch_matmul(batch: int, m: int, n: int, k: int) -> Program:
    """`C[b, m, n] = A[b, m, k] @ B[b, k, n]` in fp32."""
    from tvm import te

    a, b = te.placeholder((batch, m, k), name="A"), te.placeholder((batch, k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((batch, m, n), lambda h, i, j: te.sum(a[h, i, r] * b[h, r, j], axis=r), name="C")
    return Program(f"batch_matmul-{batch}x{m}x{n}x{k}", te.create_prim_func([a, b, c]))


def depthwise(channels: int, size: int, kernel: int) -> Program:
    """A depthwise convolution of one square image, stride 1, in fp32."""
    from tvm import te, topi

    data = te.placeholder((1, channels, size, size), name="data")
    weights = te.placeholder((channels, 1, kernel, kernel), name="kernel")
    result = topi.nn.depthwise_conv2d_nchw(data, weights, 1, kernel // 2, 1)
    function = te.create_prim_func([data, weights, result])
    return Program(f"depthwise-{channels}x{size}x{size}k{kernel}", function)


PROGRAMS: tuple[Callable[[], Program], ...] = (
    partial(matmul, 256, 768, 512),
    partial(conv2d, 1, 96, 28, 28, 96, 3, 1, 1),
    partial(matmul, 384, 2304, 768),
    partial(conv2d, 1, 192, 14, 14, 192, 3, 1, 1),
    partial(conv2d, 1, 320, 8, 8, 320, 3, 1, 1),
    partial(matmul, 640, 640, 2560),
    partial(conv2d, 1, 48, 56, 56, 96, 3, 1, 1),
    partial(conv2d, 1, 192, 28, 28, 384, 1, 1, 0),
    partial(matmul, 1024, 512, 320),
    partial(conv2d, 1, 128, 28, 28, 192, 3, 2, 1),
    partial(matmul, 768, 96, 768),
    partial(conv2d, 1, 3, 160, 160, 48, 5, 2, 2),
    partial(batch_matmul, 12, 128, 128, 64),
    partial(depthwise, 96, 56, 3),
    partial(conv2d, 1, 640, 7, 7, 160, 1, 1, 0),
    partial(conv2d, 1, 640, 7, 7, 320, 3, 1, 1),
    partial(matmul, 384, 3072, 1536),
    partial(matmul, 256, 1280, 5120),
    partial(matmul, 640, 1792, 1792),
)


def kept(folder: Path, program: Program) -> Iterator[TunedTrial]:
    """The candidates of a program that were measured so far."""
    return (trial_of(row) for row in read_lines(folder / f"{program.name}.jsonl"))


def measure(
    program: Program, target: TuningTarget, folder: Path, trials: int, seed: int, method: Method
) -> float:
    """Search, knowing what is kept; the best rate in GFLOP/s."""
    known = {trial.key: measurement_of(trial) for trial in kept(folder, program)}

    def keep(trial: Trial) -> None:
        if trial.key not in known:
            append(folder / f"{program.name}.jsonl", [asdict(stored_trial(trial))])

    search = open_search(program, target, method, trials, seed)
    with (
        open_builder(target) as builder,
        task_files(program, seed) as task,
        Runner(task, target.device_kind, target.threads, MeasuringRules()) as runner,
    ):
        tuning = Tuning(search, builder, runner, Budget(trials), known, keep)
        tuning.run()
    best = tuning.best
    return 0.0 if best is None else search.anatomy.workload.flops / (best.seconds or 1.0) / 1e9


def compared(folder: Path, program: Program) -> list[TunedTrial]:
    """What the arms of a comparison measured of a program on one thread, each candidate once."""
    files = sorted((folder / "measurements").glob(f"{program.name}-s*-t1-*.jsonl"))
    trials = [trial_of(row) for file in files for row in read_lines(file)]
    return list({trial.trace: trial for trial in trials}.values())


def throughput(trials: Sequence[TunedTrial]) -> Floats:
    """Of each candidate relative to the best of them, 0 for those that failed, (n,)."""
    times = [np.inf if t.failure is not None else float(np.median(t.samples)) for t in trials]
    return np.asarray(min(times) / np.array(times))


def rows_of(
    program: Program, trials: Sequence[TunedTrial], target: TuningTarget
) -> TrainingSet | None:
    """Features and throughput of some of a program's candidates; None where none worked."""
    if not any(trial.failure is None for trial in trials):
        return None
    relative = throughput(trials)
    order = np.argsort(-relative, kind="stable")
    rest = np.random.default_rng(0).permutation(order[ROWS // 2 :])
    chosen = [int(n) for n in (*order[: ROWS // 2], *rest[: ROWS - ROWS // 2])]
    search = open_search(program, target, TEMPLATE, 1, 0)
    template = search.strategy.template if isinstance(search.strategy, TileStrategy) else None
    assert template is not None
    points, used = [], []
    for n in chosen:
        try:
            trace = schedule_from_trace(search.module, trials[n].trace).trace
            points.append(template.points([trace]))
        except Exception:  # TVM has no common class for a trace that is not of the template
            continue
        used.append(n)
    if not points:
        raise SystemExit(f"{program.name}: none of its candidates is of the template.")
    features = features_of(search.anatomy.workload, search.structure, target, TEMPLATE)
    rows = features(Candidates.concatenate(points))
    names = (search.anatomy.workload.signature,) * len(used)
    return TrainingSet(features.names, names, rows, relative[used])


def collect(folder: Path, comparison: Path | None, target: TuningTarget) -> TrainingSet:
    """Of everything measured so far."""
    sets = []
    for make in PROGRAMS:
        program = make()
        sets.append(rows_of(program, list(kept(folder, program)), target))
    for identifier in IDENTIFIERS if comparison is not None else ():
        assert comparison is not None
        program = benchmark_program(identifier)
        sets.append(rows_of(program, compared(comparison, program), target))
    found = [known for known in sets if known is not None]
    if not found:
        raise SystemExit(f"{folder} holds no measured candidates: run without --write first.")
    return TrainingSet.concatenate(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=140)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pretrained", action="store_true", help="start from the shipped set")
    parser.add_argument("--comparison", type=Path, help="folder of a comparison to take in")
    parser.add_argument("--write", type=Path, help="write what is there as CSV, measure nothing")
    arguments = parser.parse_args()
    require_tvm()
    target = parse_target("cpu", 1)
    if arguments.write is not None:
        known = collect(arguments.folder, arguments.comparison, target)
        write_training_set(arguments.write, known)
        count = len(set(known.workloads))
        print(f"{len(known.workloads)} candidates of {count} workloads: {arguments.write}")
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    method = replace(TEMPLATE, pretrained=arguments.pretrained)
    for make in PROGRAMS:
        program = make()
        best = measure(program, target, arguments.folder, arguments.trials, arguments.seed, method)
        print(f"{program.name}: best {best:.1f} GFLOP/s on {target.device.name}", flush=True)


if __name__ == "__main__":
    main()
