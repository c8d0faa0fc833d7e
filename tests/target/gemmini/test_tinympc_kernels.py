"""TinyMPC kernels on the co-simulator: every baseline, and the built-in rewrites in sequence."""

from __future__ import annotations

from functools import cache

import pytest

from tilewright.core.records import Artifact, Candidate, Measured, Verdict
from tilewright.core.roles import Task
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.by_hand import carried_out
from tilewright.proposers.rewriter.reading import read
from tilewright.targets.gemmini import create_fp32_target
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]
TARGET = create_fp32_target()


@cache
def task_of(name: str) -> Task:
    """One for all tests, because it computes the errors of honest kernels once."""
    return TARGET.open(name, {"checks": 4})


def latency(task: Task, source: str) -> float:
    builder, checker, runner = task.evaluator
    built = builder.build(Candidate(source))
    assert isinstance(built, Artifact), built
    verdict = checker.check(built)
    assert isinstance(verdict, Verdict), verdict
    measured = runner.measure(built, verdict, None)
    assert isinstance(measured, Measured), measured
    return measured.latency


@pytest.mark.parametrize(
    "name",
    [
        "tinympc-forward",
        "tinympc-backward",
        "tinympc-forward-13x5x4",
        "tinympc-backward-6x2x4",
        "tinympc-forward-3x1x3",
        "tinympc-backward-20x9x3",
    ],
)
def test_every_baseline_is_right(name: str) -> None:
    task = task_of(name)
    cycles = {variant: latency(task, source) for variant, source in task.baselines.items()}
    assert set(cycles) == {"naive", "library", "tuned", "fsm"}
    assert cycles["tuned"] < cycles["naive"]


@pytest.mark.parametrize("name", ["tinympc-forward", "tinympc-backward"])
def test_the_rewrites_in_sequence_beat_the_loop_unroller(name: str) -> None:
    task, machine = task_of(name), Machine.of(TARGET.brief())
    kernel = read(task.start, machine)
    best = start = latency(task, task.start)
    for step in ("offload", "offload", "share", "forward", "carry", "hoist-loads", "fences"):
        kernel, _ = carried_out(kernel, machine, f"{step} i" if step != "fences" else step)
        best = min(best, latency(task, emit(kernel)))
    assert best < latency(task, task.baselines["fsm"])
    assert start > 2.9 * best
