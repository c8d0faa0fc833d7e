"""What keyless searches reach with Intel's tiles, measured; stops where the CPU has none.

    python benchmarks/amx.py [--runs 7] [--seconds 300] [--target amx-int8] [SIZES ...]

For each product (packed weights): searches with seeds 1, 2, ..., the winner evaluated once more in
new processes. Printed: median speedup over the naive tile kernel with least and largest, the share
of the tiles' measured peak, evaluations per second, the ratio to PyTorch's fastest product (oneDNN,
one thread; `amx_library.py` says how it is called) where that is installed.
Ends with the geometric means over ResNet-50's sizes, or over all where there is none of them.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

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

RESNET = (
    "12544x64x256", "12544x256x64", "3136x128x512", "3136x512x128", "784x256x1024",
    "784x1024x256",
)  # fmt: skip
SIZES = (*RESNET, "1024x1024x1024")


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
    speedups: dict[str, float] = {}
    over: dict[str, float] = {}
    for sizes in options.sizes:
        found = [one(options.target, sizes, seed, options.seconds)
                 for seed in range(1, options.runs + 1)]  # fmt: skip
        line, speedups[sizes] = summary([winner for winner, _ in found])
        line = f"{sizes:16} {line}, {statistics.median(r for _, r in found):.1f} evaluations/s"
        calls = library(options.target, sizes)
        if calls:
            call, nanoseconds = min(calls.items(), key=lambda item: item[1])
            latency = statistics.median(winner.latency for winner, _ in found)
            over[sizes] = nanoseconds / latency
            line += f", {over[sizes]:.2f}x the library ({call})"
        print(line, flush=True)
    kept = [sizes for sizes in RESNET if sizes in speedups] or list(speedups)
    print(f"geometric mean of {len(kept)}: {mean(speedups, kept):.2f}x over naive")
    if over:
        print(f"geometric mean of {len(kept)}: {mean(over, kept):.2f}x the library")
    else:
        print("PyTorch is not installed: no library baseline (pip install torch)")
    return 0


def mean(ratios: Mapping[str, float], sizes: Sequence[str]) -> float:
    """Geometric mean of the ratios of some sizes."""
    return statistics.geometric_mean(ratios[size] for size in sizes)


def summary(winners: Sequence[Measured]) -> tuple[str, float]:
    """Median and extent of what winners of several searches reach, and the median speedup."""
    gains = [100 / winner.details["percent_of_baseline"] for winner in winners]
    shares = [winner.utilization for winner in winners]
    median = statistics.median(gains)
    noise = max(winner.noise or 0.0 for winner in winners)
    line = (
        f"{median:6.2f}x ({min(gains):.2f}..{max(gains):.2f}) over naive, "
        f"{statistics.median(shares):.1%} ({min(shares):.1%}..{max(shares):.1%}) of the peak, "
        f"noise at most {noise:.1%}"
    )
    return line, median


def one(target: str, sizes: str, seed: int, seconds: float) -> tuple[Measured, float]:
    """The winner of one search, measured anew, and how many kernels were evaluated per second."""
    task = f"{target}:gemm-{sizes}-packed"
    settings = Settings(seed=seed, max_wall_s=seconds)
    with tempfile.TemporaryDirectory(prefix="amx-") as folder:
        started = time.monotonic()
        found = optimize(task, settings, project=Path(folder))
        taken_s = time.monotonic() - started
        history = open_project(Path(folder)).history(found.run_id)
    best = history.best
    assert best is not None
    again = recheck(task, settings.recorded(), Candidate(best.candidate.source))
    assert isinstance(again, Measured), again
    return again, len(history) / taken_s


def library(target: str, sizes: str) -> dict[str, float]:
    """Median nanoseconds of CPU time of PyTorch's product by call; empty without PyTorch."""
    script = Path(__file__).with_name("amx_library.py")
    with on_measuring_cores():
        finished = subprocess.run(
            [sys.executable, str(script), target, sizes],
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    return cast("dict[str, float]", json.loads(finished.stdout))


if __name__ == "__main__":
    sys.exit(main())
