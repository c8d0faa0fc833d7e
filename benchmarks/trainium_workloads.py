"""Prints the naive start, the `tuned` baseline and the roofline of the fifteen Trainium workloads.

    python benchmarks/trainium_workloads.py [NAME ...]

Latencies are modelled for trn1. The table does not contain PyTorch through the vendor's compiler,
which needs the AWS Neuron SDK.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from tilewright import targets
from tilewright.targets.trainium.latency.model import Estimate, estimate
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import Call, parse, trace_program
from tilewright.targets.trainium.roofline import roofline_ns
from tilewright.targets.trainium.shapes import REGISTERED, Shape, parse_shape

LIBRARY = Path(targets.__file__).parent / "trainium" / "library"


def call_of(shape: Shape) -> Call:
    """What kernels of a workload are called with."""
    return Call(
        tuple(a for a in shape.arguments if a.is_given),
        tuple(a for a in shape.arguments if a.is_written),
        shape.constants,
    )


def modelled(shape: Shape, which: str) -> tuple[Estimate, float]:
    """The estimate of one of the workload's kernels, and the seconds that it took."""
    machine = load_machine("trn1")
    source = (LIBRARY / which / f"{shape.kind}.py").read_text(encoding="utf-8")
    begin = time.perf_counter()
    found = estimate(trace_program(parse(source), call_of(shape), machine), machine)
    return found, time.perf_counter() - begin


def main() -> None:
    """Print one line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; all by default")
    names = parser.parse_args().names or list(REGISTERED)
    print(
        "workload, naive us, tuned us (modelled), tuned over naive, roofline us, tuned's share of "
        "the roofline, tuned's busiest, s to trace and model naive"
    )
    gains = []
    for name in names:
        shape = parse_shape(name)
        bound, _ = roofline_ns(shape.workload("trainium"), load_machine("trn1"))
        naive, seconds = modelled(shape, "naive")
        tuned, _ = modelled(shape, "tuned")
        gains.append(naive.latency_ns / tuned.latency_ns)
        print(
            f"{name:34} {naive.latency_ns / 1e3:9.1f} {tuned.latency_ns / 1e3:9.1f} "
            f"{gains[-1]:6.2f}x {bound / 1e3:8.1f} {bound / tuned.latency_ns:6.1%}  "
            f"{tuned.busiest:9} {seconds:5.1f}"
        )
    mean = math.exp(sum(math.log(gain) for gain in gains) / len(gains))
    print(f"geometric mean of tuned over naive: {mean:.2f}x")


if __name__ == "__main__":
    main()
