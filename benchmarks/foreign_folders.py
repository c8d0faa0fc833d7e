"""Searches from small Gemmini kernels in the styles of several authors.

There are goals for five kinds of kernels: batched small products, depthwise convolutions, attention
without softmax, products with bias and ReLU, and products with a transposed first factor. The
folders of tests/fixtures/foreign_folders were written without knowledge of the rewriter. Each is
searched once per seed, without a language model. Cycles are simulated. `limit` is the speedup at
which every element of the array would do a useful multiply-accumulate in every cycle. `first` is
the time until a kernel was 1 % faster than the start.

With `--first`, each search ends as soon as a kernel is 1 % faster than the start, and the kernels
of foreign.py are searched as well. The table then only has the times of these improvements. CPU
seconds are those of all processes of the search. They depend less on the load of the machine.

    python benchmarks/foreign_folders.py [--first] [--runs 1] [--seconds 90] [--evaluations 30]
        [--results FILE] [KERNEL ...]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import tomllib
from functools import partial
from pathlib import Path

from foreign import FASTER, KERNELS, SOURCES, found_by, written
from native_runs import Kept, Record, check_effort, exit_code, parser_of

from tilewright.core.config import Settings
from tilewright.core.errors import UnknownNameError

FOLDERS = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "foreign_folders"
WANTED = {
    "batch": 4.2,
    "depthwise": 6.0,
    "attention": 6.0,
    "bias": 5.0,
    "transposed": 6.5,
}
"""Speedups wanted of kernels of each kind: the first word of the folder's name. Other kernels
have none."""
ARRAY = {"gemmini": 256, "gemmini-fp32-4x4": 16}
"""Multiply-accumulates of a target's array in a cycle."""


SOON_S = 10.0
"""Wanted maximum of the seconds until the first improvement."""


def searched(name: str, settings: Settings, *, only_first: bool = False) -> Record:
    with tempfile.TemporaryDirectory(prefix="foreign-") as temporary:
        folder, project = FOLDERS / name, Path(temporary) / "project"
        if name in KERNELS:
            folder = written(name, (SOURCES / f"{name}.c").read_text(), Path(temporary))
        return found_by(str(folder), settings, project, only_first=only_first)


def seconds_to_first(run: Record) -> float:
    """Seconds until a kernel was faster than the start; infinite if none was."""
    return next((s for s, _, c in run["bests"] if c <= FASTER * run["start"]), float("inf"))


def measure_first(options: argparse.Namespace) -> int:
    """Seconds until the first improvement of each kernel. Raises `TilewrightError`."""
    kept = Kept(options.results)
    effort = f"{options.evaluations} evaluations or {options.seconds:g} s"
    print(f"first improvement; at most {effort} each; load {os.getloadavg()[0]:.1f}")
    print("| kernel | seconds | CPU seconds | evaluations |")
    print("|---|---|---|---|")
    firsts: dict[str, tuple[float, float]] = {}
    for name in options.workloads:
        runs = []
        for settings in _settings_of_runs(options):
            find = partial(searched, name, settings, only_first=True)
            runs.append(kept.get(("first", name, settings.seed, effort), find))
        wall_s = statistics.median(map(seconds_to_first, runs))
        cpu_s = statistics.median(run["cpu_s"] for run in runs)
        firsts[name] = wall_s, cpu_s
        evaluations = statistics.median(run["evaluations"] for run in runs)
        print(f"| {name} | {wall_s:.1f} | {cpu_s:.1f} | {evaluations:.0f} |", flush=True)
    for number, what in enumerate(("seconds", "CPU seconds")):
        found = sorted(times[number] for times in firsts.values() if times[number] < float("inf"))
        if found:
            soon = sum(time <= SOON_S for time in found)
            print(
                f"{len(found)} of {len(firsts)} kernels improved, {soon} within {SOON_S:g} {what}; "
                f"median {statistics.median(found):.1f}, longest {found[-1]:.1f} {what}"
            )
    return 0


def _settings_of_runs(options: argparse.Namespace) -> list[Settings]:
    """The settings of the searches of one kernel, one seed each."""
    return [
        Settings(
            seed=seed,
            max_wall_s=options.seconds,
            max_evaluations=options.evaluations,
            patience=99,
            iterations=99,
        )
        for seed in range(1, options.runs + 1)
    ]


def measure(options: argparse.Namespace) -> int:
    """The whole table. Raises `TilewrightError`."""
    check_effort(options)
    names = sorted(path.name for path in FOLDERS.iterdir())
    if options.first:
        names += KERNELS
    for name in options.workloads or ():
        if name not in names:
            raise UnknownNameError("folder", name, names)
    if not options.workloads:
        options.workloads = names
    if options.first:
        return measure_first(options)
    kept = Kept(options.results)
    effort = f"{options.evaluations} evaluations or {options.seconds:g} s"
    print(f"simulated cycles; {effort} each; load {os.getloadavg()[0]:.1f}")
    print("| kernel | start | best | speedup | wanted | limit | first | evaluations |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.workloads:
        runs = []
        for settings in _settings_of_runs(options):
            key = ("foreign folders", name, settings.seed, effort)
            runs.append(kept.get(key, partial(searched, name, settings)))
        start, best = (statistics.median(run[which] for run in runs) for which in ("start", "best"))
        described = tomllib.loads((FOLDERS / name / "workload.toml").read_text())
        limit = start * ARRAY[described["target"]] / described["operations"]
        wanted = WANTED.get(name.partition("_")[0])
        first = statistics.median(map(seconds_to_first, runs))
        print(
            f"| {name} | {start:,.0f} | {best:,.0f} | {start / best:.2f}x "
            f"| {f'{wanted:g}x' if wanted else ''} | {limit:.1f}x "
            f"| {first:.0f} s | {statistics.median(run['evaluations'] for run in runs):.0f} |",
            flush=True,
        )
    return 0


def main() -> int:
    parser = parser_of(__doc__ or "", (), seconds=90.0)
    parser.add_argument("--first", action="store_true", help="measure only first improvements")
    parser.add_argument("--evaluations", type=int, default=30, help="of each search, at most")
    parser.set_defaults(runs=1)
    return exit_code(measure, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
