"""Arithmetic of the engines: ALU operators, activation functions and reductions, by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.targets.trainium.errors import KernelError, shown
from tilewright.targets.trainium.tiles.dtypes import Values


@dataclass(frozen=True, slots=True)
class Operator:
    """A function of nl or np that is used as the name of an operation, as in `op=nl.add`."""

    name: str
    spelled: str
    """The name in the kernel."""


def _logical(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(np.not_equal(a, 0), np.not_equal(b, 0))


_ALU: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "power": np.power,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal,
    "logical_and": _logical(np.logical_and), "logical_or": _logical(np.logical_or),
    "logical_xor": _logical(np.logical_xor),
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift, "right_shift": np.right_shift,
    "logical_not": lambda a, b: np.equal(a, 0), "invert": lambda a, b: np.invert(a),
    "abs": lambda a, b: np.abs(a), "rsqrt": lambda a, b: 1 / np.sqrt(a),
}  # fmt: skip
_ONLY_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "mod": np.mod, "fmod": np.fmod, "floor": lambda a, b: np.floor(a),
    "ceil": lambda a, b: np.ceil(a), "trunc": lambda a, b: np.trunc(a),
}  # fmt: skip
"""Functions of nl that no instruction takes as its `op`. Each counts as one instruction."""
BITWISE = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert"}
"""Bitwise operations, which accept only integers."""
COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
_ALIASES = {
    "max": "maximum", "amax": "maximum", "min": "minimum", "amin": "minimum", "sum": "add",
    "prod": "multiply", "mul": "multiply", "true_divide": "divide", "all": "logical_and",
    "absolute": "abs", "bitwise_not": "invert",
}  # fmt: skip

_erf = np.vectorize(math.erf, otypes=[np.float32])


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Any) -> Any:
    return x * 0.5 * (1 + _erf(x * np.float32(math.sqrt(0.5))))


def _gelu_tanh(x: Any) -> Any:
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return 0.5 * x * (1 + np.tanh(inner))


def _gelu_dx(x: Any) -> Any:
    density = np.exp(-0.5 * x * x) * np.float32(1 / math.sqrt(2 * math.pi))
    return 0.5 * (1 + _erf(x * np.float32(math.sqrt(0.5)))) + x * density


def _silu_dx(x: Any) -> Any:
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "copy": lambda x: x, "square": np.square, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x, "exp": np.exp, "log": np.log, "sin": np.sin,
    "cos": np.cos, "arctan": np.arctan, "sign": np.sign, "abs": np.abs, "tanh": np.tanh,
    "sigmoid": _sigmoid, "relu": lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)),
    "gelu": _gelu, "gelu_dx": _gelu_dx, "gelu_apprx_tanh": _gelu_tanh,
    "gelu_apprx_sigmoid": lambda x: x * _sigmoid(np.float32(1.702) * x),
    "silu": lambda x: x * _sigmoid(x), "silu_dx": _silu_dx,
    "softplus": lambda x: np.logaddexp(x, 0), "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "erf": _erf,
    "erf_dx": lambda x: np.float32(2 / math.sqrt(math.pi)) * np.exp(-x * x),
}  # fmt: skip

DOMAINS: dict[str, tuple[float, float]] = {
    "log": (2.0**-64, 2.0**64),
    "sin": (-math.pi, math.pi),
    "arctan": (-math.pi / 2, math.pi / 2),
    "sqrt": (2.0**-116, 2.0**118),
    "rsqrt": (2.0**-87, 2.0**97),
}
"""The ranges in which the tables of ACT are valid."""

_REDUCTIONS: dict[str, tuple[Callable[..., Any], float]] = {
    "add": (np.sum, 0.0),
    "multiply": (np.prod, 1.0),
    "maximum": (np.max, -np.inf),
    "minimum": (np.min, np.inf),
    "logical_and": (lambda v, **k: np.all(v != 0, **k), 1.0),
    "logical_or": (lambda v, **k: np.any(v != 0, **k), 0.0),
}


def name_of(op: object, what: str = "op") -> str:
    """The canonical name of an operator that a kernel passes."""
    found = op if isinstance(op, Operator) else getattr(op, "operator", None)
    if not isinstance(found, Operator):
        raise KernelError(
            "unsupported_operator", f"{what} must be an operation such as nl.add, not {shown(op)}"
        )
    return _ALIASES.get(found.name, found.name)


def alu(name: str) -> Callable[[Any, Any], Any]:
    """The operator of that name."""
    found = _ALU.get(name) or _ONLY_FUNCTIONS.get(name)
    if found is None:
        known = ", ".join(sorted(_ALU))
        raise KernelError(
            "unsupported_operator", f"there is no ALU operation {name}; the operations are {known}"
        )
    return found


def activation(name: str) -> Callable[[Any], Any]:
    """The activation function of that name."""
    found = _ACTIVATIONS.get(name)
    if found is None:
        known = ", ".join(sorted(_ACTIVATIONS))
        raise KernelError(
            "unsupported_operator", f"there is no activation {name}; the activations are {known}"
        )
    return found


def neutral(name: str) -> float:
    """The value that does not change the result of a reduction."""
    return _reduction(name)[1]


def reduced(name: str, values: Values, axes: tuple[int, ...]) -> Values:
    """A float32 reduction along axes, which keep the size 1."""
    found: Values = _reduction(name)[0](values, axis=axes, keepdims=True)
    return found.astype(np.float32, copy=False) if values.dtype.kind == "f" else found


def _reduction(name: str) -> tuple[Callable[..., Any], float]:
    found = _REDUCTIONS.get(name)
    if found is None:
        known = ", ".join(sorted(_REDUCTIONS))
        raise KernelError(
            "unsupported_operator", f"there is no reduction with {name}; the operations are {known}"
        )
    return found


ALU_NAMES = frozenset(_ALU)
ACTIVATION_NAMES = frozenset(_ACTIVATIONS)
