"""What keyless searches on `host-c` reach over the naive loops and libraries, measured here.

    python benchmarks/host_c.py [--runs 7] [--seconds 60] [--results FILE] [WORKLOAD ...]
    python benchmarks/host_c.py --quick            one run of 30 s a workload: about ten minutes
    python benchmarks/host_c.py --repeat ...       only how far evaluations of one kernel differ

For each workload: `--runs` searches with seeds 1, 2, ..., each of which ends by measuring its
winner again, in three sessions of new processes on fresh inputs. A speedup is that of these: the
median over pairs, interleaved with the starting kernel. Baselines, all on one thread and pinned to
the same core:

naive      the loops as they are written: -O1, no vectors
compiler   the compiler alone on the same loops: -O3 -march=native (the starting kernel)
-Ofast     the compiler alone, free to reorder sums and to call vector functions
PyTorch    its CPU build (oneDNN), by benchmarks/host_c_library.py; numpy's OpenBLAS for products

Printed for each: how many times as fast the winner is. Then the winner's GFLOP/s and share of the
core's measured peak, candidates per second while the search works, and how far five evaluations of
the winner differ at most, in their median nanoseconds and in their ratio to the starting kernel.
Each result is kept in `--results` when it is there: the same command goes on where it was stopped.
Without PyTorch (`pip install torch`, the CPU build is enough) its column is empty.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from tilewright.core.config import Settings
from tilewright.core.errors import InputError, TilewrightError
from tilewright.core.records import (
    Artifact,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Verdict,
)
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.native.machine import on_measuring_cores, processor
from tilewright.native.toolchain import compile_kernel, find_toolchain
from tilewright.run import optimize
from tilewright.search.events import Event, RunStarted, Stopped
from tilewright.storage.project import open_project
from tilewright.targets.host_c.shapes import parse_shape

WORKLOADS = (
    "softmax-256x1024", "softmax-1024x128", "layernorm-256x768", "rmsnorm-256x768",
    "attention-256x64", "gemm-128x128x128", "gemm-256x256x256", "conv-1x28x28x64x64-k3s1",
)  # fmt: skip
REPEATS = 5
FLAGS = {"naive": ("-O1", "-std=gnu11"), "-Ofast": ("-Ofast", "-march=native", "-std=gnu11")}
"""Compilers of the baselines beside the starting kernel's own."""
COLUMNS = ("naive", "compiler", "-Ofast", "PyTorch", "OpenBLAS")
Record = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", default=WORKLOADS, metavar="WORKLOAD")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each search")
    parser.add_argument("--quick", action="store_true", help="--runs 1 --seconds 30")
    parser.add_argument("--repeat", action="store_true", help="no searches: repeatability alone")
    parser.add_argument("--results", type=Path, help="JSON file to keep results in, and go on from")
    options = parser.parse_args()
    if options.quick:
        options.runs, options.seconds = 1, 30.0
    try:
        return measure(options)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def measure(options: argparse.Namespace) -> int:
    """The whole table. Raises `TilewrightError` before it starts what cannot be."""
    if options.runs < 1:
        raise InputError(f"--runs is {options.runs}: give a whole number of searches, 1 or more.")
    if not 0 < options.seconds < math.inf:
        raise InputError(f"--seconds is {options.seconds:g}: give a number of seconds above 0.")
    for name in options.workloads:
        parse_shape(name)
    kept = Kept(options.results)
    print(f"measured on {processor().name} ({find_toolchain().id}); load {os.getloadavg()[0]:.1f} "
          f"on {os.cpu_count()} cores")  # fmt: skip
    if options.repeat:
        for name in options.workloads:
            start = open_task(f"host-c:{name}", {}).task.start
            latency, ratio = repeatability(name, start)
            print(f"{name}: {REPEATS} evaluations of the starting kernel differ by {latency:.1%}, "
                  f"their ratios to itself by {ratio:.1%}, at most", flush=True)  # fmt: skip
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


class Kept:
    """Results by key, in a file where one is named; written whole after each."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._found: dict[str, Any] = {}
        if file is not None and file.exists():
            try:
                self._found = dict(json.loads(file.read_text()))
            except (OSError, ValueError) as error:
                raise InputError(
                    f"{file} holds no results of this benchmark ({error}): name another file."
                ) from error

    def get(self, key: Sequence[object], make: Callable[[], Any]) -> Any:
        """What is kept under the key and this machine, else what `make` finds."""
        text = " ".join(map(str, (processor().name, *key)))
        if text not in self._found:
            self._found[text] = make()
            if self._file is not None:
                new = self._file.with_suffix(".partial")
                new.write_text(json.dumps(self._found, indent=1))
                new.replace(self._file)
        return self._found[text]


def row(name: str, runs: int, seconds: float, kept: Kept) -> tuple[Mapping[str, float], str]:
    """Ratios to each baseline, and one line of the table."""
    searches: list[Record] = [
        kept.get((name, seconds, seed), partial(search, name, seed, seconds))
        for seed in range(1, runs + 1)
    ]
    baselines: Mapping[str, float] = kept.get((name, "baselines"), partial(compilers, name))
    library: Mapping[str, float] = kept.get((name, "library"), partial(libraries, name))
    differs = kept.get((name, "repeat"), partial(repeatability, name, searches[-1]["source"]))
    speedup = statistics.median(s["speedup"] for s in searches)
    latency_ns = statistics.median(s["latency_ns"] for s in searches)
    ratios = {"compiler": speedup}
    ratios |= {column: speedup * baselines[column] for column in FLAGS if column in baselines}
    libraries_ = {"PyTorch": library.get("torch"), "OpenBLAS": library.get("numpy")}
    ratios |= {column: ns / latency_ns for column, ns in libraries_.items() if ns is not None}
    cells = [f"{ratios[column]:.2f}x" if column in ratios else "-" for column in COLUMNS]
    low, high = min(s["low"] for s in searches), max(s["high"] for s in searches)
    cells[COLUMNS.index("compiler")] += f" ({low:.2f}..{high:.2f})"
    gflops, share, rate = (statistics.median(s[k] for s in searches)
                           for k in ("gflop_per_s", "share", "rate"))  # fmt: skip
    cells += [f"{gflops:.1f}", f"{share:.1%}", f"{rate:.2f}", "{:.1%}, {:.1%}".format(*differs)]
    return ratios, f"| {name} | {' | '.join(cells)} |"


def search(name: str, seed: int, seconds: float) -> Record:
    """One search; its winner as fresh sessions measured it, or the starting kernel."""
    settings = Settings(seed=seed, max_wall_s=seconds, patience=99, iterations=99)
    times: dict[type[Event], float] = {}

    def hear(event: Event) -> None:
        times[type(event)] = time.monotonic()

    with tempfile.TemporaryDirectory(prefix="host-c-") as folder:
        summary = optimize(f"host-c:{name}", settings, project=Path(folder), on_event=hear)
        best = open_project(Path(folder)).history(summary.run_id).best
    assert best is not None
    found = best.outcome  # of the winner: that of the three fresh sessions
    assert isinstance(found, Measured)
    return {
        "source": best.candidate.source,
        "speedup": 100 / found.details["percent_of_baseline"],
        "low": 100 / found.details["percent_of_baseline_high"],
        "high": 100 / found.details["percent_of_baseline_low"],
        "latency_ns": found.latency,
        "gflop_per_s": found.details["gflop_per_s"],
        "share": found.utilization,
        "rate": summary.evaluations / (times[Stopped] - times[RunStarted]),
    }


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


def libraries(name: str) -> dict[str, float]:
    """Median nanoseconds by library."""
    script = Path(__file__).with_name("host_c_library.py")
    with on_measuring_cores():
        finished = subprocess.run(
            [sys.executable, str(script), name],
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    return cast("dict[str, float]", json.loads(finished.stdout))


def repeatability(name: str, source: str) -> tuple[float, float]:
    """Largest differences between repeated evaluations of a kernel: of latency and of speedup."""
    evaluator = open_task(f"host-c:{name}", {"input_seed": 1}).task.evaluator
    found = [evaluate(evaluator, EvaluationRequest(Candidate(source))) for _ in range(REPEATS)]
    measured = [f for f in found if isinstance(f, Measured)]
    latencies = [m.latency for m in measured]
    shares = [m.details["percent_of_baseline"] for m in measured]
    return max(latencies) / min(latencies) - 1, max(shares) / min(shares) - 1


if __name__ == "__main__":
    sys.exit(main())
