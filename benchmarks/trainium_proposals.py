"""Shows what the built-in rewriter finds on `trainium`, by modelled latency alone.

    python benchmarks/trainium_proposals.py [--proposals 60] [--seeds 1] [--check] [NAME ...]

Without `--check`, no kernel runs on arrays, so the benchmark is fast: it shows the quality of the
rewrites and of the estimate that chooses among them. The columns are modelled microseconds of the
naive start, of the best proposal (median over the seeds), of `tuned` and of the roofline, which
does not include the launch, and the speedups of the best proposal over the naive start and over
`tuned`. The steps of the first seed's best proposal follow. bfloat16 operands are proposed only
with `--check`, because only the comparison shows where they are allowed. With `--check`, the best
proposals are compared with the reference on every distribution, and the fastest correct one counts.
Proposals that were wrong, or exceeded `--comparison-seconds` in one comparison, are named.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from trainium_workloads import call_of, modelled

from tilewright.core.records import Artifact, Failed
from tilewright.proposers.nki.ir import Kernel
from tilewright.proposers.nki.planning.planner import complete_sequences, extended
from tilewright.proposers.nki.planning.polishing import polished
from tilewright.proposers.nki.planning.steps import TECHNIQUES, Step
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.kernel import read_kernel
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.evaluator import INTERPRETER
from tilewright.targets.trainium.latency.capacity import examine
from tilewright.targets.trainium.latency.model import estimate
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import parse, trace_program
from tilewright.targets.trainium.roofline import roofline_ns
from tilewright.targets.trainium.shapes import REGISTERED, parse_shape
from tilewright.targets.trainium.target import TrainiumTarget
from tilewright.targets.trainium.task import TrainiumTask

NINE = (*list(REGISTERED)[:6], "conv1d-8x512x2048-k3", "conv2d-16x128x128x128x512-k3",
        "maxpool-4096x4096-k3")  # fmt: skip
BEAM, LONGEST = 3, 12
Found = tuple[float, tuple[Step, ...], Kernel]


def latency_of(name: str, source: str) -> float | None:
    """Modelled nanoseconds; None for a kernel that breaks a rule or does not fit."""
    machine = load_machine("trn1")
    try:
        trace = trace_program(parse(source), call_of(parse_shape(name)), machine)
    except KernelError:
        return None
    return None if examine(trace, machine).excess() else estimate(trace, machine).latency_ns


def refusal(task: TrainiumTask, source: str) -> Failed | None:
    """Why a kernel does not agree with the reference on every distribution; None if it does."""
    _, checker, _ = task.evaluator
    found = checker.check(Artifact("", source.encode(), INTERPRETER))
    return found if isinstance(found, Failed) else None


def search(
    name: str, task: TrainiumTask, seed: int, proposals: int, check: bool
) -> tuple[float, str]:
    """Nanoseconds of the best of so many proposals, and its steps."""
    rng = random.Random(seed)
    techniques = [name for name in TECHNIQUES if check or name != "narrow"]
    kernel = read_kernel(task.start, task.workload.arguments)
    first = latency_of(name, print_kernel(kernel))
    assert first is not None
    beam: list[Found] = [(first, (), kernel)]
    everything, seen = list(beam), {print_kernel(kernel)}
    complete = list(complete_sequences(kernel, techniques))
    fastest = polished(
        [((), kernel), *complete], techniques, lambda k: latency_of(name, print_kernel(k))
    )
    complete = complete if fastest is None else [fastest, *complete]
    for number in range(proposals):
        if complete:
            steps, kernel = complete.pop(0)
        else:
            _, steps, kernel = rng.choice(beam)
            longest = len(steps) + (LONGEST if number % 3 == 0 else rng.randint(1, 4))
            steps, kernel = extended(steps, kernel, techniques, rng, longest)
        source = print_kernel(kernel)
        if source in seen:
            continue
        seen.add(source)
        latency = latency_of(name, source)
        if latency is not None:
            everything.append((latency, steps, kernel))
            beam = sorted([*beam, everything[-1]], key=lambda found: found[0])[:BEAM]
    everything.sort(key=lambda found: found[0])
    for latency, steps, kernel in everything:
        failed = refusal(task, print_kernel(kernel)) if check and steps else None
        if failed is None:
            return latency, "; ".join(map(str, steps))
        # A kernel that was stopped may be right: its comparison took too long on this machine.
        what = "was not compared in time" if failed.kind == "timeout" else "is wrong"
        print(f"    one of {latency / 1e3:.1f} us {what}: {failed.log[:120]}", flush=True)
    raise AssertionError("the start is always found")


def row(name: str, options: argparse.Namespace) -> tuple[float, float]:
    """Print a line; how many times as fast the best proposal is as the naive start and `tuned`."""
    shape, begin = parse_shape(name), time.process_time()
    bound, _ = roofline_ns(shape.workload("trainium"), load_machine("trn1"))
    naive, tuned = (modelled(shape, which)[0].latency_ns for which in ("naive", "tuned"))
    limits = {"simulation_timeout_s": options.comparison_seconds}
    task = TrainiumTarget("trainium", "trn1").open(name, limits)
    found = [
        search(name, task, seed, options.proposals, options.check) for seed in range(options.seeds)
    ]
    best = statistics.median(latency for latency, _ in found)
    print(
        f"{name:30} {naive / 1e3:9.1f} {best / 1e3:9.1f} {tuned / 1e3:9.1f} {bound / 1e3:9.1f} "
        f"{naive / best:6.2f}x {tuned / best:6.2f}x  {time.process_time() - begin:5.0f} s of CPU\n"
        f"    {found[0][1] or 'nothing'}",
        flush=True,
    )
    return naive / best, tuned / best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; nine by default")
    parser.add_argument("--proposals", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--comparison-seconds", type=float, default=300.0)
    options = parser.parse_args()
    names = options.names or list(NINE)
    gains = [row(name, options) for name in names]
    means = [statistics.geometric_mean(column) for column in zip(*gains, strict=True)]
    print(f"geometric means: {means[0]:.2f}x over naive, {means[1]:.2f}x over tuned")


if __name__ == "__main__":
    main()
