"""Options, searches and stored results for the benchmarks of kernels that run on this machine."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from tilewright.core.config import Settings
from tilewright.core.errors import InputError, TilewrightError
from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured, Outcome
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.native.machine import on_measuring_cores, processor
from tilewright.run import optimize
from tilewright.search.events import Event, RunStarted, Stopped
from tilewright.storage.project import open_project

REPEATS = 5
Record = dict[str, Any]


def parser_of(
    description: str, workloads: Sequence[str], seconds: float
) -> argparse.ArgumentParser:
    """Workloads, and how many searches of how many seconds each."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", default=workloads, metavar="WORKLOAD")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=seconds, help="of each search")
    parser.add_argument("--results", type=Path, help="JSON file to keep results in, and go on from")
    return parser


def exit_code(measure: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Of a benchmark; what its user can mend is one sentence."""
    try:
        return measure(options)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def check_effort(options: argparse.Namespace) -> None:
    """Raises `InputError`."""
    if options.runs < 1:
        raise InputError(f"--runs is {options.runs}: give a whole number of searches, 1 or more.")
    if not 0 < options.seconds < math.inf:
        raise InputError(f"--seconds is {options.seconds:g}: give a number of seconds above 0.")


class Kept:
    """Results by key, in a file where one is named; written whole after each."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._found: dict[str, Any] = {}
        if file is None:
            return
        if not file.parent.is_dir():
            raise InputError(f"--results is {file}, but there is no folder {file.parent}: make it.")
        if file.exists():
            try:
                self._found = dict(json.loads(file.read_text()))
            except (OSError, TypeError, ValueError) as error:
                raise InputError(
                    f"{file} holds no results of this benchmark ({error}): name another file."
                ) from error

    def get(self, key: Sequence[object], make: Callable[[], Any]) -> Any:
        """What is kept under the key and this machine, else what `make` finds.

        Nothing found is not kept: a library may be installed before the benchmark goes on.
        """
        text = " ".join(map(str, (processor().name, *key)))
        if text in self._found:
            return self._found[text]
        made = make()
        if made:
            self._found[text] = made
            if self._file is not None:
                new = self._file.with_suffix(".partial")
                new.write_text(json.dumps(self._found, indent=1))
                new.replace(self._file)
        return made


def search(task: str, seed: int, seconds: float) -> Record:
    """One search; its winner as fresh sessions measured it, or the starting kernel."""
    settings = Settings(seed=seed, max_wall_s=seconds, patience=99, iterations=99)
    times: dict[type[Event], float] = {}

    def hear(event: Event) -> None:
        times[type(event)] = time.monotonic()

    with tempfile.TemporaryDirectory(prefix="native-runs-") as folder:
        summary = optimize(task, settings, project=Path(folder), on_event=hear)
        best = open_project(Path(folder)).history(summary.run_id).best
    assert best is not None
    found = best.outcome  # of the winner: that of the three fresh sessions
    assert isinstance(found, Measured)
    return {
        **found.details,
        "source": best.candidate.source,
        "speedup": 100 / found.details["percent_of_baseline"],
        "low": 100 / found.details["percent_of_baseline_high"],
        "high": 100 / found.details["percent_of_baseline_low"],
        "latency_ns": found.latency,
        "share": found.utilization,
        "noise": found.noise,
        "rate": summary.evaluations / (times[Stopped] - times[RunStarted]),
    }


def evaluated(task: str, source: str, seed: int) -> Outcome:
    """A kernel that is built, checked and timed in pairs with the task's starting kernel."""
    opened = open_task(task, {"input_seed": seed})
    return evaluate(opened.task.evaluator, EvaluationRequest(Candidate(source)))


def repeatability(task: str, source: str) -> tuple[float, float] | None:
    """Largest differences between repeated evaluations of a kernel: of latency and of speedup.

    None, with the reason, where all of them fail: the rest of a benchmark is worth keeping.
    """
    evaluator = open_task(task, {"input_seed": 1}).task.evaluator
    found = [evaluate(evaluator, EvaluationRequest(Candidate(source))) for _ in range(REPEATS)]
    measured = [f for f in found if isinstance(f, Measured)]
    if not measured:
        logs = [f"{f.kind}: {f.log}" for f in found if isinstance(f, Failed)]
        print(f"{task}: {REPEATS} repeated evaluations all fail: {logs[-1]}", file=sys.stderr)
        return None
    latencies = [m.latency for m in measured]
    shares = [m.details["percent_of_baseline"] for m in measured]
    return max(latencies) / min(latencies) - 1, max(shares) / min(shares) - 1


def percents(differs: Sequence[float] | None) -> str:
    """A cell of the table."""
    return "-" if differs is None else ", ".join(f"{part:.1%}" for part in differs)


def library(script: str, *arguments: str) -> dict[str, float]:
    """Nanoseconds by what a script beside this one calls; it runs where kernels are measured.

    Empty, with a sentence, where it crashes: the rest of a benchmark of hours is worth keeping.
    """
    path = Path(__file__).with_name(script)
    with on_measuring_cores():
        finished = subprocess.run([sys.executable, str(path), *arguments], stdout=subprocess.PIPE)
    if finished.returncode != 0:
        what = f"{script} {' '.join(arguments)}"
        print(f"{what}: no library baseline (status {finished.returncode})", file=sys.stderr)
        return {}
    return cast("dict[str, float]", json.loads(finished.stdout))
