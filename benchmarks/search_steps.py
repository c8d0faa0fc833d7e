"""Measures the cost of an iteration, apart from proposing and evaluating, by the number of trials.

The searches use a toy target (`tilewright.testing.toy`), whose kernels contain large numbers, so
that new kernels never run out. Histories of each size are created first. Iterations on top of each
are then timed, with the sizes in turn, the default settings, and an executor in this process. The
benchmark prints medians, their ratio to the smallest history, candidates per iteration, the first
iteration (which reads the whole history, as after a resume), and the memory of this process.

    uv run python benchmarks/search_steps.py
    uv run python benchmarks/search_steps.py --sizes 1000 100000 --strategy islands
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tilewright.core.config import Settings
from tilewright.core.plugins import load_strategy
from tilewright.core.records import (
    Candidate,
    EvaluationRequest,
    History,
    Outcome,
    Trial,
)
from tilewright.core.roles import Checkpoint, More, OnOutcome
from tilewright.search.in_process import StepByStep
from tilewright.search.loop import Search
from tilewright.search.proposing import Batches
from tilewright.search.steps import SearchTask
from tilewright.testing.toy import (
    DIGITS,
    ToyProposer,
    ToyTarget,
    ToyTask,
    digits_of,
    toy_outcome,
    whole_batch,
)

LARGEST = 10**7
"""Digits of the starting kernel: a million trials do not reach the best one."""


class SameProcess:
    """The `Executor` role: evaluates in this process, one request after the other."""

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        """Outcomes in the order of the requests."""
        requests = whole_batch(requests, more)
        outcomes = [toy_outcome(r.candidate.source, r.limit_latency) for r in requests]
        for position, outcome in enumerate(outcomes):
            if on_outcome is not None:
                on_outcome(position, outcome, 0.0, False)
        return outcomes

    def close(self) -> None:
        """Nothing to stop."""


def made_history(size: int, per_iteration: int, seed: int) -> History:
    """A search's history of this size: of ten children, one improves on its parent."""
    rng = random.Random(seed)
    start = [LARGEST] * DIGITS
    history = History([_trial(0, 0, start, None)])
    good = [history[0]]
    while len(history) < size:
        trials = []
        iteration = history[-1].iteration + 1
        for index in range(len(history), min(size, len(history) + per_iteration)):
            parent = rng.choice(good)
            child = digits_of(parent.candidate.source)
            place, improves = rng.randrange(DIGITS), rng.random() < 0.1
            child[place] = int(child[place] * (rng.uniform(0.7, 0.95) if improves else 1.1)) + index
            trials.append(_trial(index, iteration, child, parent))
            if improves:
                good.append(trials[-1])
        history = history.extended(trials)
    return history


def _trial(index: int, iteration: int, digits: list[int], parent: Trial | None) -> Trial:
    source = f"toy {' '.join(map(str, digits))}"
    candidate = Candidate(source, parent.candidate.id if parent else None, None, "toy")
    return Trial(
        index, iteration, candidate, toy_outcome(source, parent.latency if parent else None)
    )


class Ongoing:
    """A search on top of a history."""

    def __init__(self, history: History, settings: Settings) -> None:
        self._history = history
        self._spent = 0
        strategy = load_strategy(settings)
        task = SearchTask(ToyTask.workload, ToyTarget().brief(), ToyProposer(), settings)
        self._search = Search(
            strategy=strategy,
            batches=Batches(task, strategy, StepByStep(task), lambda event: None),
            executor=SameProcess(),
            append=lambda trial: None,
            iterations=settings.iterations,
            budget=settings.budget,
            wall_s=lambda: 0.0,
            on_event=lambda event: None,
        )

    def iterate(self) -> tuple[float, int]:
        """Seconds of one more iteration, and how many candidates it evaluated."""
        before = len(self._history)
        iteration = self._history[-1].iteration + 1
        started = time.perf_counter()
        self._history, reason = self._search.step(iteration, self._history)
        assert reason is None, reason
        return time.perf_counter() - started, len(self._history) - before


def memory_gb() -> tuple[float, float]:
    """Resident memory of this process now and at most, GB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize() / 1e9, most / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--strategy", default="beam")
    parser.add_argument("--rounds", type=int, default=40, help="iterations timed per size")
    options = parser.parse_args()
    settings = Settings(strategy=options.strategy, iterations=10**9, patience=10**9)
    table = Table(title=f"One iteration of the toy, strategy {options.strategy}")
    for column in (
        "trials before",
        "median ms",
        "ratio",
        "candidates",
        "first ms",
        "memory GB",
        "at most GB",
    ):
        table.add_column(column, justify="right")
    searches: dict[int, Ongoing] = {}
    first: dict[int, float] = {}
    memory: dict[int, tuple[float, float]] = {}
    for size in sorted(options.sizes):
        searches[size] = Ongoing(made_history(size, 72, seed=size), settings)
        first[size] = searches[size].iterate()[0]
        memory[size] = memory_gb()
    steps: dict[int, list[tuple[float, int]]] = {size: [] for size in searches}
    for _ in range(options.rounds):
        for size, search in searches.items():
            steps[size].append(search.iterate())
    medians = {size: statistics.median(wall_s for wall_s, _ in steps[size]) for size in steps}
    for size, median in medians.items():
        candidates = statistics.fmean(count for _, count in steps[size])
        cells = [f"{size:,}", f"{1000 * median:.2f}", f"{median / min(medians.items())[1]:.2f}"]
        cells += [f"{candidates:.1f}"]
        cells += [f"{1000 * first[size]:.1f}", *(f"{gb:.2f}" for gb in memory[size])]
        table.add_row(*cells)
    Console().print(table)


if __name__ == "__main__":
    main()
