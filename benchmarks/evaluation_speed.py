"""Measures how long one evaluation takes (compilation, three checks, timed simulation) on one core.

The first row includes the work that is done once per run: inputs, expected outputs, the runtime
object. With `--search`, the benchmark measures how many distinct candidates per second a search of
a new project evaluates with the given number of workers, without results from a cache. On a busy
machine, CPU seconds are more reliable than this rate. They are printed for the searching process,
for the processes that propose and evaluate, and, from a repetition of some evaluations in this
process, for each stage.

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
from tilewright.run import open_project, optimize

DEFAULT = "gemmini:gemm-12544x64x256"
LIMIT_S = 2.0
SEARCH_GOAL = 4.0
"""Candidates per second on two cores."""
SAMPLE = 30
"""Candidates of a search that are evaluated again, for the CPU time of each stage."""
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


def cpu_s(who: int) -> float:
    """CPU seconds so far of this process, or of those that it waited for."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def stage_cpu_s(task_name: str, sources: list[str]) -> dict[Stage, float]:
    """CPU seconds of each stage per source, the compiler's included."""
    evaluator = open_task(task_name, {"input_seed": 1}).task.evaluator
    spent = dict.fromkeys(STAGES, 0.0)
    stage: Stage = "build"
    since = 0.0

    def now() -> float:
        return cpu_s(resource.RUSAGE_SELF) + cpu_s(resource.RUSAGE_CHILDREN)

    def on_stage(begun: Stage) -> None:
        nonlocal stage, since
        spent[stage] += now() - since
        stage, since = begun, now()

    for number, source in enumerate([sources[0], *sources]):
        stage, since = "build", now()
        evaluate(evaluator, EvaluationRequest(Candidate(source)), on_stage)
        spent[stage] += now() - since
        if number == 0:  # made inputs and expected outputs, once for all
            spent = dict.fromkeys(STAGES, 0.0)
    return {name: seconds / len(sources) for name, seconds in spent.items()}


def search(task_name: str, evaluations: int, workers: int) -> None:
    """Prints the rate of a search that ends with its budget of evaluations, not before."""
    settings = Settings(max_evaluations=evaluations, patience=evaluations, iterations=evaluations)
    begun = perf_counter()
    with tempfile.TemporaryDirectory() as project:
        summary = optimize(task_name, settings, project=Path(project), workers=workers)
        wall_s = perf_counter() - begun
        own, children = cpu_s(resource.RUSAGE_SELF), cpu_s(resource.RUSAGE_CHILDREN)
        storage = open_project(Path(project))
        trials = storage.history(summary.run_id)
        storage.close()
    count = summary.evaluations
    print(
        f"{task_name}: {count} candidates on {workers} workers in {wall_s:.0f} s: "
        f"{count / wall_s:.2f} per second (goal: {SEARCH_GOAL:g}); CPU time of each: "
        f"{(own + children) / count:.3f} s, of which the searching process {own / count:.3f} s, "
        f"those that propose and evaluate, and their start, {children / count:.3f} s"
    )
    sources = [trial.candidate.source for trial in trials]
    sample = sources[:: max(1, len(sources) // SAMPLE)]
    stages = stage_cpu_s(task_name, sample)
    each = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in stages.items())
    print(f"CPU time of {len(sample)} of them, evaluated again without a limit: {each}")


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
