"""Measures how fast the co-simulator runs naive kernels, in simulated cycles per CPU second.

Without workloads, it runs the six ResNet-50 GEMMs and prints the geometric mean of their rates.
Peak memory is that of the whole process, including Python and the arrays.

python benchmarks/sim_speed.py [WORKLOAD ...]
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import tilewright.targets.gemmini
from tilewright.core.records import Candidate, Failed
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.memory import argument_addresses
from tilewright.targets.gemmini.sim import Region, SimResult, load_config, run_kernel

GEMMS = (
    "gemm-512x512x512",
    "gemm-12544x64x256",
    "gemm-12544x256x64",
    "gemm-3136x128x512",
    "gemm-3136x512x128",
    "gemm-784x256x1024",
)
GOAL = 10e6
REPEATS = 3


def fastest(run: list[tuple[float, SimResult]]) -> tuple[float, SimResult]:
    """The run that took the least CPU time, with its seconds."""
    return min(run, key=lambda timed: timed[0])


def rate(name: str) -> float:
    """Simulated cycles per CPU second of a workload's starting kernel; prints its row."""
    task = create_target().open(name, {})
    artifact = task.evaluator[0].build(Candidate(task.start))
    if isinstance(artifact, Failed):
        raise SystemExit(artifact.log)
    config = load_config(Path(tilewright.targets.gemmini.__file__).parent / "target.toml")
    generator = np.random.default_rng(0)
    arguments = task.workload.arguments
    arrays = [generator.integers(-128, 128, a.shape).astype(a.dtype) for a in arguments]
    addresses = argument_addresses([a.nbytes for a in arrays])
    regions = [
        Region(address, array, argument.is_written, argument.name)
        for address, array, argument in zip(addresses, arrays, arguments, strict=True)
    ]

    def timed(timing: bool) -> tuple[float, SimResult]:
        start = time.process_time()
        result = run_kernel(config, artifact.binary, regions, timing=timing)
        return time.process_time() - start, result

    functional_s, _ = fastest([timed(False) for _ in range(REPEATS)])
    seconds, result = fastest([timed(True) for _ in range(REPEATS)])
    found = result.cycles / seconds
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name:28} {result.status} {result.cycles:10} cycles  functional {functional_s:.3f} s  "
        f"timed {seconds:.3f} s  {found / 1e6:6.2f} million cycles/s  peak {peak_mb:.0f} MB"
    )
    return found


def main() -> None:
    names = sys.argv[1:] or GEMMS
    rates = [rate(name) for name in names]
    mean = statistics.geometric_mean(rates)
    print(f"geometric mean {mean / 1e6:.2f} million cycles/s (goal: {GOAL / 1e6:g})")


if __name__ == "__main__":
    main()
