"""What containing the compiler adds to one candidate.

Compiles the same kernel with and without containment in pairs of random order, and prints medians
of wall and CPU time per compilation (of this process and its children; bubblewrap does not pass on
its children's). On a loaded machine, wall times are the load's; differences of CPU time hardly are.

    uv run python benchmarks/sandbox.py [--rounds 40] [--workload gemmini:gemm-512x512x512]
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.core.records import Candidate, Failed
from tilewright.core.roles import Builder
from tilewright.core.tasks import open_task
from tilewright.sandbox import UNCONTAINED, Sandbox
from tilewright.targets.gemmini import toolchain as toolchains


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--workload", default="gemmini:gemm-512x512x512")
    arguments = parser.parse_args()
    task = open_task(arguments.workload, {}).task
    builder, start = task.evaluator[0], Candidate(task.start)
    toolchain = toolchains.find_toolchain()
    contained = toolchains.compiler_sandbox(toolchain)
    sandboxes = {contained.name: contained, "none": replace(contained, level=UNCONTAINED)}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in sandboxes}
    with_sandbox: Callable[[Any], Sandbox] = toolchains.compiler_sandbox
    try:
        for _ in range(arguments.rounds):
            for name in random.sample(list(sandboxes), len(sandboxes)):
                chosen = sandboxes[name]
                toolchains.compiler_sandbox = lambda _, chosen=chosen: chosen  # type: ignore
                samples[name].append(_timed(builder, start))
    finally:
        toolchains.compiler_sandbox = with_sandbox  # type: ignore[assignment]
    print(f"{toolchain.id}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    medians = {
        name: tuple(statistics.median(column) for column in zip(*values, strict=True))
        for name, values in samples.items()
    }
    for name, (wall_ms, cpu_ms) in medians.items():
        print(f"{name:28} wall {wall_ms:7.1f} ms   CPU {cpu_ms:7.1f} ms per compilation")
    pairs = zip(samples[contained.name], samples["none"], strict=True)
    added = [(a[0] - b[0], a[1] - b[1]) for a, b in pairs]
    wall, cpu = (statistics.median(column) for column in zip(*added, strict=True))
    print(f"added, median of pairs       wall {wall:7.1f} ms   CPU {cpu:7.1f} ms")


def _timed(builder: Builder, start: Candidate) -> tuple[float, float]:
    """Milliseconds of wall and CPU time of one compilation."""
    wall, cpu = time.perf_counter(), _cpu_s()
    built = builder.build(start)
    assert not isinstance(built, Failed), built.log
    return 1000 * (time.perf_counter() - wall), 1000 * (_cpu_s() - cpu)


def _cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


if __name__ == "__main__":
    main()
