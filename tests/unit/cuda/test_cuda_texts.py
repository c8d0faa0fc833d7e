"""What models are told about a GPU and its languages."""

from __future__ import annotations

import re

import pytest

from tilewright.core.plugins import load_target
from tilewright.core.records import Argument
from tilewright.targets.cuda import create_target, target
from tilewright.targets.cuda.device.gpus import Gpu
from tilewright.targets.cuda.hostile import hostile_kernels
from tilewright.targets.cuda.messages import without_messages
from tilewright.targets.cuda.occupancy import architectures

ONLY_IN_CUDA = ("float4", "__", "nvcuda", "cudaFunc", "cudaMalloc", "expf", "barrier", "inline PTX")


def test_the_text_on_triton_names_nothing_that_only_cuda_has() -> None:
    brief = load_target("triton").brief()
    for text in (brief.isa, brief.costs, brief.plan_hints, brief.rules):
        assert [word for word in ONLY_IN_CUDA if word in text] == []
    assert "tl.dot" in brief.isa


@pytest.mark.parametrize("name", ["cuda", "triton", "kernelbench"])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_89", "sm_120"])
def test_limits_are_those_of_the_gpu(
    name: str, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu("A GPU", "GPU-1", architecture, 80_000, "1")
    monkeypatch.setattr(target, "find_gpu", lambda: gpu)
    kind = type(load_target(name))
    brief = kind().brief()
    limits = architectures()[architecture]
    assert f"multiprocessor of {architecture} " in brief.isa
    assert f"a block may use {limits.block_shared_kib << 10}" in brief.isa
    assert brief.limits["warps_per_multiprocessor"] == limits.warps


def test_without_a_gpu_the_limits_are_those_of_the_default() -> None:
    assert "multiprocessor of sm_90 " in create_target().brief().isa


def test_headers_of_error_checks_are_named_as_allowed() -> None:
    named = set(re.findall(r"\b\w+\.h\b", create_target().brief().rules))
    assert {"stdio.h", "stdlib.h", "assert.h", "string.h"} <= named
    for name in ("stdio.h", "cstdlib", "iostream", "string.h", "cassert"):
        assert without_messages(f"#include <{name}>\nint x;") == "\nint x;"


def test_answers_are_told_of_smaller_sizes_and_of_what_only_a_gpu_checks() -> None:
    rules = load_target("kernelbench").brief().rules
    for words in ("smaller sizes", "Inline PTX", "--use_fast_math", "self.norm.eps"):
        assert words in rules


@pytest.mark.parametrize(
    ("dtype", "headers"),
    [("float32", []), ("float16", ["cuda_fp16.h"]), ("bfloat16", ["cuda_bf16.h"])],
)
def test_wrong_kernels_include_the_headers_of_their_types(dtype: str, headers: list[str]) -> None:
    arguments = Argument("A", (4,), "float32", "input"), Argument("C", (4,), dtype, "output")
    sources = hostile_kernels(arguments)
    assert len(sources) == 3
    for source in sources.values():
        assert re.findall(r"#include <(.*)>", source) == headers
