r"""Measures the benefit of an earlier run's schedule: the same search with and without `--from`.

In each chain of shapes, the first shape is searched at length. Each further shape is then searched
briefly, once without and once with the schedule of the previous shape. Speedups are relative to the
shape's naive kernel, in simulated cycles.

    uv run python benchmarks/reuse.py
    uv run python benchmarks/reuse.py --long 100 --short 13 gemmini:gemm-512x512x512 \
        gemmini:gemm-256x256x256
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tilewright.core.config import Settings
from tilewright.core.records import History
from tilewright.run import open_project, optimize

CHAINS = (
    ("gemmini:gemm-1024x1024x1024", "gemmini:gemm-512x512x512", "gemmini:gemm-256x256x256"),
    ("gemmini:gemm-12544x64x256", "gemmini:gemm-6272x64x256"),
)


def search(task: str, project: Path, seed: int, evaluations: int, source: str = "") -> str:
    settings = Settings(seed=seed, max_evaluations=evaluations, schedule_from=source, reuse=False)
    return optimize(task, settings, project=project).run_id


def history_of(project: Path, run_id: str) -> History:
    storage = open_project(project)
    try:
        return storage.history(run_id)
    finally:
        storage.close()


def speedups(history: History) -> list[float]:
    """Best speedup after each evaluation, the starting kernel's first."""
    best, found = float("inf"), []
    for trial in history:
        best = min(best, trial.latency or best)
        found.append((history[0].latency or 0.0) / best)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chain", nargs="*", help="workloads, each to reuse the one before")
    parser.add_argument("--long", type=int, default=150, help="evaluations of a chain's first")
    parser.add_argument("--short", type=int, default=40, help="evaluations of the others")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    table = Table(title=f"Schedules reused (seed {options.seed})")
    for column in ("workload", "evaluations", "alone", "reused", "evaluations alone to reach it"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    chains: Sequence[Sequence[str]] = [options.chain] if options.chain else CHAINS
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        for first, *others in chains:
            source = search(first, project, options.seed, options.long)
            best = speedups(history_of(project, source))[-1]
            table.add_row(first, str(options.long), f"{best:.2f}x", "", "")
            for task in others:
                alone = speedups(
                    history_of(project, search(task, project, options.seed, options.long))
                )
                source = search(task, project, options.seed, options.short, source)
                reused = speedups(history_of(project, source))
                for count in (7, options.short):
                    gain = reused[min(count, len(reused)) - 1]
                    needed = next((n for n, s in enumerate(alone, 1) if s >= gain), None)
                    table.add_row(
                        task,
                        str(count),
                        f"{alone[min(count, len(alone)) - 1]:.2f}x",
                        f"{gain:.2f}x",
                        str(needed) if needed else f"more than {len(alone)}",
                    )
    Console().print(table)


if __name__ == "__main__":
    main()
