"""The values of expressions while a kernel is read."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.proposers.nki.ir import Region, Tensor
from tilewright.proposers.nki.linear import Linear


class UnsupportedError(Exception):
    """A kernel, or a part of it, that cannot be read, with the reason and the line."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class SplitError(Exception):
    """The following code differs between iterations of the loop over this variable."""

    def __init__(self, variable: str) -> None:
        super().__init__(variable)
        self.variable = variable


@dataclass(frozen=True, slots=True)
class Name:
    """A name that is only passed on, such as `nl.add` or a parameter with a default."""

    text: str

    @property
    def last(self) -> str:
        """The part after the last dot."""
        return self.text.rpartition(".")[2]


@dataclass(frozen=True)
class Fresh:
    """A tensor without a name; `values` is the expression of a constant."""

    shape: tuple[int, ...]
    dtype: str
    memory: str
    values: str = ""


TILE_SIZES: Mapping[str, int] = {
    "pmax": 128, "gemm_stationary_fmax": 128, "gemm_moving_fmax": 512, "psum_fmax": 512,
    "bn_stats_fmax": 512,
}  # fmt: skip


@dataclass(frozen=True)
class ByRows:
    """A region of HBM whose partitions begin at the numbers in a tile, `rows`, which are counted
    along `axis` of the tensor. `pattern` has steps and counts, the partition's first."""

    table: Region
    pattern: tuple[tuple[int, int], ...]
    offset: Linear
    rows: Region
    axis: int

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of a `gather` or `scatter` that describe it."""
        return {
            "rows": self.rows, "pattern": self.pattern, "offset": self.offset, "axis": self.axis,
        }  # fmt: skip


def number(value: Any) -> Any:
    """The number for a `Linear` without variables."""
    if isinstance(value, Linear) and not value.terms:
        return value.constant
    return value


def linear(value: Any, what: str = "an index") -> Linear:
    """An integer as a `Linear`."""
    if isinstance(value, bool) or not isinstance(value, (int, Linear)):
        raise UnsupportedError(f"{what} is not a known integer")
    return value if isinstance(value, Linear) else Linear(value)


def integer(value: Any, trips: Mapping[str, int], what: str = "a size") -> int:
    """An integer that is the same in all iterations. If it is not, the loops are split."""
    found = linear(value, what)
    if found.terms:
        raise SplitError(steepest(found, trips))
    return found.constant


def steepest(value: Linear, trips: Mapping[str, int]) -> str:
    """The variable whose step changes a value most."""
    return max((t for t in value.terms if t[0] in trips), key=lambda t: abs(t[1]))[0]


def compared(operator: ast.cmpop, left: Any, right: Any, trips: Mapping[str, int]) -> bool:
    """The result of a comparison of integers. If it has two results, a loop is split."""
    difference = linear(left) - linear(right)
    low, high = difference.bounds(trips)
    outcomes = {
        ast.Lt: (high < 0, low >= 0), ast.LtE: (high <= 0, low > 0),
        ast.Gt: (low > 0, high <= 0), ast.GtE: (low >= 0, high < 0),
        ast.Eq: (low == high == 0, low > 0 or high < 0),
        ast.NotEq: (low > 0 or high < 0, low == high == 0),
    }  # fmt: skip
    known = outcomes.get(type(operator))
    if known is None:
        raise UnsupportedError("a comparison is not between integers")
    if not any(known):
        raise SplitError(steepest(difference, trips))
    return known[0]


def extreme(values: Sequence[Any], largest: bool, trips: Mapping[str, int]) -> Any:
    """The smallest or largest of some numbers."""
    if all(isinstance(v, (int, float)) for v in values):
        return max(values) if largest else min(values)
    best = linear(values[0])
    for value in values[1:]:
        other = linear(value)
        if compared(ast.Gt() if largest else ast.Lt(), other, best, trips):
            best = other
    return number(best)


def divided(left: Any, right: Any, trips: Mapping[str, int]) -> tuple[Any, Any]:
    """Quotient and remainder of a division of integers."""
    divisor = number(right)
    if not isinstance(divisor, int) or divisor <= 0:
        raise UnsupportedError("the divisor is not a known positive integer")
    quotient, remainder = linear(left).divided(divisor)
    low, high = remainder.bounds(trips)
    if low < 0 or high >= divisor:
        raise SplitError(steepest(remainder, trips))
    return number(quotient), number(remainder)


def indexed(view: Region, tensor: Tensor, index: Sequence[Any], trips: Mapping[str, int]) -> Region:
    """A part of a view, given by integers, slices as (start, stop), and Ellipsis."""
    parts = list(index)
    if Ellipsis in parts:
        place = parts.index(Ellipsis)
        parts[place : place + 1] = [slice(None)] * (len(view.dims) - len(parts) + 1)
    parts += [slice(None)] * (len(view.dims) - len(parts))
    if len(parts) != len(view.dims):
        raise UnsupportedError(f"{tensor.name} has {len(view.dims)} axes, not {len(parts)}")
    offset = view.offset
    dims: list[tuple[int, int]] = []
    for axis, (part, (step, count)) in enumerate(zip(parts, view.dims, strict=True)):
        if isinstance(part, slice):
            start = linear(0 if part.start is None else part.start)
            stop = linear(count if part.stop is None else part.stop)
            every = 1 if part.step is None else integer(part.step, trips)
            start, stop = _from_end(start, count, trips), _from_end(stop, count, trips)
            size = integer(stop - start, trips)
            if size <= 0 or every < 1:
                raise UnsupportedError(f"a part of {tensor.name} is empty or reversed")
            offset = offset + start * step
            dims.append((step * every, math.ceil(size / every)))
        else:
            offset = offset + _from_end(linear(part), count, trips) * step
            if axis == 0 and tensor.on_chip:
                dims.append((step, 1))
    return Region(view.tensor, offset, tuple(dims))


def _from_end(place: Linear, count: int, trips: Mapping[str, int]) -> Linear:
    """A negative index is counted from the end."""
    return place + count if place.bounds(trips)[1] < 0 else place


def reshaped(view: Region, tensor: Tensor, shape: Sequence[int]) -> Region:
    """The same elements of a whole tensor in the same order, with another shape."""
    wanted = replace(tensor, shape=tuple(shape))
    if view.offset != Linear() or math.prod(view.shape) != math.prod(tensor.shape):
        raise UnsupportedError(f"only a part of {tensor.name} is reshaped")
    if tensor.on_chip and shape[0] != tensor.shape[0]:
        raise UnsupportedError(f"a reshape moves elements of {tensor.name} to other partitions")
    return Region(view.tensor, Linear(), tuple(zip(wanted.strides, shape, strict=True)))
