"""Recognises operations of PyTorch that only choose or reorder elements.

They become other places from which the kernel of the next operations reads. If those elements are
sums of rows or of products, another kernel reads them from an array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.targets.cuda.models.formulas import (
    Calculated,
    Formula,
    Number,
    calculated,
    number,
    parts,
    remapped,
)
from tilewright.targets.cuda.models.places import (
    COMPUTED,
    ONE,
    WHOLE,
    ZERO,
    Element,
    Index,
    Inside,
    OtherError,
    Shape,
    Size,
    Term,
    count,
    negative,
    plus,
    steps,
    strided,
    times,
)
from tilewright.targets.cuda.models.readings import Array, Reading, Value, element, is_view

VIEWS = frozenset({
    "view", "_unsafe_view", "reshape", "flatten", "unsqueeze", "squeeze", "clone", "alias",
    "detach", "contiguous",
})  # fmt: skip
"""Operations that keep the order of all elements."""
PERMUTING = frozenset({"t", "transpose", "permute", "numpy_T"})
SHARING = VIEWS - {"clone"} | PERMUTING | {"expand", "slice", "select", "split", "unbind"}
"""Operations whose result may be another view of their operand."""


def rearranged(
    reading: Reading, name: str, one: Mapping[str, Any], other: Mapping[str, Any], shape: Shape
) -> Array | Value | None:
    """The value of an operation that chooses or reorders elements; None for other operations.

    `one` and `other` are the operation at the problem's own sizes and at those of the check.
    """
    given, again = list(one["given"]), list(other["given"])

    def at(place: int, usual: int) -> Size:
        return tuple(g[place] if len(g) > place and g[place] is not None else usual
                     for g in (given, again))  # type: ignore[return-value]  # fmt: skip

    if name in VIEWS:
        value = reading.value(given[0])
        return _viewed(value, shape)
    if name in PERMUTING:
        return _permuted(reading.value(given[0]), name, given[1:], shape)
    match name:
        case "expand":
            if shape == reading.value(given[0]).shape:
                return reading.value(given[0])
            return Value(reading.operand(given[0], shape), shape)
        case "flip":
            axes = {int(axis) % len(shape) for axis in given[1]}
            signs = [negative(ONE) if axis in axes else ONE for axis in range(len(shape))]
            starts = [plus(s, negative(ONE)) if axis in axes else ZERO
                      for axis, s in enumerate(shape)]  # fmt: skip
            return _sliced(reading, given[0], shape, starts, signs)
        case "slice" | "slice_copy":
            source = reading.value(given[0]).shape
            axis = int(given[1]) % len(shape)
            starts, signs = [ZERO] * len(shape), [ONE] * len(shape)
            starts[axis] = _start(at(2, 0), source[axis])
            signs[axis] = at(4, 1)
            return _sliced(reading, given[0], shape, starts, signs)
        case "select":
            source = reading.value(given[0]).shape
            axis = int(given[1]) % len(source)
            kept = (*shape[:axis], ONE, *shape[axis:])
            starts = [ZERO] * len(source)
            starts[axis] = _start(at(2, 0), source[axis])
            found = _sliced(reading, given[0], kept, starts, [ONE] * len(source))
            return replace(found, shape=shape)
        case "constant_pad_nd":
            pairs = list(zip(given[1], again[1], strict=True))
            before = [ZERO] * len(shape)
            before[len(shape) - len(pairs) // 2 :] = pairs[::2][::-1]
            fill = given[2] if len(given) > 2 else 0
            return _padded(reading, given[0], shape, [negative(b) for b in before], fill)
        case "cat":
            return _joined(reading, given[0], int(given[1]) if len(given) > 1 else 0, shape)
        case "embedding":
            return _looked_up(reading, given, shape)
        case _:
            return None


def _start(said: Size, extent: Size) -> Size:
    first, second = (min(s + e if s < 0 else s, e) for s, e in zip(said, extent, strict=True))
    return first, second


def simple(reading: Reading, said: Any) -> tuple[Formula, Shape]:
    """The formula of an operand for each place in its own shape."""
    shape = reading.value(said).shape
    return reading.operand(said, shape), shape


def _viewed(value: Array | Value, shape: Shape) -> Array | Value:
    """The same elements in the same order with another shape."""
    if not is_view(shape, value.shape):
        raise OtherError("it takes parts of an array")
    if isinstance(value, Array) and value.transposed and shape[-2:] != value.shape[-2:]:
        value = Value(element(value), value.shape, value.kind)
    return replace(value, shape=shape)


def _permuted(value: Array | Value, name: str, given: Sequence[Any], shape: Shape) -> Array | Value:
    """The value with its axes in another order.

    If the order of an array's elements stays the same, or only the last two axes change places, it
    is still an array.
    """
    axes = list(range(len(shape)))
    if name == "permute":
        axes = [int(axis) % len(shape) for axis in given[0]]
    elif name == "transpose":
        one, other = (int(axis) % len(shape) for axis in given[:2])
        axes[one], axes[other] = other, one
    else:
        axes.reverse()
    in_memory = axes
    if isinstance(value, Array) and value.transposed:  # the order of the axes in memory
        swapped = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        in_memory = [swapped[axis] for axis in axes]
    long = [axis for axis, size in zip(in_memory, shape, strict=True) if size != ONE]
    if long == sorted(long):
        plain = replace(value, transposed=False) if isinstance(value, Array) else value
        return replace(plain, shape=shape)
    last = in_memory[-2:]
    if isinstance(value, Array) and [*long[:-2], *last[::-1]] == sorted(long):
        return Array(value.name, shape, True)
    strides = steps(value.shape)
    index = strided(shape, [strides[axis] for axis in axes])
    formula = element(value) if isinstance(value, Array) else value.formula
    return Value(remapped(formula, index, count(shape)), shape, value.kind)


def _sliced(
    reading: Reading, said: Any, shape: Shape, starts: Sequence[Size], by: Sequence[Size]
) -> Value:
    """Each element that lies a number of places after the start along each axis."""
    formula, source = simple(reading, said)
    strides = steps(source)
    offset = plus(ZERO, *(times(*pair) for pair in zip(starts, strides, strict=True)))
    index = strided(shape, [times(*pair) for pair in zip(by, strides, strict=True)], offset)
    return Value(remapped(formula, index, count(shape)), shape, reading.value(said).kind)


def _padded(
    reading: Reading, said: Any, shape: Shape, starts: Sequence[Size], fill: Any
) -> Value:  # fmt: skip
    """The elements of a larger shape, with a number around those that there are."""
    formula, source = simple(reading, said)
    shifted, conditions = _shifted(formula, source, shape, starts)
    return Value(or_else(shifted, conditions, number(fill)), shape)


def _shifted(
    formula: Formula, source: Shape, shape: Shape, starts: Sequence[Size]
) -> tuple[Formula, list[Inside]]:
    """The formula for places in another shape, and the conditions under which it has a value."""
    terms, conditions, strides = list[Term](), list[Inside](), steps(source)
    for axis, (inner, extent) in enumerate(zip(steps(shape), shape, strict=True)):
        here = Index((Term(COMPUTED, inner, extent),), starts[axis])
        if starts[axis] != ZERO or extent != source[axis]:
            conditions.append(Inside(here, source[axis]))
        terms.append(Term(here, times=strides[axis]))
    return only_where(formula, Index(tuple(terms)), count(shape), conditions), conditions


def only_where(formula: Formula, to: Index, size: Size, conditions: Sequence[Inside]) -> Formula:
    """A formula for other places, which reads no array where a condition does not hold."""
    made = dict[Formula, Formula]()
    found = remapped(formula, to, size)
    for part in parts(found):
        match part:
            case Element():
                made[part] = replace(part, inside=(*part.inside, *conditions))
            case Calculated():
                made[part] = Calculated(part.text, tuple(made[one] for one in part.of))
            case _:
                made[part] = part
    return made[found]


def or_else(value: Formula, conditions: Sequence[Inside], other: Number) -> Formula:
    """The value of `only_where`, or a number where a condition does not hold."""
    if isinstance(value, Element) and value.inside == tuple(conditions):
        return replace(value, outside=other.text)
    for condition in conditions:
        value = calculated("where", (condition, value, other), [])
    return value


def _joined(reading: Reading, given: Sequence[Any], axis: int, shape: Shape) -> Value:
    """Arrays one after the other along an axis."""
    axis %= len(shape)
    found: Formula | None = None
    start = ZERO
    for said in given:
        if len(reading.value(said).shape) != len(shape):
            raise OtherError("it joins an empty array to others")
        starts = [ZERO] * len(shape)
        starts[axis] = negative(start)
        formula, source = simple(reading, said)
        part, conditions = _shifted(formula, source, shape, starts)
        found = part if found is None else calculated("where", (conditions[0], part, found), [])
        start = plus(start, source[axis])
    if found is None:
        raise OtherError("it joins no arrays")
    return Value(found, shape)


def _looked_up(reading: Reading, given: Sequence[Any], shape: Shape) -> Value:
    """Rows of a table, whose numbers are in an array."""
    table, rows = reading.value(given[0]), reading.value(given[1])
    if not isinstance(table, Array) or table.transposed:
        raise OtherError("it looks up rows of what it has computed")
    where = element(rows) if isinstance(rows, Array) else rows.formula
    if not isinstance(where, Element) or where.kind != WHOLE:
        raise OtherError("it computes the numbers of the rows that it looks up")
    width = table.shape[1]
    place = strided((*rows.shape, width), [*steps(rows.shape), ZERO])
    row = remapped(where, place, count(shape))
    assert isinstance(row, Element)
    index = Index((Term(row, times=width), Term(COMPUTED, ONE, width)))
    return Value(Element(table.name, table.shape, index), shape)
