"""Measures the kernels that searches without a language model find with Intel's tile instructions.

    python benchmarks/amx.py [--target amx-int8] [--runs 7] [--seconds 300] [--results FILE]
                             [WORKLOAD ...]

Needs a processor with AMX. For each workload, the benchmark runs `--runs` searches with the seeds
1, 2, ... Each search ends by measuring its winner again, in three sessions of new processes on
fresh inputs. After each search, the baselines are measured on one thread, pinned to the same core:

naive      the starting kernel; speedups are medians over pairs with this kernel
compiler   plain loops, compiled with the flags of kernels (-O3), in the same pairs
library    PyTorch (oneDNN), measured by benchmarks/amx_library.py: the fastest of its calls

For each workload, the benchmark prints the speedup of the winners, their TOPS, the share of the
tiles' measured peak, the candidates per second, the largest noise of a winner, and the largest
difference between five evaluations of one winner. Numbers are medians over the searches, with 95 %
bootstrap intervals. At the end, it prints geometric means over ResNet-50's products with packed
weights and over the convolutions among the workloads (over all workloads if there is neither).

With `--results`, the same command continues after an interruption. Without PyTorch (`pip install
torch`; the CPU build is sufficient), there is no library baseline.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from amx_loops import plain_loops
from native_runs import (
    Kept,
    Record,
    check_effort,
    evaluated,
    exit_code,
    library,
    parser_of,
    percents,
    repeatability,
    search,
)
from numpy.typing import NDArray

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Measured
from tilewright.native.machine import processor
from tilewright.native.toolchain import find_toolchain
from tilewright.targets.amx.elements import BF16, INT8
from tilewright.targets.amx.shapes import parse_shape
from tilewright.targets.amx.support import refusal
from tilewright.timing.statistics import mean_of_medians_interval

ELEMENTS = {element.target: element for element in (INT8, BF16)}
RESNET = tuple(
    f"gemm-{sizes}-packed"
    for sizes in ("12544x64x256", "12544x256x64", "3136x128x512", "3136x512x128",
                  "784x256x1024", "784x1024x256")
)  # fmt: skip
CONVOLUTIONS = tuple(
    f"conv-{sizes}-k3s1" for sizes in ("4x56x56x64x64", "4x28x28x128x128", "4x14x14x256x256")
)
WORKLOADS = (*RESNET, "gemm-1024x1024x1024-packed", *CONVOLUTIONS)
BASELINES = ("naive", "compiler", "library")
FURTHER = ("TOPS", "of peak", "cand/s", "noise", "repeats: ns, ratio")
CONFIDENCE = 0.95

Logs = Mapping[str, NDArray[np.float64]]
"""By baseline, ln of how many times as fast each winner is; without those that are not there."""


def main() -> int:
    parser = parser_of(__doc__ or "", WORKLOADS, seconds=300.0)
    parser.add_argument("--target", choices=ELEMENTS, default="amx-int8")
    return exit_code(measure, parser.parse_args())


def measure(options: argparse.Namespace) -> int:
    """The whole table. Raises `TilewrightError` before it starts what cannot be."""
    check_effort(options)
    element = ELEMENTS[options.target]
    for name in options.workloads:
        parse_shape(name, element)
    kept = Kept(options.results)
    lacking = refusal(element)
    if lacking is not None:
        raise ToolchainMissingError(lacking)
    print(f"{options.target}, measured on {processor().name} ({find_toolchain().id}); library: "
          f"{pytorch()}")  # fmt: skip
    print(f"{options.runs} runs of {options.seconds:g} s each; times as fast as each baseline: "
          f"medians, with intervals of {CONFIDENCE:.0%}\n")  # fmt: skip
    print(f"| workload | {' | '.join((*BASELINES, *FURTHER))} |")
    print("|---" * (1 + len(BASELINES) + len(FURTHER)) + "|")
    found: dict[str, Logs] = {}
    for name in dict.fromkeys(options.workloads):
        found[name], line = row(options.target, name, options.runs, options.seconds, kept)
        print(line, flush=True)
    for label, names in groups(list(found)):
        print(f"| geometric mean of {len(names)}{label} | "
              + " | ".join(means([found[name] for name in names]))
              + " |" * (1 + len(FURTHER)))  # fmt: skip
    return 0


def pytorch() -> str:
    """Which one the library baseline is."""
    try:
        return f"PyTorch {importlib.metadata.version('torch')}"
    except importlib.metadata.PackageNotFoundError:
        return "none, PyTorch is not installed (pip install torch)"


def row(target: str, name: str, runs: int, seconds: float, kept: Kept) -> tuple[Logs, str]:
    """Ratios to each baseline, and one line of the table."""
    task = f"{target}:{name}"
    searches: list[Record] = []
    loops: list[float | None] = []
    calls: list[Mapping[str, float]] = []
    for seed in range(1, runs + 1):
        searches.append(kept.get((task, seconds, seed), partial(search, task, seed, seconds)))
        loops.append(kept.get((task, "loops", seed), partial(compiler_alone, target, name, seed)))
        ask = partial(library, "amx_library.py", target, name)
        calls.append(kept.get((task, "library", pytorch(), seed), ask))
    source = searches[-1]["source"]
    differs = kept.get((task, seconds, runs, "repeat"), partial(repeatability, task, source))
    logs, call = ratios(searches, loops, calls)
    cells = [times([logs[column]]) if column in logs else "-" for column in BASELINES]
    cells[BASELINES.index("library")] += f" {call}" if call else ""
    tops = statistics.median(s["tera_operations_per_s"] for s in searches)
    rate = statistics.median(s["rate"] for s in searches)
    noise = max(s["noise"] or 0.0 for s in searches)
    shares = np.array([s["share"] for s in searches])
    low, high = mean_of_medians_interval([shares], CONFIDENCE, seed=0)
    cells += [f"{tops:.2f}", f"{np.median(shares):.1%} ({low:.1%}..{high:.1%})", f"{rate:.2f}",
              f"{noise:.1%}", percents(differs)]  # fmt: skip
    return logs, f"| {name} | {' | '.join(cells)} |"


def compiler_alone(target: str, name: str, seed: int) -> float | None:
    """Time of the plain loops over the starting kernel's; None, with the reason, if they fail."""
    element = ELEMENTS[target]
    source = plain_loops(parse_shape(name, element), element)
    outcome = evaluated(f"{target}:{name}", source, seed)
    if isinstance(outcome, Measured):
        return outcome.details["percent_of_baseline"] / 100
    print(f"plain loops of {name}: {outcome.kind}: {outcome.log}", file=sys.stderr)
    return None


def ratios(
    searches: Sequence[Record],
    loops: Sequence[float | None],
    calls: Sequence[Mapping[str, float]],
) -> tuple[Logs, str]:
    """Of each search to the baselines measured after it, and the library's fastest call.

    `loops` are those of `compiler_alone`, `calls` the library's nanoseconds.
    """
    speedups = np.log([s["speedup"] for s in searches])
    logs = {"naive": speedups}
    known = [ratio for ratio in loops if ratio is not None]
    if len(known) == len(searches):
        logs["compiler"] = speedups + np.log(known)
    offered = set(calls[0]).intersection(*calls)
    medians = {call: statistics.median(found[call] for found in calls) for call in offered}
    fastest = min(medians, key=medians.__getitem__, default="")
    if fastest:
        logs["library"] = np.log([found[fastest] for found in calls])
        logs["library"] -= np.log([s["latency_ns"] for s in searches])
    return logs, fastest


def groups(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Workloads that a geometric mean is taken over, with what they are."""
    found = [
        (" (ResNet-50, packed)", [name for name in RESNET if name in names]),
        (" (3x3 convolutions)", [name for name in names if name.startswith("conv")]),
    ]
    return [group for group in found if group[1]] or [("", list(names))]


def means(found: Sequence[Logs]) -> list[str]:
    """Geometric means by baseline, where every workload has that."""
    return [
        times([logs[column] for logs in found]) if all(column in logs for logs in found) else "-"
        for column in BASELINES
    ]


def times(groups: Sequence[NDArray[np.float64]]) -> str:
    """The geometric mean of the groups' medians, with its interval, from logarithms."""
    middle: Any = np.mean([np.median(group) for group in groups])
    low, high = mean_of_medians_interval(groups, CONFIDENCE, seed=0)
    return f"{math.exp(middle):.2f}x ({math.exp(low):.2f}..{math.exp(high):.2f})"


if __name__ == "__main__":
    sys.exit(main())
