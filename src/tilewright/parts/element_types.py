"""The element types that arrays may have, by their names in records and in `workload.toml`."""

from __future__ import annotations

from typing import Any, Literal, get_args

import ml_dtypes  # this import lets numpy find bfloat16 by its name
import numpy as np

Integer = Literal["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
SmallFloat = Literal["float8_e4m3", "float8_e5m2"]
Float = Literal[SmallFloat, "float16", "bfloat16", "float32", "float64"]
ElementType = Literal[Integer, Float]
ELEMENT_TYPES: tuple[str, ...] = get_args(ElementType)
SMALL_FLOATS: tuple[str, ...] = get_args(SmallFloat)
"""The floating-point types of 8 bits, which only kernels in NKI may have."""


def is_float(name: str) -> bool:
    """Whether elements of this type are floating point numbers."""
    return name in get_args(Float)


def limits(name: str) -> Any:
    """The limits of a floating-point type, with the attributes of `numpy.finfo` such as `tiny`,
    `maxexp` and `nmant`.
    """
    return ml_dtypes.finfo(np.dtype(name))  # type: ignore[no-untyped-call]


_C_TYPES = {
    "float16": "uint16_t",  # as bits, because not every compiler has the type
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
}


def c_type(name: str) -> str:
    """The name of an element type in C."""
    return _C_TYPES.get(name, f"{name}_t")
