"""Honest CUDA kernels of many styles have no condition on input values that is not tested."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tilewright.core.records import Artifact, Candidate, Failed, Verdict
from tilewright.native.conditions.finding import found_in
from tilewright.parts.untested_conditions import MORE_TURNS
from tilewright.targets.cuda import condition_program, create_target
from tilewright.targets.cuda.checker import CudaChecker
from tilewright.targets.cuda.emulation import Run, RunResult
from tilewright.targets.cuda.evaluation import CudaEvaluation
from tilewright.targets.cuda.launcher import call
from tilewright.targets.cuda.nvcc import Compiled
from tilewright.targets.cuda.task import CudaTask

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")

HONEST = sorted((Path(__file__).parent / "honest").glob("*.cu"))


@cache
def task_for(workload: str) -> CudaTask:
    return create_target().open(workload, {"input_seed": 3, "simulation_timeout_s": 60.0})


def checker_for(task: CudaTask) -> CudaChecker:
    checker = task.evaluator[1]
    assert isinstance(checker, CudaChecker)
    return checker


@pytest.fixture(autouse=True)
def without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaEvaluation, "compiled", lambda self, source: Compiled(b"", ()))


@pytest.mark.parametrize("file", HONEST, ids=lambda file: file.stem)
def test_an_honest_kernel_is_accepted(file: Path) -> None:
    source = file.read_text()
    task = task_for(source.partition("\n")[0].removeprefix("// On: "))
    outcome = checker_for(task).check(Artifact(Candidate(source).id, b"", "", source))
    assert isinstance(outcome, Verdict), outcome.log


def test_there_are_at_least_fifteen() -> None:
    assert len(HONEST) >= 15


@pytest.mark.parametrize(
    ("value", "share"), [("x > 0.0f ? fabsf(x) : x", 0.25), ("x == 77.0f ? 0.0f : x", MORE_TURNS)]
)
def test_inputs_are_not_recorded_twice(
    value: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"""#include <cuda_runtime.h>
__global__ void sums(const float *X, float *Y, int C) {{
  float sum = 0.0f;
  for (int c = 0; c < C; c++) {{
    float x = X[blockIdx.x * C + c];
    sum += {value};
  }}
  Y[blockIdx.x] = sum;
}}
void kernel(const float *X, float *Y, int R = 8, int C = 64) {{ sums<<<R, 1>>>(X, Y, C); }}
"""
    seen = list[str]()
    recorded = CudaEvaluation.recorded

    def counted(self: CudaEvaluation, text: str, runs: Sequence[Run]) -> RunResult:
        seen.extend(str(run.seed) for run in runs if text == source)
        return recorded(self, text, runs)

    monkeypatch.setattr(CudaEvaluation, "recorded", counted)
    task = task_for("rowsum-8x64")
    outcome = checker_for(task).check(Artifact("", b"", "", source))
    assert isinstance(outcome, Failed) == (share == MORE_TURNS), outcome
    evaluation = checker_for(task)._evaluation
    once = len(evaluation.cases.compared(evaluation.settings.checks))
    assert len(seen) == len(set(seen)) == math.ceil(once * share)


def test_a_kernel_may_define_a_macro_with_the_name_of_a_template_parameter() -> None:
    source = task_for("rowsum-8x64").start.replace("\n", "\n#define T 16\n", 1)
    outcome = checker_for(task_for("rowsum-8x64")).check_first(Artifact("", b"", "", source))
    assert isinstance(outcome, Verdict), outcome.log


def test_conversions_by_functions_of_cuda_give_the_nearest_possible_number() -> None:
    source = """#include <cuda_runtime.h>
__global__ void sums(const float *X, float *Y, int C) {
  float sum = 0.0f;
  for (int c = 0; c < C; c++) sum += X[blockIdx.x * C + c];
  bool right = __float2int_rz(1e21f) == 2147483647 && __float2int_rn(-1e21f) == -2147483647 - 1 &&
               __float2uint_rn(-1.0f) == 0 && __float2int_rn(NAN) == 0 &&
               __float2int_rz(-3.9f) == -3 &&
               __float2ll_rz(1e30f) == 9223372036854775807ll && __double2int_rn(2.5) == 2;
  Y[blockIdx.x] = right ? sum : 0.0f;
}
void kernel(const float *X, float *Y, int R = 8, int C = 64) { sums<<<R, 1>>>(X, Y, C); }
"""
    artifact = Artifact("", b"", "", source)
    outcome = checker_for(task_for("rowsum-8x64")).check_first(artifact)
    assert isinstance(outcome, Verdict), outcome.log


def conditions(body: str) -> list[int | None]:
    """The lines of conditions on input values in the second line of a kernel."""
    source = (
        "#include <cuda_runtime.h>\n"
        f"__global__ void f(const float *X, float *Y, int n) {{ {body} }}\n"
        "void kernel(const float *X, float *Y, int R = 8, int C = 64) { f<<<R, 32>>>(X, Y, C); }\n"
    )
    evaluation = task_for("rowsum-8x64")._evaluation
    called = call(evaluation.compared.arguments, tuple(evaluation.sizes))
    listed = evaluation.cpu_compiler.listing(source, called, 60.0)
    assert not isinstance(listed, Failed), listed.log
    found = found_in(listed.assembly, "kernel.cu", condition_program.AROUND)
    assert not isinstance(found, Failed)
    return [site.instruction.line for site in (*found.sites, *found.jumps)]


@pytest.mark.parametrize(
    "body",
    [
        "if (blockIdx.y * blockDim.y + threadIdx.y < n) Y[threadIdx.x] = X[threadIdx.x];",
        "if (__ballot_sync(~0u, threadIdx.x < n)) Y[0] = 1;",
        "if (__popc(__match_any_sync(~0u, threadIdx.x / 2)) == n) Y[0] = 1;",
        "for (int i = threadIdx.x; i < n; i += 32) Y[i] = sqrtf(X[i]);",
        "Y[threadIdx.x] = fmaxf(X[threadIdx.x], 0.0f);",
    ],
)
def test_sizes_and_indices_of_threads_are_no_input_values(body: str) -> None:
    assert conditions(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "if (X[threadIdx.x] == 77.0f) Y[0] = 1;",
        "if (__ballot_sync(~0u, X[threadIdx.x] > 77.0f)) Y[0] = 1;",
        "__shared__ float s; s = X[0]; __syncthreads(); if (s == 77.0f) Y[0] = 1;",
        "Y[threadIdx.x] = X[threadIdx.x] > 77.0f ? 0.0f : X[threadIdx.x];",
        "switch ((int)X[0]) { case 1: Y[0] = 1; break; case 77: Y[1] = 2; break; }",
    ],
)
def test_what_is_read_through_a_pointer_is_an_input_value(body: str) -> None:
    assert conditions(body)
