"""`math` and `numpy`, as far as kernels can use them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.targets.trainium.errors import KernelError, shown
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.arithmetic import (
    checked_number,
)
from tilewright.targets.trainium.language.contents import items_of_any
from tilewright.targets.trainium.language.host_arrays import MAKERS, ArrayFunction, elementwise
from tilewright.targets.trainium.language.python import number
from tilewright.targets.trainium.language.values import Builtin, Namespace
from tilewright.targets.trainium.operations.functions import ACTIVATION_NAMES, ALU_NAMES, Operator
from tilewright.targets.trainium.tiles.dtypes import (
    DTYPES,
    DType,
    HostArray,
    HostType,
)


def _mathematical(name: str, function: Callable[..., Any]) -> Builtin:
    def compute(run: Execution, *args: Any) -> Any:
        if any(isinstance(arg, HostArray) for arg in args):
            return elementwise(run, name.rpartition(".")[2], args)
        try:
            return checked_number(function(*(number(arg, name) for arg in args)))
        except (ArithmeticError, ValueError, TypeError) as error:
            raise KernelError("arithmetic", f"{name}: {error}") from None

    return Builtin(name, compute)


def _product(run: Execution, values: Any) -> Any:
    total: Any = 1
    for item in items_of_any(values):
        total = checked_number(total * number(item, "prod"))
    return total


_MATH = (
    "sqrt", "exp", "log", "log2", "log10", "ceil", "floor", "gcd", "sin", "cos", "tanh", "fabs",
    "isqrt", "lcm", "hypot", "trunc", "erf", "isnan", "isinf", "isfinite",
)  # fmt: skip


def math_module() -> Namespace:
    """`math`."""
    members: dict[str, object] = {n: _mathematical(f"math.{n}", getattr(math, n)) for n in _MATH}
    members |= {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}
    members["prod"] = Builtin("math.prod", _product)
    members["pow"] = _mathematical("math.pow", math.pow)
    return Namespace("math", members)


_NUMPY_TYPES = (
    "float32", "float16", "int8", "int16", "int32", "uint8", "uint16", "uint32",
)  # fmt: skip


def _limits_of_float(run: Execution, dtype: Any) -> Namespace:
    if not isinstance(dtype, DType) or not dtype.is_float:
        raise KernelError("unsupported_dtype", f"np.finfo takes a float type, not {shown(dtype)}")
    found: Any = ml_dtypes.finfo(dtype.exact)  # type: ignore[no-untyped-call]
    limits = {name: float(getattr(found, name)) for name in ("min", "max", "eps", "tiny")}
    return Namespace(f"np.finfo({dtype})", limits)


def _limits_of_integer(run: Execution, dtype: Any) -> Namespace:
    if not isinstance(dtype, DType) or dtype.kind != "integer":
        raise KernelError(
            "unsupported_dtype", f"np.iinfo takes an integer type, not {shown(dtype)}"
        )
    found = np.iinfo(dtype.exact)
    return Namespace(f"np.iinfo({dtype})", {"min": int(found.min), "max": int(found.max)})


def numpy_module() -> Namespace:
    """`numpy`: names of operations, types and constants, and functions on host arrays."""
    members: dict[str, object] = {
        name: Operator(name, f"np.{name}")
        for name in (
            *ALU_NAMES, *ACTIVATION_NAMES, "max", "min", "amax", "amin", "sum", "prod", "absolute",
            "true_divide", "all", "negative",
        )
    }  # fmt: skip
    types: dict[str, DType] = {name: DTYPES[name] for name in _NUMPY_TYPES}
    members |= {**types, "bool_": DTYPES["bool"], "pi": math.pi, "inf": math.inf, "nan": math.nan}
    members["newaxis"] = None
    members["dtype"] = Builtin("np.dtype", lambda run, dtype: dtype)
    members |= {name: HostType(name) for name in ("float64", "int64")}
    members |= {name: ArrayFunction(name) for name in MAKERS}
    members["finfo"] = Builtin("np.finfo", _limits_of_float)
    members["iinfo"] = Builtin("np.iinfo", _limits_of_integer)
    members["e"] = math.e
    members["prod"] = Builtin("np.prod", _product, operator="prod")
    for name in ("sqrt", "exp", "log"):
        plain = _mathematical(f"np.{name}", getattr(math, name))
        plain.operator = Operator(name, f"np.{name}")
        members[name] = plain
    for name in ("ceil", "floor", "log2", "gcd", "cos"):
        members[name] = _mathematical(f"np.{name}", getattr(math, name))
    return Namespace("numpy", members)
