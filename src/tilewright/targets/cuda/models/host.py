"""The function of an answer that Python calls: its arrays, and how sizes follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product

from tilewright.targets.cuda.models.formulas import (
    Formula,
    OfSize,
    Position,
    Written,
    parts,
)
from tilewright.targets.cuda.models.places import (
    COMPUTED,
    FLOAT,
    ONE,
    ZERO,
    Element,
    Index,
    Inside,
    OtherError,
    Shape,
    Size,
    Term,
    count,
    times,
)
from tilewright.targets.cuda.models.readings import Array, Recognised

_POWERS = {1.0: "(float){}", -1.0: "(1.0f / (float){})", 0.5: "sqrtf((float){})",
           -0.5: "rsqrtf((float){})"}  # fmt: skip


@dataclass
class Host:
    """The function that Python calls: its arrays, and how the sizes are computed from them."""

    model: Recognised

    names: dict[str, str] = field(default_factory=dict)
    arrays: list[Array] = field(default_factory=list)
    known: dict[Size, str] = field(default_factory=dict)
    passed: dict[Size, str] = field(default_factory=dict)
    """The numbers that the kernel gets as arguments, with the names of its parameters."""

    def array(self, array: Array) -> str:
        """The name of an array in C."""
        if array.name not in self.names:
            self.names[array.name] = f"a{len(self.names)}"
            self.arrays.append(array)
        return self.names[array.name]

    def size(self, size: Size) -> str:
        """The expression for a number that follows from the extents of arrays."""
        if size[0] == size[1]:
            return str(size[0])
        if size in self.known:
            return self.known[size]
        extents = self._extents()
        for of, text in extents:
            if of == size:
                return text
        grid = self.model.grid
        for first, end in combinations(range(len(grid) + 1), 2):
            if size not in grid[first:end] and count(grid[first:end]) == size:
                return self.product(grid[first:end])
        lines = [_line(of, size, text) for of, text in extents if of[0] != of[1]]
        if not lines:
            raise OtherError("a size of its result does not follow from those of its arrays")
        return min(lines)[1]

    def _extents(self) -> list[tuple[Size, str]]:
        """The numbers of elements along one or several adjacent axes of arrays."""
        found = []
        for axes, array in product((1, 2, 3, 4), self.arrays):
            shape = self.model.arrays[array.name]
            for first in range(len(shape) - axes + 1):
                name = self.names[array.name]
                text = " * ".join(f"(int){name}.size({first + i})" for i in range(axes))
                found.append((count(shape[first : first + axes]), text))
        return found

    def product(self, shape: Shape) -> str:
        """The expression for the number of elements of a shape."""
        return " * ".join(self.size(size) for size in shape) or "1"


def _line(of: Size, size: Size, text: str) -> tuple[int, str]:
    """A number as a linear function of an extent, which has the right value at both sizes, with a
    measure of how complex the function is."""
    slope = Fraction(size[0] - size[1], of[0] - of[1])
    start = size[0] * slope.denominator - of[0] * slope.numerator
    scaled = text if slope.numerator == 1 else f"{slope.numerator} * {text}"
    whole = scaled if not start else f"{scaled} {'-' if start < 0 else '+'} {abs(start)}"
    steps = abs(slope.numerator) + slope.denominator + abs(start)
    if slope.denominator == 1:
        return steps, f"({whole})"
    return steps, f"({f'({whole})' if start else whole} / {slope.denominator})"


@dataclass
class Reader:
    """Expressions of a kernel for the elements, conditions and sizes in formulas.

    `of` is the prefix of the names of the kernel's arguments. Where elements are read in the order
    of the results, threads that compute several neighbouring elements read `vectors`.
    """

    host: Host
    of: str = ""
    vectors: bool = False
    places: Size | None = None
    """The number of places that are computed, if it is known."""

    def written(self, known: dict[Formula, str], lines: list[str]) -> Written:
        """Statements whose arrays and sizes are read by this reader."""
        return Written(known, lines, self.leaf, self.whole)

    def leaf(self, part: Element | Inside | OfSize | Position) -> str:
        """The expression for a value that is computed from no other one."""
        match part:
            case OfSize():
                return _POWERS[part.power].format(self.whole(part.size))
            case Inside():
                return f"({self.condition(part)} ? 1.0f : 0.0f)"
            case Position():
                return f"(float)(int)({self.index(part.index)})"
        name = self.array(part)
        if self.vectors and by_vectors(part):
            return f"v_{name}.at[v]"
        text = f"{self.of}{name}[{self.index(part.index)}]"
        if part.inside:
            conditions = " && ".join(map(self.condition, dict.fromkeys(part.inside)))
            text = f"({conditions} ? {text} : {part.outside})"
        return text

    def array(self, part: Element) -> str:
        """The name of an element's array."""
        return self.host.array(Array(part.array, part.shape, kind=part.kind))

    def condition(self, inside: Inside) -> str:
        """The expression for a condition."""
        index, most = self.index(inside.index), self.whole(times(inside.extent, inside.step))
        text = f"{index} < {most}"
        return text if inside.step == ONE else f"{text} && ({index}) % {inside.step[0]} == 0"

    def whole(self, size: Size) -> str:
        """The expression for a number, which is an argument of the kernel if it depends on the
        problem's sizes."""
        if size[0] == size[1]:
            return f"{size[0]}u" if size[0] >= 0 else f"(unsigned){size[0]}"
        name = self.host.passed.setdefault(size, f"n{len(self.host.passed)}")
        return f"{self.of}{name}"

    def index(self, index: Index) -> str:
        """The expression for an index. Its numbers are unsigned, and may pass through negative
        ones."""
        found = ""
        for term in index.terms:
            text, sign = self._term(term), " + "
            if text.startswith("-"):
                text, sign = text[1:], " - "
            found += f"{sign}{text}" if found or sign == " - " else text
        if index.offset != ZERO or not found:
            low = max(index.offset) < 0
            number = self.whole((-index.offset[0], -index.offset[1]) if low else index.offset)
            found = f"{found}{' - ' if low else ' + '}{number}" if found else (
                f"0u - {number}" if low else number)  # fmt: skip
        return found.replace(" - ", "0u - ", 1) if found.startswith(" - ") else found

    def _term(self, term: Term) -> str:
        match term.of:
            case Index():
                text = self.index(term.of)
                text = f"({text})" if " " in text else text
            case Element():
                text = f"(unsigned){self.leaf(term.of)}"
            case name:
                text = name
        if term.inner != ONE:
            text += f" / {self.whole(term.inner)}"
        if term.extent is not None and not self._outermost(term):
            text += f" % {self.whole(term.extent)}"
        if max(term.times) < 0:
            by = (-term.times[0], -term.times[1])
            return f"-{text}" if by == ONE else f"-{text} * {self.whole(by)}"
        return text if term.times == ONE else f"{text} * {self.whole(term.times)}"

    def _outermost(self, term: Term) -> bool:
        """Whether no place is as large as the number that the remainder is taken of."""
        period = times(term.inner, term.extent or ONE)
        return term.of == COMPUTED and self.places is not None and all(
            one >= place for one, place in zip(period, self.places, strict=True)
        )  # fmt: skip


def by_vectors(element: Element) -> bool:
    """Whether a thread loads several neighbouring elements at once."""
    return element.whole and element.kind == FLOAT


def leaves(formula: Formula) -> list[Element]:
    """The elements of arrays in a formula, also those that say which elements of others are read,
    each array once."""
    found = dict[str, Element]()
    waiting = [part for part in parts(formula) if isinstance(part, Element)]
    while waiting:
        one = waiting.pop(0)
        found.setdefault(one.array, one)
        waiting += _in_index(one.index)
    return list(found.values())


def _in_index(index: Index) -> list[Element]:
    found = list[Element]()
    for term in index.terms:
        if isinstance(term.of, Element):
            found.append(term.of)
        elif isinstance(term.of, Index):
            found += _in_index(term.of)
    return found


def indented(lines: Sequence[str], by: int) -> str:
    """Lines of C, each indented by this many spaces."""
    return "\n".join(line if line.startswith("#") else " " * by + line for line in lines)
