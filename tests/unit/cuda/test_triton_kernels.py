"""Kernels in Triton, compiled and interpreted by Triton; skipped where it is not installed."""

from __future__ import annotations

import shutil

import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Candidate, Failed, Verdict
from tilewright.targets.cuda.triton import create_target
from tilewright.targets.cuda.triton.process import find_triton
from tilewright.targets.cuda.triton.task import TritonTask

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc on PATH")
SETTINGS = {"input_seed": 3, "checks": 3, "simulation_timeout_s": 60.0, "compile_timeout_s": 60.0}
STORE = "tl.store(C + rows.to(tl.int64) * N + columns, total, mask=(rows < M) & (columns < N))"


@pytest.fixture
def task() -> TritonTask:
    try:
        find_triton()
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    return create_target().open("gemm-50x64x32", SETTINGS)


def verdict_of(task: TritonTask, source: str) -> Verdict | Failed:
    builder, checker, _ = task.evaluator
    built = builder.build(Candidate(source))
    return built if isinstance(built, Failed) else checker.check(built)


def test_the_starting_kernel_is_right(task: TritonTask) -> None:
    verdict = verdict_of(task, task.start)
    assert isinstance(verdict, Verdict), verdict.log
    assert verdict.precision == "float32"


def test_sums_split_by_atomic_operations_are_right(task: TritonTask) -> None:
    text = task.start.replace("tl.store(C", "tl.atomic_add(C")
    text = text.replace("range(0, K, TILE)", "range(tl.program_id(2) * TILE, K, 2 * TILE)")
    text = text.replace("triton.cdiv(N, 64))", "triton.cdiv(N, 64), 2)")
    text = text.replace("TILE=64", "TILE=16").replace(", 64)", ", 16)")
    verdict = verdict_of(
        task, text.replace("    product[grid]", "    C.zero_()\n    product[grid]")
    )
    assert isinstance(verdict, Verdict), verdict.log


@pytest.mark.parametrize(
    ("old", "new", "kind", "says"),
    [
        ("mask=(rows < M) & (across < K)", "mask=across < K", "out_of_bounds", "A, which has 1600"),
        (STORE, STORE.replace("C +", "A +"), "input_modified", "input (A)"),
        (STORE, STORE.replace("total,", "total + tl.program_id(1),")
         .replace("columns, ", "columns % 16, "), "race", "writes element 0 of C, which program 0"),
        (', input_precision="ieee"', "", "wrong_result", "elements of C differ"),
        ("tl.dot(left, right", "tl.dot(left.to(tl.bfloat16), right.to(tl.bfloat16)",
         "wrong_result", "elements of C differ"),
        ("tl.dot", "tl.dott", "compile_error", "dott"),
        ("TILE=64", "TILE=64, num_stages=16", "launch_failure", "shared memory"),
        ("    product[grid]", "    C.sum()\n    product[grid]", "not_checked", ".sum of an array"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(task: TritonTask, old: str, new: str, kind: str, says: str) -> None:
    text = task.start.replace("TILE=64", "TILE=16").replace(", 64)", ", 16)")
    assert old.replace("TILE=64", "TILE=16") in text
    failed = verdict_of(task, text.replace(old.replace("TILE=64", "TILE=16"), new))
    assert isinstance(failed, Failed)
    assert failed.kind == kind, failed.log
    assert says in failed.log
    if kind not in ("wrong_result", "launch_failure"):
        assert failed.line is not None
