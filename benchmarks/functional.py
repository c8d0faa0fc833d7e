"""Compares naive and optimised kernels of random shapes with numpy.

Most shapes are ragged. Each naive kernel is optimised by a short search without a language model.
The naive kernel and the winner are then compared on fresh inputs, with several seeds of each
distribution.

    uv run python benchmarks/functional.py [--shapes 20] [--seed 0] [--evaluations 40]
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tilewright.core.config import Settings
from tilewright.core.records import Artifact, Candidate, Failed
from tilewright.core.roles import Task
from tilewright.core.tasks import open_task
from tilewright.run import open_project, optimize

FRESH_SEED = 987_654_321
FRESH_CHECKS = 8


def random_shape(rng: random.Random) -> str:
    """Sizes up to 200, a third of them multiples of 16."""
    sizes = [
        16 * rng.randint(1, 12) if rng.random() < 1 / 3 else rng.randint(1, 200) for _ in range(3)
    ]
    return "gemmini:gemm-" + "x".join(map(str, sizes))


def verdict(task: Task, source: str) -> str:
    """`equal`, or what went wrong."""
    builder, checker, _ = task.evaluator
    built = builder.build(Candidate(source))
    checked = checker.check(built) if isinstance(built, Artifact) else built
    return checked.log if isinstance(checked, Failed) else "equal"


def winner(workload: str, seed: int, evaluations: int) -> tuple[str, float]:
    """Best kernel of a short search, and its speedup."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        settings = Settings(seed=seed, max_evaluations=evaluations)
        summary = optimize(workload, settings, project=project)
        storage = open_project(project)
        best = storage.history(summary.run_id).best
        storage.close()
    assert best is not None
    assert summary.speedup is not None
    return best.candidate.source, summary.speedup


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--evaluations", type=int, default=40)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    table = Table(title=f"Equal to numpy on {FRESH_CHECKS} fresh inputs")
    for column in ("workload", "naive", "optimised", "speedup"):
        table.add_column(column)
    equal = 0
    for _ in range(options.shapes):
        workload = random_shape(rng)
        task = open_task(workload, {"input_seed": FRESH_SEED, "checks": FRESH_CHECKS}).task
        source, speedup = winner(workload, options.seed, options.evaluations)
        verdicts = [verdict(task, task.start), verdict(task, source)]
        equal += verdicts.count("equal")
        table.add_row(workload, *verdicts, f"{speedup:.2f}")
    console = Console()
    console.print(table)
    console.print(f"{equal} of {2 * options.shapes} kernels equal")
    raise SystemExit(0 if equal == 2 * options.shapes else 1)


if __name__ == "__main__":
    main()
