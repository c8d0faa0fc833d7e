"""Compares where the built-in rewriter ends from the naive and the `tuned` kernels of workloads.

    python benchmarks/trainium_starts.py [NAME ...] [--folders NAIVE START ...] [--without STEP] ...

Both ends are the fastest kernel of the rewriter's complete plans by modelled latency, without
bfloat16 and without a search, so they depend on nothing but the code. The columns are modelled
microseconds: the naive start and its end, the other start and its end, and how many times as fast
the second end is as the first. With `--folders`, pairs of kernel folders of one task are compared
instead of workloads, the naive kernel first. `--without` leaves out techniques.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewright.core.records import Workload
from tilewright.proposers.nki.planning.planner import complete_sequences
from tilewright.proposers.nki.planning.polishing import polished
from tilewright.proposers.nki.planning.steps import TECHNIQUES
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.kernel import read
from tilewright.targets.trainium.shapes import REGISTERED
from tilewright.targets.trainium.target import TrainiumTarget

LARGE = ("conv2d-16x128x128x128x512-k3",)
"""Workloads that take too long for the table unless they are named."""


def ended(
    target: TrainiumTarget, source: str, workload: Workload, without: Sequence[str]
) -> tuple[float, float, str]:
    """Modelled microseconds of a kernel and of the fastest plan's kernel, and the plan's steps."""
    brief = target.brief()
    assert brief.model is not None
    model = brief.model
    kernel = read(source, workload, brief.language)
    techniques = [name for name in TECHNIQUES if name not in ("narrow", *without)]
    made = [((), kernel), *complete_sequences(kernel, techniques)]
    best = polished(made, techniques, lambda k: model(print_kernel(k), workload))
    start = model(source, workload)
    assert start is not None
    if best is None:
        return start / 1e3, start / 1e3, "nothing"
    end = model(print_kernel(best[1]), workload)
    assert end is not None
    return start / 1e3, min(start, end) / 1e3, "; ".join(map(str, best[0]))


def pairs(options: argparse.Namespace) -> Iterator[tuple[str, Workload, str, str]]:
    """Names of tasks, with their naive and their other start."""
    target = TrainiumTarget("trainium", "trn1")
    folders = options.folders or ()
    for naive, other in zip(folders[::2], folders[1::2], strict=True):
        tasks = [target.open_folder(Path(folder), {}) for folder in (naive, other)]
        yield Path(other).name, tasks[0].workload, tasks[0].start, tasks[1].start
    for name in options.names or ([] if folders else [n for n in REGISTERED if n not in LARGE]):
        task = target.open(name, {})
        yield name, task.workload, task.start, task.baselines["tuned"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; 14 by default")
    parser.add_argument("--folders", nargs="+")
    parser.add_argument("--without", action="append", default=[], metavar="STEP")
    options = parser.parse_args()
    target, gains = TrainiumTarget("trainium", "trn1"), []
    for name, workload, naive, other in pairs(options):
        begin = time.process_time()
        start, end, steps = ended(target, naive, workload, options.without)
        second_start, second_end, second_steps = ended(target, other, workload, options.without)
        gains.append(end / second_end)
        print(
            f"{name:34} {start:9.1f} {end:9.1f}  {second_start:9.1f} {second_end:9.1f} "
            f"{gains[-1]:6.3f}x  {time.process_time() - begin:4.0f} s of CPU\n"
            f"    naive: {steps}\n    other: {second_steps}",
            flush=True,
        )
    worse = sum(gain < 0.99 for gain in gains)
    mean = statistics.geometric_mean(gains)
    print(f"{worse} of {len(gains)} ends are more than 1 % worse; geometric mean {mean:.3f}x")


if __name__ == "__main__":
    main()
