"""How fast the co-simulator runs the naive gemm-12544x64x256, on one core.

python benchmarks/sim_speed.py [WORKLOAD]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import tilewright.targets.gemmini
from tilewright.core.records import Candidate, Failed
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.memory import argument_addresses
from tilewright.targets.gemmini.sim import Region, load_config, run_kernel

REPEATS = 3


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "gemm-12544x64x256"
    task = create_target().open(name, {})
    artifact = task.evaluator[0].build(Candidate(task.start))
    if isinstance(artifact, Failed):
        raise SystemExit(artifact.log)
    config = load_config(Path(tilewright.targets.gemmini.__file__).parent / "target.toml")
    generator = np.random.default_rng(0)
    arrays = [
        generator.integers(-128, 128, argument.shape, dtype=np.int8)
        for argument in task.workload.arguments
    ]
    regions = [
        Region(address, array, argument.is_written, argument.name)
        for address, array, argument in zip(
            argument_addresses([a.nbytes for a in arrays]),
            arrays,
            task.workload.arguments,
            strict=True,
        )
    ]
    for timing in (False, True):
        seconds = float("inf")
        for _ in range(REPEATS):
            start = time.process_time()
            result = run_kernel(config, artifact.binary, regions, timing=timing)
            seconds = min(seconds, time.process_time() - start)
        what = "with timing" if timing else "functional"
        rate = f", {result.cycles / seconds / 1e6:.2f} million cycles/s" if timing else ""
        print(f"{name} {what}: {result.status}, {result.cycles} cycles, {seconds:.3f} s{rate}")


if __name__ == "__main__":
    main()
