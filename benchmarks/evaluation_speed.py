"""How long one evaluation takes: compile, three checks and the timed simulation, on one core.

The first row includes what is done once per run: inputs, expected outputs, the runtime object.
With `--search`, how many distinct candidates a second a whole keyless search of a new project
evaluates, on the given number of workers: every candidate compiled, checked and simulated, nothing
taken from a cache.

    uv run python benchmarks/evaluation_speed.py [WORKLOAD ...]
    uv run python benchmarks/evaluation_speed.py --search 1000 --workers 2
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.table import Table

from tilewright.core.config import Settings
from tilewright.core.records import Candidate, EvaluationRequest, Measured, Stage
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.run import optimize

DEFAULT = "gemmini:gemm-12544x64x256"
LIMIT_S = 2.0
SEARCH_GOAL = 4.0
"""Candidates per second on two cores."""
CHILDREN = resource.RUSAGE_CHILDREN
STAGES: tuple[Stage, ...] = ("build", "check", "measure")


def timed(task_name: str, repeats: int) -> list[tuple[Measured, dict[Stage, float]]]:
    """Outcomes of the starting kernel and the seconds each stage took."""
    opened = open_task(task_name, {"input_seed": 1})
    rows = []
    for _ in range(repeats):
        begun: dict[Stage, float] = {}

        def on_stage(stage: Stage, begun: dict[Stage, float] = begun) -> None:
            begun[stage] = perf_counter()

        request = EvaluationRequest(Candidate(opened.task.start))
        evaluator = opened.task.evaluator
        outcome = evaluate(evaluator, request, on_stage)
        assert isinstance(outcome, Measured), outcome
        ends = [*(begun[stage] for stage in STAGES[1:]), perf_counter()]
        seconds = {s: end - begun[s] for s, end in zip(STAGES, ends, strict=True)}
        rows.append((outcome, seconds))
    return rows


def search(task_name: str, evaluations: int, workers: int) -> None:
    """Prints the rate of a search that ends with its budget of evaluations, not before."""
    settings = Settings(max_evaluations=evaluations, patience=evaluations, iterations=evaluations)
    begun = perf_counter()
    with tempfile.TemporaryDirectory() as project:
        summary = optimize(task_name, settings, project=Path(project), workers=workers)
    wall_s = perf_counter() - begun
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, CHILDREN))
    cpu_s = sum(used.ru_utime + used.ru_stime for used in (own, children))
    print(
        f"{task_name}: {summary.evaluations} candidates on {workers} workers in {wall_s:.0f} s: "
        f"{summary.evaluations / wall_s:.2f} per second (goal: {SEARCH_GOAL:g}); "
        f"{cpu_s / summary.evaluations:.3f} s of CPU time each, the search's included"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=[DEFAULT])
    parser.add_argument("--search", type=int, metavar="N", help="evaluate N candidates")
    parser.add_argument("--workers", type=int, default=2, help="for --search")
    options = parser.parse_args()
    if options.search:
        for workload in options.workloads:
            search(workload, options.search, options.workers)
        return
    table = Table(title=f"Seconds of one evaluation of the starting kernel (goal: {LIMIT_S:g})")
    table.add_column("workload", no_wrap=True)
    table.add_column("run")
    for column in ("build", "checks", "timed", "total", "Mcyc/s"):
        table.add_column(column, justify="right")
    for workload in options.workloads:
        for number, (outcome, seconds) in enumerate(timed(workload, 3)):
            cells = [f"{seconds[stage]:.3f}" for stage in STAGES]
            table.add_row(
                workload.partition(":")[2] or workload,
                "first" if number == 0 else "later",
                *cells,
                f"{sum(seconds.values()):.3f}",
                f"{outcome.latency / 1e6 / seconds['measure']:.1f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
