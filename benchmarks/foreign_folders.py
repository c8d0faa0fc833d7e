"""Searches from small Gemmini kernels in the styles of several authors.

There are goals for five kinds of kernels: batched small products, depthwise convolutions, attention
without softmax, products with bias and ReLU, and products with a transposed first factor. The
folders of tests/fixtures/foreign_folders were written without knowledge of the rewriter. Each is
searched once per seed, without a language model. Cycles are simulated. `limit` is the speedup at
which every element of the array would do a useful multiply-accumulate in every cycle. `first` is
the time until a kernel was 1 % faster than the start.

    python benchmarks/foreign_folders.py [--runs 1] [--seconds 90] [--evaluations 30]
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

from foreign import found_by
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


def searched(folder: Path, settings: Settings) -> Record:
    with tempfile.TemporaryDirectory(prefix="foreign-") as temporary:
        return found_by(str(folder), settings, Path(temporary) / "project")


def measure(options: argparse.Namespace) -> int:
    """The whole table. Raises `TilewrightError`."""
    check_effort(options)
    names = sorted(path.name for path in FOLDERS.iterdir())
    kept = Kept(options.results)
    effort = f"{options.evaluations} evaluations or {options.seconds:g} s"
    print(f"simulated cycles; {effort} each; load {os.getloadavg()[0]:.1f}")
    print("| kernel | start | best | speedup | wanted | limit | first | evaluations |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.workloads:
        if name not in names:
            raise UnknownNameError("folder", name, names)
        runs = []
        for seed in range(1, options.runs + 1):
            settings = Settings(
                seed=seed,
                max_wall_s=options.seconds,
                max_evaluations=options.evaluations,
                patience=99,
                iterations=99,
            )
            key = ("foreign folders", name, seed, effort)
            runs.append(kept.get(key, partial(searched, FOLDERS / name, settings)))
        start, best = (statistics.median(run[which] for run in runs) for which in ("start", "best"))
        described = tomllib.loads((FOLDERS / name / "workload.toml").read_text())
        limit = start * ARRAY[described["target"]] / described["operations"]
        wanted = WANTED.get(name.partition("_")[0])
        first = statistics.median(
            next((s for s, _, c in run["bests"] if c <= 0.99 * start), float("inf")) for run in runs
        )
        print(
            f"| {name} | {start:,.0f} | {best:,.0f} | {start / best:.2f}x "
            f"| {f'{wanted:g}x' if wanted else ''} | {limit:.1f}x "
            f"| {first:.0f} s | {statistics.median(run['evaluations'] for run in runs):.0f} |",
            flush=True,
        )
    return 0


def main() -> int:
    names = tuple(sorted(path.name for path in FOLDERS.iterdir()))
    parser = parser_of(__doc__ or "", names, seconds=90.0)
    parser.add_argument("--evaluations", type=int, default=30, help="of each search, at most")
    parser.set_defaults(runs=1)
    return exit_code(measure, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
