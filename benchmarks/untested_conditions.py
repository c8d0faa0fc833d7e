"""What it costs a search that kernels are examined for conditions on input values.

    uv run python benchmarks/untested_conditions.py [WORKLOAD ...] [--pairs 20]

One candidate (the winner of a search in `benchmarks/winners`, or the starting kernel) is evaluated
as in a search in which it becomes the best kernel, alternately with and without its examination, in
random order. `rate` is the candidates per second with the examination over those without, the
median of all pairs, by wall time and by the CPU time of this process and its children (wanted: at
least 0.85). Candidates that are slower than their parents are not examined, so a search loses less.
"""

from __future__ import annotations

import argparse
import random
from statistics import median
from time import perf_counter
from unittest.mock import patch

from other_values import DEFAULT, PLENTY, cpu_s, source_of

from tilewright.core.records import Candidate, EvaluationRequest, Measured
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.native.checker import NativeChecker
from tilewright.targets.gemmini.examination import Examination

WORKLOADS = (*DEFAULT, "gemmini-fp32-4x4:tinympc-forward", "gemmini:gemm-512x512x512")


def seconds(name: str, pairs: int) -> list[dict[bool, tuple[float, float]]]:
    """Wall and CPU seconds of each pair's evaluations, with and without the examination."""
    task = open_task(name, {"input_seed": 1}).task
    source = source_of(name, task.start)
    found = []
    for number in range(pairs + 1):
        pair: dict[bool, tuple[float, float]] = {}
        for examined in random.sample((False, True), 2):
            # The starting kernel itself is not examined, so another text stands for a candidate.
            request = EvaluationRequest(Candidate(f"{source}\n/* {random.random()} */\n"), PLENTY)
            wall, cpu = perf_counter(), cpu_s()
            if examined:
                outcome = evaluate(task.evaluator, request)
            else:
                with (
                    patch.object(NativeChecker, "_untested", lambda *_: None),
                    patch.object(Examination, "failure", lambda *_: None),
                ):
                    outcome = evaluate(task.evaluator, request)
            pair[examined] = perf_counter() - wall, cpu_s() - cpu
            assert isinstance(outcome, Measured), outcome
        if number:  # the first pair also draws inputs and examines the starting kernel
            found.append(pair)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--pairs", type=int, default=20)
    options = parser.parse_args()
    for name in options.workloads:
        found = seconds(name, options.pairs)
        wall, cpu = (median(pair[False][i] / pair[True][i] for pair in found) for i in range(2))
        each = median(pair[True][1] for pair in found)
        print(
            f"{name}: {each:.2f} s of CPU time per candidate; rate {wall:.2f} by wall time, "
            f"{cpu:.2f} by CPU time ({len(found)} pairs)",
            flush=True,
        )


if __name__ == "__main__":
    main()
