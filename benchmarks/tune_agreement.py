"""Compares the tuner's closed forms with TVM's lowering of candidates.

The benchmark generates random candidates that the closed form considers valid, schedules and lowers
each with TVM, and compares grid, virtual threads, threads, shared bytes and register tile. A
candidate that TVM's own checks reject counts as a mismatch too. With `--unchecked`, it also
generates candidates without the check, and lists those on which TVM and the closed form disagree,
grouped by the reason for which the closed form rejects them.

    python benchmarks/tune_agreement.py [--workloads M1 M4 R2 R4 R11 Y0] [--count 1000]

The count is for all workloads together; half of the candidates are from the restricted space.
"""

import argparse
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from tilewright.tuner.candidates import Candidates
from tilewright.tuner.features.gpu import GpuFeatures
from tilewright.tuner.space import TileSpace
from tilewright.tuner.tvm.cuda import cuda_space
from tilewright.tuner.tvm.lowered import lowered_kernel
from tilewright.tuner.tvm.programs import benchmark_program
from tilewright.tuner.tvm.targets import parse_target
from tilewright.tuner.tvm.template import Template

SIX = ("M1", "M4", "R2", "R4", "R11", "Y0")
FIELDS = ("grid", "vthreads", "threads", "shared_bytes", "register_tile")


@dataclass
class Agreement:
    """Counts of one workload in one space."""

    compared: int = 0
    rejected: int = 0
    differing: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def mismatches(self) -> int:
        """Candidates that TVM rejects, and fields that differ."""
        return self.rejected + sum(self.differing.values())


def compare(template: Template, features: GpuFeatures, points: Candidates) -> Agreement:
    """Every candidate scheduled, lowered and compared."""
    found, started = Agreement(), time.perf_counter()
    closed = features.shape(points)
    for row in range(len(points)):
        found.compared += 1
        schedule = template.schedule(points[[row]])
        if schedule is None:
            found.rejected += 1
            print("  rejected:", points.tiles[row].tolist(), points.knobs[row].tolist())
            continue
        kernel = lowered_kernel(schedule.mod)
        for name in FIELDS:
            if int(getattr(closed, name)[row]) != getattr(kernel, name):
                found.differing[name] += 1
                print("  differs:", name, points.tiles[row].tolist(), points.knobs[row].tolist())
    found.seconds = time.perf_counter() - started
    return found


def disagreements(template: Template, features: GpuFeatures, points: Candidates) -> Counter[str]:
    """Where TVM's checks and the closed form differ on candidates drawn without any check."""
    valid, closed = features.valid(points), features.shape(points)
    found: Counter[str] = Counter()
    for row in range(len(points)):
        accepted = template.schedule(points[[row]]) is not None
        if accepted and not valid[row]:
            many = closed.register_tile[row] > 256
            found["TVM accepts more than 256 accumulators" if many else "TVM accepts, other"] += 1
        elif valid[row] and not accepted:
            found["TVM rejects"] += 1
        else:
            found["same"] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workloads", nargs="+", default=list(SIX))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--unchecked", type=int, default=0)
    parser.add_argument("--device", default="h100")
    arguments = parser.parse_args()
    target = parse_target(f"nvidia/{arguments.device}")
    share = -(-arguments.count // (2 * len(arguments.workloads)))
    compared = mismatches = 0
    print(f"{'workload':<9} {'space':<11} {'compared':>8} {'rejected':>8} {'differ':>6} {'s':>6}")
    for identifier in arguments.workloads:
        for restricted in (False, True):
            drawn = cuda_space(benchmark_program(identifier), target, restricted=restricted)
            points = drawn.space.random(share, np.random.default_rng(0))
            found = compare(drawn.template, drawn.features, points)
            compared, mismatches = compared + found.compared, mismatches + found.mismatches
            print(
                f"{identifier:<9} {'restricted' if restricted else 'template':<11} "
                f"{found.compared:8d} {found.rejected:8d} {sum(found.differing.values()):6d} "
                f"{found.seconds:6.1f}"
            )
            if arguments.unchecked:
                free = TileSpace(drawn.features.workload, drawn.features.structure)
                points = free.random(arguments.unchecked, np.random.default_rng(1))
                print("  unchecked:", dict(disagreements(drawn.template, drawn.features, points)))
    print(f"{compared} valid candidates compared with TVM's lowered code: {mismatches} mismatches")


if __name__ == "__main__":
    main()
