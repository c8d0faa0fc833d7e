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
        [--trials 100] [--after 60 120] [--seeds 2] [--seconds 500] [--target cuda] [--mock]
    python benchmarks/gpu/compare.py FOLDER --paper [--table docs/results/tune-gpu.md]

With --after, the kernels that the arms had found after these seconds of their own searches are
compared too. --paper makes the table of the tuner's paper: default, af, ds and af-ds after 1 min,
2 min and 1000 trials, with 3 seeds. Repeat the command until the table is complete.

--mock measures nothing: times come from an analytical model with noise (see mock_device.py). The
table and every line of runs.jsonl then say so.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
from tilewright.tuning.comparison_table import Row, table
from tilewright.tuning.comparison_text import HEAD, as_text, caption, cells, left_out
from tilewright.tuning.instruments import real_instruments


@dataclass(frozen=True)
class Protocol:
    """What is compared: arms, the trials of each, times of their searches in seconds, and seeds."""

    arms: tuple[str, ...]
    trials: int
    after_s: tuple[float, ...]
    seeds: int


PAPER = Protocol(("default", "af", "ds", "af-ds"), 1000, (60.0, 120.0), 3)
"""The comparison of the paper that docs/tuner.md cites."""
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


def report(folder: Path, target: TuningTarget, kind: str, page: Path | None, command: str) -> None:
    """The table, printed and written. `page` also gets it, with the command that makes it."""
    runs = read_runs(folder)
    rows = table(runs)
    text = f"{target.device.name}: {kind}\n\n{as_text(rows)}"
    libraries = {run["no_library"] for run in runs if run["no_library"] and kind != LABEL}
    notes = [*sorted(libraries), *left_out(runs)]
    text += "".join(f"{note}\n" for note in notes)
    (folder / "table.txt").write_text(text)
    (folder / "table.json").write_text(json.dumps({"rows": [asdict(row) for row in rows]}))
    if page is not None:
        page.write_text(as_page(rows, target, kind, command, notes), encoding="utf-8")
    print(text)


def as_page(
    rows: Sequence[Row], target: TuningTarget, kind: str, command: str, notes: Sequence[str]
) -> str:
    """The table as a page of Markdown that says where its numbers come from."""
    lines = [HEAD, ("---",) * len(HEAD), *map(cells, rows)]
    found = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    told = "\n".join(f"\n{note}" for note in notes)
    return (
        f"# The tuner on a GPU\n\nOn {target.device.name}: {kind}. To repeat the comparison, run:\n"
        f"\n```\n{command}\n```\n\n{found}\n\n{caption(rows)}\n{told}"
    ).rstrip() + "\n"


def positive(text: str) -> float:
    """A positive finite number."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def positive_whole(text: str) -> int:
    """A positive whole number."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive whole number")
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    arms = [name for name, method in ARMS.items() if not method.pretrained]  # on a CPU
    parser.add_argument("--arms", nargs="+", choices=arms)
    parser.add_argument("--workloads", nargs="+", default=["M4", "R2", "R11", "Y7"])
    parser.add_argument("--trials", type=positive_whole)
    parser.add_argument("--after", type=positive, nargs="+", help="seconds of an arm's search")
    parser.add_argument("--seeds", type=positive_whole)
    parser.add_argument(
        "--paper", action="store_true", help="arms, trials, times and seeds of the tuner's paper"
    )
    parser.add_argument("--table", type=Path, help="also write the table to this page")
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--mock", action="store_true")
    arguments = parser.parse_args()
    defaults = PAPER if arguments.paper else Protocol(tuple(arms), 100, (), 2)
    chosen = Protocol(
        tuple(arguments.arms or defaults.arms),
        arguments.trials or defaults.trials,
        tuple(arguments.after or defaults.after_s),
        arguments.seeds or defaults.seeds,
    )
    kind = LABEL if arguments.mock else "measured"
    try:
        target = parse_target(arguments.target)
        programs = [benchmark_program(name) for name in arguments.workloads]
    except TilewrightError as error:
        parser.error(str(error))
    if not arguments.mock and not target.present:
        parser.error(f"{target.device.name} is not here: measure on it, or give --mock")
    if arguments.table is not None and not arguments.table.parent.is_dir():
        parser.error(f"there is no folder {arguments.table.parent} for --table: make it first")
    if not claim(arguments.folder, kind):
        parser.error(f"{arguments.folder} does not hold times that are {kind}: name another folder")
    budgets = dict.fromkeys(chosen.arms, chosen.trials)
    fewer = () if chosen.after_s else (max(1, chosen.trials // 10),)
    checkpoints = tuple(sorted({*fewer, chosen.trials}))
    groups = [
        Group(program, seed, budgets, checkpoints, chosen.after_s)
        for seed in range(chosen.seeds)
        for program in programs
    ]
    try:
        compare(groups, target, arguments)
    finally:
        command = shlex.join(["python", "benchmarks/gpu/compare.py", *sys.argv[1:]])
        report(arguments.folder, target, kind, arguments.table, command)


if __name__ == "__main__":
    main()
