"""The registered workloads, whose names (such as `softmax-256x1024`) are converted to arrays and
operations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.core.records import Argument, Workload
from tilewright.native.shared_memory import MAX_ARRAY_BYTES
from tilewright.parts.inputs import bytes_of
from tilewright.parts.size_limit import SIZE, check_size_limit

Kind = Literal["softmax", "layernorm", "rmsnorm", "attention", "gemm", "conv"]

PATTERNS: Mapping[Kind, tuple[str, str]] = {
    "softmax": ("RxC", "Y[r][c] = exp(X[r][c] - max of row r) / sum of the row's exponentials"),
    "layernorm": ("RxC", "(row - its mean) / its standard deviation * gain + bias"),
    "rmsnorm": ("RxC", "row / its root mean square * gain"),
    "attention": ("SxD", "softmax(Q K^T / sqrt(D)) V over S rows of D, one head"),
    "gemm": ("MxNxK", "C[M][N] = A[M][K] * B[K][N]"),
    "conv": (
        "NxHxWxCxK-k3s1",
        "3x3 convolution of C channels with K filters; the input includes its border",
    ),
}
"""The names of the sizes of each kind, and a description; all arrays are float32."""

REGISTERED = {
    "softmax-256x1024": "fits the second-level cache twice",
    "softmax-1024x128": "short rows",
    "layernorm-256x768": "rows of a small transformer",
    "rmsnorm-256x768": "rows of a small transformer",
    "attention-256x64": "one head over 256 rows",
    "gemm-128x128x128": "three matrices in the second-level cache",
    "gemm-256x256x256": "a square product",
    "conv-1x28x28x64x64-k3s1": "a middle layer of a small ResNet, 3x3",
}
"""The names that `tilewright workloads` lists. Any other positive sizes of the patterns are allowed
too.
"""

MAX_TERMS = 1 << 20
"""Maximum number of terms of a sum. With more terms, float32 errors that no kernel could avoid
would exceed 6 %.
"""
EPSILON = 1e-5
"""Added to a variance or mean square before its root, as usual for normalisations."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of workload and its sizes, in the order of its pattern."""

    kind: Kind
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        """Canonical workload name, without the target."""
        _, dash, suffix = PATTERNS[self.kind][0].partition("-")
        return f"{self.kind}-{'x'.join(map(str, self.sizes))}{dash}{suffix}"

    @property
    def reduction(self) -> int:
        """The number of terms that each output sums."""
        if self.kind == "conv":
            return 9 * self.sizes[3]
        return self.sizes[2] if self.kind == "gemm" else self.sizes[1]

    @property
    def operations(self) -> int:
        """Useful multiply-adds: one per element and pass of the definition for row operations."""
        if self.kind in ("gemm", "conv"):
            return math.prod(self.sizes) * (9 if self.kind == "conv" else 1)
        rows, columns = self.sizes
        if self.kind == "attention":
            return 2 * rows * rows * columns + 3 * rows * rows
        return {"softmax": 3, "layernorm": 4, "rmsnorm": 2}[self.kind] * rows * columns

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The kernel's parameters."""
        if self.kind == "gemm":
            m, n, k = self.sizes
            return (_given("A", m, k), _given("B", k, n), _written("C", m, n))
        if self.kind == "conv":
            n, h, w, c, k = self.sizes
            return (
                _given("input", n, h + 2, w + 2, c),
                _given("weights", 3, 3, c, k),
                _written("output", n, h, w, k),
            )
        rows, columns = self.sizes
        if self.kind == "attention":
            return (*(_given(name, rows, columns) for name in "QKV"), _written("O", rows, columns))
        weights = {"softmax": (), "layernorm": ("gain", "bias"), "rmsnorm": ("gain",)}[self.kind]
        return (
            _given("X", rows, columns),
            *(_given(name, columns) for name in weights),
            _written("Y", rows, columns),
        )

    def workload(self, target: str) -> Workload:
        """The workload record of these sizes."""
        return Workload(
            name=f"{target}:{self.name}",
            target=target,
            arguments=self.arguments,
            operations=self.operations,
            source=self.name,
        )


def parse_shape(spec: str) -> Shape:
    """The shape with this name.

    Raises `UnknownNameError` if the name does not begin with a known kind, and `WorkloadError` if
    its sizes are malformed, not positive or too large.
    """
    kind = next((k for k in PATTERNS if re.match(rf"{k}([-_x\d]|$)", spec)), None)
    if kind is None:
        hint = "Any positive sizes work: " + ", ".join(f"{k}-{p}" for k, (p, _) in PATTERNS.items())
        raise UnknownNameError("host-c workload", spec, REGISTERED, f"{hint}.")
    names = PATTERNS[kind][0]
    check_size_limit(spec)
    match = re.fullmatch(f"{kind}-" + re.sub("[A-Z]", SIZE, names), spec)
    if match is None or not all(int(size) > 0 for size in match.groups()):
        raise WorkloadError(
            f"workload {spec!r} is malformed. Write {kind}-{names} with positive whole "
            f"numbers, for example {next(n for n in REGISTERED if n.startswith(kind))}."
        )
    shape = Shape(kind, tuple(int(size) for size in match.groups()))
    _check_size(spec, shape)
    return shape


def _check_size(spec: str, shape: Shape) -> None:
    attention = shape.kind == "attention"
    elements = sum(math.prod(a.shape) for a in shape.arguments)
    kept, what = 0, ""  # by the reference
    if attention:
        kept, what = shape.sizes[0] ** 2, " and scores"
    if shape.kind == "conv":
        kept, what = math.prod(shape.sizes[:3]) * shape.reduction, " and patches"
    elements += kept
    if 4 * elements > MAX_ARRAY_BYTES:
        raise WorkloadError(
            f"workload {spec!r} needs {elements >> 18} MiB of arrays{what}: "
            f"at most {MAX_ARRAY_BYTES >> 20} MiB are there for them, so choose smaller sizes."
        )
    terms = max(shape.sizes) if attention else shape.reduction
    if terms > MAX_TERMS:
        raise WorkloadError(
            f"workload {spec!r} has sums of {terms} terms: with more than {MAX_TERMS}, correct "
            "float32 results cannot be distinguished from wrong ones, so choose smaller sizes."
        )


def fewer_products(workload: Workload) -> str:
    """The name of a known algorithm that needs less than 1/2.5 of the products, if there is one."""
    return "Winograd" if workload.source.startswith("conv-") else ""


def output_bytes(workload: Workload) -> int:
    """The number of bytes that every correct kernel must write."""
    return bytes_of(a for a in workload.arguments if a.role == "output")


def _given(name: str, *shape: int) -> Argument:
    return Argument(name, shape, "float32", "input")


def _written(name: str, *shape: int) -> Argument:
    return Argument(name, shape, "float32", "output")
