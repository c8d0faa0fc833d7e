"""Kernels of other kinds, as others write them: they are read and rewritten rightly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import nki_kernels as world
import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.core.records import Argument
from tilewright.proposers.nki.ir import Kernel
from tilewright.proposers.nki.planning.steps import steps_of
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.kernel import read
from tilewright.targets.trainium.program import Call, argument_type, parse, run_program

Array = NDArray[Any]
KINDS = sorted((Path(__file__).parents[2] / "fixtures" / "nki").glob("*.txt"))
ROUNDING = ("hoist", "jam", "merge", "skip-masked")
"""Techniques of which the first place in each kernel is tried; all keep results up to rounding."""


def opened(source: str) -> tuple[tuple[Argument, ...], dict[str, Array]]:
    """The arguments that a kernel's first line names, and values of its inputs."""
    rng, found = np.random.default_rng(5), []
    given, _, out = source.partition("\n")[0].removeprefix("# ").partition(" -> ")
    for text, kind in [*((t, "input") for t in given.split(", ")), (out, "output")]:
        name, dtype, shape = text.split(" ")
        found.append(Argument(name, tuple(map(int, shape.split("x"))), dtype, kind))  # type: ignore[arg-type]
    return tuple(found), {
        a.name: (0.3 * rng.normal(size=a.shape)).astype(argument_type(a).exact) for a in found[:-1]
    }


def computed(source: str, arguments: tuple[Argument, ...], values: dict[str, Array]) -> Array:
    call = Call(arguments[:-1], arguments[-1:], {})
    return run_program(parse(source), call, world.MACHINE, values)[0].astype(np.float64)


def kernel_of(source: str, arguments: tuple[Argument, ...]) -> Kernel:
    workload = replace(world.opened("gemm-256x1024x256").workload, arguments=arguments)
    return read(source, workload, world.TARGET.brief().language)


def causal(q: Array, k: Array, v: Array) -> Array:
    scores = np.where(np.tri(q.shape[1], dtype=bool), q.T @ k, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ v / weights.sum(1, keepdims=True)


def rope(x: Array, cos: Array, sin: Array) -> Array:
    a, b = np.split(x, 2, axis=1)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=1)


def attention(q: Array, k: Array, v: Array) -> Array:
    weights = np.exp(q.T @ k)
    return weights @ v.T / weights.sum(1, keepdims=True)


def group_norm(x: Array, gamma: Array) -> Array:
    groups = x.reshape(len(x), 8, -1)
    centred = groups - groups.mean(2, keepdims=True)
    return (centred / np.sqrt(groups.var(2, keepdims=True) + 1e-5)).reshape(x.shape) * gamma


def rmsnorm(x: Array, residual: Array, gamma: Array) -> Array:
    total = x + residual
    return total / np.sqrt((total**2).mean(1, keepdims=True) + 1e-6) * gamma


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def rope_tables(x: Array) -> Array:
    half = len(x) // 2
    angles = 1 / (10000.0 ** (np.arange(half) / half))[:, None] * np.arange(x.shape[1])
    cos, sin = np.cos(angles), np.sin(angles)
    low, high = x[:half], x[half:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin])


WANTED: Mapping[str, Callable[..., Array]] = {
    "causal_copied_scores": lambda q, k, v: causal(q / 8, k, v),
    "causal_grids": causal,
    "causal_numpy_mask": lambda q, k, v: causal(q / 8, k, v),
    "causal_numpy_mask2": lambda q, k, v: causal(q / 8, k, v),
    "columns_cumsum_triangle2": lambda x: x.cumsum(0),
    "conv_shifted_products": lambda image, filters: sum(
        f.T @ image[:, t : t + 1024] for t, f in enumerate(filters)
    ),
    "flash_running_max": attention,
    "fused_qkv": lambda hidden, weights: hidden.T @ weights,
    "gemm_block_layout": lambda left, right: left.T @ right,
    "group_norm": group_norm,
    "linear_bias_gelu2": lambda x, w, bias: gelu(x.T @ w + bias),
    "residual_rmsnorm2": rmsnorm,
    "rmsnorm_named_tuple": lambda x, gamma: rmsnorm(x, np.zeros_like(x), gamma),
    "rope_half_rotation": rope,
    "rope_numpy_tables2": rope_tables,
    "softmax_columns": lambda x: np.exp(x) / np.exp(x).sum(0),
    "swiglu_helpers": lambda gate, up: gate / (1 + np.exp(-gate)) * up,
    "weighted_columns_iota": lambda x: np.arange(300.0)[None] @ x,
}


@pytest.mark.parametrize("path", KINDS, ids=lambda path: path.stem)
def test_kernels_of_other_kinds_are_read_and_rewritten(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    arguments, values = opened(source)
    wanted = WANTED[path.stem](*(v.astype(np.float64) for v in values.values()))
    kernel = kernel_of(source, arguments)
    first = [next(steps_of(kernel, technique), None) for technique in ROUNDING]
    made = [after for found in first if found is not None for after in found[1:]]
    assert made
    coarse = 0.02 if "bfloat16" in source else 1e-4
    for text in (source, *(print_kernel(k) for k in (kernel, *made))):
        got = computed(text, arguments, values)
        np.testing.assert_allclose(got, wanted, rtol=coarse, atol=coarse * np.abs(wanted).max())


def test_every_kernel_has_a_formula() -> None:
    assert [path.stem for path in KINDS] == sorted(WANTED)
