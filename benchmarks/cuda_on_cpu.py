"""Measures the cost of checking CUDA kernels on the CPU; no GPU is needed.

    uv run python benchmarks/cuda_on_cpu.py

The CPU seconds of one core are measured for a product of 512^3 with shared tiles of 16 x 16: with
the address sanitizer and threads in three orders (goal: at most 6 s), and once with the search for
data races. If nvcc is on PATH, the wall seconds from the source of each starting kernel to its
verdict are measured, too (goal: at most 4 s on an idle machine).
"""

from __future__ import annotations

import resource
import shutil
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from tilewright.core.records import Argument, Artifact, Candidate, Verdict
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.cpu_program import find_cpu_compiler
from tilewright.targets.cuda.emulation import ORDERS, Run, run_on_cpu
from tilewright.targets.cuda.launcher import call

SIZE = 512
TILED = """
constexpr int T = 16;
__global__ void tiled(const float *A, const float *B, float *C, int n) {
  __shared__ float a[T][T], b[T][T];
  int y = blockIdx.y * T + threadIdx.y, x = blockIdx.x * T + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < n; k += T) {
    a[threadIdx.y][threadIdx.x] = A[y * n + k + threadIdx.x];
    b[threadIdx.y][threadIdx.x] = B[(k + threadIdx.y) * n + x];
    __syncthreads();
    for (int i = 0; i < T; i++) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
    __syncthreads();
  }
  C[y * n + x] = sum;
}
void kernel(const float *A, const float *B, float *C, int n) {
  tiled<<<dim3(n / T, n / T), dim3(T, T)>>>(A, B, C, n);
}
"""
SPECS = (
    "gemm-4096x4096x4096",
    "softmax-4096x4096",
    "rowsum-8192x8192",
    "chain-8192x4096",
    "stencil-4096x4096",
    "conv2d-8x64x512x256x128-k5x7s1p0",
)


def main() -> None:
    print_product()
    if shutil.which("nvcc"):
        print_verdicts()


def print_product() -> None:
    roles = {"A": "input", "B": "input", "C": "output"}
    arguments = tuple(
        Argument(name, (SIZE, SIZE), "float32", role)  # type: ignore[arg-type]
        for name, role in roles.items()
    )
    compiler = find_cpu_compiler()
    watched = [
        compiler.compile(TILED, call(arguments, ("n",)), 120.0, races) for races in (False, True)
    ]
    rng = np.random.default_rng(1)
    initial = {name: rng.standard_normal((SIZE, SIZE), np.float32) for name in roles}
    runs = [Run(initial, order, 3) for order in ORDERS]
    expected = initial["A"].astype(float) @ initial["B"].astype(float)
    said = ("address sanitizer, three orders", "search for data races, one order")
    for program, its_runs, words in zip(watched, (runs, runs[-1:]), said, strict=True):
        assert isinstance(program, bytes), program
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        found = run_on_cpu(program, compiler.sandbox, arguments, (SIZE,), its_runs, 600.0)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        got = np.frombuffer(found.outputs[-1]["C"], np.float32).reshape(expected.shape)
        assert found.failed is None
        assert float(np.abs(got - expected).max()) < 1e-3
        print(f"{SIZE}^3 by shared tiles, {words}: {spent:.2f} s of CPU time")


def print_verdicts() -> None:
    table = Table("workload", box=None)
    for name in ("build s", "check s", "comparisons"):
        table.add_column(name, justify="right")
    for spec in SPECS:
        task = create_target().open(spec, {"input_seed": 1})
        builder, checker, _ = task.evaluator
        started = time.perf_counter()
        artifact = builder.build(Candidate(task.start))
        built = time.perf_counter()
        assert isinstance(artifact, Artifact), artifact
        verdict = checker.check(artifact)
        checked = time.perf_counter()
        assert isinstance(verdict, Verdict), verdict
        words = (f"{built - started:.2f}", f"{checked - built:.2f}", str(len(verdict.checks)))
        table.add_row(spec, *words)
    Console().print(table)


if __name__ == "__main__":
    main()
