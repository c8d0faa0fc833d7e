"""Kernels that are too large for the CPU: some blocks are run, and say what they can."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from math import comb
from pathlib import Path

import numpy as np
import pytest

from tilewright.core.errors import NotTimedError
from tilewright.core.records import Argument, Candidate, Check, Failed, Tolerance, Verdict, Workload
from tilewright.parts.case import Case
from tilewright.parts.cases import OF_LARGE
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.problem import ProductProblem
from tilewright.targets.cuda import create_target, evaluation, partial_runs
from tilewright.targets.cuda.cpu_program import find_cpu_compiler
from tilewright.targets.cuda.emulation import Run, run_on_cpu
from tilewright.targets.cuda.launcher import call

pytestmark = pytest.mark.skipif(
    shutil.which("nvcc") is None or shutil.which("g++") is None,
    reason="needs nvcc and g++ on PATH",
)

M, N, K = 92, 75, 40
BLOCKS, CHOSEN = 6 * 5, 10
FILES = {
    "workload.toml": f"""target = "cuda"
operations = {M * N * K}
reduction = {K}
[[argument]]
name = "A"
shape = [{M}, {K}]
dtype = "float32"
role = "input"
[[argument]]
name = "B"
shape = [{K}, {N}]
dtype = "float32"
role = "input"
[[argument]]
name = "C"
shape = [{M}, {N}]
dtype = "float32"
role = "output"
""",
    "reference.py": "def reference(A, B):\n    return A @ B\n",
}
RIGHT = """__global__ void product(const float *A, const float *B, float *C) {
  __shared__ int started;
  if (threadIdx.x == 0 && threadIdx.y == 0) started = 0;
  __syncthreads();
  atomicAdd(&started, 1);
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  if (x < 75 && y < 92) {
    float sum = 0;
    for (int k = 0; k < 40; k++) sum += A[y * 40 + k] * B[k * 75 + x];
    C[y * 75 + x] = sum;
  }
}
void kernel(const float *A, const float *B, float *C) {
  product<<<dim3(5, 6), dim3(16, 16)>>>(A, B, C);
}
"""
WRONG = {
    "wrong index in the last block": (
        "C[y * 75 + x] = sum", "C[y * 75 + x - (blockIdx.x + blockIdx.y == 9)] = sum",
        "wrong_result",
    ),
    "no check of columns": ("x < 75 && y < 92", "y < 92", "illegal_address|wrong_result"),
    "no check of rows": ("x < 75 && y < 92", "x < 75", "illegal_address"),
    "the last term of sums is left out": ("k < 40", "k < 39", "wrong_result"),
    "sums begin with what the output holds": ("= sum;", "+= sum;", "wrong_result"),
    "a barrier is missing": (
        "float sum = 0;",
        "__shared__ float first[16];\\n    first[threadIdx.x] = A[y * 40];\\n"
        "    float sum = first[(threadIdx.x + 1) % 16] - A[y * 40];",
        "race|wrong_result",
    ),
}  # fmt: skip
UNKNOWN = {
    "grid too small": ("dim3(5, 6)", "dim3(4, 6)", "as they were"),
    "half of every tile": ("y < 92)", "y < 92 && threadIdx.y < 8)", "as they were"),
    "global atomics": ("C[y * 75 + x] = sum", "atomicAdd(&C[y * 75 + x], sum)", ":10.*atomic"),
    "two launches": (
        "  product<<<dim3(5, 6), dim3(16, 16)>>>(A, B, C);",
        "  product<<<dim3(5, 6), dim3(16, 16)>>>(A, B, C);\\n"
        "  product<<<dim3(5, 6), dim3(16, 16)>>>(A, B, C);",
        "kernel.cu:15.*one launch",
    ),
    "an output filled by host code": (
        "  product<<<", "  cudaMemset(C, 0, 4 * 92 * 75);\\n  product<<<", "host code fills",
    ),
    "blocks that wait for others": (
        "    float sum = 0;",
        "    while (blockIdx.x && *(volatile float *)&C[y * 75] == 1e30f * 0) {}\\n"
        "    if (blockIdx.x == 3) for (volatile int i = 0;; i = i) {}\\n    float sum = 0;",
        "did not finish",
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task whose operations are too many, so that a third of the blocks is run."""
    monkeypatch.setattr(evaluation, "MOST_OPERATIONS", M * N * K // 2)
    monkeypatch.setattr(partial_runs, "MOST_OF_A_RUN", M * N * K // 3)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "kernel.cu").write_text(RIGHT)
    return tmp_path


def checked(folder: Path, source: str, **settings: object) -> Verdict | Failed:
    task = create_target().open_folder(folder, {"simulation_timeout_s": 100.0, **settings})
    builder, checker, runner = task.evaluator
    artifact = builder.build(Candidate(source))
    assert not isinstance(artifact, Failed), artifact
    first = checker.check_first(artifact)
    found = first if isinstance(first, Failed) else checker.check(artifact, first)
    if isinstance(found, Verdict):
        with pytest.raises(NotTimedError, match=f"{CHOSEN} of {BLOCKS} blocks"):
            runner.measure(artifact, found, None)
    return found


def changed(old: str, new: str) -> str:
    assert RIGHT.count(old) >= 1, old
    return RIGHT.replace(old, new.replace("\\n", "\n"))


def test_a_right_kernel_is_right_in_the_blocks_that_were_run(folder: Path) -> None:
    found = checked(folder, RIGHT)
    assert isinstance(found, Verdict), found
    assert {check.distribution for check in found.checks} == set(OF_LARGE)
    assert found.precision == "float32"


@pytest.mark.parametrize("bug", WRONG)
def test_a_mistake_in_the_blocks_that_were_run_is_found(folder: Path, bug: str) -> None:
    old, new, kinds = WRONG[bug]
    found = checked(folder, changed(old, new))
    assert isinstance(found, Failed)
    assert found.kind in kinds.split("|"), found.log


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_some_blocks_cannot_tell_is_not_checked(folder: Path, case: str) -> None:
    old, new, words = UNKNOWN[case]
    never_ends = words == "did not finish"
    limit_s = 4.0 if never_ends else 100.0
    found = checked(folder, changed(old, new), simulation_timeout_s=limit_s)
    assert isinstance(found, Failed)
    assert found.kind == "not_checked", found.log
    assert re.search(words, found.log), found.log


def test_a_block_that_is_too_large_is_not_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_runs, "MOST_OF_A_RUN", M * N * K // 100)
    found = checked(folder, RIGHT)
    assert isinstance(found, Failed)
    assert found.kind == "not_checked"
    assert "one of its 30 blocks" in found.log


def test_a_task_whose_reference_takes_too_long_is_refused_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_runs, "MOST_OF_A_REFERENCE", M * N * K - 1)
    found = checked(folder, RIGHT)
    assert isinstance(found, Failed)
    assert found.kind == "not_checked"
    assert "[tolerance]" in found.log
    text = FILES["workload.toml"] + "[tolerance]\nabsolute = 1e-3\nrelative = 1e-3\n"
    (folder / "workload.toml").write_text(text)
    assert isinstance(checked(folder, RIGHT), Verdict)


def test_what_is_read_and_written_is_refused(folder: Path) -> None:
    text = FILES["workload.toml"].replace('role = "output"', 'role = "inout"')
    (folder / "workload.toml").write_text(text)
    (folder / "reference.py").write_text("def reference(A, B, C):\n    return A @ B + C\n")
    found = checked(folder, RIGHT)
    assert isinstance(found, Failed)
    assert "read and written" in found.log


def test_blocks_are_drawn_with_the_chance_that_the_documentation_states() -> None:
    """Of 6 x 5 blocks, 10 are run: the 4 corners, and 6 of the other 26."""
    arguments = (Argument("C", (BLOCKS,), "float32", "output"),)
    source = (
        "__global__ void f(float *C) { C[blockIdx.x + 5 * blockIdx.y] = 1; }\n"
        "void kernel(float *C) { f<<<dim3(5, 6), 1>>>(C); }\n"
    )
    compiler = find_cpu_compiler()
    program = compiler.compile(source, call(arguments, ()), 60.0)
    assert isinstance(program, bytes)
    initial = {"C": np.zeros(BLOCKS, np.float32)}
    seeds = [int(s) for s in np.random.default_rng(7).integers(1 << 62, size=400)]
    runs = [Run(initial, "forward", seed, CHOSEN / BLOCKS) for seed in seeds]
    ran = run_on_cpu(program, compiler.sandbox, arguments, (), runs, 60.0)
    assert ran.failed is None
    assert ran.part is not None
    assert (ran.part.blocks, ran.part.of, ran.part.written) == (CHOSEN, BLOCKS, {"C": 1})
    hits = np.array([np.frombuffer(o["C"], np.float32) for o in ran.outputs])
    assert (hits.sum(1) == CHOSEN).all()
    corners = [0, 4, 25, 29]
    assert (hits[:, corners] == 1).all()
    others = np.delete(hits, corners, axis=1)
    assert np.abs(others.mean(0) - 6 / 26).max() < 0.11  # five standard deviations
    three = others[:, [3, 11, 20]].any(1).mean()
    assert three == pytest.approx(1 - comb(23, 6) / comb(26, 6), abs=0.1)


def test_all_orders_of_one_set_of_inputs_run_the_same_blocks() -> None:
    arguments = (Argument("C", (100,), "int8", "output"),)
    source = (
        "__global__ void f(signed char *C) { C[blockIdx.x] = 1; }\n"
        "void kernel(signed char *C) { f<<<100, 1>>>(C); }\n"
    )
    compiler = find_cpu_compiler()
    program = compiler.compile(source, call(arguments, ()), 60.0)
    assert isinstance(program, bytes)
    initial = {"C": np.zeros(100, np.int8)}
    runs = [
        Run(initial, order, 5, 0.2, fill)
        for order, fill in zip(("forward", "reversed", "shuffled"), partial_runs.FILLS, strict=True)
    ]
    ran = run_on_cpu(program, compiler.sandbox, arguments, (), runs, 60.0)
    written = [
        set(np.flatnonzero(np.frombuffer(o["C"], np.int8) != np.uint8(run.fill).astype(np.int8)))
        for run, o in zip(runs, ran.outputs, strict=True)
    ]
    assert written[0] == written[1] == written[2]
    assert len(written[0]) == 20
    check = Check(5, "small")
    task = Workload("cuda:t", "cuda", arguments, 100, Tolerance())
    case = Case(5, check, task, initial, None)  # type: ignore[arg-type]
    found = partial_runs.written_in_any(
        case, [(run.fill, o) for run, o in zip(runs, ran.outputs, strict=True)]
    )
    assert set(np.flatnonzero(found["C"])) == written[0]


def test_the_error_of_a_part_is_not_diluted_by_the_rest() -> None:
    """Results that are each within the limit of single elements, and together are not."""
    rng = np.random.default_rng(3)
    A, B = rng.normal(size=(64, 64)), rng.normal(size=(64, 64))
    arguments = (
        Argument("A", (64, 64), "float32", "input"),
        Argument("B", (64, 64), "float32", "input"),
        Argument("C", (64, 64), "float32", "output"),
    )
    task = Workload("cuda:t", "cuda", arguments, 64**3)
    initial = {"A": A.astype(np.float32), "B": B.astype(np.float32)}
    problem = Product()
    case = Case(1, Check(1, "small"), task, {**initial, "C": np.zeros((64, 64))}, problem)
    expected, allowed = case.expected["C"], case.honest["C"].allowed
    assert isinstance(expected, TrackedArray)
    off = expected.exact + 1.5 * allowed.rms * expected.deviation
    marked = np.zeros((64, 64), bool)
    marked[:16, :32] = True
    outputs = {"C": np.where(marked, off, expected.exact).astype(np.float32).tobytes()}
    assert 1.6 * allowed.rms < allowed.largest
    found = case.mismatch(outputs, {"C": marked})
    assert found is not None
    assert "root mean square" in found
    few = marked & (np.arange(64) < 3)
    assert case.mismatch(outputs, {"C": few}) is None
    assert case.mismatch(outputs, {"C": ~marked}) is None


class Product(ProductProblem):
    reduction, fingerprint, output = 64, "product", "C"

    def operands(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        return {"left": inputs["A"], "right": inputs["B"]}
