"""Kernels on instances of a user's own, in both dataflows, and kernels of other instances."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core.plugins import load_target
from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured, Outcome
from tilewright.core.tasks import open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]

INSTANCES = {
    "int8-8x8-two-banks": ("int8-16x16", "array.dim = 8\nscratchpad.banks = 2"),
    "int8-half-scratchpad": ("int8-16x16", "scratchpad.bank_rows = 2048"),
    "int8-32x32-wide-bus": ("int8-16x16", "array.dim = 32\narray.output_bits = 21\n"
                            "dma.bus_bytes = 32\ndma.in_flight = 32"),
    "int8-4x4-small-queues": ("int8-16x16", "array.dim = 4\ncommands.load_entries = 2\n"
                              "commands.execute_entries = 3\ncommands.store_entries = 1"),
    "fp32-4x4": ("fp32-4x4", ""),
    "fp32-16x16-slow-dram": ("fp32-4x4", "array.dim = 16\ndram.line_cycles = 32"),
}  # fmt: skip


@pytest.fixture(params=INSTANCES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    base, changes = INSTANCES[request.param]
    lines = [f"simulator.{line}" for line in changes.splitlines()]
    path = tmp_path / f"{request.param}.toml"
    path.write_text("\n".join(['target = "gemmini"', f'base = "gemmini-{base}"', *lines]))
    return str(path)


def outcome(target: str, workload: str, source: str) -> Outcome:
    task = open_task(workload, {"target": target}).task
    return evaluate(task.evaluator, EvaluationRequest(Candidate(source)))


@pytest.mark.parametrize("workload", ["gemm-70x50x90", "conv-1x6x9x12x20-k3s1"])
def test_baselines_follow_the_instance(target: str, workload: str) -> None:
    task = open_task(workload, {"target": target}).task
    assert set(task.baselines) == {"naive", "library", "tuned", "fsm"}
    for name, source in task.baselines.items():
        measured = outcome(target, workload, source)
        assert isinstance(measured, Measured), (name, measured)
        assert 0 < measured.utilization <= 1


OUTPUT_STATIONARY = """
void kernel(const elem_t A[M][K], const elem_t B[K][N], elem_t C[M][N]) {
  config_ex(OUTPUT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(N * sizeof(elem_t));
  config_ld(K * sizeof(elem_t), 1.0f, DIM, 0);
  config_ld(N * sizeof(elem_t), 1.0f, DIM, 1);
  for (int i = 0; i < M; i += DIM)
    for (int j = 0; j < N; j += DIM) {
      const int rows = M - i < DIM ? M - i : DIM, cols = N - j < DIM ? N - j : DIM;
      for (int k = 0; k < K; k += DIM) {
        const int depth = K - k < DIM ? K - k : DIM;
        mvin(&A[i][k], SPAD(0), depth, rows);
        mvin2(&B[k][j], SPAD(SPAD_BANK_ROWS), cols, depth);
        preload(NONE, k + DIM < K ? NONE : ACC(0), cols, rows, cols, rows);
        if (k == 0) compute_preloaded(SPAD(0), SPAD(SPAD_BANK_ROWS), depth, rows, cols, depth);
        else compute_accumulated(SPAD(0), SPAD(SPAD_BANK_ROWS), depth, rows, cols, depth);
      }
      mvout(&C[i][j], ACC(0), cols, rows);
    }
  fence();
}
"""


def test_an_output_stationary_kernel(target: str) -> None:
    """Ragged in every dimension; the sums of a tile stay in the array over all of K."""
    sizes = "#define M 37\n#define N 21\n#define K 90\n"
    measured = outcome(target, "gemm-37x21x90", sizes + OUTPUT_STATIONARY)
    assert isinstance(measured, Measured), measured
    assert measured.breakdown["drain"] > 0  # results leave by passes of their own


def test_a_kernel_with_tiles_of_another_array(tmp_path: Path) -> None:
    path = tmp_path / "half.toml"
    path.write_text('target = "gemmini"\nbase = "gemmini-int8-16x16"\nsimulator.array.dim = 8\n')
    other = load_target("gemmini").open("gemm-64x64x64", {}).start
    failed = outcome(str(path), "gemm-64x64x64", other)
    assert isinstance(failed, Failed)
    assert failed.kind == "limit_exceeded"
    assert failed.line is not None
    assert "must be 1..64 columns and 1..8 rows on half (int8 8x8)" in failed.log


def test_a_kernel_with_more_memory_than_there_is(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(
        'target = "gemmini"\nbase = "gemmini-int8-16x16"\nsimulator.scratchpad.bank_rows = 64\n'
    )
    start = open_task("gemm-64x64x64", {"target": str(path)}).task.start
    failed = outcome(str(path), "gemm-64x64x64", start.replace("SPAD(SPAD_BANK_ROWS", "SPAD(4096"))
    assert isinstance(failed, Failed)
    assert failed.kind == "local_out_of_bounds"
    assert "there are 256 rows on small (int8 16x16)" in failed.log


def test_a_kernel_of_other_types() -> None:
    other = load_target("gemmini").open("gemm-16x16x16", {}).start
    failed = outcome("gemmini-fp32-4x4", "gemm-16x16x16", other)
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.kind, failed.line) == ("check", "compile_error", 1)
    assert "parameter 1 of the kernel is `const int8_t A[16][16]`, but argument 1 is" in failed.log
