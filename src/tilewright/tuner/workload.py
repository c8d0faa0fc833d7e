"""A tensor computation in the form that the tuner uses: loops, affine accesses, bytes per
element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tilewright.core.errors import WorkloadError


class LoopKind(Enum):
    """The role of a loop for the output."""

    SPATIAL = "spatial"
    REDUCTION = "reduction"


@dataclass(frozen=True)
class Loop:
    """One loop of the computation, with `extent` iterations from zero in steps of one."""

    name: str
    extent: int
    kind: LoopKind

    def __post_init__(self) -> None:
        if self.extent < 1:
            raise WorkloadError(f"loop {self.name!r} has extent {self.extent}; expected at least 1")


@dataclass(frozen=True)
class Access:
    """How the innermost statement accesses one buffer.

    `dims` contains, for each dimension of the buffer, outermost first, the terms `(loop,
    coefficient)` of its index: `index = sum(coefficient * loop)`. Constants are left out because
    they do not change a tile's footprint. A loop is given by its position in
    `TensorWorkload.loops`.
    """

    buffer: str
    dims: tuple[tuple[tuple[int, int], ...], ...]
    element_bytes: int = 4

    @property
    def loops(self) -> frozenset[int]:
        """Positions of the loops on which an index depends."""
        return frozenset(loop for terms in self.dims for loop, _ in terms)


@dataclass(frozen=True)
class TensorWorkload:
    """A perfect loop nest `output[...] += product of inputs[...]`.

    Loops are in the order in which the schedule template splits them: first the spatial loops, in
    the order of the output's dimensions, and then the reductions. `padded` names the inputs that
    are read through a stage which adds a border of zeros. Their accesses use coordinates of the
    padded buffer, so a tile's footprint includes the border. On a GPU, that stage is inlined into
    the copy to shared memory; on a CPU, it is a separate stage whose position can be chosen.
    """

    name: str
    loops: tuple[Loop, ...]
    inputs: tuple[Access, ...]
    output: Access
    padded: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        kinds = [loop.kind for loop in self.loops]
        if kinds != sorted(kinds, key=lambda kind: kind is LoopKind.REDUCTION):
            raise WorkloadError(
                f"workload {self.name!r}: spatial loops must precede reduction loops"
            )
        if LoopKind.SPATIAL not in kinds:
            raise WorkloadError(f"workload {self.name!r} has no spatial loop to tile")
        for access in (*self.inputs, self.output):
            if any(not 0 <= loop < len(self.loops) for loop in access.loops):
                raise WorkloadError(
                    f"buffer {access.buffer!r} is indexed by a loop that the workload does not have"
                )

    @property
    def extents(self) -> tuple[int, ...]:
        """Number of iterations of each loop."""
        return tuple(loop.extent for loop in self.loops)

    def resized(self, extents: Sequence[int]) -> TensorWorkload:
        """The same computation with other extents, one for each loop."""
        loops = zip(self.loops, extents, strict=True)
        return replace(self, loops=tuple(replace(loop, extent=extent) for loop, extent in loops))

    @property
    def family(self) -> str:
        """The kind of computation without its sizes; for example, `ac,cb->ab` is a matrix product.

        Loops are letters in their order, without those of one iteration. A sum is an index of
        several loops, as in a 3x3 or 5x5 convolution of one image, `adef,d(b+e)(c+f)->abc`.
        Strides, padding, types, names and the order of the inputs are ignored.
        """
        letters: dict[int, str] = {}
        for loop, extent in enumerate(self.extents):
            if extent > 1:
                letters[loop] = chr(ord("a") + len(letters))
        inputs = sorted(_indices(access, letters) for access in self.inputs)
        return f"{','.join(inputs)}->{_indices(self.output, letters)}"

    @property
    def signature(self) -> str:
        """The family and its sizes, for example `ac,cb->ab 512x4096x1024`. Equal computations have
        equal signatures."""
        sizes = "x".join(str(extent) for extent in self.extents if extent > 1)
        return f"{self.family} {sizes}"

    @property
    def spatial(self) -> int:
        """The number of spatial loops, which are the first ones."""
        return sum(loop.kind is LoopKind.SPATIAL for loop in self.loops)

    @property
    def vector_loop(self) -> int:
        """The loop that is vectorised: the last spatial loop with more than one iteration."""
        moving = [loop for loop in range(self.spatial) if self.extents[loop] > 1]
        return moving[-1] if moving else self.spatial - 1

    @property
    def macs(self) -> int:
        """Number of multiply-accumulate operations of the whole computation."""
        return math.prod(self.extents)

    @property
    def flops(self) -> int:
        """Number of floating-point operations of the whole computation, two for each
        multiply-accumulate."""
        return 2 * self.macs


def _indices(access: Access, letters: dict[int, str]) -> str:
    """The indices of an access, each as a letter or as a sum of letters in parentheses."""
    dims = []
    for terms in access.dims:
        names = sorted(letters[loop] for loop, _ in terms if loop in letters)
        dims.append(f"({'+'.join(names)})" if len(names) > 1 else "".join(names))
    return "".join(dims)


def _loops(spatial: dict[str, int], reduction: dict[str, int]) -> tuple[Loop, ...]:
    return tuple(Loop(n, e, LoopKind.SPATIAL) for n, e in spatial.items()) + tuple(
        Loop(n, e, LoopKind.REDUCTION) for n, e in reduction.items()
    )


def matmul(m: int, n: int, k: int, name: str | None = None) -> TensorWorkload:
    """`C[m, n] = A[m, k] @ B[k, n]` in fp32."""
    i, j, r = ((0, 1),), ((1, 1),), ((2, 1),)
    return TensorWorkload(
        name=name or f"matmul_{m}x{n}x{k}",
        loops=_loops({"i": m, "j": n}, {"k": k}),
        inputs=(Access("A", (i, r)), Access("B", (r, j))),
        output=Access("C", (i, j)),
    )


def conv2d(
    batch: int,
    in_channels: int,
    height: int,
    width: int,
    out_channels: int,
    kernel: int,
    stride: int = 1,
    padding: int = 0,
    name: str | None = None,
) -> TensorWorkload:
    """A square-kernel NCHW convolution in fp32 with zero padding on all four sides.

    Raises `WorkloadError` if the kernel is larger than the padded input.
    """
    rows = (height + 2 * padding - kernel) // stride + 1
    columns = (width + 2 * padding - kernel) // stride + 1
    if rows < 1 or columns < 1:
        raise WorkloadError(
            f"a {kernel}x{kernel} kernel does not fit into {height}x{width} padded by {padding}"
        )
    n, f, y, x, c, ry, rx = range(7)
    return TensorWorkload(
        name=name
        or f"conv2d_{batch}x{in_channels}x{height}x{width}_f{out_channels}"
        f"_k{kernel}_s{stride}_p{padding}",
        loops=_loops(
            {"nn": batch, "ff": out_channels, "yy": rows, "xx": columns},
            {"rc": in_channels, "ry": kernel, "rx": kernel},
        ),
        inputs=(
            Access("data", (((n, 1),), ((c, 1),), ((y, stride), (ry, 1)), ((x, stride), (rx, 1)))),
            Access("kernel", (((f, 1),), ((c, 1),), ((ry, 1),), ((rx, 1),))),
        ),
        output=Access("conv", (((n, 1),), ((f, 1),), ((y, 1),), ((x, 1),))),
        padded=frozenset({"data"}) if padding else frozenset(),
    )
