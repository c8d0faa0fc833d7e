"""Compares the Trainium latency model with published latencies of kernels on trn1.

    python benchmarks/trainium_model.py [gemm|attention|conv1d ...] [--halves]

The kernels in benchmarks/trainium_steps were written for this project, from the instructions and
transfers with which the published steps are described. With `--halves`, the parameters marked [fit]
in trn1.toml that were chosen on these points (`start_cycles`, `descriptor`, `semaphore`) are fitted
on every other step, and the error on the other steps is printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.core.records import Argument
from tilewright.targets.trainium.latency.model import estimate
from tilewright.targets.trainium.machine import Machine, load_machine
from tilewright.targets.trainium.program import Call, parse, trace_program
from tilewright.targets.trainium.trace import Trace

STEPS = Path(__file__).parent / "trainium_steps"
PUBLISHED_US: Mapping[str, Mapping[int, float]] = {
    "gemm": {0: 20990, 1: 28680, 2: 11800, 3: 8070, 4: 7620, 5: 6960},
    "attention": {
        0: 3093, 1: 2879, 2: 1569, 3: 1016, 4: 691, 5: 682, 7: 579, 8: 411, 9: 409, 10: 293,
    },
    "conv1d": {0: 8007, 3: 7934, 4: 5602, 5: 4955, 6: 461},
}  # fmt: skip
"""On trn1.2xlarge, by step, from the published traces; steps with the same instructions as their
predecessor are left out."""
DIFFERENT = 1.05
"""Pairs of steps whose published latencies differ by less than this are not ordered."""


def _array(name: str, *shape: int, dtype: str = "float32", output: bool = False) -> Argument:
    return Argument(name, shape, dtype, "output" if output else "input")


CALLS: Mapping[str, Call] = {
    "gemm": Call(
        (
            _array("lhsT", 8192, 4096, dtype="bfloat16"),
            _array("rhs", 8192, 8192, dtype="bfloat16"),
        ),
        (_array("out", 4096, 8192, dtype="bfloat16", output=True),),
        {},
    ),
    "attention": Call(
        tuple(_array(name, 128, 4096) for name in "qkv"),
        (_array("out", 4096, 128, output=True),),
        {},
    ),
    "conv1d": Call(
        (_array("img", 8, 512, 1, 2048), _array("filt", 512, 1, 1, 3)),
        (_array("out", 8, 512, 1, 2048, output=True),),
        {},
    ),
}


def traced(kind: str, step: int, machine: Machine) -> Trace:
    """The trace of one step."""
    source = (STEPS / f"{kind}.py").read_text(encoding="utf-8")
    return trace_program(parse(re.sub(rf"\bstep_{step}\b", "kernel", source)), CALLS[kind], machine)


def geometric_error(ratios: Sequence[float]) -> float:
    """Geometric mean of how many times too high or too low."""
    return math.exp(sum(abs(math.log(ratio)) for ratio in ratios) / len(ratios))


def ordered_pairs(modelled: Mapping[int, float], published: Mapping[int, float]) -> tuple[int, int]:
    """Pairs that differ enough, and how many of them the model orders rightly."""
    pairs = [
        (a, b)
        for a, b in itertools.combinations(published, 2)
        if max(published[a], published[b]) > DIFFERENT * min(published[a], published[b])
    ]
    right = sum((modelled[a] < modelled[b]) == (published[a] < published[b]) for a, b in pairs)
    return len(pairs), right


def table(traces: Mapping[tuple[str, int], Trace], machine: Machine) -> None:
    """Every step, then each kind's mean and worst error and its pairs in order."""
    for kind, published in PUBLISHED_US.items():
        steps = [step for k, step in traces if k == kind]
        if not steps:
            continue
        modelled = {}
        print(f"{kind}: step, modelled us, published us, ratio, busiest")
        for step in steps:
            found = estimate(traces[kind, step], machine)
            modelled[step] = found.latency_ns / 1e3
            ratio = modelled[step] / published[step]
            print(
                f"{step:6} {modelled[step]:10.0f} {published[step]:10.0f} {ratio:6.2f}  "
                f"{found.busiest}"
            )
        ratios = [modelled[step] / published[step] for step in steps]
        count, right = ordered_pairs(modelled, published)
        print(
            f"  geometric mean error {geometric_error(ratios):.3f}, "
            f"worst {max(max(r, 1 / r) for r in ratios):.2f}, "
            f"{right} of {count} pairs in the right order"
        )


def changed(machine: Machine, start: float, descriptor: float, semaphore: float) -> Machine:
    """The machine with other values of the fitted parameters."""
    issue = dataclasses.replace(machine.issue, start_cycles=start, semaphore=semaphore)
    dma = dataclasses.replace(machine.dma, descriptor=descriptor)
    return dataclasses.replace(machine, issue=issue, dma=dma)


def halves(traces: Mapping[tuple[str, int], Trace], machine: Machine) -> None:
    """Fitted on every other step, the error on the others; both ways."""
    keys = list(traces)
    grid = list(itertools.product((45, 55, 65), (5, 10, 20), (50, 100)))
    ratios = {
        values: [
            estimate(traces[kind, step], changed(machine, *values)).latency_ns
            / 1e3
            / PUBLISHED_US[kind][step]
            for kind, step in keys
        ]
        for values in grid
    }
    for first in (0, 1):
        best = min(grid, key=lambda values: geometric_error(ratios[values][first::2]))
        print(
            f"fitted on half {first + 1}: start, descriptor, semaphore = {best}; error on it "
            f"{geometric_error(ratios[best][first::2]):.3f}, on the other half "
            f"{geometric_error(ratios[best][1 - first :: 2]):.3f}"
        )


def main() -> None:
    """Print the tables that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="gemm, attention, conv1d")
    parser.add_argument("--halves", action="store_true", help="fit on one half of the steps")
    options = parser.parse_args()
    for kind in options.kinds:
        if kind not in PUBLISHED_US:
            parser.error(f"unknown kind {kind!r}: choose from {', '.join(PUBLISHED_US)}")
    machine = load_machine("trn1")
    chosen = options.kinds or list(PUBLISHED_US)
    traces = {
        (kind, step): traced(kind, step, machine) for kind in chosen for step in PUBLISHED_US[kind]
    }
    table(traces, machine)
    if options.halves:
        halves(traces, machine)


if __name__ == "__main__":
    main()
