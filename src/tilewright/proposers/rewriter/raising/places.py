"""Addresses of points of a nest as elements of the kernel's arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.expr import Expr, var
from tilewright.proposers.rewriter.ir import Array, Dram
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.nests import Vector
from tilewright.proposers.rewriter.raising.operands import strides
from tilewright.proposers.rewriter.raising.translation.parts import SPACING


class AxisEnds(NotRaised):
    """Addresses move past the end of an array's axis, so it must be merged with the axis before."""

    def __init__(self, number: int, array: Array, axis: int) -> None:
        self.number, self.axis = number, axis
        super().__init__(
            f"an address moves past the end of a row of {array.name} into the next row"
        )


@dataclass(frozen=True, slots=True)
class Dim:
    """A loop: its variable, and the change of each address of a point in one step."""

    name: str
    step: Vector
    count: int


class Places:
    """The elements at addresses, for arrays given by the numbers in their addresses."""

    def __init__(self, arrays: Mapping[int, Array]) -> None:
        self._arrays = arrays

    def _array(self, place: Dram) -> Array:
        return next(a for a in self._arrays.values() if a.name == place.array)

    def place(self, address: int, place: int, dims: Sequence[Dim]) -> Dram:
        """The address of a point as an element of an argument array."""
        number, offset = divmod(address, SPACING)
        if number not in self._arrays:
            raise NotRaised("a command accesses an address outside the kernel's arrays")
        array = self._arrays[number]
        size, sizes = _bytes(array), strides(array)
        index = [Expr(v) for v in _digits(offset, size, sizes)]
        highest = [e.const for e in index]
        for dim in dims:
            step = dim.step[place] if place < len(dim.step) else 0
            if not step or dim.count == 1:
                continue
            for axis, digit in enumerate(_digits(step, size, sizes)):
                index[axis] = index[axis] + var(dim.name) * digit
                highest[axis] += digit * (dim.count - 1)
        for axis, extent in enumerate(array.shape):
            if axis and highest[axis] >= extent:
                raise AxisEnds(number, array, axis)
        return Dram(array.name, tuple(index))

    def moved(self, source: Dram, name: str, step: int) -> Dram:
        """An address that grows by a number of bytes with a variable."""
        array = self._array(source)
        digits = _digits(step, _bytes(array), strides(array))
        index = (e + var(name) * d for e, d in zip(source.index, digits, strict=True))
        return Dram(source.array, tuple(index))

    def within(self, dim: tuple[Vector, int], *places: Dram) -> list[tuple[Vector, int]]:
        """A dimension split into several, so that none goes beyond the end of an array's axis."""
        step, count = dim
        for array_step, place in zip(step, places, strict=True):
            array = self._array(place)
            size = _bytes(array)
            for axis, digit in enumerate(_digits(array_step, size, strides(array))):
                most = array.shape[axis] // digit if axis and digit else count
                if 1 < most < count and count % most == 0:
                    far = tuple(s * most for s in step)
                    return [*self.within((far, count // most), *places), (step, most)]
        return [dim]

    def leaves_axis(self, step: int, address: int) -> bool:
        """Whether a step changes another index than the last one of the array at an address."""
        array = self._arrays[address // SPACING]
        return step < 0 or any(_digits(step, _bytes(array), strides(array))[:-1])


def _bytes(array: Array) -> int:
    """Number of bytes of an element."""
    size = SIZES.get(array.element)
    if size is None:
        raise NotRaised(f"the array {array.name} has the unknown element type {array.element}")
    return size


def _digits(offset: int, size: int, sizes: Sequence[int]) -> list[int]:
    """Bytes as indices of an array whose axes have steps of `sizes` elements."""
    if offset % size or offset < 0:
        raise NotRaised(
            "an address lies between two array elements, or addresses decrease in a loop"
        )
    rest, found = offset // size, []
    for step in sizes:
        found.append(rest // step)
        rest %= step
    return found
