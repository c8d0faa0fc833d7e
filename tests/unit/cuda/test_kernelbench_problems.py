"""Problems in KernelBench's form: what is read of a file, what is refused, and who is right.

Most tests talk to a stand-in for the program that runs PyTorch; those that need PyTorch say so.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tilewright.core.errors import InputError, ToolchainMissingError
from tilewright.core.records import Candidate, Failed, Verdict
from tilewright.core.tasks import open_task
from tilewright.targets.cuda.evaluation import CudaEvaluation
from tilewright.targets.cuda.models import oracle
from tilewright.targets.cuda.models.oracle import OracleProcess, find_torch
from tilewright.targets.cuda.models.problem_file import read_problem
from tilewright.targets.cuda.models.task import ModelTask
from tilewright.targets.cuda.nvcc import Compiled, Nvcc, Resources

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")
ANSWER = '''
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
__global__ void product(const float *A, const float *B, const float *s, float *C, int N, int K) {
  float sum = 0.0f;
  for (int k = 0; k < K; k++) sum += A[blockIdx.x * K + k] * B[k * N + threadIdx.x];
  C[blockIdx.x * N + threadIdx.x] = sum * s[threadIdx.x];
}
torch::Tensor answer(torch::Tensor A, torch::Tensor B, torch::Tensor s) {
  auto C = torch::empty({A.size(0), B.size(1)}, A.options());
  product<<<A.size(0), B.size(1)>>>(A.data_ptr<float>(), B.data_ptr<float>(), s.data_ptr<float>(),
                                    C.data_ptr<float>(), B.size(1), A.size(1));
  return C;
}
"""
DECLARED = "torch::Tensor answer(torch::Tensor A, torch::Tensor B, torch::Tensor s);"
ext = load_inline(name="e", cpp_sources=DECLARED, cuda_sources=SOURCE, functions=["answer"])


class ModelNew(nn.Module):
    def __init__(self, count, options):
        super().__init__()
        self.scale = nn.LayerNorm(count)

    def forward(self, A, B):
        return ext.answer(A, B, self.scale.weight)
'''


@pytest.fixture
def problem(stand_in_for_torch: None, tmp_path: Path) -> Callable[..., Path]:
    """Writes a problem for the stand-in."""

    def written(**words: object) -> Path:
        path = tmp_path / "problem.py"
        path.write_text(json.dumps(words))
        return path

    return written


def opened(path: Path) -> ModelTask:
    found = open_task(str(path), {"input_seed": 5, "simulation_timeout_s": 10.0})
    assert found.name == str(path.resolve())
    assert isinstance(found.task, ModelTask)
    return found.task


def checked(task: ModelTask, source: str) -> Verdict | Failed:
    builder, checker, _ = task.evaluator
    built = builder.build(Candidate(source))
    return built if isinstance(built, Failed) else checker.check(built)


@needs_compiler
def test_an_answer_is_held_to_the_model(problem: Callable[..., Path]) -> None:
    task = opened(problem())
    assert [a.name for a in task.workload.arguments] == ["A", "B", "scale_weight", "out"]
    verdict = checked(task, ANSWER)
    assert isinstance(verdict, Verdict), verdict.log
    assert verdict.precision == "float32"
    assert {"small", "as given"} <= {check.distribution for check in verdict.checks}
    half = checked(task, ANSWER.replace("k++", "k += 2").replace("sum * s", "2 * sum * s"))
    assert isinstance(half, Failed)
    assert half.kind == "wrong_result"
    # The model's own array begins as ones: leaving it out must not do.
    ignores = checked(task, ANSWER.replace("sum * s[threadIdx.x]", "sum"))
    assert isinstance(ignores, Failed)
    assert ignores.kind == "wrong_result"


@needs_compiler
def test_an_answer_that_fails_at_smaller_sizes_alone_is_not_called_wrong(
    problem: Callable[..., Path],
) -> None:
    task = opened(problem(size=4096))
    assert isinstance(checked(task, ANSWER), Verdict)
    fixed = checked(task, ANSWER.replace("A.size(1))", "4096)"))
    assert isinstance(fixed, Failed)
    assert fixed.kind == "not_checked"
    assert "with K = 8 it fails" in fixed.log


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("open ends", "ends the process"),
        ("describe ends", "ends the process"),
        ("describe raises", "raised ValueError: no luck"),
        ("describe lies", "an unsupported argument"),
        ("describe shouts", "ends the process"),
        ("describe floods", "ends the process"),
        ("describe nests", "ends the process"),
        ("describe lists", "an unsupported argument"),
        ("describe counts", "an unsupported argument"),
        ("describe drips", "does not end within 2 s"),
        ("describe hangs", "does not end within 2 s"),
        ("describe computes", "takes more than 0.2 s of CPU time"),
        ("type", "complex64"),
        ("size", "GiB"),
    ],
)
def test_a_file_that_is_no_problem_is_refused_in_one_sentence(
    fault: str, says: str, problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault.endswith(("hangs", "drips", "computes")):
        monkeypatch.setattr(oracle, "REFERENCE_TIMEOUT_S", 0.2)
    with pytest.raises(InputError) as told:
        opened(problem(fault=fault))
    assert says in str(told.value)
    assert "problem.py" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_model_that_waits_for_the_cpu_is_not_stopped(
    problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle, "REFERENCE_TIMEOUT_S", 0.2)
    assert opened(problem(fault="describe waits"))


@needs_compiler
def test_a_model_whose_shapes_change_is_refused(problem: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match="must be the same with every call"):
        checked(opened(problem(fault="short")), ANSWER)


def test_without_pytorch_one_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "problem.py"
    path.write_text("Model = 1\n")
    find_torch.cache_clear()
    monkeypatch.delenv(oracle.PYTHON, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolchainMissingError, match=r"pip install .*torch.*TILEWRIGHT_TORCH"):
        opened(path)
    monkeypatch.setenv(oracle.PYTHON, str(tmp_path / "no-python"))
    with pytest.raises(ToolchainMissingError, match="no-python cannot import torch"):
        opened(path)
    find_torch.cache_clear()


def test_a_checkout_is_found_by_its_variable_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Callable[..., Path]
) -> None:
    monkeypatch.delenv("TILEWRIGHT_KERNELBENCH", raising=False)
    with pytest.raises(InputError, match="Set TILEWRIGHT_KERNELBENCH"):
        open_task("kernelbench:level1-6", {})
    monkeypatch.setenv("TILEWRIGHT_KERNELBENCH", str(tmp_path))
    with pytest.raises(InputError, match=r"has no level1/6_\*\.py"):
        open_task("kernelbench:level1-6", {})
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    problem().rename(folder / "6_Product.py")
    found = open_task("kernelbench:level1-6", {})
    assert found.name == "kernelbench:level1-6"


MODEL = """
import torch
import torch.nn as nn

K = 64

class Model(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.scale = nn.LayerNorm(count)

    def forward(self, A, B):
        return (A @ B) * self.scale.weight

def get_inputs():
    return [torch.rand(4, K), torch.rand(K, 6)]

def get_init_inputs():
    return [6]
"""


needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None and "TILEWRIGHT_TORCH" not in os.environ,
    reason="needs PyTorch here or in the Python that TILEWRIGHT_TORCH names",
)
RUNNING_SUMS = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.cumsum(x, dim=1)

def get_inputs():
    return [torch.rand(8, 2048)]

def get_init_inputs():
    return []
"""


@needs_torch
def test_running_sums_may_be_rounded_at_every_term(tmp_path: Path) -> None:
    """PyTorch itself accumulates them in double, with one rounding."""
    path = tmp_path / "problem.py"
    path.write_text(RUNNING_SUMS)
    cases = opened(path).evaluator[1]._checker._evaluation.cases
    case = cases[cases.first]
    x = case.initial["x"]
    assert case.mismatch({"out": np.cumsum(x, axis=1, dtype=np.float32).tobytes()}) is None
    half = np.cumsum(x.astype(np.float16).astype(np.float32), axis=1, dtype=np.float32)
    assert case.mismatch({"out": half.tobytes()}) is not None


BAGS = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(20, 8, mode="mean")

    def forward(self, x):
        return self.bag(x)

def get_inputs():
    return [torch.randint(0, 20, (6, 5))]

def get_init_inputs():
    return []
"""


@needs_torch
def test_a_model_may_ask_which_processor_runs_it(tmp_path: Path) -> None:
    """As PyTorch does for embedding bags."""
    path = tmp_path / "problem.py"
    path.write_text(BAGS)
    cases = opened(path).evaluator[1]._checker._evaluation.cases
    case = cases[cases.first]
    table = next(v for name, v in case.initial.items() if name != "x" and v.ndim == 2)
    right = table[case.initial["x"]].astype(np.float64).mean(1).astype(np.float32)
    assert case.mismatch({"out": right.tobytes()}) is None
    assert case.mismatch({"out": (right * np.float32(1.001)).tobytes()}) is not None


PARTS = """
import torch

class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(size, size)).bool())
        self.norm = torch.nn.LayerNorm(size, eps=1e-3)

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        return torch.softmax((a + b).masked_fill(~self.mask, float("-inf")), dim=-1)

def get_inputs():
    return [torch.randn(16, 32)]

def get_init_inputs():
    return [16]
"""


@needs_torch
def test_a_model_may_divide_arrays_and_have_masks_and_infinite_values(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(PARTS)
    task = opened(path)
    norm = task.form.modules["norm"]
    assert (norm.kind, norm.attributes["eps"], norm.parameters["eps"]) == ("LayerNorm", 1e-3, 1e-5)
    cases = task.evaluator[1]._checker._evaluation.cases
    case = cases[cases.first]
    x, mask = case.initial["x"].astype(np.float64), case.initial["mask"]
    assert mask.dtype == np.bool_
    scores = np.where(mask, x[:, :16] + x[:, 16:], -np.inf)
    e = np.exp(scores - scores.max(1, keepdims=True))
    right = (e / e.sum(1, keepdims=True)).astype(np.float32)
    assert case.mismatch({"out": right.tobytes()}) is None
    assert case.mismatch({"out": (right * np.float32(1.001)).tobytes()}) is not None


CHAIN = """
import torch


class Model(torch.nn.Module):
    def forward(self, a, b, c):
        s = a.clone()
        s += b
        s = s - c
        return RESULT


def get_inputs():
    return [torch.randn(256, 512), torch.randn(256, 512), torch.randn(256, 512)]


def get_init_inputs():
    return []
"""


@needs_torch
@pytest.mark.parametrize("result", ["s", "torch.where(s > 0, s, s - 1)"])
def test_the_terms_of_a_chain_may_be_added_in_another_order(tmp_path: Path, result: str) -> None:
    path = tmp_path / "problem.py"
    path.write_text(CHAIN.replace("RESULT", result))
    cases = opened(path).evaluator[1]._checker._evaluation.cases
    for number in cases.compared(1):
        case = cases[number]
        a, b, c = (case.initial[name] for name in "abc")
        halves = [x.view(np.uint32) & 0xFFFFE000 for x in (a, b, c)]
        halves = [x.view(np.float32) for x in halves]
        for total, is_right in ((a + (b - c), True), (halves[0] + (halves[1] - halves[2]), False)):
            got = total if result == "s" else np.where(total > 0, total, total - 1)
            said = case.mismatch({"out": got.astype(np.float32).tobytes()})
            assert (said is None) == is_right, (number, said)


@needs_compiler
@needs_torch
def test_pytorch_says_what_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    function = Resources("product", 1, 0, 0)
    monkeypatch.setattr(CudaEvaluation, "compiled", lambda self, source: Compiled(b"", (function,)))
    monkeypatch.setattr(CudaEvaluation, "nvcc", Nvcc("", "none", None))  # type: ignore[arg-type]
    path = tmp_path / "problem.py"
    path.write_text(MODEL)
    task = opened(path)
    answer = ANSWER.replace("count, options", "count")
    verdict = checked(task, answer)
    assert isinstance(verdict, Verdict), verdict.log
    assert verdict.precision == "float32"
    rounded = answer.replace(
        "A[blockIdx.x * K + k]", "__half2float(__float2half(A[blockIdx.x * K + k]))"
    )
    rounded = rounded.replace("#include <torch", "#include <cuda_fp16.h>\n#include <torch")
    wrong = checked(task, rounded)
    assert isinstance(wrong, Failed)
    assert wrong.kind == "wrong_result"
    for text, says in (
        ("import sys; sys.exit()", "SystemExit"),
        ("import os; os._exit(0)", "ends the process"),
        ("x = open('/etc/shadow')", "raised"),
        ("def get_inputs(): return []", "defines no Model"),
        (MODEL.replace("torch.rand(4, K)", "'text'"), "raised"),
        (MODEL.replace("(A @ B)", "[A]"), "raised"),
        (MODEL.replace("return (A @ B) * self.scale.weight", "return 3"), "other than tensors"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=says) as told:
            opened(path)
        assert "\n" not in str(told.value)


ATTENTION = """
import torch

batch = 8
heads = 8
length = 256
width = 32


class Model(torch.nn.Module):
    def forward(self, Q, K, V):
        scores = torch.matmul(Q, K.transpose(-2, -1)) * width**-0.5
        return torch.matmul(torch.softmax(scores, dim=-1), V)


def get_inputs():
    return [torch.randn(batch, heads, length, width) for _ in range(3)]


def get_init_inputs():
    return []
"""
ATTENTION_ANSWER = '''
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
#define TILE 32
__global__ void attend(const float *Q, const float *K, const float *V, float *O, int length) {
  __shared__ float keys[TILE][TILE], values[TILE][TILE];
  int x = threadIdx.x;
  long first = (long)blockIdx.y * length * TILE, row = first + (blockIdx.x * TILE + x) * TILE;
  float sums[TILE], total = 0.0f, most = -1e30f;
  for (int d = 0; d < TILE; d++) sums[d] = 0.0f;
  for (int tile = 0; tile < length / TILE; tile++) {
    for (int d = 0; d < TILE; d++) {
      keys[x][d] = K[first + (tile * TILE + x) * TILE + d];
      values[x][d] = V[first + (tile * TILE + x) * TILE + d];
    }
    __syncthreads();
    float scores[TILE], larger = most;
    for (int j = 0; j < TILE; j++) {
      float score = 0.0f;
      for (int d = 0; d < TILE; d++) score += Q[row + d] * keys[j][d];
      scores[j] = score * 0.17677669529663687f;
      larger = fmaxf(larger, scores[j]);
    }
    float scale = expf(most - larger);
    total *= scale;
    for (int d = 0; d < TILE; d++) sums[d] *= scale;
    for (int j = 0; j < TILE; j++) {
      float p = expf(scores[j] - larger);
      total += p;
      for (int d = 0; d < TILE; d++) sums[d] += p * values[j][d];
    }
    most = larger;
    __syncthreads();
  }
  for (int d = 0; d < TILE; d++) O[row + d] = sums[d] / total;
}
torch::Tensor answer(torch::Tensor Q, torch::Tensor K, torch::Tensor V) {
  auto O = torch::empty_like(Q);
  dim3 grid(Q.size(2) / TILE, Q.size(0) * Q.size(1));
  attend<<<grid, TILE>>>(Q.data_ptr<float>(), K.data_ptr<float>(), V.data_ptr<float>(),
                         O.data_ptr<float>(), Q.size(2));
  return O;
}
"""
DECLARED = "torch::Tensor answer(torch::Tensor Q, torch::Tensor K, torch::Tensor V);"
ext = load_inline(name="e", cpp_sources=DECLARED, cuda_sources=SOURCE, functions=["answer"])


class ModelNew(nn.Module):
    def forward(self, Q, K, V):
        return ext.answer(Q, K, V)
'''


@needs_compiler
@needs_torch
def test_a_loop_over_tiles_still_runs_at_smaller_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch and the heads become smaller, not the length over which the kernel loops."""
    function = Resources("attend", 1, 0, 0)
    monkeypatch.setattr(CudaEvaluation, "compiled", lambda self, source: Compiled(b"", (function,)))
    monkeypatch.setattr(CudaEvaluation, "nvcc", Nvcc("", "none", None))  # type: ignore[arg-type]
    path = tmp_path / "problem.py"
    path.write_text(ATTENTION)
    task = opened(path)
    verdict = checked(task, ATTENTION_ANSWER)
    assert isinstance(verdict, Verdict), verdict.log
    before, after = ATTENTION_ANSWER.rsplit("    __syncthreads();\n", 1)
    wrong = checked(task, before + after)
    assert isinstance(wrong, Failed)
    assert "a data race" in wrong.log


IN_PLACE = """
import torch

CASE = 0


class Model(torch.nn.Module):
    def forward(self, x):
        y = x * 2 + x.relu()
BODY
        return y


def get_inputs():
    return [torch.randn(2, 3, 3) + 1]


def get_init_inputs():
    return []
"""


PAIRS = [
    ("y.cumsum_(1)", "y = y.cumsum(1)"),
    ("y.cumprod_(1)", "y = y.cumprod(1)"),
    ("y = y[0].addmm_(x[1], x[0])", "y = torch.addmm(y[0], x[1], x[0])"),
    ("y.baddbmm_(x, x)", "y = torch.baddbmm(y, x, x)"),
    ("torch.cumsum(x, 1, out=y)", "y = x.cumsum(1)"),
    ("torch.bmm(x, x, out=y)", "y = torch.bmm(x, x)"),
    ("y = torch.mm(x[0], x[1], out=torch.empty(0, dtype=x.dtype))", "y = torch.mm(x[0], x[1])"),
    ("y.cumsum_(1); y += x", "y = y.cumsum(1); y = y + x"),
]


@needs_torch
def test_operations_in_place_have_the_error_of_those_that_return_a_new_array(
    tmp_path: Path,
) -> None:
    lines = [line for pair in PAIRS for line in pair]
    body = "\n".join(f"        if CASE == {n}: {line}" for n, line in enumerate(lines))
    oracle = OracleProcess(tmp_path / "problem.py", IN_PLACE.replace("BODY", body))
    data = np.random.default_rng(1).normal(1, 1, 18).astype(np.float32).tobytes()
    said = [
        [
            oracle.ask(what, data, 1 << 16, constants={"CASE": case}, draws=3, seed=1)[1]
            for what in ("honest", "expected")
        ]
        for case in range(len(lines))
    ]
    oracle.close()
    assert said[::2] == said[1::2]


SIZES = """
import torch

rows = ROWS
columns = COLUMNS


class Model(torch.nn.Module):
    def forward(self, x):
        return FORMULA


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
"""


@needs_torch
@pytest.mark.parametrize(
    ("formula", "rows", "columns", "smaller"),
    [
        ("torch.softmax(x, dim=1)", 4096, 4096, (256, 2048)),
        ("torch.softmax(x, dim=0)", 4096, 4096, (2048, 256)),
        ("torch.cumsum(x, dim=1)", 2048, 1024, (512, 1024)),
        ("torch.softmax(x, dim=1)", 1025, 4099, (257, 1027)),
        ("x.sum()", 4096, 2048, (512, 1024)),
        ("x" + " @ x.new_ones(columns, columns)" * 16, 128, 256, (32, 128)),
        ("(x @ x.new_ones(columns, 1 << 17)).sum(1)", 16, 16, (8, 16)),
    ],
)
def test_constants_that_repeat_independent_work_become_smaller_first(
    tmp_path: Path, formula: str, rows: int, columns: int, smaller: tuple[int, int]
) -> None:
    path = tmp_path / "problem.py"
    text = SIZES.replace("FORMULA", formula)
    path.write_text(text.replace("ROWS", str(rows)).replace("COLUMNS", str(columns)))
    _, reduced = read_problem(path, "kernelbench", "problem")
    assert reduced.problem.given.inputs[0].shape == smaller


@needs_torch
@pytest.mark.parametrize(
    ("assigned", "smaller"),
    [("rows, columns = 4096, 4096", (256, 2048)), ("rows = columns = 4096", (512, 512))],
)
def test_constants_that_are_assigned_together_become_smaller(
    tmp_path: Path, assigned: str, smaller: tuple[int, int]
) -> None:
    path = tmp_path / "problem.py"
    text = SIZES.replace("FORMULA", "torch.softmax(x, dim=1)")
    path.write_text(text.replace("rows = ROWS\ncolumns = COLUMNS", assigned))
    _, reduced = read_problem(path, "kernelbench", "problem")
    assert reduced.problem.given.inputs[0].shape == smaller


@needs_torch
def test_a_problem_is_described_without_its_arrays(tmp_path: Path) -> None:
    """A model without arrays of its own: the first arrays are those of get_inputs."""
    path = tmp_path / "problem.py"
    text = SIZES.replace("FORMULA", "torch.tanh(x)")
    path.write_text(text.replace("ROWS", str(1 << 16)).replace("COLUMNS", str(1 << 14)))
    assert oracle.process_of(path, path.read_text()).ask(
        "describe", most_operations=1 << 24, most_compared=8 << 20
    )[0]["full"]["inputs"][0]["shape"] == [1 << 16, 1 << 14]
