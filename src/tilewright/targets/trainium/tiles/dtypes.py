"""Data types: how values are stored, and how they are rounded when they are written.

Floating-point values of all types are stored as float32 numbers that the type can represent, so
rounding happens only in writes. Integers are stored in their own types.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
Float32 = NDArray[np.float32]

MOST_HOST_ELEMENTS = 1 << 22
"""Dtype of an array that a kernel creates with numpy."""
UNDEFINED_INTEGER = 77
"""The value of an integer that was never written; for floats it is NaN."""


@dataclass(frozen=True, eq=False)
class DType:
    """A type of the machine."""

    name: str
    itemsize: int
    kind: Literal["float", "integer", "bool"]
    storage: np.dtype[Any]
    """Dtype of the arrays that store values of this type."""
    exact: np.dtype[Any]
    """The dtype that arrays outside the interpreter have."""

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.kind == "float"

    @property
    def undefined(self) -> float:
        """The value that fills unwritten storage."""
        return np.nan if self.is_float else UNDEFINED_INTEGER

    def rounded(self, values: Values) -> Values:
        """The values in this type: rounded to nearest even; integers saturate."""
        if self.is_float:
            return _rounded_float(self, values)
        if self.kind == "bool":
            return np.not_equal(values, 0).astype(np.uint8)
        if values.dtype == self.storage:
            return values
        return _saturated(values, self.storage)

    def __repr__(self) -> str:
        return self.name


def _float(name: str, exact: Any) -> DType:
    found = np.dtype(exact)
    return DType(name, found.itemsize, "float", np.dtype(np.float32), found)


def _integer(name: str) -> DType:
    found = np.dtype(name)
    return DType(name, found.itemsize, "integer", found, found)


FLOAT32 = _float("float32", np.float32)
TFLOAT32 = _float("tfloat32", np.float32)
BFLOAT16 = _float("bfloat16", ml_dtypes.bfloat16)
FLOAT16 = _float("float16", np.float16)
FLOAT8_E4M3 = _float("float8_e4m3", ml_dtypes.float8_e4m3)
FLOAT8_E5M2 = _float("float8_e5m2", ml_dtypes.float8_e5m2)
INT32, UINT32, UINT8 = _integer("int32"), _integer("uint32"), _integer("uint8")
BOOL = DType("bool", 1, "bool", np.dtype(np.uint8), np.dtype(bool))

DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        FLOAT32, TFLOAT32, BFLOAT16, FLOAT16, FLOAT8_E4M3, FLOAT8_E5M2, INT32, UINT32, UINT8, BOOL,
        *map(_integer, ("int8", "int16", "uint16")),
    )
}  # fmt: skip
"""All types by name."""

MATMUL_FULL = (FLOAT32, TFLOAT32)
"""If one operand of a product has one of these types, both must have one."""

_DROPPED_BITS = {"bfloat16": 16, "tfloat32": 13}


def _rounded_float(dtype: DType, values: Values) -> Values:
    if values.dtype != np.float32:
        values = values.astype(np.float32)
    if dtype is FLOAT32:
        return values
    dropped = _DROPPED_BITS.get(dtype.name)
    if dropped is None:
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(dtype.exact).astype(np.float32)
    return _nearest_even(values, dropped)


def _nearest_even(values: Values, dropped: int) -> Values:
    """Float32 values without their last `dropped` bits."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits >> np.uint32(dropped)
    rounded &= np.uint32(1)
    rounded += np.uint32((1 << (dropped - 1)) - 1)
    rounded += bits
    rounded &= np.uint32(0xFFFFFFFF ^ ((1 << dropped) - 1))
    return rounded.view(np.float32).reshape(values.shape)


def _saturated(values: Values, storage: np.dtype[Any]) -> Values:
    bounds = np.iinfo(storage)
    if values.dtype.kind == "f":
        exact = np.rint(values.astype(np.float64))
        exact = np.where(np.isnan(exact), UNDEFINED_INTEGER, exact)
    else:
        exact = values.astype(np.int64)
    return np.clip(exact, bounds.min, bounds.max).astype(storage)


@dataclass(frozen=True, slots=True)
class HostType:
    """A type of numpy that the machine does not have, which only host arrays use."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class HostArray:
    """An array that a kernel creates with numpy before it is traced, for `nl.shared_constant`.

    `text` is the numpy expression that creates it; empty if it would be too long.
    """

    values: Values
    text: str

    @property
    def dtype(self) -> DType | HostType:
        """The type of its elements."""
        name = self.values.dtype.name
        return DTYPES.get(name) or HostType(name)


def as_float32(values: Values) -> Float32:
    """Operands in the form in which the engines compute."""
    return values if values.dtype == np.float32 else values.astype(np.float32)


@cache
def promoted(*dtypes: DType) -> DType:
    """The type of a result for operands of these types, if the kernel names none."""
    floats = [d for d in dtypes if d.is_float]
    if floats:
        widest = max(d.itemsize for d in floats)
        wide = {d for d in floats if d.itemsize == widest}
        return wide.pop() if len(wide) == 1 else FLOAT32
    if len(set(dtypes)) == 1:
        return dtypes[0]
    found = np.result_type(*(d.storage for d in dtypes))
    return DTYPES.get(found.name, FLOAT32)
