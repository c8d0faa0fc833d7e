"""What keyless searches reach with Intel's tiles, measured; stops where the CPU has none.

    python benchmarks/amx.py [--runs 7] [--seconds 300] [--target amx-int8] [SIZES ...]

For each product (packed weights): searches with seeds 1, 2, ..., the winner evaluated once more in
new processes. Printed: median speedup over the naive tile kernel with least and largest, the share
of the tiles' measured peak, the ratio to PyTorch's product (oneDNN, one thread) where installed.
PyTorch is given B as it is: that ratio holds what packing costs it, and is no comparison of equals.
Ends with the geometric means over all sizes.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tilewright.core.config import Settings
from tilewright.core.errors import InputError, TilewrightError, ToolchainMissingError
from tilewright.core.records import Candidate, Measured
from tilewright.native.machine import on_measuring_cores, processor
from tilewright.run import optimize
from tilewright.storage.project import open_project
from tilewright.targets.amx.elements import BF16, INT8
from tilewright.targets.amx.shapes import parse_shape
from tilewright.targets.amx.support import refusal
from tilewright.verification import recheck

SIZES = (
    "12544x64x256", "12544x256x64", "3136x128x512", "3136x512x128", "784x256x1024",
    "1024x1024x1024",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sizes", nargs="*", default=SIZES, metavar="SIZES")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=300.0, help="of each search")
    parser.add_argument("--target", choices=("amx-int8", "amx-bf16"), default="amx-int8")
    options = parser.parse_args()
    try:
        return measure(options)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def measure(options: argparse.Namespace) -> int:
    """Everything that is asked for. Raises `TilewrightError` before it starts what cannot be."""
    if options.runs < 1:
        raise InputError(f"--runs is {options.runs}: give a whole number of searches, 1 or more.")
    if not 0 < options.seconds < math.inf:
        raise InputError(f"--seconds is {options.seconds:g}: give a number of seconds above 0.")
    element = INT8 if options.target == "amx-int8" else BF16
    for sizes in options.sizes:
        parse_shape(f"gemm-{sizes}-packed", element)
    lacking = refusal(element)
    if lacking is not None:
        raise ToolchainMissingError(lacking)
    print(f"{options.target}, measured on {processor().name}, {options.runs} runs")
    speedups, over = [], []
    for sizes in options.sizes:
        found = [one(options.target, sizes, seed, options.seconds)
                 for seed in range(1, options.runs + 1)]  # fmt: skip
        gains = [100 / m.details["percent_of_baseline"] for m in found]
        last = found[-1]
        library_ns = library(options.target, sizes)
        speedups.append(statistics.median(gains))
        line = (
            f"{sizes:16} {speedups[-1]:6.2f}x ({min(gains):.2f}..{max(gains):.2f}) over naive, "
            f"{last.utilization:6.1%} of the peak, noise {last.noise:.1%}"
        )
        if library_ns is not None:
            over.append(library_ns / statistics.median(m.latency for m in found))
            line += f", {over[-1]:.2f}x the library (B not packed)"
        print(line, flush=True)
    print(f"geometric mean: {statistics.geometric_mean(speedups):.2f}x over naive")
    if over:
        print(f"geometric mean: {statistics.geometric_mean(over):.2f}x the library (B not packed)")
    else:
        print("PyTorch is not installed: no library baseline (pip install torch)")
    return 0


def one(target: str, sizes: str, seed: int, seconds: float) -> Measured:
    """The winner of one search, measured anew."""
    task = f"{target}:gemm-{sizes}-packed"
    settings = Settings(seed=seed, max_wall_s=seconds)
    with tempfile.TemporaryDirectory(prefix="amx-") as folder:
        summary = optimize(task, settings, project=Path(folder))
        best = open_project(Path(folder)).history(summary.run_id).best
    assert best is not None
    again = recheck(task, settings.recorded(), Candidate(best.candidate.source))
    assert isinstance(again, Measured), again
    return again


def library(target: str, sizes: str) -> float | None:
    """Median nanoseconds of CPU time of PyTorch's product on one thread; None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    m, n, k = (int(size) for size in sizes.split("x"))
    call: Any
    if target == "amx-int8":
        a = torch.randint(-128, 127, (m, k), dtype=torch.int8)
        b = torch.randint(-128, 127, (k, n), dtype=torch.int8)
        call = lambda: torch._int_mm(a, b)  # noqa: E731
    else:
        a, b = torch.randn(m, k).bfloat16(), torch.randn(k, n).bfloat16()
        call = lambda: a @ b  # noqa: E731
    samples = []
    with on_measuring_cores():
        for _ in range(50):
            started = time.process_time_ns()
            call()
            samples.append(time.process_time_ns() - started)
    return statistics.median(samples[10:])


if __name__ == "__main__":
    sys.exit(main())
