"""The two element types that tiles multiply, with the properties that depend on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.parts.inputs import Array

TILE_ROWS = 16
TILE_BYTES = 64
"""The size of a row of a tile in bytes."""
SUM_BYTES = 4


@dataclass(frozen=True, slots=True)
class Element:
    """An element type: `name` is the suffix of the target's name, and `dtype` the type of arrays.

    In a packed operand, `group` elements of a column of B are adjacent, which fill four bytes.
    """

    name: str
    dtype: str
    c: str
    sum_dtype: str
    sum_c: str
    product: str
    feature: str

    @property
    def target(self) -> str:
        """The target's name."""
        return f"amx-{self.name}"

    @property
    def size_bytes(self) -> int:
        """The size of one element in bytes."""
        return np.dtype(self.dtype).itemsize

    @property
    def group(self) -> int:
        """The number of elements in four bytes."""
        return SUM_BYTES // self.size_bytes

    @property
    def depth(self) -> int:
        """The number of products that one tile instruction sums for each output."""
        return TILE_BYTES // self.size_bytes


INT8 = Element("int8", "int8", "int8_t", "int32", "int32_t", "_tile_dpbssd", "amx_int8")
BF16 = Element("bf16", "uint16", "uint16_t", "float32", "float", "_tile_dpbf16ps", "amx_bf16")
"""numpy has no bfloat16, so arrays contain the upper halves of float32 numbers as uint16."""


def bf16_bits(values: Array) -> Array:
    """Float numbers rounded to bfloat16, to nearest even, as uint16."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = bits >> 16
    rounded &= 1
    rounded += 0x7FFF
    rounded += bits
    rounded >>= 16
    return rounded.astype(np.uint16)


def bf16_values(bits: Array) -> Array:
    """The values of bfloat16 bits, as float64."""
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32).astype(np.float64)
