"""Which options a menu of CUDA keeps for a kernel and a task."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tilewright.core.plugins import load_target
from tilewright.core.records import Candidate, Failed, Trial
from tilewright.proposers import cuda_facts
from tilewright.proposers.applicable import applicable
from tilewright.targets.cuda.task import CudaTask


def of_cuda(task: CudaTask) -> set[str]:
    """The ids that the filter keeps of the menu of `cuda` for a task's starting kernel."""
    brief = load_target("cuda").brief()
    trial = Trial(0, 0, Candidate(task.start), Failed("measure", "timeout", ""))
    menu = brief.menu_for(task.workload)
    return {option.id for option in applicable(brief, trial, menu)}


FOLDER = """\
name = "{name}"
target = "cuda"
operations = {operations}

[[argument]]
name = "x"
shape = {shape}
dtype = "{dtype}"
role = "input"

[[argument]]
name = "y"
shape = {shape}
dtype = "{dtype}"
role = "output"
"""
WINDOW = """
template <int kWidth> __global__ void window(const __half *x, __half *y) {
  const int d = blockIdx.x * 64 + threadIdx.x, t = blockIdx.y;
  if (d >= 320) return;
  float sum = 0.f;
  for (int k = 0; k < kWidth; ++k)
    if (t >= k) sum = fmaf(__half2float(x[(t - k) * 320 + d]), 0.25f, sum);
  y[t * 320 + d] = __float2half(sum);
}

void kernel(const __half *x, __half *y) {
  window<4><<<dim3((320 + 63) / 64, 256), 64>>>(x, y);
}
"""


def folder(path: Path, kernel: str, **words: object) -> CudaTask:
    (path / "workload.toml").write_text(FOLDER.format(name=path.name, **words))
    (path / "kernel.cu").write_text(kernel)
    (path / "reference.py").write_text("def reference(x):\n    return x\n")
    return load_target("cuda").open_folder(path, {})


def test_a_folder_with_little_arithmetic_is_offered_no_work_on_products(tmp_path: Path) -> None:
    words = {"shape": [256, 320], "dtype": "float16"}
    few = of_cuda(folder(tmp_path, WINDOW, operations=4 * 256 * 320, **words))
    products = {"tensor-cores", "tma", "warp-tiles", "outer-product", "winograd", "stream-k"}
    assert not few & (products | {"split-precision"})
    assert {"vector-loads", "sliding-window", "shared-tiles", "branch-free"} <= few
    many = of_cuda(folder(tmp_path, WINDOW, operations=400 * 256 * 320, **words))
    assert products <= many
    assert "split-precision" not in many, "no input has float32"


def test_options_of_cuda_need_what_they_change() -> None:
    target = load_target("cuda")
    product = of_cuda(target.open("gemm-256x256x256", {}))
    assert {"shared-tiles", "stream-k", "split-precision", "narrow-indices"} <= product
    assert not product & {
        "branch-free", "more-registers", "shared-carveout", "reciprocal", "fast-functions",
        "warp-roles",
    }  # fmt: skip
    rows = of_cuda(target.open("softmax-64x1024", {}))
    assert {"online-softmax", "row-in-registers", "reciprocal", "fast-functions"} <= rows
    assert not rows & {"vote", "atomic-reduction"}
    sums = of_cuda(target.open("rowsum-64x1024", {}))
    assert "atomic-reduction" in sums
    assert not sums & {"online-softmax", "row-in-registers", "row-in-shared", "reciprocal"}
    chain = of_cuda(target.open("chain-64x1024", {}))
    assert not chain & {"unroll-terms", "index-arithmetic", "prefetch"}


@pytest.mark.parametrize(
    ("fact", "code", "holds"),
    [
        ("divisions", "x / n", True),
        ("divisions", "x / 3.0f", True),
        ("divisions", "x / 2.0f", True),
        ("divisions", "p[i] /= 3", True),
        ("divisions", "half /= 2", False),
        ("divisions", "(n + size - 1) / size", False),
        ("divisions", "threadIdx.x / lanes", False),
        ("divisions", "t / 32", False),
        ("divisions", "size_t i = n; int p = i / q % r;", False),
        ("divisions", "int h = 9; (h + 2 * n - 3) / stride;", False),
        ("divisions", "float h = 9; (h + 2 * n - 3) / stride;", True),
        ("divisions", "float n2 = x[n] / n;", True),
        ("divisions", "exp(n) / n", True),
        ("divisions", "float n = 1.0f; n / total", True),
        ("slow-functions", "sqrtf(x)", True),
        ("branches", "if (t >= n) return;", False),
        ("branches", "if ((t >= n) || f(a(b))) { return; }", False),
        ("branches", "if (t < half) s += 1;", True),
        ("branches", "y = x > 0 ? x : 0;", True),
        ("no-votes", "__shared__ float s[4];", False),
        ("no-votes", "__shared__ volatile __half2 s[4];", False),
        ("no-votes", "__shared__ int s[4];", True),
        ("no-votes", "extern __shared__ float s[];", True),
        ("no-votes", "__shared__ T s[4];", True),
        ("maxima-and-exponentials", "if (x > m) m = x; y = __expf(x - m);", True),
        ("maxima-and-exponentials", "m = max(m, x); y = exp2f(x);", True),
        ("maxima-and-exponentials", "y = expf(x);", False),
        ("several-loops", "do { t /= 2; } while (t > 1);", False),
        ("several-loops", "do { t /= 2; } while (t > 1); for (;;) break;", True),
        ("no-padding", "__shared__ float s[32][32 + 1]; __shared__ float r[4][4];", True),
        ("no-padding", "__shared__ float s[32][32 + 1];", False),
        ("loose-pointers", "} __global__ void g(float *__restrict__ a, int *b) {", True),
        ("unrolled", "for (int i = 0; i < 8; i++)", True),
    ],
)
def test_facts_of_cuda(fact: str, code: str, holds: bool) -> None:
    assert (fact in cuda_facts.facts_in(f"__global__ void f(int n) {{ {code} }}")) is holds


@pytest.mark.parametrize(
    "part",
    ["__shared__ ", "__shared__ alignas(", "__global__ ", "__global__(*", "for (", "if (", "do "],
)
def test_the_facts_of_a_long_source_take_linear_time(part: str) -> None:
    def seconds(count: int) -> float:
        begin = time.process_time()
        cuda_facts.facts_in(part * count)
        return time.process_time() - begin

    seconds(1)
    assert seconds(8000) < 12 * seconds(2000) + 0.1


def test_a_source_without_a_kernel_is_offered_only_first_kernels() -> None:
    brief = load_target("kernelbench").brief()
    model = "class ModelNew(nn.Module):\n    def forward(self, x):\n        return self.fc(x)\n"

    def kept(source: str) -> set[str]:
        trial = Trial(0, 0, Candidate(source), Failed("check", "not_checked", ""))
        return {option.id for option in applicable(brief, trial, brief.menu)}

    assert kept(model) == {"first-kernels", "first-tiles"}
    answer = f'SOURCE = """{WINDOW}"""\n{model}'
    assert not kept(answer) & {"first-kernels", "first-tiles"}


def test_a_matrix_vector_product_in_triton_is_offered_no_tile_products() -> None:
    brief = load_target("triton").brief()
    ids = {option.id for option in brief.menu if option.least_reuse}
    assert {"tile-products", "more-terms", "grouped-programs", "implicit-product"} <= ids


@pytest.mark.parametrize(
    "name", ["gemmini", "host-c", "amx-bf16", "trainium", "cuda", "triton", "kernelbench"]
)
def test_examples_belong_to_options_of_their_menu(name: str) -> None:
    brief = load_target(name).brief()
    ids = {option.id for option in brief.menu}
    assert [e.name for e in brief.examples if not set(e.options) <= ids] == []
