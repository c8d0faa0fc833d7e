"""Converts names of convolution workloads to arrays and operations.

A name contains the batch, the height and width of the input without its border, the input and
output channels, and then kernel size, stride and padding: `conv-4x56x56x64x64-k3s1p1`. The padding
may be omitted if it is (k - 1) / 2, with which the output of a convolution of stride 1 has the size
of the input.

The border is part of the input array: `input` is N x (H + 2 p) x (W + 2 p) x C. Its values are
drawn like all others, so a kernel needs no special case for the border.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.core.errors import WorkloadError
from tilewright.core.records import Argument, Workload
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.sizes import check_memory, check_reduction, parse_size

PATTERN = "conv-NxHxWxCxK-kRsSpP"


@dataclass(frozen=True, slots=True)
class Convolution:
    """output[n][y][x][o] = bias[o] + sum over r, t, c of input * weights[r][t][c][o].

    int8 results are saturated. The input element is input[n][y * stride + r][x * stride + t][c],
    border included; `height` and `width` are those of the input without its border.
    """

    batch: int
    height: int
    width: int
    channels: int
    filters: int
    size: int
    stride: int
    padding: int

    @property
    def name(self) -> str:
        """Canonical workload name, without the target."""
        sizes = (self.batch, self.height, self.width, self.channels, self.filters)
        padding = f"p{self.padding}" if self.padding != _default_padding(self.size) else ""
        return f"conv-{'x'.join(map(str, sizes))}-k{self.size}s{self.stride}{padding}"

    @property
    def input_shape(self) -> tuple[int, int, int, int]:
        """Batch, rows and columns with the border, channels."""
        border = 2 * self.padding
        return (self.batch, self.height + border, self.width + border, self.channels)

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        """Batch, rows, columns, filters."""
        _, rows, columns, _ = self.input_shape
        return (
            self.batch,
            (rows - self.size) // self.stride + 1,
            (columns - self.size) // self.stride + 1,
            self.filters,
        )

    @property
    def reduction(self) -> int:
        """Number of products that one output sums."""
        return self.size * self.size * self.channels

    @property
    def operations(self) -> int:
        """Multiply-accumulates of the whole convolution."""
        batch, rows, columns, filters = self.output_shape
        return batch * rows * columns * filters * self.reduction

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """Kernel rows and columns, channels, filters."""
        return (self.size, self.size, self.channels, self.filters)

    def workload(self, instance: Instance) -> Workload:
        """The workload record of these sizes, in the instance's types."""
        dtype = instance.element.dtype
        return Workload(
            name=f"{instance.name}:{self.name}",
            target=instance.name,
            arguments=(
                Argument("input", self.input_shape, dtype, "input"),
                Argument("weights", self.weights_shape, dtype, "input"),
                Argument("bias", (self.filters,), instance.sum.dtype, "input"),
                Argument("output", self.output_shape, dtype, "output"),
            ),
            operations=self.operations,
            source=self.name,
        )


def parse_convolution(spec: str, instance: Instance) -> Convolution:
    """Sizes from a name like `conv-4x56x56x64x64-k3s1` or `conv-1x32x32x16x24-k5s2p0`.

    Raises `WorkloadError` if the name is malformed, or its sizes are impossible or too large.
    """
    form = "conv-" + "x".join([r"(-?\d+)"] * 5) + r"-k(\d+)s(\d+)(?:p(\d+))?"
    match = re.fullmatch(form, spec, re.ASCII)
    if match is None:
        raise WorkloadError(
            f"workload {spec!r} is malformed. Write {PATTERN} with positive whole numbers, for "
            "example conv-4x56x56x64x64-k3s1."
        )
    *sizes, padding = match.groups()
    names = "N, H, W, C, K, kernel size and stride"
    batch, height, width, channels, filters, size, stride = (
        parse_size(spec, text, names) for text in sizes
    )
    border = parse_size(spec, padding, "padding", 0) if padding else _default_padding(size)
    conv = Convolution(batch, height, width, channels, filters, size, stride, border)
    if min(height, width) + 2 * border < size:
        raise WorkloadError(
            f"workload {spec!r} has a kernel of {size} over an input of {height + 2 * border} x "
            f"{width + 2 * border} with its border. Choose a kernel that fits into it."
        )
    check_reduction(spec, conv.reduction, "kernel size squared times C", instance)
    check_memory(spec, _array_bytes(conv, instance))
    return conv


def _default_padding(size: int) -> int:
    return (size - 1) // 2


def _array_bytes(conv: Convolution, instance: Instance) -> int:
    total = instance.config.sum_bytes * conv.filters
    for batch, rows, columns, depth in (conv.input_shape, conv.weights_shape, conv.output_shape):
        total += batch * rows * columns * depth * instance.config.element_bytes
    return total
