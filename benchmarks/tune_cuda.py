"""Generates and compiles CUDA kernels of the paper's thirty workloads without a GPU.

For each workload, random candidates that the closed form considers valid are scheduled, turned into
CUDA C++ by TVM, and compiled to machine code with nvcc. ptxas reports registers and spills. A
candidate "fits" if it launches and does not spill. Shared memory is compared with the closed form,
and any difference beyond the alignment of each tile is counted.

    python benchmarks/tune_cuda.py [--workloads M0 R2 ...] [--each 2] [--device h100] [--json FILE]
"""

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from tilewright.tuner.benchmark_set import IDENTIFIERS
from tilewright.tuner.device import GpuDevice
from tilewright.tuner.ptxas import KernelResources, Rejected, compile_resources
from tilewright.tuner.tvm.cuda import cuda_source, cuda_space
from tilewright.tuner.tvm.programs import benchmark_program
from tilewright.tuner.tvm.targets import TuningTarget, parse_target

ALIGNMENT = 64


@dataclass
class Compiled:
    """What became of one workload's candidates."""

    candidates: int = 0
    compiled: list[KernelResources] = field(default_factory=list)
    fits: int = 0
    shared_differs: int = 0
    failures: list[str] = field(default_factory=list)
    generate_s: float = 0.0
    compile_s: float = 0.0


def compile_candidates(identifier: str, target: TuningTarget, each: int, seed: int) -> Compiled:
    """Generate and compile random valid candidates of one workload, in the restricted space."""
    device = target.device
    assert isinstance(device, GpuDevice)
    drawn = cuda_space(benchmark_program(identifier), target, restricted=True)
    points = drawn.space.random(each, np.random.default_rng(seed))
    shape = drawn.features.shape(points)
    found = Compiled(candidates=len(points))
    for row in range(len(points)):
        started = time.perf_counter()
        schedule = drawn.template.schedule(points[[row]])
        if schedule is None:
            found.failures.append("TVM rejects the schedule")
            continue
        source = cuda_source(schedule.mod, target.target)
        generated = time.perf_counter()
        report = compile_resources(source, device.arch)
        found.generate_s += generated - started
        found.compile_s += time.perf_counter() - generated
        if isinstance(report, Rejected):
            found.failures.append(report.log)
            continue
        found.compiled.append(report)
        found.fits += report.fits(device, int(shape.threads[row]))
        padding = report.shared_bytes - int(shape.shared_bytes[row])
        found.shared_differs += not 0 <= padding < ALIGNMENT * len(shape.shared_shapes)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workloads", nargs="+", default=list(IDENTIFIERS))
    parser.add_argument("--each", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="h100")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    target = parse_target(f"nvidia/{arguments.device}")
    assert isinstance(target.device, GpuDevice)
    print(f"{target.device.name} ({target.device.arch}), {arguments.each} candidates a workload")
    print("workload compiled fits registers (median, most) spilled shared differs  generate  nvcc")
    rows, compiled, candidates = [], 0, 0
    for identifier in arguments.workloads:
        found = compile_candidates(identifier, target, arguments.each, arguments.seed)
        registers = [kernel.registers for kernel in found.compiled] or [0]
        spilled = sum(kernel.spill_store_bytes > 0 for kernel in found.compiled)
        candidates, compiled = candidates + found.candidates, compiled + len(found.compiled)
        count = max(found.candidates, 1)
        print(
            f"{identifier:<8} {len(found.compiled):3d}/{found.candidates:<4d} {found.fits:4d} "
            f"{median(registers):13.0f} {max(registers):11d} {spilled:7d} "
            f"{found.shared_differs:14d} {found.generate_s / count:7.2f}s "
            f"{found.compile_s / count:4.1f}s",
            flush=True,
        )
        for failure in found.failures:
            print("   failed:", failure.splitlines()[-1])
        rows.append(
            {
                "workload": identifier,
                "candidates": found.candidates,
                "fits": found.fits,
                "shared_differs": found.shared_differs,
                "kernels": [vars(kernel) for kernel in found.compiled],
                "failures": found.failures,
            }
        )
    print(f"{compiled} of {candidates} kernels of {len(rows)} workloads compiled")
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"device": target.device.name, "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
