"""Which options a kernel's menu keeps, on kernels of recorded runs of a real model.

`recorded_parents.json` holds the parents of four runs, what they were measured to lose cycles to,
the options that were offered for each, labelled by hand (true: the option may help this kernel),
and those that a winning step took. Labels follow the present texts: `dataflow` once meant any order
of the products, and now means a kernel that keeps its sums in the array.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.core.plugins import load_target
from tilewright.core.records import (
    Candidate,
    Failed,
    Measured,
    MenuOption,
    Trial,
    Verdict,
    Workload,
)
from tilewright.proposers import cuda_facts, triton_facts
from tilewright.proposers.applicable import applicable
from tilewright.proposers.loops import facts as loop_facts
from tilewright.proposers.nki import facts as nki_facts
from tilewright.proposers.rewriter import facts

FILE = Path(__file__).parents[2] / "fixtures" / "menus" / "recorded_parents.json"
PARENTS: list[dict[str, Any]] = json.loads(FILE.read_text())


def offered(parent: dict[str, Any]) -> dict[str, bool]:
    """Whether the filter keeps each option that was offered in the recorded run."""
    brief = load_target(parent["target"]).brief()
    outcome = Measured(
        parent["latency"], "cycles", "simulated", 0.5, Verdict(()), parent["breakdown"]
    )
    trial = Trial(0, 0, Candidate(parent["source"]), outcome)
    menu = tuple(option for option in brief.menu if option.id in parent["options"])
    assert len(menu) == len(parent["options"])
    kept = {option.id for option in applicable(brief, trial, menu)}
    return {option.id: option.id in kept for option in menu}


def test_enough_pairs_are_labelled() -> None:
    labels = [label for parent in PARENTS for label in parent["options"].values()]
    assert len(labels) >= 60
    assert 0.25 < labels.count(False) / len(labels) < 0.75


@pytest.mark.parametrize("parent", PARENTS, ids=lambda p: f"{p['recording']}-{p['parent']}")
def test_what_cannot_help_is_left_out_and_nothing_else(parent: dict[str, Any]) -> None:
    kept = offered(parent)
    assert [o for o, shown in kept.items() if shown and not parent["options"][o]] == []
    assert [o for o, shown in kept.items() if not shown and parent["options"][o]] == []
    assert all(kept[option] for option in parent["won"])


@pytest.mark.parametrize(
    "name",
    [
        "gemmini",
        "gemmini-fp32-4x4",
        "host-c",
        "amx-int8",
        "trainium",
        "cuda",
        "kernelbench",
        "triton",
    ],
)
def test_menus_name_facts_and_causes_that_exist(name: str) -> None:
    of_commands, of_loops = facts.FACTS.keys(), loop_facts.FACTS.keys()
    known = of_commands | of_loops | nki_facts.FACTS.keys() | cuda_facts.FACTS.keys()
    known |= triton_facts.FACTS.keys()
    for option in load_target(name).brief().menu:
        assert set(option.needs) <= known, option.id
        assert 0 < option.worth < 1


PACKED = """
static __attribute__((noinline)) void product(uint64_t a, uint64_t b, uint64_t c) {
  preload_blocks(b, c);
  compute_preloaded_blocks(a, ~0ull);
  preload_blocks(~0ull, c + 16);
  compute_accumulated_blocks(a + 16, ~0ull);
}

void kernel(const int8_t a[32][16], const int8_t b[16][16], int8_t c[32][16]) {
  config_ld(16, 1.0f, 16, 0);
  mvin(a, 0, 16, 16);
  product(BLOCK(0, 16, 16), BLOCK(32, 16, 16), BLOCK(ACC(0), 16, 16));
  fence();
}
"""
DONE = {"pack-blocks", "share-operand", "fill-array", "reuse-array-operand", "settings-once"}


def test_what_a_kernel_of_packed_blocks_does_already_is_not_offered() -> None:
    brief = load_target("gemmini").brief()
    outcome = Measured(100, "cycles", "simulated", 0.5, Verdict(()))

    def kept(source: str) -> set[str]:
        trial = Trial(0, 0, Candidate(source), outcome)
        return DONE & {option.id for option in applicable(brief, trial, brief.menu)}

    assert kept(PACKED) == set()
    plain = PACKED.replace(
        "compute_preloaded_blocks(a, ~0ull)", "compute_preloaded(a, NONE, 16, 16, 16, 16)"
    )
    assert kept(plain) == {"pack-blocks"}
    assert kept(PACKED.replace("compute_accumulated_blocks", "compute_preloaded_blocks")) == {
        "share-operand", "reuse-array-operand",
    }  # fmt: skip
    phases = PACKED.replace("  fence();", "  compute_preloaded(4, NONE, 16, 16, 16, 16);\n" * 2)
    assert {"share-operand", "reuse-array-operand"} <= kept(phases)
    assert "fill-array" not in kept(phases)  # whole products take as long in any order
    assert "fill-array" in kept(phases.replace("NONE, 16, 16", "NONE, 16, 12"))
    short = PACKED.replace("compute_accumulated_blocks", "compute_preloaded_blocks")
    assert "fill-array" in kept(short.replace("BLOCK(0, 16, 16)", "BLOCK(0, 16, 12)"))
    set_again = PACKED.replace(
        "  preload_blocks(b, c);", "  config_st(16, 1.0f);\n  preload_blocks(b, c);"
    )
    looped = set_again.replace("  product(", "  for (int i = 0; i < 2; i++) product(")
    assert kept(looped) == {"settings-once"}


def test_what_is_not_known_leaves_nothing_out() -> None:
    brief = load_target("gemmini").brief()
    unread = Trial(0, 0, Candidate("this is no C {"), Failed("measure", "timeout", ""))
    assert applicable(brief, unread, brief.menu) == brief.menu


def test_a_menu_is_never_empty() -> None:
    brief = load_target("gemmini").brief()
    only = (MenuOption("ragged-tail", "Split.", needs=("ragged",)),)
    start = load_target("gemmini").open("gemm-64x64x64", {}).start
    trial = Trial(0, 0, Candidate(start), Failed("measure", "timeout", ""))
    assert applicable(brief, trial, only) == only


ANSWER = '''\
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
__global__ void copy(const float *__restrict__ x, float *__restrict__ y) {
  float4 one = ((const float4 *)x)[threadIdx.x];
}
"""
extension = load_inline(name="a", cpp_sources="", cuda_sources=SOURCE, functions=["f"])
'''


def test_an_answer_has_the_facts_of_its_cuda_source() -> None:
    assert cuda_facts.facts_in_answer(ANSWER) == cuda_facts.facts_in(ANSWER.split('"""')[1])
    assert "no-vectors" not in (cuda_facts.facts_in_answer(ANSWER) or ())
    assert cuda_facts.facts_in_answer("class Model: pass") == {"no-kernel"}
    assert cuda_facts.facts_in_answer("this is (no Python") is None
    brief = load_target("kernelbench").brief()
    trial = Trial(0, 0, Candidate(ANSWER), Failed("measure", "timeout", ""))
    kept = {option.id for option in applicable(brief, trial, brief.menu)}
    assert not kept & {"vector-loads", "restrict-pointers", "padding", "streams"}
    assert {"coalesce", "launch-bounds"} <= kept


def test_options_for_triton_fit_the_kernel() -> None:
    target = load_target("triton")
    brief = target.brief()

    def kept(source: str) -> set[str]:
        trial = Trial(0, 0, Candidate(source), Failed("measure", "timeout", ""))
        return {option.id for option in applicable(brief, trial, brief.menu)}

    product = target.open("gemm-128x128x128", {}).start
    options = kept(product)
    assert {"more-terms", "stages", "tensor-core-products", "eviction-policy"} <= options
    assert not options & {"tile-products", "pass-sum-to-product", "fuse-kernels", "fast-functions"}
    changed = product.replace("other=0.0", "other=0.0, eviction_policy='evict_last'")
    assert "eviction-policy" not in kept(changed)
    added = product.replace("tl.dot(left, right, total,", "total + tl.dot(left, right,")
    assert "pass-sum-to-product" in kept(added)
    assert "stages" not in kept(target.open("chain-64x64", {}).start)


def test_triton_offers_nothing_that_only_cuda_has() -> None:
    text = " ".join(option.text for option in load_target("triton").brief().menu)
    for word in ("float4", "__", "warp shuffle", "wmma", "cudaFunc", "shared tile", "barrier"):
        assert word not in text


def of_nki(source: str, breakdown: dict[str, float] | None = None) -> set[str]:
    """The ids that the filter keeps of the menu of trainium:conv1d for a kernel in NKI."""
    target = load_target("trainium")
    brief = target.brief()
    menu = brief.menu_for(target.open("conv1d-1x128x1024-k3", {}).workload)
    outcome = Measured(100.0, "ns", "modelled", 0.5, Verdict(()), breakdown or {})
    return {o.id for o in applicable(brief, Trial(0, 0, Candidate(source), outcome), menu)}


def test_work_of_the_core_is_moved_only_where_the_core_waits_for_data() -> None:
    brief = load_target("gemmini").brief()
    start = load_target("gemmini").open("gemm-64x64x64", {}).start

    def kept(cpu_data: float) -> set[str]:
        breakdown = {"cpu": 60.0, "cpu_data": cpu_data}
        outcome = Measured(100.0, "cycles", "simulated", 0.5, Verdict(()), breakdown)
        trial = Trial(0, 0, Candidate(start), outcome)
        return {option.id for option in applicable(brief, trial, brief.menu)}

    assert "core-work-on-array" in kept(8.0)
    assert "core-work-on-array" not in kept(1.0)


COPIED = """
void kernel(const int8_t a[16][16], int8_t c[16][16]) {
  config_ld(16, 1.0f, 16, 0);
  config_st(16);
  mvin(a, SPAD(0), 16, 16);
  mvin(a, SPAD(64), 16, 16);
  mvout(c, SPAD(0), 16, 16);
  fence();
}
"""


def test_unread_loads_are_looked_for_only_where_the_kernel_waits_for_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Finding them in a large kernel takes seconds."""
    brief = load_target("gemmini").brief()
    asked = []
    unread_loads = facts.has_unread_loads
    monkeypatch.setattr(
        facts, "has_unread_loads", lambda *given: asked.append(given) or unread_loads(*given)
    )

    def is_offered(source: str, dma_wait: float) -> bool:
        breakdown = {"dma_wait": dma_wait}
        outcome = Measured(100.0, "cycles", "simulated", 0.5, Verdict(()), breakdown)
        trial = Trial(0, 0, Candidate(source), outcome)
        return "remove-dead" in {o.id for o in applicable(brief, trial, brief.menu)}

    assert not is_offered(COPIED, 0.0)
    assert asked == []
    assert is_offered(COPIED, 50.0)
    assert not is_offered(COPIED.replace("  mvin(a, SPAD(64), 16, 16);\n", ""), 50.0)


def test_targets_with_the_same_name_have_their_own_facts() -> None:
    """Two searches in one process may use different target files with equal names."""
    brief = load_target("gemmini").brief()
    other = replace(brief, commands=tuple(c for c in brief.commands if c.name != "fence"))
    source = COPIED.replace("  mvin(a, SPAD(64), 16, 16);\n", "")
    assert "unread-loads" not in (facts.facts_of(brief, source) or ())
    assert "unread-loads" in (facts.facts_of(other, source) or ())  # `fence` may read them


@pytest.mark.parametrize(
    ("element", "is_offered"),
    [("float", False), ("int8_t", True), ("unsigned char", True), ("uint_fast8_t", True)],
)
def test_sums_of_bytes_are_offered_only_for_kernels_with_bytes(
    element: str, is_offered: bool
) -> None:
    brief = load_target("host-c").brief()
    source = f"void kernel(const {element} x[64], int y[1]) {{ y[0] = 0; y[0] += x[1]; }}"
    trial = Trial(0, 0, Candidate(source), Failed("measure", "timeout", ""))
    kept = {option.id for option in applicable(brief, trial, brief.menu)}
    assert ("bytes" in kept) is is_offered


IDLE = {"all-partitions", "iterations-on-partitions"}


def test_what_a_kernel_in_nki_has_not_is_not_offered() -> None:
    start = load_target("trainium").open("conv1d-1x128x1024-k3", {}).start
    kept = of_nki(start)
    gone = {*IDLE, "affine-ranges", "pe-transpose", "avoid-transposes", "bf16-tiles"}
    assert not kept & gone
    assert {"diagonal-products", "balance-engines", "taps-in-place", "column-operand"} <= kept


def test_what_a_kernel_in_nki_may_have_is_offered() -> None:
    start = load_target("trainium").open("conv1d-1x128x1024-k3", {}).start
    assert of_nki(start.replace("(128, taps)", "(64, taps)")) >= IDLE
    assert of_nki(start.replace("(128, taps)", "(rows, taps)")) >= IDLE
    assert of_nki("import neuronxcc.nki.language as nl\nx = nl.load(a)\n") >= IDLE
    assert "affine-ranges" in of_nki(start.replace("affine_range", "sequential_range"))
    assert "pe-transpose" in of_nki(start + "# img.ap(pattern=[[1, 128]])\n")
    assert of_nki("this is no Python {") >= {*IDLE, "affine-ranges", "pe-transpose"}


def test_causes_of_lost_time_decide_for_nki_too() -> None:
    start = load_target("trainium").open("conv1d-1x128x1024-k3", {}).start
    assert "avoid-psum-conflicts" not in of_nki(start, {"DVE": 90.0, "DMA": 10.0})
    assert "avoid-psum-conflicts" not in of_nki(start, {"DMA": 95.0, "PSUM port": 1.0})
    assert "avoid-psum-conflicts" in of_nki(start, {"DVE": 90.0, "PSUM port": 10.0})


def of_cuda(source: str, target: str = "cuda") -> set[str]:
    """The ids that the filter keeps of the whole menu for a kernel in CUDA C++."""
    brief = load_target(target).brief()
    trial = Trial(0, 0, Candidate(source), Failed("measure", "timeout", ""))
    return {option.id for option in applicable(brief, trial, brief.menu)}


@pytest.mark.parametrize("name", ["cuda", "triton", "kernelbench"])
def test_tensor_cores_are_offered_only_where_lower_precision_is_allowed(name: str) -> None:
    target = load_target(name)
    workload = target.open("gemm-512x512x512", {}).workload
    folder = replace(workload, source="/a/folder")
    half = tuple(replace(a, dtype="float16") for a in workload.arguments)
    lower = {"tensor-cores", "tensor-core-types"}
    if name == "triton":
        lower = {"tensor-core-products"}

    def offered(of: Workload, settings: dict[str, object]) -> set[str]:
        return {option.id for option in target.brief().menu_for(of, settings)} & lower

    for of in (workload, folder):
        assert not offered(of, {})
        assert not offered(of, {"precision": "float32", "arch": "sm_90"})
        assert offered(of, {"precision": "tf32"}) == lower
        assert offered(of, {"precision": "bf16"}) == lower
        assert offered(replace(of, arguments=half), {}) == lower


COPY = """
__global__ void copy(const float *A, float *B) { B[threadIdx.x] = A[threadIdx.x] * 2.0f; }
void kernel(const float *A, float *B) { copy<<<1, 256>>>(A, B); }
"""


def test_a_plain_cuda_kernel_is_not_offered_changes_of_what_it_lacks() -> None:
    kept = of_cuda(COPY)
    assert {"vector-loads", "block-size", "shared-tiles"} <= kept
    assert kept.isdisjoint({"padding", "larger-tile", "double-buffering", "async-copies", "vote",
                            "streams", "fuse-kernels", "unroll-less", "warp-shuffles",
                            "fast-functions", "reciprocal", "mma-ptx", "warpgroup-mma",
                            "large-shared"})  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "options"),
    [
        ("{ B[", "{ __shared__ float t[16][17]; B[", {"padding", "larger-tile", "async-copies"}),
        ("{ B[", "{ extern __shared__ float t[]; B[", {"swizzle", "multistage", "vote"}),
        ("{ B[", "{ __syncthreads(); B[", {"warp-shuffles"}),
        ("* 2.0f", "/ 3.0f", {"reciprocal", "fast-functions"}),
        ("A[threadIdx.x] *", "expf(A[threadIdx.x]) *", {"fast-functions"}),
        ("256>>>(A, B);", "256>>>(A, B); copy<<<1, 256>>>(A, B);", {"streams", "fuse-kernels"}),
        ("{ B[", "{ for (int i = 0; i < 4; i++) B[", {"unroll-less"}),
    ],
)  # fmt: skip
def test_an_option_is_offered_to_a_cuda_kernel_that_has_what_it_changes(
    old: str, new: str, options: set[str]
) -> None:
    assert COPY.count(old) == 1
    assert options <= of_cuda(COPY.replace(old, new))
    assert not options <= of_cuda(COPY)


@pytest.mark.parametrize(
    ("lacking", "old", "new", "option"),
    [
        ("B[", "B[", "((float4 *)B)[", "vector-loads"),
        ("{ __syncthreads(); B[", "A[", "__shfl_sync(~0u, 1, 0) + A[", "warp-shuffles"),
        ("B[", "A[", "__shfl_sync(~0u, 1, 0) + A[", "one-warp-per-row"),
        ("{ __shared__ int n; B[", "A[", "__ballot_sync(~0u, 1) + A[", "vote"),
        ("{ __shared__ float t[16][16]; B[", "t[16][16]", "t[16][16 + 1]", "padding"),
        ("{ __shared__ float t[16]; B[", "A[", "__pipeline_memcpy_async + A[", "async-copies"),
        ("B[", "__global__ void", "__global__ void __launch_bounds__(256)", "launch-bounds"),
        ("B[", "*A, float *B) {", "*__restrict__ A, float *__restrict__ B) {", "restrict-pointers"),
        ("B[", "A[threadIdx.x] *", "__ldg(A + threadIdx.x) *", "read-only-loads"),
        ("B[", "B[", "__stcs(B, 1); B[", "streaming-stores"),
        ("B[", "B[", "wmma::mma_sync(); B[", "tensor-cores"),
    ],
)
def test_an_option_is_not_offered_to_a_cuda_kernel_that_already_does_it(
    lacking: str, old: str, new: str, option: str
) -> None:
    without = COPY.replace("{ B[" if lacking.startswith("{") else "B[", lacking, 1)
    assert old in without
    assert option in of_cuda(without)
    assert option not in of_cuda(without.replace(old, new))


def test_a_function_named_reduce_is_no_warp_shuffle() -> None:
    without = COPY.replace("B[", "__syncthreads(); B[", 1).replace("copy", "reduce")
    assert "reduce(" in without or "reduce<<<" in without
    assert "warp-shuffles" in of_cuda(without)
    assert "warp-shuffles" not in of_cuda("#include <cooperative_groups/reduce.h>\n" + without)


def test_padding_is_offered_until_every_tile_is_padded() -> None:
    tiles = "__shared__ float t[16][16 + 1]; __shared__ float u[16][16]; B["
    assert "padding" in of_cuda(COPY.replace("B[", tiles, 1))
    assert "padding" not in of_cuda(
        COPY.replace("B[", tiles, 1).replace("u[16][16]", "u[16][16 + 1]")
    )


def test_kernels_in_pytorch_files_and_in_triton_are_offered_everything() -> None:
    brief = load_target("kernelbench").brief()
    assert of_cuda(COPY, "kernelbench") == {option.id for option in brief.menu}
