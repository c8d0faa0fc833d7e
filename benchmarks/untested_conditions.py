"""Measures how much a search is slowed down by examining kernels for conditions on input values.

    uv run python benchmarks/untested_conditions.py [WORKLOAD ...] [--pairs 20]
    uv run python benchmarks/untested_conditions.py [WORKLOAD ...] --search 40
    uv run python benchmarks/untested_conditions.py [WORKLOAD ...] --searches 40 --pairs 4

One candidate (the winner of a search in `benchmarks/winners`, or the starting kernel) is evaluated
as in a search in which it becomes the best kernel, alternately with and without its examination, in
random order. `rate` is the number of candidates per second with the examination divided by that
without: the median of all pairs, by wall time and by the CPU time of this process and its children.

With `--search N`, the candidates are those of a search with N evaluations, each with the latency of
its parent as its limit, as in the search. Candidates that are slower than their parents, or wrong,
are not examined. The rate is that of all candidates together (goal: at least 0.85).

With `--searches N`, whole searches with N evaluations are run by `tilewright optimize`, without a
language model and with the same seed, alternately with and without the examination, in random
order: preflight, proposals, evaluations and the confirmation of the winner. The rate of a pair is
the number of candidates per second with the examination divided by that without (goal: at least
0.85). `--pairs` is the number of pairs, each with another seed.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from unittest.mock import patch

from other_values import DEFAULT, PLENTY, cpu_s, source_of

from tilewright.core.config import Settings
from tilewright.core.records import Candidate, EvaluationRequest, History, Measured
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.native.checker import NativeChecker
from tilewright.run import open_project, optimize
from tilewright.search.beam import BeamSearch
from tilewright.targets.gemmini.examination import Examination

WORKLOADS = (*DEFAULT, "gemmini-fp32-4x4:tinympc-forward", "gemmini:gemm-512x512x512")
UNEXAMINED = """\
import importlib.machinery, importlib.util, sys
sys.path.remove({folder!r})
next_one = importlib.machinery.PathFinder.find_spec("sitecustomize")
if next_one is not None and next_one.loader is not None:
    module = importlib.util.module_from_spec(next_one)
    next_one.loader.exec_module(module)
sys.path.insert(0, {folder!r})  # for the processes that this one starts
REPLACED = {{
    "tilewright.native.checker": ("NativeChecker", "_untested"),
    "tilewright.targets.gemmini.examination": ("Examination", "failure"),
}}

class Unexamined:
    def find_spec(self, name, path=None, target=None):
        if name not in REPLACED:
            return None
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(name, path, target)
            if found is not None:
                execute, (owner, method) = found.loader.exec_module, REPLACED[name]
                def run(module):
                    execute(module)
                    setattr(getattr(module, owner), method, lambda *_: None)
                found.loader.exec_module = run
                return found

sys.meta_path.insert(0, Unexamined())
"""
"""A `sitecustomize.py` with which Python, and each process that it starts, examines no kernel."""
Pair = dict[bool, tuple[float, float]]
"""Wall and CPU seconds of the evaluations of a candidate, with and without the examination."""


def timed(name: str, requests: Sequence[EvaluationRequest]) -> tuple[list[Pair], int]:
    """The times of each candidate, and how many candidates were measured."""
    task = open_task(name, {"input_seed": 1}).task
    found, measured = [], 0
    first = EvaluationRequest(Candidate(task.start), PLENTY)  # draws the inputs of all calls
    for request in (first, *requests):
        pair: Pair = {}
        for examined in random.sample((False, True), 2):
            # The starting kernel itself is not examined, so another text stands for a candidate.
            text = f"{request.candidate.source}\n/* {random.random()} */\n"
            again = EvaluationRequest(Candidate(text), request.limit_latency)
            wall, cpu = perf_counter(), cpu_s()
            if examined:
                outcome = evaluate(task.evaluator, again)
            else:
                with (
                    patch.object(NativeChecker, "_untested", lambda *_: None),
                    patch.object(Examination, "failure", lambda *_: None),
                ):
                    outcome = evaluate(task.evaluator, again)
            pair[examined] = perf_counter() - wall, cpu_s() - cpu
        measured += isinstance(outcome, Measured)
        found.append(pair)
    return found[1:], measured


def searched(name: str, evaluations: int) -> list[EvaluationRequest]:
    """The candidates of a search, each with the limit that it had there."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(max_evaluations=evaluations, stop_within=0.0)
        optimize(name, settings, project=Path(folder))
        storage = open_project(Path(folder))
        try:
            history: History = next(storage.history(run.id) for run in storage.runs())
        finally:
            storage.close()
    by_id = {trial.candidate.id: trial for trial in history}
    limit = BeamSearch().limit_latency
    return [
        EvaluationRequest(trial.candidate, limit(by_id[trial.candidate.parent_id]))
        for trial in history
        if trial.candidate.parent_id is not None
    ]


def whole_search(
    name: str, evaluations: int, seed: int, examined: bool
) -> tuple[int, float, float]:
    """The number of candidates of a search, and its wall and CPU seconds."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as project:
        environment = dict(os.environ)
        if not examined:
            Path(folder, "sitecustomize.py").write_text(UNEXAMINED.format(folder=folder))
            paths = (folder, os.environ.get("PYTHONPATH", ""))
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        command = [sys.executable, "-m", "tilewright.cli", "optimize", name, "--project", project]
        command += ["--budget", f"{evaluations} evaluations", "--seed", str(seed)]
        command += ["--input-seed", str(seed), "--stop-within", "0", "--patience", "99"]
        wall, cpu = perf_counter(), cpu_s()
        subprocess.run(
            command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        wall, cpu = perf_counter() - wall, cpu_s() - cpu
        storage = open_project(Path(project))
        try:
            (run,) = storage.runs()
            candidates = sum(1 for _ in storage.history(run.id))
        finally:
            storage.close()
    return candidates, wall, cpu


def searches(name: str, evaluations: int, pairs: int) -> str:
    """Runs pairs of searches, and describes the medians of their rates."""
    rates, cpu_each = [], []
    for seed in range(pairs):
        per_s: dict[bool, tuple[float, float]] = {}
        for examined in random.sample((False, True), 2):
            candidates, wall, cpu = whole_search(name, evaluations, seed, examined)
            per_s[examined] = candidates / wall, candidates / cpu
            cpu_each.append(cpu / candidates)
        rates.append([per_s[True][i] / per_s[False][i] for i in range(2)])
    by_wall, by_cpu = (median(rate[i] for rate in rates) for i in range(2))
    shown = ", ".join(f"{rate[1]:.2f}" for rate in rates)
    return (
        f"{name}: {median(cpu_each):.2f} s of CPU time per candidate; rate {by_wall:.2f} by wall "
        f"time, {by_cpu:.2f} by CPU time ({pairs} pairs of searches with {evaluations} "
        f"evaluations; by CPU time {shown})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--search", type=int, metavar="EVALUATIONS")
    parser.add_argument("--searches", type=int, metavar="EVALUATIONS")
    options = parser.parse_args()
    for name in options.workloads:
        if options.searches:
            print(searches(name, options.searches, options.pairs), flush=True)
            continue
        if options.search:
            requests = searched(name, options.search)
            found, measured = timed(name, requests)
            wall, cpu = (
                sum(pair[False][i] for pair in found) / sum(pair[True][i] for pair in found)
                for i in range(2)
            )
            what = f"{len(found)} candidates of a search, {measured - 1} of them measured"
        else:
            start = source_of(name, open_task(name, {"input_seed": 1}).task.start)
            request = EvaluationRequest(Candidate(start), PLENTY)
            found, measured = timed(name, [request] * options.pairs)
            assert measured == len(found) + 1, "a candidate was refused"
            wall, cpu = (median(pair[False][i] / pair[True][i] for pair in found) for i in range(2))
            what = f"{len(found)} pairs"
        each = median(pair[True][1] for pair in found)
        print(
            f"{name}: {each:.2f} s of CPU time per candidate; rate {wall:.2f} by wall time, "
            f"{cpu:.2f} by CPU time ({what})",
            flush=True,
        )


if __name__ == "__main__":
    main()
