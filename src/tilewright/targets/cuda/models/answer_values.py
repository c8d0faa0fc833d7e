"""Values of Python expressions in an answer, as C++ expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tilewright.targets.cuda.models.answer import shown
from tilewright.targets.cuda.models.not_checked import NotReadError

TYPES = {
    "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "float16": "Half", "float32": "Float", "float64": "Double", "bfloat16": "BFloat16",
    "bool": "Bool",
}  # fmt: skip
"""PyTorch's names of element types."""


@dataclass(frozen=True)
class Tensor:
    """A C++ expression of type `at::Tensor`, with its shape and element type if they are known.

    The result of a function (`is_result`) may also be several tensors.
    """

    code: str
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    is_result: bool = False


@dataclass(frozen=True)
class Sizes:
    """The shape of a tensor as a Python value."""

    of: Tensor


@dataclass(frozen=True)
class Part:
    """A module inside the model: its name, its attributes that are numbers or texts, and whether
    it is one of PyTorch's containers, whose modules are chosen by numbers."""

    name: str
    attributes: Mapping[str, object] = field(default_factory=dict)
    is_container: bool = False


@dataclass(frozen=True)
class Loaded:
    """An extension, with its name. A module of the model may have the same name."""

    name: str


@dataclass(frozen=True)
class Whole:
    """A C++ expression of an integer that is known when the answer runs."""

    code: str


@dataclass(frozen=True)
class Unknown:
    """A value that was not understood. The answer is refused only if it uses the value."""

    error: NotReadError


def size(of: Tensor, index: object, node: ast.AST) -> object:
    """One extent of a tensor: a number if it is known, and otherwise an expression."""
    if not isinstance(index, int):
        raise NotReadError("only single sizes of a shape can be used", getattr(node, "lineno", 0))
    if of.shape is not None and -len(of.shape) <= index < len(of.shape):
        return of.shape[index]
    return Whole(f"{of.code}.size({index})")


_CODES: Mapping[type, Callable[[object], str]] = {
    bool: lambda value: str(value).lower(),
    int: lambda value: f"{value}LL",
    float: lambda value: f"tw_torch::Real{{{value!r}}}",
    type(None): lambda value: "c10::nullopt",
}


def code(value: object, node: ast.expr) -> str:
    """A value as a C++ expression."""
    if isinstance(value, (Tensor, Whole)):
        return value.code
    if type(value) in _CODES and value not in (float("inf"), float("-inf")) and value == value:
        return _CODES[type(value)](value)
    raise NotReadError(f"{shown(node)} is passed to a kernel, but is neither a tensor "
                       "nor a number", node.lineno)  # fmt: skip
