"""Functions and methods that kernels call with known values: those of Python, `math` and views."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol

from tilewright.proposers.nki.ir import Region, Tensor, whole
from tilewright.proposers.nki.linear import Linear
from tilewright.proposers.nki.reading.values import (
    ByRows,
    UnsupportedError,
    extreme,
    integer,
    linear,
    reshaped,
)

MOST_ITEMS = 4096
"""Maximum number of items of a comprehension, a list or a tuple."""


class Reader(Protocol):
    """The reader of the expression's kernel: values of names, tensors, iterations of loops."""

    names: dict[str, Any]
    tensors: dict[str, Tensor]
    trips: dict[str, int]

    def step(self) -> None:
        """Count an expression; `UnsupportedError` if there are too many."""
        ...

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any], line: int) -> Any:
        """The value of a call of NKI, or of a function in the file."""
        ...


class Items(tuple[Any, ...]):
    """A list. Appending creates a new one, so two names must not refer to the same list."""


_MATHEMATICAL = frozenset({
    "ceil", "cos", "exp", "fabs", "floor", "gcd", "isqrt", "log", "log2", "log10", "pow", "prod",
    "sin", "sqrt", "tanh",
})  # fmt: skip


def mathematical(name: str, args: list[Any]) -> Any:
    """A function of `math` applied to known numbers."""
    if name not in _MATHEMATICAL:
        raise UnsupportedError(f"math.{name} is not understood")
    if name == "prod":
        args = [tuple(items_of(args[0]))]
    return getattr(math, name)(*args)


def items_of(values: Any) -> Iterator[Any]:
    """The items of a value; `UnsupportedError` if there are too many."""
    for count, item in enumerate(values):
        if count == MOST_ITEMS:
            raise UnsupportedError("this comprehension is too long")
        yield item


def method(
    reader: Reader, view: Region, name: str, args: list[Any], kwargs: dict[str, Any]
) -> Region | ByRows:
    """The result of a method of a view."""
    tensor = reader.tensors[view.tensor]
    if name == "reshape":
        sizes = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        return reshaped(view, tensor, [integer(size, reader.trips) for size in sizes])
    if name == "broadcast_to" and not tensor.on_chip:
        return _broadcast(view, args[0] if args else kwargs["shape"])
    if name == "ap":
        pattern = args[0] if args else kwargs["pattern"]
        offset = linear(args[1] if len(args) > 1 else kwargs.get("offset", 0))
        dims = [(integer(s, reader.trips), integer(c, reader.trips)) for s, c in pattern]
        rows = kwargs.get("vector_offset")
        if rows is not None:
            return _by_rows(view, tensor, dims, offset, rows, kwargs.get("indirect_dim", 0))
        if dims[0][0] < 0 or len({step < 0 for step, count in dims[1:] if count > 1}) > 1:
            raise UnsupportedError("an access pattern that goes backwards along only some axes")
        return Region(view.tensor, view.offset + offset, tuple(dims))
    raise UnsupportedError(f"the method {name} of a tensor is not understood")


def _by_rows(
    view: Region, tensor: Tensor, dims: list[tuple[int, int]], offset: Linear, rows: Any, axis: int
) -> ByRows:
    """A region that begins, in each partition, at a number of a tile."""
    if tensor.on_chip or view != whole(tensor) or not isinstance(rows, Region):
        raise UnsupportedError("a vector_offset into a part of a tensor, or on chip")
    if rows.columns != 1 or any(step < 0 for step, _ in dims):
        raise UnsupportedError("this vector_offset is not understood")
    return ByRows(view, tuple(dims), offset, rows, axis)


def _broadcast(view: Region, shape: Any) -> Region:
    """A view in HBM whose axes of length one are repeated."""
    sizes = [integer(size, {}) for size in shape]
    dims = [(0, 1)] * (len(sizes) - len(view.dims)) + list(view.dims)
    if any(count not in (1, size) for (_, count), size in zip(dims, sizes, strict=True)):
        raise UnsupportedError("this broadcast to another shape is not understood")
    spread = [
        (step if count == size else 0, size)
        for (step, count), size in zip(dims, sizes, strict=True)
    ]
    return Region(view.tensor, view.offset, tuple(spread))


def builtin(reader: Reader, name: str, args: list[Any]) -> Any:
    """The result of a function of Python."""
    if name in ("min", "max"):
        values = args[0] if len(args) == 1 else args
        return extreme(list(items_of(values)), name == "max", reader.trips)
    if name == "range":
        return range(*(integer(a, reader.trips) for a in args))
    if name == "len":
        return len(args[0])
    if name in ("int", "float") and isinstance(args[0], (int, float)):
        return int(args[0]) if name == "int" else float(args[0])
    if name == "float" and isinstance(args[0], str):
        return float(args[0])
    if name == "abs" and isinstance(args[0], (int, float)):
        return abs(args[0])
    if name in ("list", "tuple"):
        return (tuple if name == "tuple" else Items)(items_of(args[0]) if args else ())
    if name == "zip":
        return tuple(zip(*map(items_of, args), strict=False))
    if name == "enumerate":
        return tuple(enumerate(items_of(args[0]), *args[1:]))
    if name == "sum":
        return sum(items_of(args[0]))
    if name == "slice":
        return slice(*args)
    if name == "print":
        return None
    raise UnsupportedError(f"{name} is not understood")
