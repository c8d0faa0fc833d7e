"""Compares search methods on a GPU with equal numbers of trials, and measures winners again.

For each seed and workload, all arms take turns, one batch at a time, as in `tilewright
tune-compare`. The best kernels of all arms, after a tenth and after all of the trials, are then
timed again in the same rounds, together with cuBLAS or cuDNN if torch is installed. Speedups are
ratios of these times to that of the default arm (MetaSchedule's own search in its own space) with
all trials.

FOLDER/measurements gets a line for each candidate as soon as it is measured, and FOLDER/runs.jsonl
gets a line for each arm of a finished group. After --seconds, no candidate and no confirmation
begins; the same command continues. The table of finished groups is printed and written to
FOLDER/table.txt and table.json.

    python benchmarks/gpu/compare.py FOLDER [--arms default af-ds ...] [--workloads M4 R2 ...]
        [--trials 100] [--seeds 2] [--seconds 500] [--target cuda] [--mock]

--mock measures nothing: times come from an analytical model with noise (see mock_device.py). The
table and every line of runs.jsonl then say so.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from mock_device import LABEL, mock_instruments

from tilewright.core.errors import TilewrightError
from tilewright.tuner.tvm.programs import benchmark_program
from tilewright.tuner.tvm.runner import MeasuringRules
from tilewright.tuner.tvm.setup import ARMS
from tilewright.tuner.tvm.targets import TuningTarget, parse_target
from tilewright.tuning.comparison import Group, is_finished, read_runs, run_group
from tilewright.tuning.comparison_table import table
from tilewright.tuning.comparison_text import as_text
from tilewright.tuning.instruments import real_instruments

RULES = MeasuringRules(repeats=5, sample_s=0.005, timeout_s=20.0)


def claim(folder: Path, kind: str) -> bool:
    """Whether `folder` is new or holds times of this kind; a new one is marked."""
    marker = folder / "kind.txt"
    if marker.exists():
        return marker.read_text().strip() == kind
    if (folder / "runs.jsonl").exists() or (folder / "measurements").exists():
        return False
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text(f"{kind}\n")
    return True


def compare(groups: Sequence[Group], target: TuningTarget, arguments: argparse.Namespace) -> None:
    """Run what is missing of the groups until the time is over."""
    end = time.monotonic() + arguments.seconds
    for group in groups:
        if is_finished(group, target, read_runs(arguments.folder)):
            continue
        if time.monotonic() > end or not run(group, target, arguments, end):
            print(f"time is over in {group.program.name} seed {group.seed}", flush=True)
            return


def run(group: Group, target: TuningTarget, arguments: argparse.Namespace, end: float) -> bool:
    """Run and confirm one group; False where `end`, of the monotonic clock, came before."""
    lines = run_group(
        group,
        target,
        arguments.folder,
        RULES,
        open_instruments=mock_instruments if arguments.mock else real_instruments,
        stop=lambda: time.monotonic() > end,
    )
    for line in lines:
        print(f"{group.program.name} seed {group.seed} {summary(line)}", flush=True)
    return bool(lines)


def summary(line: Mapping[str, Any]) -> str:
    """An arm's result in a few words."""
    failed = ", ".join(f"{count} {kind}" for kind, count in line["failures"].items())
    again = line["confirmed"].get(str(line["trials"]))
    best = "no kernel" if again is None else f"{line['flops'] / median(again) / 1e9:.0f} GFLOP/s"
    label = " (mock)" if line["kind"] == LABEL else ""
    return (
        f"{line['arm']}: {best}{label} after {line['measured']} trials in "
        f"{line['ledger']['wall_s']:.1f} s" + (f", failed: {failed}" if failed else "")
    )


def report(folder: Path, target: TuningTarget, kind: str) -> None:
    """The table, printed and written."""
    runs = read_runs(folder)
    rows = table(runs)
    text = f"{target.device.name}: {kind}\n\n{as_text(rows)}"
    notes = {run["no_library"] for run in runs if run["no_library"] and kind != LABEL}
    text += "".join(f"{note}\n" for note in sorted(notes))
    (folder / "table.txt").write_text(text)
    (folder / "table.json").write_text(json.dumps({"rows": [asdict(row) for row in rows]}))
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    arms = [name for name, method in ARMS.items() if not method.pretrained]  # on a CPU
    parser.add_argument("--arms", nargs="+", default=arms, choices=arms)
    parser.add_argument("--workloads", nargs="+", default=["M4", "R2", "R11", "Y7"])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--mock", action="store_true")
    arguments = parser.parse_args()
    kind = LABEL if arguments.mock else "measured"
    try:
        target = parse_target(arguments.target)
        programs = [benchmark_program(name) for name in arguments.workloads]
    except TilewrightError as error:
        parser.error(str(error))
    if not arguments.mock and not target.present:
        parser.error(f"{target.device.name} is not here: measure on it, or give --mock")
    if not claim(arguments.folder, kind):
        parser.error(f"{arguments.folder} does not hold times that are {kind}: name another folder")
    budgets = dict.fromkeys(arguments.arms, arguments.trials)
    checkpoints = tuple(sorted({max(1, arguments.trials // 10), arguments.trials}))
    groups = [
        Group(program, seed, budgets, checkpoints)
        for seed in range(arguments.seeds)
        for program in programs
    ]
    try:
        compare(groups, target, arguments)
    finally:
        report(arguments.folder, target, kind)


if __name__ == "__main__":
    main()
