"""Answers as language models write them: what they use of PyTorch's headers is understood.

Without nvcc: what it refuses, g++ refuses here.
"""

from __future__ import annotations

import ast
import shutil

import pytest

from tilewright.core.records import Candidate, Failed, Verdict
from tilewright.targets.cuda.evaluation import CudaEvaluation
from tilewright.targets.cuda.models import create_target
from tilewright.targets.cuda.models.single_assignments import split_assignments
from tilewright.targets.cuda.models.task import ModelTask
from tilewright.targets.cuda.nvcc import Compiled, Nvcc, Resources

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")

ANSWER = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

rows = 8
source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

template <typename scalar_t>
__global__ void sums(const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
                     torch::PackedTensorAccessor32<scalar_t, 1, torch::RestrictPtrTraits> y,
                     int past) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= x.size(0)) return;
  scalar_t sum = 0;
  for (int i = 0; i < x.size(1) + past; ++i) sum += x[row][i];
  y[row] = sum;
}
torch::Tensor forward(torch::Tensor x, int past, double unused) {
  const at::cuda::OptionalCUDAGuard guard(at::device_of(x));
  TORCH_CHECK(x.dim() == 2, "expected 2 axes, got ", x.dim(), " (rows, columns)");
  auto y = torch::zeros({x.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "forward", ([&] {
    const void *first = x.data_ptr<float>();
    (void)first;
    sums<scalar_t><<<dim3((x.size(0) + 31) / 32), dim3(32), 0, at::cuda::getCurrentCUDAStream()>>>(
        x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
        y.packed_accessor32<scalar_t, 1, torch::RestrictPtrTraits>(), past);
  }));
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "row sums (CUDA)"); }
"""
extension = load_inline(
    name="sums", cpp_sources=[""], cuda_sources=[source], extra_cuda_cflags=["-O3"]
)


class ModelNew(nn.Module):
    def __init__(self, rows=8, *args, **kwargs):
        super(ModelNew, self).__init__()
        self.past = 0
        self.rows = rows

    def forward(self, x):
        return extension.forward(x.contiguous(), self.past, 1.5)
'''


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> ModelTask:
    function = Resources("sums", 1, 0, 0)
    monkeypatch.setattr(
        CudaEvaluation, "compiled", lambda self, source: Compiled((b"",), (function,))
    )
    monkeypatch.setattr(CudaEvaluation, "nvcc", Nvcc("", "none", None))  # type: ignore[arg-type]
    settings = {"input_seed": 3, "checks": 3, "simulation_timeout_s": 30.0}
    return create_target().open("rowsum-8x64", settings)


def outcome_of(task: ModelTask, source: str) -> Verdict | Failed:
    builder, checker, _ = task.evaluator
    built = builder.build(Candidate(source))
    return built if isinstance(built, Failed) else checker.check_first(built)


def test_what_answers_use_of_pytorchs_headers_is_understood(task: ModelTask) -> None:
    verdict = outcome_of(task, ANSWER)
    assert isinstance(verdict, Verdict), verdict.log


@pytest.mark.parametrize(
    ("declared", "returned", "taken"),
    [
        ("std::vector<torch::Tensor>", "return {x, y};", "x, y = {}"),
        ("std::tuple<torch::Tensor, at::Tensor>", "return std::make_tuple(x, y);", "x, y = {}"),
        (
            "std::vector<at::Tensor>",
            "std::vector<at::Tensor> all; all.push_back(y); return all;",
            "y = {}[0]",
        ),
    ],
)
def test_functions_return_several_tensors(
    task: ModelTask, declared: str, returned: str, taken: str
) -> None:
    """They are unpacked by number, and the names of the standard library mean them alone."""
    text = ANSWER.replace("torch::Tensor forward(", f"{declared} forward(")
    text = text.replace("return y;", f"if (std::min(1, 2) == 1) {{ {returned} }}\n  return {{}};")
    text = text.replace("#include <torch", "#include <vector>\n#include <torch")
    call = "extension.forward(x.contiguous(), self.past, 1.5)"
    text = text.replace(f"return {call}", f"{taken.format(call)}\n        return y")
    verdict = outcome_of(task, text)
    assert isinstance(verdict, Verdict), verdict.log
    too_few = text.replace("x, y =", "x, z, y =").replace("[0]", "[1]")
    failed = outcome_of(task, too_few)
    assert isinstance(failed, Failed)
    assert failed.kind == "crash"


@pytest.mark.parametrize(
    "made",
    [
        "auto s = x.sizes().vec(); s.erase(s.begin() + 1); auto y = torch::zeros(s, x.options());",
        "std::vector<int64_t> s{x.size(0), 7}; s.pop_back(); "
        "auto y = torch::zeros(s, x.options()); (void)std::vector<int64_t>(2).size();",
        "std::vector<int64_t> s(x.sizes().begin(), x.sizes().end() - 1); s.insert(s.begin(), 1); "
        "auto y = torch::zeros(s, x.options()).view({-1}); s.resize(4, 1); "
        "TORCH_CHECK(s[3] == 1);",
    ],
)
def test_shapes_are_vectors_of_numbers(task: ModelTask, made: str) -> None:
    old = "auto y = torch::zeros({x.size(0)}, x.options());"
    assert old in ANSWER
    verdict = outcome_of(task, ANSWER.replace(old, made))
    assert isinstance(verdict, Verdict), verdict.log
    failed = outcome_of(task, ANSWER.replace(old, made.replace("x.size", "3 + x.size", 1)))
    assert isinstance(failed, Failed)


def test_exceptions_of_checks_and_several_names_in_one_assignment(task: ModelTask) -> None:
    thrown = 'throw std::runtime_error(std::string("failed: ") + cudaGetErrorString(e));'
    checked = f"cudaError_t e = cudaGetLastError();\n  if (e != cudaSuccess)\n    {thrown}"
    text = ANSWER.replace("  return y;", f"  {checked}\n  return y;")
    text = text.replace("#include <torch", "#include <stdexcept>\n#include <torch", 1)
    text = text.replace("self.past = 0", "self.past, self.rows = 0, rows")
    text = text.replace("self.rows = rows", "self.a = self.b = rows")
    text = text.replace("rows = 8\n", "rows, columns = 8, 64\nfirst = second = 2\n", 1)
    verdict = outcome_of(task, text)
    assert isinstance(verdict, Verdict), verdict.log
    failed = outcome_of(task, text.replace("= 0, rows", "= -1, rows"))
    assert isinstance(failed, Failed)
    assert failed.kind == "wrong_result"


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("N, D = (64, 128)", "N = 64\nD = 128"),
        ("self.a = self.b = rows", "self.a = rows\nself.b = rows"),
        ("a, b = (b, a)", ""),
        ("self.a, b = (1, self.a + 1)", ""),
        ("a = b = f()", ""),
        ("a, b = pair", ""),
        ("a, b = (1, 2, 3)", ""),
        ("a[0], b = (1, 2)", ""),
    ],
)
def test_assignments_are_split_where_this_cannot_change_them(text: str, split: str) -> None:
    assert ast.unparse(split_assignments(ast.parse(text))) == (split or text)


@pytest.mark.parametrize(
    ("old", "new", "kind", "says"),
    [
        ("self.past = 0", "self.past = 0.7", "not_checked", "tw_torch::Real"),
        ("data_ptr<float>", "data_ptr<int>", "crash", "an assertion of its host code failed"),
        ("self.past = 0", "self.past = -1", "wrong_result", "Y differ"),
        ("self.past = 0", "self.past = 1", "illegal_address", "a read of X"),
        ('"row sums (CUDA)"', '"row" ")"', "not_checked", ""),
    ],
)
def test_what_pytorch_would_refuse_is_not_accepted(
    task: ModelTask, old: str, new: str, kind: str, says: str
) -> None:
    assert old in ANSWER
    failed = outcome_of(task, ANSWER.replace(old, new))
    assert isinstance(failed, Failed)
    assert (failed.kind, says in failed.log) == (kind, True), failed.log
