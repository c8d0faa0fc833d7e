"""The function of an answer that Python calls: its arrays, and how sizes follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from tilewright.targets.cuda.models.formulas import (
    Element,
    Formula,
    OtherError,
    Shape,
    Size,
    parts,
)
from tilewright.targets.cuda.models.readings import Array, Recognised, count


@dataclass
class Host:
    """The function that Python calls: its arrays, and how the sizes are computed from them."""

    model: Recognised

    names: dict[str, str] = field(default_factory=dict)
    arrays: list[Array] = field(default_factory=list)
    known: dict[Size, str] = field(default_factory=dict)

    def array(self, array: Array) -> str:
        """The name of an array in C."""
        if array.name not in self.names:
            self.names[array.name] = f"a{len(self.names)}"
            self.arrays.append(array)
        return self.names[array.name]

    def size(self, size: Size) -> str:
        """The expression for an extent: of an axis of an array, or of several adjacent axes."""
        if size[0] == size[1]:
            return str(size[0])
        if size in self.known:
            return self.known[size]
        for axes, array in product((1, 2, 3, 4), self.arrays):
            shape = self.model.arrays[array.name]
            for first in range(len(shape) - axes + 1):
                if count(shape[first : first + axes]) == size:
                    name = self.names[array.name]
                    return " * ".join(f"(int){name}.size({first + i})" for i in range(axes))
        quotient = self._quotient(size)
        if quotient is not None:
            return quotient
        raise OtherError("a size of its result does not follow from those of its arrays")

    def _quotient(self, size: Size) -> str | None:
        """The expression for an extent that is a fixed part of axes of an array, such as the size
        of a group of channels."""
        for axes, array in product((1, 2, 3, 4), self.arrays):
            shape = self.model.arrays[array.name]
            for first in range(len(shape) - axes + 1):
                of = count(shape[first : first + axes])
                part = of[0] // max(1, size[0])
                if part > 0 and of == (size[0] * part, size[1] * part):
                    name = self.names[array.name]
                    whole = " * ".join(f"(int){name}.size({first + i})" for i in range(axes))
                    return f"({whole} / {part})"
        return None

    def product(self, shape: Shape) -> str:
        """The expression for the number of elements of a shape."""
        return " * ".join(self.size(size) for size in shape) or "1"


def leaves(formula: Formula, host: Host) -> dict[Element, str]:
    """The elements of arrays in a formula, with the names of the arrays in C."""
    found = dict[Element, str]()
    for part in parts(formula):
        if isinstance(part, Element):
            known = [e for e in found if e.array == part.array]
            if known and known[0] != part:
                raise OtherError("it computes with one array in two ways")
            found[part] = host.array(Array(part.array, part.shape, kind=part.kind))
    return found


def place(element: Element, name: str) -> str:
    """The index of an element in its array."""
    if element.whole:
        return "place"
    return f"place / {name}_inner % {name}_count"


def indented(lines: Sequence[str], by: int) -> str:
    """Lines of C, each indented by this many spaces."""
    return "\n".join(line if line.startswith("#") else " " * by + line for line in lines)
