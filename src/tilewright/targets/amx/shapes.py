"""The registered workloads, whose names (such as `gemm-512x512x512-packed`) are converted to arrays
and operations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.core.records import Argument, Workload
from tilewright.native.shared_memory import MAX_ARRAY_BYTES
from tilewright.parts.size_limit import SIZE, check_size_limit
from tilewright.targets.amx.elements import TILE_ROWS, Element

PATTERNS: Mapping[str, str] = {
    "gemm-MxNxK": "C[M][N] = A[M][K] * B[K][N], with unpacked B",
    "gemm-MxNxK-packed": "the same, with B in the layout that tile instructions read",
    "conv-NxHxWxCxK-k3s1": "3x3 convolution with packed weights",
}
_SIZES: Mapping[str, str] = {
    **dict.fromkeys(
        ("12544x64x256", "12544x256x64", "3136x128x512", "3136x512x128", "784x256x1024",
         "784x1024x256"),
        "ResNet-50 at batch 4",
    ),
    **dict.fromkeys(("512x512x512", "1024x1024x1024", "256x256x256"), "square"),
    "512x64x1024": "M0 of the tuner's benchmark set",
    "512x4096x1024": "M1 of the tuner's benchmark set",
    "512x64x768": "M2 of the tuner's benchmark set",
    "512x3072x768": "M3 of the tuner's benchmark set",
    "512x1024x4096": "M4 of the tuner's benchmark set",
    "512x768x3072": "M5 of the tuner's benchmark set",
}  # fmt: skip
_CONVOLUTIONS = ("4x56x56x64x64", "4x28x28x128x128", "4x14x14x256x256")
REGISTERED: Mapping[str, str] = {
    **{f"gemm-{sizes}-packed": f"{text}, weights packed" for sizes, text in _SIZES.items()},
    **{f"gemm-{sizes}": f"{text}, weights plain" for sizes, text in _SIZES.items()},
    **{f"conv-{sizes}-k3s1": "ResNet-50 at batch 4, 3x3" for sizes in _CONVOLUTIONS},
}
"""The names that `tilewright workloads` lists. Any other multiples of a tile are allowed too."""
MAX_REDUCTION = 1 << 16
"""Maximum number of int8 products whose sum fits int32."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """Sizes of C[m][n] = A[m][k] * B[k][n]; `packed` is true if B has the packed layout."""

    m: int
    n: int
    k: int
    packed: bool

    @property
    def name(self) -> str:
        """Canonical workload name, without the target."""
        return f"gemm-{self.m}x{self.n}x{self.k}{'-packed' * self.packed}"

    @property
    def reduction(self) -> int:
        """Products each output sums."""
        return self.k

    @property
    def operations(self) -> int:
        """Useful multiply-adds."""
        return self.m * self.n * self.k

    def arguments(self, element: Element) -> tuple[Argument, ...]:
        """A, B, which packed is [K / group][N][group], and C."""
        b = (self.k // element.group, self.n, element.group) if self.packed else (self.k, self.n)
        return (
            Argument("A", (self.m, self.k), element.dtype, "input"),
            Argument("B", b, element.dtype, "input"),
            Argument("C", (self.m, self.n), element.sum_dtype, "output"),
        )


@dataclass(frozen=True, slots=True)
class Convolution:
    """A 3x3 convolution of stride 1 over an input with its border of one pixel."""

    batch: int
    height: int
    width: int
    channels: int
    filters: int

    @property
    def name(self) -> str:
        """Canonical workload name, without the target."""
        sizes = (self.batch, self.height, self.width, self.channels, self.filters)
        return f"conv-{'x'.join(map(str, sizes))}-k3s1"

    @property
    def reduction(self) -> int:
        """Products each output sums."""
        return 9 * self.channels

    @property
    def operations(self) -> int:
        """Useful multiply-adds."""
        return self.batch * self.height * self.width * self.filters * self.reduction

    @property
    def pixels(self) -> int:
        """The number of output pixels of a tile, which is the largest one that divides a row."""
        return max(d for d in range(1, TILE_ROWS + 1) if self.width % d == 0)

    def arguments(self, element: Element) -> tuple[Argument, ...]:
        """input[N][H+2][W+2][C], weights[3][3][C / group][K][group], output[N][H][W][K]."""
        group = element.group
        given = (self.batch, self.height + 2, self.width + 2, self.channels)
        weights = (3, 3, self.channels // group, self.filters, group)
        output = (self.batch, self.height, self.width, self.filters)
        return (
            Argument("input", given, element.dtype, "input"),
            Argument("weights", weights, element.dtype, "input"),
            Argument("output", output, element.sum_dtype, "output"),
        )


Shape = Gemm | Convolution


def parse_shape(spec: str, element: Element) -> Shape:
    """The shape with this name.

    Raises `UnknownNameError` if the name fits no pattern, and `WorkloadError` if its sizes are
    malformed, not multiples of a tile, or too large.
    """
    if not re.match(r"(gemm|conv)([-_x\d]|$)", spec):
        raise UnknownNameError(f"{element.target} workload", spec, REGISTERED)
    check_size_limit(spec)
    gemm = re.fullmatch("gemm-" + "x".join([SIZE] * 3) + "(-packed)?", spec)
    conv = re.fullmatch("conv-" + "x".join([SIZE] * 5) + "-k3s1", spec)
    if gemm is not None:
        m, n, k = (int(size) for size in gemm.groups()[:3])
        shape: Shape = Gemm(m, n, k, gemm.group(4) is not None)
        multiples = {"M": (m, TILE_ROWS), "N": (n, TILE_ROWS), "K": (k, element.depth)}
    elif conv is not None:
        shape = Convolution(*(int(size) for size in conv.groups()))
        multiples = {
            "N": (shape.batch, 1), "H": (shape.height, 1), "W": (shape.width, 1),
            "C": (shape.channels, element.depth), "K": (shape.filters, TILE_ROWS),
        }  # fmt: skip
    else:
        raise WorkloadError(
            f"workload {spec!r} is malformed. Write {' or '.join(PATTERNS)} with positive "
            "whole numbers, for example gemm-512x512x512-packed."
        )
    for name, (size, unit) in multiples.items():
        if size < 1 or size % unit:
            raise WorkloadError(
                f"workload {spec!r} has {name} = {size}: {name} must be a positive multiple of "
                f"{unit}, the extent of a tile."
            )
    _check_size(spec, shape, element)
    return shape


def _check_size(spec: str, shape: Shape, element: Element) -> None:
    arguments = shape.arguments(element)
    used = sum(math.prod(a.shape) * (4 if a.is_written else element.size_bytes) for a in arguments)
    if used > MAX_ARRAY_BYTES:
        raise WorkloadError(
            f"workload {spec!r} needs {used >> 20} MiB of arrays: at most "
            f"{MAX_ARRAY_BYTES >> 20} MiB are mapped for a kernel, so choose smaller sizes."
        )
    if shape.reduction > MAX_REDUCTION:
        raise WorkloadError(
            f"workload {spec!r} sums {shape.reduction} products: at most {MAX_REDUCTION} fit a "
            "32-bit sum, so choose smaller sizes."
        )


def workload_of(shape: Shape, element: Element) -> Workload:
    """The workload record of a shape."""
    return Workload(
        name=f"{element.target}:{shape.name}",
        target=element.target,
        arguments=shape.arguments(element),
        operations=shape.operations,
        source=shape.name,
    )
