"""Kernels of small Trainium workloads, traced and run within the test's process."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.proposers.nki.ir import Kernel
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.kernel import read_kernel
from tilewright.targets.trainium.latency.capacity import examine
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import (
    Call,
    argument_type,
    parse,
    run_program,
    trace_program,
)
from tilewright.targets.trainium.target import TrainiumTarget
from tilewright.targets.trainium.trace import Trace

MACHINE = load_machine("trn1")
TARGET = TrainiumTarget("trainium", "trn1")
SMALL = (
    "rmsnorm-256x512",
    "layernorm-256x512",
    "gemm-256x1024x256",
    "mamba-1x256x2x64",
    "attention-512x128",
    "sd_attention-512x64",
    "cumsum-256x4096",
    "transpose-2x256x256",
    "maxpool-700x150-k3",
    "rope-128x8192",
    "conv1d-2x128x32-k3",
    "causal_attention-512x128",
    "attention_tile-1024x128-q6",
    "multihead_attention-1x512x128",
)


@cache
def opened(name: str) -> Any:
    """The task of a workload."""
    return TARGET.open(name, {})


@cache
def naive(name: str) -> Kernel:
    """The naive start, as it is read."""
    task = opened(name)
    return read_kernel(task.start, task.workload.arguments)


def call_of(name: str) -> Call:
    """What the kernels of a workload are called with."""
    call: Call = opened(name)._call
    return call


def traced(name: str, source: str) -> Trace:
    """The trace of a kernel that fits; `KernelError` for one that breaks a rule."""
    return trace_program(parse(source), call_of(name), MACHINE)


def fits(name: str, source: str) -> bool:
    """Whether the kernel's tiles fit at the same time."""
    return examine(traced(name, source), MACHINE).excess() is None


@cache
def _inputs(name: str) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(7)
    found = {}
    for argument in call_of(name).inputs:
        values = rng.normal(size=argument.shape)
        if argument.dtype == "uint8":
            values = values > 0
        found[argument.name] = values.astype(argument_type(argument).exact)
    return found


def outputs(name: str, source: str) -> list[NDArray[Any]]:
    """What a kernel computes on some arrays, in float64."""
    found = run_program(parse(source), call_of(name), MACHINE, _inputs(name))
    return [array.astype(np.float64) for array in found]


@cache
def expected(name: str) -> list[NDArray[Any]]:
    """What the naive start computes."""
    return outputs(name, print_kernel(naive(name)))


def is_right(name: str, source: str, tolerance: float = 1e-4) -> bool:
    """Whether a kernel computes what the naive start does, up to rounding."""
    if any(argument.dtype == "bfloat16" for argument in call_of(name).outputs):
        tolerance = max(tolerance, 0.02)
    return all(
        np.allclose(got, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())
        for got, wanted in zip(outputs(name, source), expected(name), strict=True)
    )
