"""Kernels in Triton, compiled and interpreted by Triton; skipped where it is not installed."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace

import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import Candidate, Failed, Verdict
from tilewright.core.templates import parse_template
from tilewright.parts.languages import PYTHON
from tilewright.targets.cuda.checker import CudaChecker
from tilewright.targets.cuda.task import CudaTask
from tilewright.targets.cuda.triton import create_target
from tilewright.targets.cuda.triton.process import find_triton

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc on PATH")
SETTINGS = {"input_seed": 3, "checks": 3, "simulation_timeout_s": 60.0, "compile_timeout_s": 60.0}
STORE = "tl.store(C + rows.to(tl.int64) * N + columns, total, mask=(rows < M) & (columns < N))"


@pytest.fixture
def task() -> CudaTask:
    try:
        find_triton()
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    return create_target().open("gemm-50x64x32", SETTINGS)


def verdict_of(task: CudaTask, source: str) -> Verdict | Failed:
    builder, checker, _ = task.evaluator
    built = builder.build(Candidate(source))
    return built if isinstance(built, Failed) else checker.check(built)


def test_the_starting_kernel_is_right(task: CudaTask) -> None:
    verdict = verdict_of(task, task.start)
    assert isinstance(verdict, Verdict), verdict.log
    assert verdict.precision == "float32"


@pytest.mark.parametrize(
    "spec", ["gemm-50x40x70", "softmax-5x9000", "conv2dbias-1x3x9x9x18-k3x3s2p1"]
)
def test_an_instance_of_a_template_is_right(task: CudaTask, spec: str) -> None:
    opened = create_target().open(spec, SETTINGS)
    (text,) = opened.templates().values()
    template = parse_template(text, PYTHON.templates)
    assert template is not None
    values = template.assignment(random.Random(f"{spec} 1").choice(template.points()))
    verdict = verdict_of(opened, template.instance(values))
    assert isinstance(verdict, Verdict), f"{values}: {verdict.log}"
    assert verdict.precision == "float32"


def test_where_the_start_has_an_untested_condition_others_may_have_one(task: CudaTask) -> None:
    special = "    total += tl.where(total == 77.0, 5.0, 0.0)\n    tl.store(C"
    text = task.start.replace("    tl.store(C", special)
    failed = verdict_of(task, text)
    assert isinstance(failed, Failed)
    assert failed.kind == "untested_condition"
    like_it = replace(task._evaluation, start=text.replace("77.0", "76.0"), conditions={})
    built = task.evaluator[0].build(Candidate(text))
    assert not isinstance(built, Failed)
    assert isinstance(CudaChecker(like_it).check(built), Verdict)


def test_sums_split_by_atomic_operations_are_right(task: CudaTask) -> None:
    text = task.start.replace("tl.store(C", "tl.atomic_add(C")
    text = text.replace("range(0, K, TILE)", "range(tl.program_id(2) * TILE, K, 2 * TILE)")
    text = text.replace("triton.cdiv(N, 64))", "triton.cdiv(N, 64), 2)")
    text = text.replace("TILE=64", "TILE=16").replace(", 64)", ", 16)")
    verdict = verdict_of(
        task, text.replace("    product[grid]", "    C.zero_()\n    product[grid]")
    )
    assert isinstance(verdict, Verdict), verdict.log


def test_one_condition_for_a_whole_tile_is_a_mask(task: CudaTask) -> None:
    text = task.start.replace("mask=(rows < M)", "mask=(tl.program_id(0) >= 0) & (rows < M)")
    assert text != task.start
    verdict = verdict_of(task, text.replace("first)", "first.to(tl.int32))"))
    assert isinstance(verdict, Verdict), verdict.log


def test_the_compiler_and_the_interpreter_look_the_same_to_a_launcher(task: CudaTask) -> None:
    asked = "if 'JIT' not in f'{product}' or product[grid](A, B, C, M, N, K, TILE=64) is not None:"
    text = task.start.replace(
        "    product[grid]", f"    {asked}\n        return\n    product[grid]"
    )
    verdict = verdict_of(task, text)
    assert isinstance(verdict, Verdict), verdict.log


def test_what_a_masked_load_leaves_out_is_not_zero(task: CudaTask) -> None:
    text = task.start.replace(", other=0.0", "")
    assert text != task.start
    failed = verdict_of(task, text)
    assert isinstance(failed, Failed)
    assert failed.kind == "wrong_result"
    assert "got nan" in failed.log


def test_a_constant_is_no_python_function(task: CudaTask) -> None:
    text = task.start.replace("TILE: tl.constexpr", "TILE: tl.constexpr, F: tl.constexpr")
    text = text.replace("    tl.store(C", "    total = F(total)\n    tl.store(C")
    failed = verdict_of(task, text.replace("TILE=64)", "TILE=64, F=lambda x: x)"))
    assert isinstance(failed, Failed)
    assert failed.kind == "compile_error"
    assert "the constant F is a Python function" in failed.log


@pytest.mark.parametrize(
    ("old", "new", "kind", "says"),
    [
        ("(rows < M) & (across < K)", "across < K", "illegal_address", "A, which has 1600"),
        (STORE, STORE.replace("C +", "A +"), "input_modified", "input (A)"),
        (STORE, STORE.replace("total,", "total + tl.program_id(1),")
         .replace("columns, ", "columns % 16, "), "race", "writes element 0 of C, which program 0"),
        (', input_precision="ieee"', "", "wrong_result", "elements of C differ"),
        ("tl.dot(left, right", "tl.dot(left.to(tl.bfloat16), right.to(tl.bfloat16)",
         "wrong_result", "elements of C differ"),
        ('"ieee"', '"tf32x3"', "wrong_result", "elements of C differ"),
        ("tl.dot", "tl.dott", "compile_error", "dott"),
        ("TILE=64", "TILE=64, num_stages=16", "launch_failure", "shared memory"),
        ("    for first in range(0, K, TILE):",
         "    for first in range(0, K, TILE):\n        if (first + 65536) * 65536 <= 0:\n"
         "            total += 1", "wrong_result", "elements of C differ"),
        ('"ieee"', '"bf16x3"', "not_checked", "split bfloat16"),
        ("    product[grid]", "    A.zero_()\n    product[grid]", "input_modified", "input (A)"),
        ("    product[grid]", "    grid = (M / 16, 4)\n    product[grid]", "launch_failure",
         "not an integer"),
        ("    product[grid]", "    for _ in range(1001):\n        product[grid]",
         "launch_failure", "more than 1000"),
        ("    product[grid](A, B, C, M, N, K, TILE=64)", "    product[grid](A)", "compile_error",
         "product() missing"),
        ("    product[grid]", "    C.sum()\n    product[grid]", "not_checked", ".sum of an array"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(task: CudaTask, old: str, new: str, kind: str, says: str) -> None:
    text = task.start.replace("TILE=64", "TILE=16").replace(", 64)", ", 16)")
    assert old.replace("TILE=64", "TILE=16") in text
    failed = verdict_of(task, text.replace(old.replace("TILE=64", "TILE=16"), new))
    assert isinstance(failed, Failed)
    assert failed.kind == kind, failed.log
    assert says in failed.log
    if kind not in ("wrong_result", "launch_failure"):
        assert failed.line is not None
