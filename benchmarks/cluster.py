"""Measures evaluations on a local cluster, compared with the local executor, and one PostgreSQL.

    uv run python benchmarks/cluster.py speed [--rounds 6] [--batch 90]
    uv run python benchmarks/cluster.py overhead [--requests 1000]
    uv run --extra postgres python benchmarks/cluster.py store ADDRESS [--searches 20]
    uv run --extra postgres python benchmarks/cluster.py searches ADDRESS [--evaluation-s 1]

`speed` evaluates Gemmini kernels with two workers of either executor, in pairs of random order. The
kernels differ only in a comment, so that nothing is cached. The ratio of candidates per second
compares the two batches of one round, so the load of the machine hardly changes it. The CPU time
per candidate includes all processes that were started. `overhead` evaluates kernels that compute
nothing, and prints the wall time per evaluation. `store` starts many processes that append trials
and outcomes to one PostgreSQL database at the same time, in turn with one process that does this
alone, and prints trials per second. `searches` does the same with a pause before each trial, which
stands for an evaluation on another machine, and prints the rate of each search relative to that of
a single search.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tilewright.cluster.address import Place
from tilewright.cluster.opening import open_executor
from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured, RunRecord, Trial
from tilewright.core.roles import Executor
from tilewright.core.tasks import OpenTask, open_task
from tilewright.evaluation.local import LocalExecutor

WORKERS = 2
SETTINGS = {"input_seed": 3, "checks": 3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    speed = commands.add_parser("speed")
    speed.add_argument("--rounds", type=int, default=6)
    speed.add_argument("--batch", type=int, default=90)
    speed.add_argument("--workload", default="gemmini:gemm-128x128x128")
    overhead = commands.add_parser("overhead")
    overhead.add_argument("--requests", type=int, default=1000)
    overhead.add_argument("--rounds", type=int, default=3)
    store = commands.add_parser("store")
    store.add_argument("address")
    store.add_argument("--searches", type=int, default=20)
    store.add_argument("--trials", type=int, default=100)
    store.add_argument("--rounds", type=int, default=5)
    searches = commands.add_parser("searches")
    searches.add_argument("address")
    searches.add_argument("--searches", type=int, default=20)
    searches.add_argument("--evaluation-s", type=float, default=1.0)
    searches.add_argument("--trials", type=int, default=30)
    searches.add_argument("--rounds", type=int, default=3)
    writer = commands.add_parser("writer")
    writer.add_argument("run")
    writer.add_argument("trials", type=int)
    writer.add_argument("evaluation_s", type=float)
    given = parser.parse_args()
    if given.command == "speed":
        compare_speed(open_task(given.workload, SETTINGS), given.rounds, given.batch)
    elif given.command == "overhead":
        measure_overhead(given.requests, given.rounds)
    elif given.command == "store":
        compare_stores(given.address, given.searches, given.trials, given.rounds)
    elif given.command == "searches":
        compare_searches(
            given.address, given.searches, given.trials, given.rounds, given.evaluation_s
        )
    else:
        write(given.run, given.trials, given.evaluation_s)


def both(opened: OpenTask) -> dict[str, Executor]:
    """Warm executors: each of their workers has evaluated."""
    executors: dict[str, Executor] = {
        "local": LocalExecutor(opened.name, SETTINGS, WORKERS),
        "dask": open_executor(opened, SETTINGS, Place(None), WORKERS),
    }
    for executor in executors.values():
        executor.evaluate(fresh(opened.task.start, 4 * WORKERS))
    return executors


def fresh(source: str, count: int) -> list[EvaluationRequest]:
    """Requests for kernels that no one has evaluated, all the same but for a comment."""
    comment = "#" if source.startswith("latency") else "//"
    return [
        EvaluationRequest(Candidate(f"{source}\n{comment} {random.random()}\n"))
        for _ in range(count)
    ]


def timed(executor: Executor, requests: Sequence[EvaluationRequest]) -> float:
    """Seconds for a batch, all of which must be measured."""
    began = time.perf_counter()
    outcomes = executor.evaluate(requests)
    took = time.perf_counter() - began
    assert all(isinstance(outcome, Measured) for outcome in outcomes), outcomes
    return took


def cpu_s() -> float:
    """CPU seconds of this process and its descendants, including those that have ended."""
    used, children = {}, dict[int, list[int]]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process has just ended
            continue
        used[int(folder.name)] = sum(map(int, fields[11:15]))
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, ticks = [os.getpid()], 0
    while found:
        process = found.pop()
        ticks += used.get(process, 0)
        found += children.get(process, ())
    return ticks / os.sysconf("SC_CLK_TCK")


def compare_speed(opened: OpenTask, rounds: int, batch: int) -> None:
    executors, ratios = both(opened), []
    used_s = dict.fromkeys(executors, 0.0)
    for _ in range(rounds):
        took = {}
        for name in random.sample(list(executors), 2):
            before_s = cpu_s()
            took[name] = timed(executors[name], fresh(opened.task.start, batch))
            used_s[name] += cpu_s() - before_s
        ratios.append(took["local"] / took["dask"])
        print({name: f"{batch / s:.2f}/s" for name, s in took.items()}, f"{ratios[-1]:.3f}")
    for executor in executors.values():
        executor.close()
    for name, used in used_s.items():
        print(f"{name}: {1000 * used / (rounds * batch):.1f} ms of CPU time per candidate")
    print(
        f"{opened.name}, {WORKERS} workers, {rounds} pairs of {batch}: cluster over local, "
        f"candidates per second, median {statistics.median(ratios):.3f}, from {min(ratios):.3f} to "
        f"{max(ratios):.3f}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )


def measure_overhead(requests: int, rounds: int) -> None:
    from tilewright.testing import scripted

    with tempfile.TemporaryDirectory() as folder:
        scripted.write_entry_point(Path(folder))
        os.environ["PYTHONPATH"] = folder
        sys.path.insert(0, folder)
        executors = both(open_task("scripted:any", SETTINGS))
        for number in range(rounds):
            for name, executor in executors.items():
                took = timed(executor, fresh("latency 100", requests))
                print(f"round {number}, {name}: {1000 * took / requests:.2f} ms per evaluation")
        for executor in executors.values():
            executor.close()
    print(f"{requests} requests at once; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def compare_stores(address: str, searches: int, trials: int, rounds: int) -> None:
    ratios = []
    for number in range(rounds):
        rate = {
            count: run_writers(address, f"{number}-{count}", count, searches * trials // count)
            for count in random.sample([1, searches], 2)
        }
        ratios.append(rate[searches] / rate[1])
        print({count: f"{r:.0f} trials/s" for count, r in rate.items()}, f"{ratios[-1]:.2f}")
    print(
        f"{searches} searches over one, trials per second of all on one PostgreSQL: median "
        f"{statistics.median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}; no error; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )


def compare_searches(
    address: str, searches: int, trials: int, rounds: int, evaluation_s: float
) -> None:
    ratios = []
    for number in range(rounds):
        each = {
            count: run_writers(address, f"{number}-{count}", count, trials, evaluation_s) / count
            for count in random.sample([1, searches], 2)
        }
        ratios.append(each[searches] / each[1])
        print({count: f"{r:.3f} evaluations/s of each" for count, r in each.items()}, flush=True)
    print(
        f"{searches} searches on one PostgreSQL, evaluations of {evaluation_s:g} s, {trials} each: "
        f"evaluations per second of each over one search alone, median "
        f"{statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}; no error; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )


def run_writers(
    address: str, name: str, count: int, trials: int, evaluation_s: float = 0.0
) -> float:
    """Trials per second of `count` processes, each with so many, from the first to the last one."""
    environment = {**os.environ, "TILEWRIGHT_DATABASE": address}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "writer", f"{name}-{n}", str(trials), str(evaluation_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for n in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    spans = []
    for process in processes:
        output, _ = process.communicate()
        assert process.returncode == 0, "a writer failed"
        spans.append(json.loads(output))
    began, ended = min(s[0] for s in spans), max(s[1] for s in spans)
    return count * trials / float(ended - began)


def write(run: str, trials: int, evaluation_s: float) -> None:
    """What a search stores: for each candidate its outcome in the shared cache, then its trial.

    Before it, the search waits as long as an evaluation would take.
    """
    from tilewright.storage.project import open_project

    with tempfile.TemporaryDirectory() as folder, closing(open_project(Path(folder))) as storage:
        storage.create_run(RunRecord(run, "toy:digits", "toy", {"seed": run}, {}, "now"))
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.time()
        for index in range(trials):
            source = f"kernel {index} " + "x" * 2000
            outcome = Failed("check", "wrong_result", "differs")
            key = f"{source[:12]} {index}"  # the same ones in all searches
            known = storage.cached_outcome(key)
            time.sleep(evaluation_s)
            if known is None:
                storage.store_outcome(key, outcome)
            storage.append_trial(run, Trial(index, index, Candidate(source), outcome))
        print(json.dumps([began, time.time()]))


if __name__ == "__main__":
    main()
