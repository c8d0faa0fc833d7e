"""Kernels and plans in the ways in which models write them for the languages of GPUs."""

from __future__ import annotations

import pytest

from tilewright.core.plugins import load_target
from tilewright.core.records import MenuOption
from tilewright.proposers.llm.messages import Reply
from tilewright.proposers.llm.replies import PlanText, read_code, read_plan

CUDA = """#include <cuda_runtime.h>
__global__ void add(float *y) { y[threadIdx.x] += 1.0f; }
void kernel(const float *x, float *y) { add<<<1, 32>>>(y); }
"""
TRITON = """import triton


@triton.jit
def add(y):
    pass


def kernel(x, y):
    add[(1,)](y)
"""
ANSWER = """import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x
"""
C = "void kernel(const float x[4], float y[4]) { y[0] = x[0]; }\n"


@pytest.mark.parametrize(
    ("name", "kernel", "use"),
    [
        ("cuda", CUDA, "kernel(x, y);  // in your program"),
        ("cuda", CUDA, "cudaMalloc(&y, 128);\nkernel(x, y);"),
        ("triton", TRITON, "x = torch.rand(32)\nkernel(x, y)"),
        ("kernelbench", ANSWER, "model = ModelNew().cuda()\nprint(model(x))"),
        ("host-c", C, "int main(void) { kernel(x, y); }"),
    ],
)
def test_an_example_of_its_use_is_no_second_kernel(name: str, kernel: str, use: str) -> None:
    language = load_target(name).brief().language
    for blocks in ([kernel, use], [use, kernel]):
        text = "\n".join(f"```\n{block.rstrip()}\n```" for block in blocks)
        assert read_code(Reply(text), language) == kernel


def test_two_definitions_are_two_kernels() -> None:
    language = load_target("cuda").brief().language
    text = f"```\n{CUDA}```\n```\n{CUDA.replace('32', '64')}```"
    assert not isinstance(read_code(Reply(text), language), str)


def test_a_kernel_with_a_qualified_type_is_found() -> None:
    language = load_target("cuda").brief().language
    code = CUDA.replace("void kernel", 'extern "C" void __attribute__((noinline)) kernel')
    assert read_code(Reply(f"```cuda\n{code}```"), language) == code


MENU = (MenuOption("shared-tiles", ""), MenuOption("vector-loads", ""), MenuOption("other", ""))


@pytest.mark.parametrize(
    "named",
    ["shared_tiles", "Shared tiles", "2. Vector loads", "VECTOR-LOADS", "1) `shared-tiles`"],
)
def test_an_option_may_be_written_in_words(named: str) -> None:
    plan = read_plan(Reply(f"OPTION: {named}\nCHANGE: tiles\n\nUse tiles of 64."), MENU)
    assert isinstance(plan, PlanText)
    assert plan.option == ("vector-loads" if "ector" in named.lower() else "shared-tiles")


def test_a_plan_of_one_sentence_is_a_plan() -> None:
    plan = read_plan(Reply("OPTION: shared-tiles\nCHANGE: tiles of 64 x 16\nEXPECTED: 9 us"), MENU)
    assert plan == PlanText("shared-tiles", "tiles of 64 x 16.", "9 us")
