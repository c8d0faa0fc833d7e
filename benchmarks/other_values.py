"""Measures the cost of also calling timed kernels on other values in a search on host-c.

    uv run python benchmarks/other_values.py [WORKLOAD ...] [--pairs 20]

One candidate (the winner of a search in `benchmarks/winners`, or the starting kernel) is evaluated
as in a search, alternately with and without these calls, in random order. `rate` is the number of
candidates per second with the calls divided by that without: the median of all pairs, by wall time
and by the CPU time of this process and its children (goal: at least 0.85).
"""

from __future__ import annotations

import argparse
import random
import resource
from pathlib import Path
from statistics import median
from time import perf_counter

from tilewright.core.records import Candidate, EvaluationRequest, Measured
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.native import calls

WINNERS = Path(__file__).with_name("winners")
DEFAULT = ("host-c:softmax-256x1024", "host-c:layernorm-256x768", "host-c:gemm-128x128x128")
PLENTY = 1e12
"""A limit in nanoseconds that no kernel reaches. With one, most checks come after the timing."""
SHARE = calls.OTHER_VALUES


def cpu_s() -> float:
    """CPU seconds of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def source_of(name: str, start: str) -> str:
    target, _, spec = name.partition(":")
    winner = WINNERS / target / f"{spec}.c"
    return winner.read_text(encoding="utf-8") if winner.exists() else start


def seconds(name: str, pairs: int) -> list[dict[float, tuple[float, float]]]:
    """Wall and CPU seconds of each pair's evaluations, by the share of calls on other values."""
    task = open_task(name, {"input_seed": 1}).task
    request = EvaluationRequest(Candidate(source_of(name, task.start)), PLENTY)
    found = []
    for number in range(pairs + 1):
        pair: dict[float, tuple[float, float]] = {}
        for share in random.sample((0.0, SHARE), 2):
            calls.OTHER_VALUES = share
            wall, cpu = perf_counter(), cpu_s()
            outcome = evaluate(task.evaluator, request)
            pair[share] = perf_counter() - wall, cpu_s() - cpu
            assert isinstance(outcome, Measured), outcome
        if number:  # the first pair also draws inputs and computes expected outputs
            found.append(pair)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=DEFAULT)
    parser.add_argument("--pairs", type=int, default=20)
    options = parser.parse_args()
    for name in options.workloads:
        found = seconds(name, options.pairs)
        wall, cpu = (median(pair[0.0][i] / pair[SHARE][i] for pair in found) for i in range(2))
        each = median(pair[SHARE][0] for pair in found)
        print(
            f"{name}: {each:.2f} s per candidate; rate {wall:.2f} by wall time, {cpu:.2f} by CPU "
            f"time ({len(found)} pairs)"
        )


if __name__ == "__main__":
    main()
