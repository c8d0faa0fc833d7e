"""What keyless searches on `host-c` reach over the naive loops, measured on this machine.

    python benchmarks/host_c.py [--runs 7] [--seconds 60] [WORKLOAD ...]

For each workload: `--runs` searches with seeds 1, 2, ..., each winner evaluated once more in new
processes on fresh inputs. The speedup is that second evaluation's: the median over interleaved
pairs with the naive kernel. Printed are the median over the runs with the least and the largest,
candidates per second of search, the repeatability of the last winner's latency over five
evaluations, and the same operation by PyTorch (oneDNN; one thread) where that is installed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tilewright.core.config import Settings
from tilewright.core.errors import InputError, TilewrightError
from tilewright.core.records import Candidate, EvaluationRequest, Measured
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.native.machine import on_measuring_cores, processor
from tilewright.run import optimize
from tilewright.storage.project import open_project
from tilewright.targets.host_c.shapes import parse_shape
from tilewright.verification import recheck

WORKLOADS = (
    "softmax-256x1024", "softmax-1024x128", "layernorm-256x768", "rmsnorm-256x768",
    "attention-256x64", "gemm-128x128x128", "gemm-256x256x256",
)  # fmt: skip
REPEATS = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workloads", nargs="*", default=WORKLOADS, metavar="WORKLOAD")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each search")
    options = parser.parse_args()
    try:
        return measure(options)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def measure(options: argparse.Namespace) -> int:
    """The whole table. Raises `TilewrightError` before it starts what cannot be."""
    if options.runs < 1:
        raise InputError(f"--runs is {options.runs}: give a whole number of searches, 1 or more.")
    if not 0 < options.seconds < math.inf:
        raise InputError(f"--seconds is {options.seconds:g}: give a number of seconds above 0.")
    for name in options.workloads:
        parse_shape(name)
    library = torch_operations()
    print(f"measured on {processor().name}; {options.runs} runs of {options.seconds:g} s each")
    if not library:
        print("PyTorch is not installed: no library baseline (pip install torch)")
    print(f"{'workload':20} {'speedup over naive':>24} {'ns':>10} {'cand/s':>7} "
          f"{'repeats':>8} {'over library':>13}")  # fmt: skip
    for name in options.workloads:
        print(row(name, options.runs, options.seconds, library), flush=True)
    return 0


def row(name: str, runs: int, seconds: float, library: Mapping[str, Any]) -> str:
    """One line of the table."""
    speedups, rates, winner, last = [], [], "", None
    for seed in range(1, runs + 1):
        settings = Settings(seed=seed, max_wall_s=seconds, patience=99, iterations=99)
        with tempfile.TemporaryDirectory(prefix="host-c-") as folder:
            started = time.monotonic()
            summary = optimize(f"host-c:{name}", settings, project=Path(folder))
            rates.append(summary.evaluations / (time.monotonic() - started))
            history = open_project(Path(folder)).history(summary.run_id)
        assert history.best is not None
        winner = history.best.candidate.source
        again = recheck(f"host-c:{name}", settings.recorded(), Candidate(winner))
        assert isinstance(again, Measured), again
        speedups.append(100 / again.details["percent_of_baseline"])
        last = again
    assert last is not None
    spread = f"{min(speedups):.2f}..{max(speedups):.2f}"
    over = library_ratio(name, last.latency, library)
    return (
        f"{name:20} {statistics.median(speedups):7.2f}x {spread:>15} {last.latency:10,.0f} "
        f"{statistics.median(rates):7.2f} {repeatability(name, winner):8.1%} {over:>13}"
    )


def repeatability(name: str, source: str) -> float:
    """Largest difference between medians of repeated evaluations of one kernel."""
    evaluator = open_task(f"host-c:{name}", {"input_seed": 1}).task.evaluator
    found = [evaluate(evaluator, EvaluationRequest(Candidate(source))) for _ in range(REPEATS)]
    latencies = [f.latency for f in found if isinstance(f, Measured)]
    return max(latencies) / min(latencies) - 1


def library_ratio(name: str, latency_ns: float, library: Mapping[str, Any]) -> str:
    """The library's median CPU time over the winner's latency."""
    kind, _, text = name.partition("-")
    if kind not in library:
        return "-"
    call: Callable[[], object] = library[kind](*(int(size) for size in text.split("x")))
    samples = []
    with on_measuring_cores():
        for _ in range(60):
            started = time.process_time_ns()
            call()
            samples.append(time.process_time_ns() - started)
    return f"{statistics.median(samples[10:]) / latency_ns:.2f}x"


def torch_operations() -> dict[str, Any]:
    """Makers of the same operations by PyTorch on one thread, by kind; empty without it."""
    try:
        import torch
        from torch.nn import functional
    except ImportError:
        return {}
    torch.set_num_threads(1)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape)

    def attention(rows: int, columns: int) -> Callable[[], object]:
        q, k, v = (normal(1, rows, columns) for _ in range(3))
        return lambda: functional.scaled_dot_product_attention(q, k, v)

    def layernorm(rows: int, columns: int) -> Callable[[], object]:
        x, gain, bias = normal(rows, columns), normal(columns), normal(columns)
        return lambda: functional.layer_norm(x, (columns,), gain, bias)

    def softmax(rows: int, columns: int) -> Callable[[], object]:
        x = normal(rows, columns)
        return lambda: torch.softmax(x, 1)

    def gemm(m: int, n: int, k: int) -> Callable[[], object]:
        a, b = normal(m, k), normal(k, n)
        return lambda: a @ b

    return {"attention": attention, "layernorm": layernorm, "softmax": softmax, "gemm": gemm}


if __name__ == "__main__":
    sys.exit(main())
