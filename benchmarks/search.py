"""Measures searches without a language model: speedup over the naive start, and utilisation.

Each run starts from an empty project, so nothing comes from a cache. Cycles are simulated.

    uv run python benchmarks/search.py                       # the demo, 5 seeds; three more GEMMs
    uv run python benchmarks/search.py --seeds 1 --budget 30 gemmini:gemm-512x512x512
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tilewright.core.config import Settings
from tilewright.run import optimize
from tilewright.search.summary import Summary

DEMO = "gemmini:gemm-12544x64x256"
WORKLOADS = [
    DEMO,
    "gemmini:gemm-512x512x512",
    "gemmini:gemm-3136x128x512",
    "gemmini:gemm-784x256x1024",
]


def search(workload: str, seed: int, budget_s: float) -> Summary:
    """One run with the default search settings in a fresh project."""
    with tempfile.TemporaryDirectory() as project:
        return optimize(
            workload,
            Settings(seed=seed, max_wall_s=budget_s, stop_within=0.0),
            project=Path(project),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0..N-1 per workload")
    parser.add_argument("--budget", type=float, default=90.0, help="wall seconds per run")
    parser.add_argument("--json", type=Path, help="write every run's summary to this file")
    options = parser.parse_args()
    console = Console()
    table = Table(title="Keyless search, simulated cycles")
    for column in ("workload", "seed", "naive", "best", "speedup", "utilisation", "evals", "wall"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    summaries: list[Summary] = []
    for workload in options.workloads:
        speedups = []
        for seed in range(options.seeds):
            found = search(workload, seed, options.budget)
            summaries.append(found)
            speedups.append(found.speedup or 0.0)
            row = [
                workload,
                str(seed),
                f"{found.baseline_latency:,.0f}",
                f"{found.best_latency:,.0f}",
                f"{found.speedup:.2f}x",
                f"{100 * (found.best_utilization or 0):.1f} %",
                str(found.evaluations),
                f"{found.wall_s:.0f} s",
            ]
            table.add_row(*row)
            console.print("  ".join(row))
        median = statistics.median(speedups)
        table.add_row(workload, "median", "", "", f"{median:.2f}x", "", "", "", end_section=True)
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps([asdict(s) for s in summaries], indent=2))


if __name__ == "__main__":
    main()
