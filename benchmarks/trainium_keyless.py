"""Measures searches without a language model on `trainium`: latencies and time to the first gain.

    python benchmarks/trainium_keyless.py [--seconds 120] [--seeds 5] [NAME ...]

Prints modelled microseconds of the naive start, of the best kernel (median over the seeds), of
`tuned` and of the roofline, which does not include the launch. Then it prints the speedups over the
naive start and over `tuned`, and the seconds until the first kernel was faster than the naive
start. The name `tutorial` stands for the first six workloads.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from trainium_workloads import modelled

from tilewright.core.config import Settings
from tilewright.run import open_project, optimize
from tilewright.search.events import Evaluated, Event
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.roofline import roofline_ns
from tilewright.targets.trainium.shapes import REGISTERED, parse_shape

TUTORIAL = list(REGISTERED)[:6]


def search(name: str, seed: int, seconds: float) -> tuple[float, float]:
    """Nanoseconds of the best kernel of one search, and seconds to the first faster one."""
    settings = Settings(seed=seed, max_wall_s=seconds, patience=99, iterations=99)
    begin, first = time.monotonic(), [math.nan]
    start: list[float] = []

    def hear(event: Event) -> None:
        if not isinstance(event, Evaluated) or event.trial.latency is None:
            return
        start.append(event.trial.latency)
        if start[-1] < start[0] and math.isnan(first[0]):
            first[0] = time.monotonic() - begin

    with tempfile.TemporaryDirectory(prefix="trainium-keyless-") as folder:
        summary = optimize(f"trainium:{name}", settings, project=Path(folder), on_event=hear)
        best = open_project(Path(folder)).history(summary.run_id).best
    assert best is not None
    assert best.latency is not None
    return best.latency, first[0]


def row(name: str, seeds: Sequence[int], seconds: float) -> tuple[float, float]:
    """Print a line; how many times as fast the best kernel is as the naive start and `tuned`."""
    shape = parse_shape(name)
    bound, _ = roofline_ns(shape.workload("trainium"), load_machine("trn1"))
    naive, tuned = (modelled(shape, which)[0].latency_ns for which in ("naive", "tuned"))
    found = [search(name, seed, seconds) for seed in seeds]
    best = statistics.median(latency for latency, _ in found)
    first = statistics.median(at for _, at in found)
    print(
        f"{name:34} {naive / 1e3:9.1f} {best / 1e3:9.1f} {tuned / 1e3:9.1f} {bound / 1e3:9.1f} "
        f"{naive / best:6.2f}x {tuned / best:6.2f}x {first:6.1f} s",
        flush=True,
    )
    return naive / best, tuned / best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; all by default")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    names = options.names or list(REGISTERED)
    if names == ["tutorial"]:
        names = TUTORIAL
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {options.seconds:g} s each")
    print("workload, us: naive, found, tuned, roofline; found over naive, over tuned; first gain")
    gains = [row(name, range(options.seeds), options.seconds) for name in names]
    means = [statistics.geometric_mean(column) for column in zip(*gains, strict=True)]
    print(f"geometric means: {means[0]:.2f}x over naive, {means[1]:.2f}x over tuned")


if __name__ == "__main__":
    main()
