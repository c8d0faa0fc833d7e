"""On the CPU: what a kernel keeps in variables between calls, and where its arrays lie."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import numpy as np
import pytest

from tilewright.core.records import Argument, Failed
from tilewright.targets.cuda.cpu_program import find_cpu_compiler
from tilewright.targets.cuda.emulation import ORDERS, Run, RunResult, run_on_cpu
from tilewright.targets.cuda.launcher import call
from tilewright.targets.cuda.variables import plain

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")

N = 64
ARGUMENTS = (Argument("X", (N,), "float32", "input"), Argument("Y", (N,), "float32", "output"))
DOUBLE = """
__global__ void twice(const float *X, float *Y, float by) { Y[threadIdx.x] = X[threadIdx.x] * by; }
"""
HONEST = {
    "a flag that is set once": DOUBLE
    + """
void kernel(const float *X, float *Y) {
  static bool configured = false;
  static int processors;
  if (!configured) {
    cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    configured = true;
  }
  twice<<<1, 64>>>(X, Y, 2.0f);
}
""",
    "intermediate results in variables of the device": """
__device__ float halves[64];
__global__ void first(const float *X) { halves[threadIdx.x] = X[threadIdx.x] * 4.0f; }
__global__ void second(float *Y) { Y[threadIdx.x] = halves[threadIdx.x] * 0.5f; }
void kernel(const float *X, float *Y) { first<<<1, 64>>>(X); second<<<1, 64>>>(Y); }
""",
    "a counter that begins again": """
__device__ unsigned done;
__global__ void twice(const float *X, float *Y) {
  Y[blockIdx.x] = X[blockIdx.x] * 2.0f;
  if (atomicAdd(&done, 1) == gridDim.x - 1) done = 0;
}
void kernel(const float *X, float *Y) { twice<<<64, 1>>>(X, Y); }
""",
    "constant memory that every call fills": """
__constant__ float table[64];
__global__ void twice(float *Y) { Y[threadIdx.x] = table[threadIdx.x] * 2.0f; }
void kernel(const float *X, float *Y) {
  cudaMemcpyToSymbol(table, X, sizeof table, 0, cudaMemcpyDeviceToDevice);
  twice<<<1, 64>>>(Y);
}
""",
    "a variable of the host that every call sets": DOUBLE
    + """
static float *rest;
void kernel(const float *X, float *Y) {
  cudaMalloc(&rest, 64 * 4);
  twice<<<1, 64>>>(X, rest, 4.0f);
  twice<<<1, 64>>>(rest, Y, 0.5f);
  cudaFree(rest);
}
""",
}
COUNTS = {
    "a counter in a function": DOUBLE
    + """
void kernel(const float *X, float *Y) {
  static int calls = 0;
  twice<<<1, 64>>>(X, Y, calls++ < 40 ? 2.0f : 1.0f);
}
""",
    "tickets that never begin again": """
__device__ unsigned calls;
__global__ void twice(const float *X, float *Y) {
  Y[threadIdx.x] = X[threadIdx.x] * 2.0f;
  if (threadIdx.x == 0) atomicAdd(&calls, 1);
}
void kernel(const float *X, float *Y) { twice<<<1, 64>>>(X, Y); }
""",
    "a sum of the inputs of all calls": """
__device__ float calls;
__global__ void twice(const float *X, float *Y) {
  Y[threadIdx.x] = X[threadIdx.x] * 2.0f;
  if (threadIdx.x == 0) calls += X[0];
}
void kernel(const float *X, float *Y) { twice<<<1, 64>>>(X, Y); }
""",
}


def ran(source: str, arguments: Sequence[Argument], count: int) -> RunResult:
    compiler = find_cpu_compiler()
    program = compiler.compile(source, call(arguments, ()), 60.0)
    assert isinstance(program, bytes), program
    outputs = {a.name: np.zeros(a.shape, a.dtype) for a in arguments if a.role == "output"}
    rng = np.random.default_rng(3)
    runs = [
        Run({"X": rng.standard_normal(N).astype(np.float32), **outputs}, ORDERS[i % 3], i)
        for i in range(count)
    ]
    found = run_on_cpu(program, compiler.sandbox, arguments, (), runs, 60.0)
    for run, got in zip(runs, found.outputs, strict=False):
        if "Y" in got:
            assert np.array_equal(np.frombuffer(got["Y"], np.float32), run.initial["X"] * 2)
    return found


@pytest.mark.parametrize("name", HONEST)
def test_variables_may_be_set_once_or_written_anew_in_every_call(name: str) -> None:
    found = ran(HONEST[name], ARGUMENTS, 5)
    assert found.failed is None
    assert len(found.outputs) == 5


@pytest.mark.parametrize("name", COUNTS)
def test_a_variable_that_depends_on_earlier_calls_is_refused(name: str) -> None:
    found = ran(COUNTS[name], ARGUMENTS, 3)
    assert isinstance(found.failed, Failed)
    assert found.failed.kind == "keeps_state"
    assert "the variable calls" in found.failed.log
    assert len(found.outputs) == 3


def test_arrays_lie_elsewhere_in_every_call() -> None:
    source = """
__global__ void tells(const float *X, long long *at) { *at = (long long)X; }
void kernel(const float *X, long long *at) { tells<<<1, 1>>>(X, at); }
"""
    arguments = (ARGUMENTS[0], Argument("at", (1,), "int64", "output"))
    found = ran(source, arguments, 24)
    assert found.failed is None
    places = [int(np.frombuffer(outputs["at"], np.int64)[0]) for outputs in found.outputs]
    assert len(set(places)) == 24
    assert all(place % 256 == 0 for place in places)
    assert {place % (2 << 20) == 0 for place in places} == {True, False}
    assert {place % 4096 == 0 for place in places} == {True, False}
    assert {place >> 40 >= 0x7E for place in places} == {True, False}


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN12_GLOBAL__N_15callsE", "calls"),
        ("_ZZN12_GLOBAL__N_16kernelEPKfPfE5calls", "calls"),
        ("_ZN12_GLOBAL__N_1L4keptE", "kept"),
        ("calls", "calls"),
    ],
)
def test_a_variable_is_named_as_in_the_source(symbol: str, name: str) -> None:
    assert plain(symbol) == name
