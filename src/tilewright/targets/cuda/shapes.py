"""The registered workloads: from names like `gemm-4096x4096x4096` to arrays, sizes and operations.

A launcher takes the sizes after the arrays, so that it can be called with other sizes: kernels are
checked on the CPU at reduced sizes. A reduced size has the same remainder as the full size modulo
the usual tile sizes, so that partial tiles are tested too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.core.records import Argument, Workload
from tilewright.parts.size_limit import SIZE, check_size_limit

MOST_BYTES = 16 << 30
"""Maximum total size of a workload's arrays."""
MOST_TERMS = 1 << 20
"""Maximum number of terms of a sum. With more terms, correct float32 results cannot be
distinguished from wrong ones."""
_PRODUCTS = 1 << 24
"""Approximate maximum number of multiply-adds of one check on the CPU."""

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of workload.

    `pattern` is the pattern of its names, in which letters stand for sizes. A launcher takes the
    sizes in `sizes` as parameters, and the other sizes are constants. `reduced` returns the sizes
    for the check on the CPU.
    """

    pattern: str
    sizes: str
    text: str
    arrays: Callable[[Sizes], Sequence[Argument]]
    operations: Callable[[Sizes], int]
    reduction: Callable[[Sizes], int]
    reduced: Callable[[Sizes], Sizes]


def _given(name: str, *shape: int) -> Argument:
    return Argument(name, shape, "float32", "input")


def _written(name: str, *shape: int) -> Argument:
    return Argument(name, shape, "float32", "output")


def _less(size: int, most: int, unit: int) -> int:
    """At most about `most`, a multiple of `unit` plus the remainder of `size` modulo `unit`."""
    return size if size <= most + unit else most + size % unit


def _less_product(sizes: Sizes) -> Sizes:
    rows, columns = _less(sizes["M"], 256, 128), _less(sizes["N"], 512, 128)
    terms = max(128, _PRODUCTS // (rows * columns) // 128 * 128)
    return {**sizes, "M": rows, "N": columns, "K": _less(sizes["K"], terms, 128)}


def _less_rows(sizes: Sizes) -> Sizes:
    return {**sizes, "R": _less(sizes["R"], 64, 32), "C": _less(sizes["C"], 4096, 1024)}


def _less_convolution(sizes: Sizes) -> Sizes:
    channels, filters = _less(sizes["C"], 16, 8), _less(sizes["K"], 64, 32)
    across = [_less(sizes[axis], 8 if "D" in sizes else 24, 8) for axis in "DHW" if axis in sizes]
    found = {**sizes, "N": min(sizes["N"], 2), "C": channels, "K": filters}
    return {**found, **dict(zip([axis for axis in "DHW" if axis in sizes], across, strict=True))}


def outputs_of(sizes: Sizes) -> tuple[int, ...]:
    """Extents of a convolution's output."""
    padding, stride = sizes.get("P", 0), sizes.get("T", 1)
    window = {"D": sizes["R"], "H": sizes["R"], "W": sizes.get("S", sizes["R"])}
    return tuple(
        (sizes[axis] + 2 * padding - window[axis]) // stride + 1 for axis in "DHW" if axis in sizes
    )


def _window(sizes: Sizes) -> tuple[int, ...]:
    square = sizes.get("S", sizes["R"])
    return (sizes["R"], sizes["R"], sizes["R"]) if "D" in sizes else (sizes["R"], square)


def _convolution(sizes: Sizes, bias: bool = False) -> Sequence[Argument]:
    extents = [sizes[axis] for axis in "DHW" if axis in sizes]
    return [
        _given("X", sizes["N"], sizes["C"], *extents),
        _given("F", sizes["K"], sizes["C"], *_window(sizes)),
        *([_given("bias", sizes["K"])] if bias else []),
        _written("Y", sizes["N"], sizes["K"], *outputs_of(sizes)),
    ]


def _window_terms(sizes: Sizes) -> int:
    return sizes["C"] * math.prod(_window(sizes))


def _of_convolution(sizes: Sizes) -> int:
    return sizes["N"] * sizes["K"] * math.prod(outputs_of(sizes)) * _window_terms(sizes)


_CONV2D = "Y[n][k] = sum over c of X[n][c] * F[k][c], R x S windows of stride T, padding P"

KINDS: Mapping[str, Kind] = {
    "gemm": Kind(
        "MxNxK", "MNK", "C = A * B, A is M x K",
        lambda s: [_given("A", s["M"], s["K"]), _given("B", s["K"], s["N"]),
                   _written("C", s["M"], s["N"])],
        lambda s: s["M"] * s["N"] * s["K"], lambda s: s["K"], _less_product,
    ),
    "matmul3d": Kind(
        "BxMxKxN", "BMKN", "B matrices of M x K, each multiplied by the same K x N matrix",
        lambda s: [_given("A", s["B"], s["M"], s["K"]), _given("W", s["K"], s["N"]),
                   _written("C", s["B"], s["M"], s["N"])],
        lambda s: s["B"] * s["M"] * s["N"] * s["K"], lambda s: s["K"],
        lambda s: {**_less_product({**s, "M": min(s["M"], 128)}), "B": min(s["B"], 2)},
    ),
    "softmax": Kind(
        "RxC", "RC", "softmax of each of R rows",
        lambda s: [_given("X", s["R"], s["C"]), _written("Y", s["R"], s["C"])],
        lambda s: 3 * s["R"] * s["C"], lambda s: s["C"], _less_rows,
    ),
    "rowsum": Kind(
        "RxC", "RC", "the sum of each of R rows",
        lambda s: [_given("X", s["R"], s["C"]), _written("Y", s["R"])],
        lambda s: s["R"] * s["C"], lambda s: s["C"], _less_rows,
    ),
    "chain": Kind(
        "RxC", "RC", "silu(X * scale + bias) * G, with a scale and a bias for each column",
        lambda s: [_given("X", s["R"], s["C"]), _given("scale", s["C"]), _given("bias", s["C"]),
                   _given("G", s["R"], s["C"]), _written("Y", s["R"], s["C"])],
        lambda s: 4 * s["R"] * s["C"], lambda s: 1, _less_rows,
    ),
    "stencil": Kind(
        "HxW", "HW", "half of an element plus an eighth of each of its four neighbours",
        lambda s: [_given("X", s["H"] + 2, s["W"] + 2), _written("Y", s["H"], s["W"])],
        lambda s: 5 * s["H"] * s["W"], lambda s: 5,
        lambda s: {"H": _less(s["H"], 128, 64), "W": _less(s["W"], 256, 128)},
    ),
    "conv2d": Kind(
        "NxCxHxWxK-kRxSsTpP", "NCHWK", _CONV2D, _convolution, _of_convolution, _window_terms,
        _less_convolution,
    ),
    "conv2dbias": Kind(
        "NxCxHxWxK-kRxSsTpP", "NCHWK", f"{_CONV2D}, plus bias[k]",
        lambda s: _convolution(s, bias=True), _of_convolution, _window_terms, _less_convolution,
    ),
    "conv3d": Kind(
        "NxCxDxHxWxK-kR", "NCDHWK",
        "Y[n][k] = sum over c of X[n][c] * F[k][c], R x R x R windows, no padding",
        _convolution, _of_convolution, _window_terms, _less_convolution,
    ),
}  # fmt: skip

REGISTERED = {
    "gemm-4096x4096x4096": "KernelBench level 1, problem 1",
    "gemm-2048x4096x8192": "KernelBench level 1, problem 2",
    "gemm-256x256x524288": "KernelBench level 1, problem 6",
    "gemm-32768x32768x32": "KernelBench level 1, problem 9",
    "matmul3d-16x1024x2048x768": "KernelBench level 1, problem 10",
    "conv2dbias-256x3x224x224x96-k11x11s4p2": "KernelBench level 1, problem 50",
    "conv3d-16x3x64x64x64x64-k3": "KernelBench level 1, problem 54",
    "conv2d-8x64x512x256x128-k5x7s1p0": "KernelBench level 1, problem 56",
    "gemm-1024x1024x1024": "a square matrix product",
    "gemm-512x3072x768": "a layer of a transformer",
    "softmax-4096x4096": "rows of attention scores",
    "rowsum-8192x8192": "a reduction",
    "chain-8192x4096": "a gated activation",
    "stencil-4096x4096": "one step of a diffusion",
    "conv2d-16x64x56x56x64-k3x3s1p1": "a layer of ResNet-50",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The kind of a workload, and all its sizes by their letters."""

    kind: str
    values: Sizes

    @property
    def sizes(self) -> Sizes:
        """The sizes that a launcher takes, in order."""
        return {name: self.values[name] for name in KINDS[self.kind].sizes}

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arrays that a launcher takes, before the sizes."""
        return tuple(KINDS[self.kind].arrays(self.values))

    @property
    def operations(self) -> int:
        """Number of useful multiply-adds."""
        return KINDS[self.kind].operations(self.values)

    @property
    def reduction(self) -> int:
        """Number of terms in the sum for each output."""
        return KINDS[self.kind].reduction(self.values)

    @property
    def name(self) -> str:
        """Canonical name, without the target."""
        pattern = re.sub(
            r"[A-Z]", lambda letter: str(self.values[letter[0]]), KINDS[self.kind].pattern
        )
        return f"{self.kind}-{pattern}"

    def reduced(self) -> Self:
        """The sizes for the check on the CPU."""
        return type(self)(self.kind, {**self.values, **KINDS[self.kind].reduced(self.values)})

    def workload(self, target: str) -> Workload:
        """The workload record for these sizes."""
        return Workload(
            f"{target}:{self.name}", target, self.arguments, self.operations, source=self.name
        )


def parse_shape(spec: str) -> Shape:
    """The shape with this name; `UnknownNameError` or `WorkloadError` if there is none."""
    kind = next((k for k in KINDS if re.match(rf"{k}(-|$)", spec)), None)
    if kind is None:
        hint = "Any positive sizes work: " + ", ".join(f"{k}-{v.pattern}" for k, v in KINDS.items())
        raise UnknownNameError("cuda workload", spec, REGISTERED, f"{hint}.")
    pattern = KINDS[kind].pattern
    check_size_limit(spec)
    found = re.fullmatch(f"{kind}-" + re.sub("[A-Z]", SIZE, pattern), spec)
    letters = re.findall("[A-Z]", pattern)
    values = dict(zip(letters, map(int, found.groups()), strict=True)) if found else {}
    if not found or not all(size > 0 for name, size in values.items() if name != "P"):
        raise WorkloadError(
            f"workload {spec!r} is malformed. Write {kind}-{pattern} with positive whole "
            f"numbers, for example {next(n for n in REGISTERED if n.startswith(f'{kind}-'))}."
        )
    shape = Shape(kind, values)
    if any(size < 1 for a in shape.arguments for size in a.shape):
        raise WorkloadError(
            f"workload {spec!r} has no output: its windows are larger than its input, so choose "
            "smaller ones."
        )
    elements = sum(math.prod(a.shape) for a in shape.arguments)
    if 4 * elements > MOST_BYTES:
        raise WorkloadError(
            f"workload {spec!r} needs {elements >> 28} GiB of arrays: at most {MOST_BYTES >> 30} "
            "GiB are possible, so choose smaller sizes."
        )
    if shape.reduction > MOST_TERMS:
        raise WorkloadError(
            f"workload {spec!r} has sums of {shape.reduction} terms. With more than {MOST_TERMS}, "
            "correct float32 results cannot be distinguished from wrong ones, so choose smaller "
            "sizes."
        )
    return shape
