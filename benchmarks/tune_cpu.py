"""Compares the tuner with MetaSchedule on this machine's CPU; can be stopped and continued.

Gradient descent on analytical features (af-ds as in the paper, af-ds-pretrained with the cost model
that was trained on other workloads) with 100 trials is compared with MetaSchedule's default with
1000 trials, with the goals, time per trial and overhead. Every finished run is one line of
DIR/runs.jsonl, and every measured candidate is one line of DIR/measurements. The same command
continues after an interruption. Do not run other programs at the same time.

    uv run --extra tune python benchmarks/tune_cpu.py                   # M1 M4 R5 R11, 3 seeds
    uv run --extra tune python benchmarks/tune_cpu.py --print           # the results so far
    uv run --extra tune python benchmarks/tune_cpu.py --seconds 3000    # stops after about an hour
    uv run --extra tune python benchmarks/tune_cpu.py --full            # all workloads, arms, seeds
    uv run --extra tune python benchmarks/tune_cpu.py --short 200       # default after 200 trials
    uv run --extra tune python benchmarks/tune_cpu.py --unseen --folder tune-unseen

With --unseen, the workloads are M3, R8, M0 and R6, which are not in the training set. The arms then
also include roller and af-ds-unrelated, whose cost model does not know the workload's family.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from tilewright.cli.tune_compare import show
from tilewright.cli.tune_workloads import parse_identifiers
from tilewright.tuner.benchmark_set import MATMULS
from tilewright.tuner.tvm.loading import require_tvm
from tilewright.tuner.tvm.programs import benchmark_program
from tilewright.tuner.tvm.runner import MeasuringRules
from tilewright.tuner.tvm.targets import TuningTarget, parse_target
from tilewright.tuning.comparison import Group, is_finished, read_runs, run_group
from tilewright.tuning.comparison_plots import render_plots
from tilewright.tuning.comparison_table import Run, latest, speedups, table

BAR_WORKLOADS = "M1,M4,R5,R11"
FULL_WORKLOADS = "M0..M5,R0..R12,Y0..Y10"
UNSEEN_WORKLOADS = "M3,R8,M0,R6"
HELD = ("af-ds", "af-ds-pretrained")
UNSEEN = (*HELD, "af-ds-unrelated", "roller")
FEW, MANY = 100, 1000


def groups(arguments: argparse.Namespace) -> Iterator[tuple[Group, TuningTarget]]:
    """What is to be run, the same workloads of the next seed only after all of one."""
    usual = UNSEEN_WORKLOADS if arguments.unseen else BAR_WORKLOADS
    identifiers = parse_identifiers(
        arguments.workloads or (FULL_WORKLOADS if arguments.full else usual)
    )
    many = arguments.short or MANY
    few = min(FEW, many)
    budgets = {"default": many, **dict.fromkeys(UNSEEN if arguments.unseen else HELD, few)}
    if arguments.full:
        budgets = dict.fromkeys(("default", "restricted", "af", "ds", *HELD), many)
    for threads in (1, 2) if arguments.full else (arguments.threads,):
        target = parse_target("cpu", threads)
        for seed in range(arguments.seeds or (5 if arguments.full else 3)):
            for name in identifiers:
                program = benchmark_program(name)
                yield Group(program, seed, budgets, tuple(sorted({few, many}))), target


def bars(runs: Sequence[Run], arm: str) -> list[str]:
    """The numbers asked for, each with its bar."""
    row = next((row for row in table(runs) if row.arm == arm and row.trials <= FEW), None)
    if row is None:
        return [f"{arm}: no finished runs yet"]
    runs = latest(runs)
    each = speedups(runs, arm, row.trials, "default")
    finals = {run["trials"] for run in runs if run["arm"] == "default"}
    many = " or ".join(map(str, sorted(finals)))
    seeds = {
        name: sum((run["workload"], run["arm"]) == (name, arm) for run in runs) for name in each
    }
    text = ", ".join(
        f"{name} {value:.3f} ({seeds[name]} seed{'s' * (seeds[name] > 1)})"
        for name, value in each.items()
    )
    speedup = "not known yet" if row.speedup is None else f"{row.speedup:.3f}"
    lines = [
        f"{arm} after {row.trials} trials over default after {many}: {speedup} (bar 0.98; {text})",
        f"time per trial: {row.seconds_per_trial:.2f} s (bar 0.60)",
        f"predictions and replay: {row.overhead:.1%} of wall time (bar 10 %)",
    ]
    products = [run for run in runs if run["workload"] in MATMULS]
    library = next((r for r in table(products) if (r.arm, r.trials) == (arm, row.trials)), None)
    if library is not None and library.against_reference is not None:
        lines.append(
            f"over OpenBLAS on {library.workloads} matmuls: {library.against_reference:.3f} "
            "(bar 0.95)"
        )
    return lines


def told(run: Run) -> dict[str, object]:
    """A run without its samples: medians in seconds, kernels and library of the same rounds."""
    named = ("workload", "seed", "threads", "arm", "trials", "measured", "session", "failures")
    library = run["reference"]
    return {
        **{name: run[name] for name in named},
        "load_average": round(run["load_average"], 2),
        "wall_s": round(run["ledger"]["wall_s"], 1),
        "search_and_replay_s": round(run["ledger"]["search_s"] + run["ledger"]["replay_s"], 1),
        "confirmed_s": {after: median(samples) for after, samples in run["confirmed"].items()},
        "library_s": median(library["samples"]) if library else None,
    }


class TimeOver(Exception):
    """The time of `--seconds` is over; everything measured is on disk."""


def clock(seconds: float | None) -> Callable[[str, int, float | None], None]:
    """A callback of a group's steps that raises `TimeOver` after some seconds."""
    end = time.monotonic() + (seconds or float("inf"))

    def check(arm: str, trials: int, best_s: float | None) -> None:
        if time.monotonic() > end:
            raise TimeOver

    return check


def measure(arguments: argparse.Namespace) -> None:
    """Run every group that is not finished yet."""
    on_step = clock(arguments.seconds)
    for group, target in groups(arguments):
        if is_finished(group, target, read_runs(arguments.folder)):
            continue
        for line in run_group(group, target, arguments.folder, MeasuringRules(), on_step):
            name = f"{line['workload']} seed {line['seed']} {line['threads']} thread(s)"
            print(
                f"{name} {line['arm']}: {line['measured']} trials in "
                f"{line['ledger']['wall_s']:.0f} s, load {line['load_average']:.1f}",
                flush=True,
            )
        plots = render_plots(read_runs(arguments.folder))
        (arguments.folder / "plots.html").write_text(plots, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("tune-cpu"))
    parser.add_argument("--workloads", help=f"default {BAR_WORKLOADS}")
    parser.add_argument("--seeds", type=int, help="default 3, with --full 5")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="all arms, workloads, 1 and 2 threads")
    parser.add_argument("--unseen", action="store_true", help="workloads not trained on")
    parser.add_argument("--short", type=int, help="trials of default, instead of 1000")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--print", action="store_true", dest="only_print")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    require_tvm()
    if not arguments.only_print:
        try:
            measure(arguments)
        except (TimeOver, KeyboardInterrupt):
            print("stopped; the same command goes on from here")
    runs = read_runs(arguments.folder)
    rows = []
    if not runs:
        print(f"no workload is finished in {arguments.folder} yet")
    for threads in sorted({run["threads"] for run in runs}):
        of_threads = [run for run in runs if run["threads"] == threads]
        print(f"{threads} thread(s)")
        rows += table(of_threads)
        show(table(of_threads))
        for arm in UNSEEN if arguments.unseen else HELD:
            print("\n".join(bars(of_threads, arm)))
    if arguments.json:
        found = {"rows": [asdict(row) for row in rows], "runs": list(map(told, latest(runs)))}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
