"""Measures the CPU time and memory of evaluating Trainium kernels, with one line for each workload.

    python benchmarks/trainium_time.py [NAME ...] [--kernel naive|tuned]

A comparison is one set of inputs and one order of iterations: generating the inputs, the reference,
the interpreter, and the comparison of the outputs. Seconds are CPU time of all processes; on a busy
machine, they can be half as long again. Memory is the largest total of all processes of the
evaluation, sampled every 50 ms; pages that processes share are counted once.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from trainium_workloads import LIBRARY, call_of

from tilewright.core.records import Candidate, Failed
from tilewright.parts.case import Case
from tilewright.parts.memory import keep_freed_memory
from tilewright.targets.trainium import create_target
from tilewright.targets.trainium.evaluator import Evaluation
from tilewright.targets.trainium.latency.model import estimate
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import parse, trace_program
from tilewright.targets.trainium.shapes import REGISTERED, parse_shape

T = TypeVar("T")
Seconds = tuple[float, float, float, float]
"""Inputs, reference, interpreter, comparison of the outputs."""
_SINGLE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""One thread for products, as in a search. Several threads wait for one another on a busy machine,
which took twenty times the processor time for gemm."""
TICK = os.sysconf("SC_CLK_TCK")


def processes(root: int) -> Iterator[int]:
    """A process and all processes that it started, directly or not."""
    yield root
    for task in Path(f"/proc/{root}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from processes(int(child))


def cpu_s(root: int) -> float:
    """Processor seconds of a process, its running children, and those that it waited for."""
    total = 0.0
    for process in processes(root):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / TICK
    return total


def resident_gb(root: int) -> float:
    """Memory of a process and those that it started; shared pages count once."""
    total = 0
    for process in processes(root):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024 / 1e9


@contextmanager
def peak() -> Iterator[list[float]]:
    """The largest memory of this process and those that it started, while the body runs."""
    found, ended, root = [0.0], threading.Event(), os.getpid()

    def watch() -> None:
        while not ended.wait(0.05):
            # A page that a process maps between the two readings is counted twice in one of them.
            found[0] = max(found[0], min(resident_gb(root), resident_gb(root)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """A result and the processor seconds that it took."""
    began = cpu_s(os.getpid())
    found = work()
    return found, cpu_s(os.getpid()) - began


def modelling(name: str, which: str) -> float:
    """Processor seconds to trace a kernel and to model its latency."""
    shape, machine = parse_shape(name), load_machine("trn1")
    source = (LIBRARY / which / f"{shape.kind}.py").read_text(encoding="utf-8")
    began = time.process_time()
    estimate(trace_program(parse(source), call_of(shape), machine), machine)
    return time.process_time() - began


def comparisons(name: str, which: str) -> list[Seconds]:
    """Seconds of each comparison: inputs, reference, interpreter, comparison of the outputs."""
    task = create_target().open(name, {"input_seed": 1})
    cases, evaluation = task._cases, task._evaluation
    source = (LIBRARY / which / f"{parse_shape(name).kind}.py").read_text(encoding="utf-8")
    return [
        _seconds(evaluation, cases.alone(n), source)
        for n in cases.compared(evaluation.settings.checks)
    ]


def _seconds(evaluation: Evaluation, case: Case, source: str) -> Seconds:
    """The parts of one comparison."""
    case.forget_inputs()
    case.forget_expected()
    _, draw = timed(lambda: [case.initial[a.name] for a in evaluation.call.inputs])
    _, reference = timed(lambda: case.expected)
    outputs, interpreter = timed(lambda: evaluation.interpretation.run(source, case.initial))
    if isinstance(outputs, Failed):
        raise RuntimeError(outputs.log)
    right = outputs
    wrong, compared = timed(lambda: case.mismatch(right))
    if wrong is not None:
        raise RuntimeError(wrong)
    return draw, reference, interpreter, compared


def evaluation_gb(name: str, which: str) -> float:
    """The largest memory of an evaluation."""
    task = create_target().open(name, {"input_seed": 1})
    source = (LIBRARY / which / f"{parse_shape(name).kind}.py").read_text(encoding="utf-8")
    builder, checker, _ = task.evaluator
    with peak() as found:
        artifact = builder.build(Candidate(source))
        assert not isinstance(artifact, Failed), artifact.log
        verdict = checker.check(artifact)
        assert not isinstance(verdict, Failed), verdict.log
    return found[0]


def apart(work: Callable[[str, str], T], name: str, which: str) -> T:
    """A measurement in a process of its own, in which no other one has left memory."""
    with multiprocessing.get_context("fork").Pool(1, keep_freed_memory) as pool:
        return pool.apply(work, (name, which))


def line(name: str, which: str) -> str:
    """The row of one workload."""
    rows = apart(comparisons, name, which)
    slowest = max(rows, key=sum)
    parts = " ".join(f"{seconds:5.2f}" for seconds in slowest)
    return (
        f"{name:32} {len(rows):2} comparisons, slowest {sum(slowest):5.2f} s ({parts}), "
        f"trace and model {apart(modelling, name, which):5.2f} s, "
        f"{apart(evaluation_gb, name, which):4.2f} GB"
    )


def main() -> None:
    """Print one line for each workload."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; all by default")
    parser.add_argument("--kernel", choices=("naive", "tuned"), default="tuned")
    options = parser.parse_args()
    if not _SINGLE.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **_SINGLE})
    print(
        "workload, comparisons, processor seconds of the slowest (inputs, reference, interpreter, "
        "comparison of the outputs), seconds to trace and model, memory of an evaluation"
    )
    for name in options.names or list(REGISTERED):
        print(line(name, options.kernel), flush=True)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
