"""Measures the cost of the sandbox for the evaluation of one candidate and for starting a command.

The same kernel is evaluated (compiled, checked, measured) in two processes, in pairs of random
order: one process restricts itself and its compiler as a worker does, and the other does not. The
benchmark prints medians of wall and CPU time per candidate, including child processes. On a busy
machine, use the CPU times.

With `--starts`, a command is started in the sandbox from processes of increasing memory, paired
with starts of the same command without a sandbox, but with `fork`, which copies the page tables.

    uv run python benchmarks/sandbox.py [--rounds 40] [--workload gemmini:gemm-64x64x64]
    uv run python benchmarks/sandbox.py --starts [--rounds 40]
"""

from __future__ import annotations

import argparse
import mmap
import multiprocessing
import os
import random
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from tilewright.core.records import Candidate, EvaluationRequest, Measured
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.sandbox import (
    UNCONTAINED,
    Limits,
    contain_this_process,
    find_sandbox,
    open_folder,
)
from tilewright.targets.gemmini import toolchain as toolchains

Sample = tuple[float, float]
"""Milliseconds of wall and CPU time of one candidate or one start."""
MEMORY_GIB = (0.1, 0.5, 1.0, 2.0)
PROGRAM = "/bin/true"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--workload", default="gemmini:gemm-64x64x64")
    parser.add_argument("--starts", action="store_true")
    arguments = parser.parse_args()
    if arguments.starts:
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        for gib in MEMORY_GIB:
            process = multiprocessing.get_context("spawn").Process(
                target=show_starts, args=(gib, arguments.rounds)
            )
            process.start()
            process.join()
        return
    toolchain = toolchains.find_toolchain()
    workers = {contained: start(arguments.workload, contained) for contained in (True, False)}
    names = {contained: worker.recv() for contained, worker in workers.items()}
    pairs: list[dict[bool, Sample]] = []
    for _ in range(arguments.rounds):
        pair = {}
        for contained in random.sample([True, False], 2):
            workers[contained].send("evaluate")
            pair[contained] = workers[contained].recv()
        pairs.append(pair)
    print(f"{toolchain.id}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for contained, name in names.items():
        show(name, [pair[contained] for pair in pairs])
    added = [tuple(a - b for a, b in zip(p[True], p[False], strict=True)) for p in pairs]
    show("added, median of pairs", [(wall, cpu) for wall, cpu in added])


def show(name: str, samples: list[Sample], what: str = "candidate") -> None:
    """Print medians."""
    wall_ms, cpu_ms = (statistics.median(column) for column in zip(*samples, strict=True))
    print(f"{name:50} wall {wall_ms:7.1f} ms   CPU {cpu_ms:7.1f} ms per {what}")


def start(workload: str, contained: bool) -> Connection:
    """A process that says what contains it, then evaluates whenever it is told to."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as workers have it
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=serve, args=(there, workload, contained), daemon=True).start()
    return here


def serve(asked: Connection, workload: str, contained: bool) -> None:
    """Evaluate the starting kernel once per message."""
    task = open_task(workload, {}).task
    request = EvaluationRequest(Candidate(task.start))
    if contained:
        worker = contain_this_process(Path(tempfile.gettempdir()))
    else:
        compiler = toolchains.compiler_sandbox(toolchains.find_toolchain())
        toolchains.compiler_sandbox = lambda _: replace(compiler, level=UNCONTAINED)  # type: ignore
        worker = None
    first = evaluate(task.evaluator, request)  # the reference's results are kept from here on
    asked.send(f"{first.sandbox}, worker {worker}")
    while True:
        try:
            asked.recv()
        except EOFError:
            return
        wall, cpu = time.perf_counter(), cpu_s()
        outcome = evaluate(task.evaluator, request)
        asked.send((1000 * (time.perf_counter() - wall), 1000 * (cpu_s() - cpu)))
        assert isinstance(outcome, Measured), outcome


def show_starts(gib: float, rounds: int) -> None:
    """Print what starts cost while this process uses `gib` of memory."""
    mapped = mmap.mmap(-1, int(gib * (1 << 30)), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapped.madvise(mmap.MADV_NOHUGEPAGE)  # as the many small objects of Python
    for page in range(0, len(mapped), mmap.PAGESIZE):
        mapped[page] = 1
    sandbox = find_sandbox()

    def in_sandbox() -> None:
        with open_folder("tilewright-start-") as folder:
            assert sandbox.run([PROGRAM], Path(folder), Limits(60.0)).status == 0

    def by_fork() -> None:
        subprocess.run([PROGRAM], preexec_fn=lambda: None, check=True)

    ways = {f"{sandbox.name}": in_sandbox, "fork, no sandbox": by_fork}
    samples: dict[str, list[Sample]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in random.sample(sorted(ways.items()), 2):
            samples[name].append(timed(way))
    for name, found in samples.items():
        show(f"{gib} GiB, {name}", found, "start")


def timed(way: Callable[[], None]) -> Sample:
    """One start."""
    wall, cpu = time.perf_counter(), cpu_s()
    way()
    return 1000 * (time.perf_counter() - wall), 1000 * (cpu_s() - cpu)


def cpu_s() -> float:
    """CPU seconds of this process and its children."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


if __name__ == "__main__":
    main()
