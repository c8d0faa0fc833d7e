"""Tile kernels are checked by emulation where the CPU has no tiles, and never timed there."""

from __future__ import annotations

import shutil

import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.plugins import load_proposer
from tilewright.core.records import (
    Artifact,
    Brief,
    Candidate,
    Failed,
    History,
    Outcome,
    Trial,
    Verdict,
)
from tilewright.core.roles import Target, Task
from tilewright.targets.amx import create_bf16_target, create_int8_target
from tilewright.targets.amx.elements import INT8
from tilewright.targets.amx.support import missing_feature

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="no C compiler for this machine"
)
TARGETS = {"int8": create_int8_target, "bf16": create_bf16_target}


def checked(task: Task, source: str) -> Verdict | Outcome:
    builder, checker, _ = task.evaluator
    built = builder.build(Candidate(source))
    return checker.check(built) if isinstance(built, Artifact) else built


@pytest.mark.parametrize("element", TARGETS)
@pytest.mark.parametrize(
    "name", ["gemm-32x48x128", "gemm-32x48x128-packed", "conv-1x3x28x64x16-k3s1"]
)
def test_naive_kernels_are_right(element: str, name: str) -> None:
    target: Target = TARGETS[element]()
    task = target.open(name, {"input_seed": 5})
    assert isinstance(checked(task, task.start), Verdict)


@pytest.mark.parametrize("element", TARGETS)
def test_rewritten_kernels_are_right(element: str) -> None:
    """What the built-in proposer makes of a naive kernel, tiles shared and jammed."""
    target: Target = TARGETS[element]()
    task = target.open("gemm-64x96x128-packed", {"input_seed": 5})
    brief = target.brief()
    trial = Trial(0, 0, Candidate(task.start), Failed("measure", "timeout", "not timed here"))
    proposer = load_proposer("builtin")
    plans = proposer.plan(
        Brief(task.workload, brief, brief.menu, 1, 9), trial, History([trial]), 2, seed=2
    )
    assert plans
    for plan in plans:
        for made in proposer.implement(
            Brief(task.workload, brief, brief.menu, 1, 9), trial, plan, 1, seed=2
        ):
            assert isinstance(checked(task, made.source), Verdict), made.source


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("(0, 1, 2);\n      }", "(0, 2, 1);\n      }", "wrong_result"),
        ("_tile_zero(0);", "", "wrong_result"),
        ("(0, 1, 2);\n      }", "(0, 1, 1);\n      }", "illegal_instruction"),
        (".rows = {16, 16, 16,", ".rows = {16, 8, 16,", "illegal_instruction"),
        (".rows = {16, 16, 16,", ".rows = {16, 16, 0,", "illegal_instruction"),
        (".palette = 1", ".palette = 3", "illegal_instruction"),
        ("_tile_loadconfig(&config);", "", "illegal_instruction"),
        ("_tile_stored(0, &C[i][j], 192)", "_tile_stored(0, &C[i][j], 4096)", "illegal_address"),
        ("_tile_stored(0, &C[i][j], 192)", "_tile_stored(0, &C[i][j + 1], 192)", "illegal_address"),
    ],
)
def test_what_the_hardware_refuses_is_refused(old: str, new: str, kind: str) -> None:
    task = create_int8_target().open("gemm-32x48x64-packed", {"input_seed": 5})
    assert old in task.start
    failed = checked(task, task.start.replace(old, new))
    assert isinstance(failed, Failed), failed
    assert failed.kind == kind, failed


@pytest.mark.skipif(missing_feature(INT8) is None, reason="this CPU has tiles")
def test_timing_is_refused_with_a_sentence() -> None:
    task = create_int8_target().open("gemm-16x16x64-packed", {"input_seed": 5})
    builder, checker, runner = task.evaluator
    built = builder.build(Candidate(task.start))
    assert isinstance(built, Artifact)
    verdict = checker.check(built)
    assert isinstance(verdict, Verdict)
    says = r"correct in 5 .* loads read 2,048 bytes, 0.0625 per .* no amx_tile: .* emulation"
    with pytest.raises(ToolchainMissingError, match=says):
        runner.measure(built, verdict, None)
    assert create_int8_target().versions()["tiles"].startswith("emulated")
    _, usable, text = create_int8_target().doctor()[0]
    assert usable is None
    assert "amx_tile" in text
