"""What tile loads read is counted by a build of its own, with any hardware."""

from __future__ import annotations

import shutil
from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from tilewright.core.records import Argument
from tilewright.native.evaluator import NativeEvaluation
from tilewright.native.operation_counts import counted
from tilewright.targets.amx import create_bf16_target, create_int8_target
from tilewright.targets.amx.target import AmxTarget

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="no C compiler for this machine"
)
TILE = 1024


def evaluation_of(target: AmxTarget, name: str) -> NativeEvaluation:
    task = target.open(name, {"input_seed": 5})
    return task.evaluator[0]._evaluation  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("create", "name", "tiles"),
    [
        (create_int8_target, "gemm-32x48x128-packed", 2 * 2 * 3 * 2),
        (create_int8_target, "gemm-32x48x128", 2 * 2 * 3 * 2),
        (create_bf16_target, "gemm-32x48x128-packed", 2 * 2 * 3 * 4),
        # rows of 14 pixels at a time: each product loads 14 rows of one operand
        (create_int8_target, "conv-1x3x28x64x16-k3s1", 3 * 2 * 9 * (14 / 16 + 1)),
    ],
)
def test_loads_of_naive_kernels(create: type[AmxTarget], name: str, tiles: float) -> None:
    evaluation = evaluation_of(create(), name)
    found = counted(evaluation, evaluation.start, evaluation.cases[0])
    assert found == {"tile_load_bytes": TILE * tiles}


def test_a_kernel_that_loads_less_counts_less() -> None:
    evaluation = evaluation_of(create_int8_target(), "gemm-32x48x128-packed")
    hoisted = evaluation.start.replace(
        "_tile_loadd(1, &A[i][k], 128);", "if (j == 0) _tile_loadd(1, &A[i][k], 128);"
    )
    assert hoisted != evaluation.start
    found = counted(evaluation, hoisted, evaluation.cases[0])
    assert found == {"tile_load_bytes": TILE * 2 * 2 * (3 + 1)}


@pytest.mark.parametrize(
    "source",
    [
        "",
        "void kernel(void *A, void *B, void *C) {}",
        '#include "tiles.h"\nvoid kernel(void *A, void *B, void *C) { *(volatile char *)0; }',
        '#include "tiles.h"\nvoid counted_kernel(void) {}\nvoid kernel(void) {}',
        '#include "tiles.h"\nstatic volatile char large[1ul << 33];\n'
        "void kernel(void *A, void *B, void *C) { large[0] = 1; }",
    ],
)
def test_what_cannot_be_counted_has_no_count(source: str) -> None:
    evaluation = evaluation_of(create_int8_target(), "gemm-16x16x64-packed")
    assert counted(evaluation, source, evaluation.cases[0]) == {}


def test_no_counts_where_a_kernel_has_as_many_arrays_as_can_be_passed() -> None:
    evaluation = evaluation_of(create_int8_target(), "gemm-16x16x64-packed")
    more = tuple(Argument(f"x{i}", (1,), str(np.dtype("int8")), "input") for i in range(5))
    cases = copy(evaluation.cases)
    arguments = (*evaluation.workload.arguments, *more)
    cases.workload = replace(evaluation.workload, arguments=arguments)
    assert counted(replace(evaluation, cases=cases), evaluation.start, evaluation.cases[0]) == {}
