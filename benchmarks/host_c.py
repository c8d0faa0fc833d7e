"""Measures what searches without a model gain on `host-c`, compared with loops and libraries.

    python benchmarks/host_c.py [--runs 7] [--seconds 60] [--results FILE] [WORKLOAD ...]
    python benchmarks/host_c.py --quick            one run of 30 s per workload: about ten minutes
    python benchmarks/host_c.py --repeat ...       only the variation between evaluations

For each workload, the benchmark runs `--runs` searches with the seeds 1, 2, ... Each search ends by
measuring its winner again, in three sessions of new processes on fresh inputs. The speedup is the
median over pairs with the starting kernel in these sessions. Baselines, all on one thread and
pinned to the same core:

naive      the loops as they are written: -O1, no vectors
compiler   the same loops with -O3 -march=native (the starting kernel)
-Ofast     the same loops, where the compiler may reorder sums and call vector functions
PyTorch    its CPU build (oneDNN), by benchmarks/host_c_library.py; numpy's OpenBLAS for products

For each workload, the benchmark prints the winner's speedup, its GFLOP/s and share of the core's
measured peak, the candidates per second, and the largest difference between five evaluations of the
winner. With `--results`, the same command continues after an interruption. Without PyTorch (`pip
install torch`; the CPU build is sufficient), its column is empty.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from native_runs import (
    REPEATS,
    Kept,
    Record,
    check_effort,
    exit_code,
    library,
    parser_of,
    percents,
    repeatability,
    search,
)

from tilewright.core.records import Artifact, Failed, Measured, Verdict
from tilewright.core.tasks import open_task
from tilewright.native.machine import processor
from tilewright.native.toolchain import compile_kernel, find_toolchain
from tilewright.targets.host_c.shapes import parse_shape

WORKLOADS = (
    "softmax-256x1024", "softmax-1024x128", "layernorm-256x768", "rmsnorm-256x768",
    "attention-256x64", "gemm-128x128x128", "gemm-256x256x256", "conv-1x28x28x64x64-k3s1",
)  # fmt: skip
FLAGS = {"naive": ("-O1", "-std=gnu11"), "-Ofast": ("-Ofast", "-march=native", "-std=gnu11")}
"""Compilers of the baselines beside the starting kernel's own."""
COLUMNS = ("naive", "compiler", "-Ofast", "PyTorch", "OpenBLAS")


def main() -> int:
    parser = parser_of(__doc__ or "", WORKLOADS, seconds=60.0)
    parser.add_argument("--quick", action="store_true", help="--runs 1 --seconds 30")
    parser.add_argument("--repeat", action="store_true", help="no searches: repeatability alone")
    options = parser.parse_args()
    if options.quick:
        options.runs, options.seconds = 1, 30.0
    return exit_code(measure, options)


def measure(options: argparse.Namespace) -> int:
    """The whole table. Raises `TilewrightError` before it starts what cannot be."""
    check_effort(options)
    for name in options.workloads:
        parse_shape(name)
    kept = Kept(options.results)
    print(f"measured on {processor().name} ({find_toolchain().id}); load {os.getloadavg()[0]:.1f} "
          f"on {os.cpu_count()} cores")  # fmt: skip
    if options.repeat:
        for name in options.workloads:
            task = f"host-c:{name}"
            differs = repeatability(task, open_task(task, {}).task.start)
            print(f"{name}: {REPEATS} evaluations of the starting kernel differ by at most (in "
                  f"time, in their ratio to itself): {percents(differs)}", flush=True)  # fmt: skip
        return 0
    print(f"{options.runs} runs of {options.seconds:g} s each; times as fast as each baseline\n")
    print(
        "| workload | "
        + " | ".join(COLUMNS)
        + " | GFLOP/s | of peak | cand/s | repeats: ns, ratio |"
    )
    print("|---" * (len(COLUMNS) + 5) + "|")
    ratios: dict[str, list[float]] = {column: [] for column in COLUMNS}
    for name in options.workloads:
        found, line = row(name, options.runs, options.seconds, kept)
        for column, ratio in found.items():
            ratios[column].append(ratio)
        print(line, flush=True)
    means = [f"{statistics.geometric_mean(r):.2f}x ({len(r)})" if r else "-"
             for r in ratios.values()]  # fmt: skip
    print("| geometric mean (of) | " + " | ".join(means) + " | | | | |")
    return 0


def row(name: str, runs: int, seconds: float, kept: Kept) -> tuple[Mapping[str, float], str]:
    """Ratios to each baseline, and one line of the table."""
    task = f"host-c:{name}"
    searches: list[Record] = [
        kept.get((name, seconds, seed), partial(search, task, seed, seconds))
        for seed in range(1, runs + 1)
    ]
    baselines: Mapping[str, float] = kept.get((name, "baselines"), partial(compilers, name))
    libraries: Mapping[str, float] = kept.get(
        (name, "library"), partial(library, "host_c_library.py", name)
    )
    differs = kept.get((name, "repeat"), partial(repeatability, task, searches[-1]["source"]))
    speedup = statistics.median(s["speedup"] for s in searches)
    latency_ns = statistics.median(s["latency_ns"] for s in searches)
    ratios = {"compiler": speedup}
    ratios |= {column: speedup * baselines[column] for column in FLAGS if column in baselines}
    called = {"PyTorch": libraries.get("torch"), "OpenBLAS": libraries.get("numpy")}
    ratios |= {column: ns / latency_ns for column, ns in called.items() if ns is not None}
    cells = [f"{ratios[column]:.2f}x" if column in ratios else "-" for column in COLUMNS]
    low, high = min(s["low"] for s in searches), max(s["high"] for s in searches)
    cells[COLUMNS.index("compiler")] += f" ({low:.2f}..{high:.2f})"
    gflops, share, rate = (statistics.median(s[k] for s in searches)
                           for k in ("gflop_per_s", "share", "rate"))  # fmt: skip
    cells += [f"{gflops:.1f}", f"{share:.1%}", f"{rate:.2f}", percents(differs)]
    return ratios, f"| {name} | {' | '.join(cells)} |"


def compilers(name: str) -> dict[str, float]:
    """The starting kernel's time under other flags over its own, timed in pairs."""
    task = open_task(f"host-c:{name}", {"input_seed": 2, "sessions": 1}).task
    toolchain, found = find_toolchain(), {}
    for column, flags in FLAGS.items():
        built = compile_kernel(replace(toolchain, flags=flags), task.start, 60.0)
        if isinstance(built, Failed):
            continue
        outcome = task.evaluator[2].measure(
            Artifact(column, built, toolchain.id), Verdict(()), None
        )
        if isinstance(outcome, Measured):  # not where its result is wrong
            found[column] = outcome.details["percent_of_baseline"] / 100
    return found


if __name__ == "__main__":
    sys.exit(main())
