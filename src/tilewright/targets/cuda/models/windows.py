"""Recognises operations of PyTorch that move a window over images: convolutions and pooling.

Images have one, two or three axes; the first of three are added where they are missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright.targets.cuda.models.formulas import (
    Calculated,
    Folded,
    Formula,
    number,
)
from tilewright.targets.cuda.models.places import (
    COMPUTED,
    ONE,
    Element,
    Index,
    Inside,
    OtherError,
    Shape,
    Size,
    Term,
    count,
    steps,
    times,
)
from tilewright.targets.cuda.models.readings import (
    MOST_IMAGES,
    Array,
    Axes,
    Convolution,
    Loops,
    Reading,
    Value,
    Windows,
)
from tilewright.targets.cuda.models.rearranging import only_where, or_else, simple

_FEW_FILTERS = 16
"""If a group of channels has at most as many filters, a product by blocks, which are larger, would
mostly compute nothing."""
_MOST_IN_LOOPS = 1 << 12
"""Maximum number of elements of a window that one thread passes over."""


def _axes(said: Any, count: int, usual: int) -> Axes:
    """A setting with one number for each axis, or one for all of them, for three axes."""
    values = list(said) if isinstance(said, (list, tuple)) else [said]
    values = (values if values and values[0] is not None else [usual]) * (
        count if len(values) == 1 else 1
    )
    if len(values) != count:
        raise OtherError("its windows have other axes than its images")
    return (usual,) * (3 - count) + tuple(int(value) for value in values)


def _images(shape: Shape, axes: int) -> Shape:
    """A shape whose last axes are the three axes of images."""
    return (*shape[: len(shape) - axes], *(ONE,) * (3 - axes), *shape[len(shape) - axes :])


def _window(
    windows: Windows, source: Shape, shape: Shape, variables: Sequence[str]
) -> tuple[list[Term], list[Inside]]:
    """The terms for the place in an image that lies below an element of a window, and the
    conditions under which it is inside. `source` and `shape` are three extents each."""
    terms, conditions = list[Term](), list[Inside]()
    for axis in range(3):
        here = [
            Term(COMPUTED, steps(shape)[axis], shape[axis], (windows.stride[axis],) * 2),
            Term(variables[axis], times=(windows.dilation[axis],) * 2),
        ]
        if windows.extent[axis] == 1:
            here.pop()
        if shape[axis] == ONE:
            here.pop(0)
        index = Index(tuple(here), (-windows.padding[axis],) * 2)
        spread = (windows.spread[axis],) * 2
        last = [
            (size - 1) * windows.stride[axis] + windows.dilation[axis] * (windows.extent[axis] - 1)
            for size in shape[axis]
        ]
        fits = all(place < size for place, size in zip(last, source[axis], strict=True))
        if not fits or windows.padding[axis] or spread != ONE:
            conditions.append(Inside(index, source[axis], spread))
        if here or windows.padding[axis]:
            terms.append(Term(index, inner=spread, times=steps(source)[axis]))
    return terms, conditions


def pooled(reading: Reading, name: str, given: Sequence[Any], shape: Shape) -> Value:
    """The largest element, or the mean, of each window of images."""
    axes = int(name[name.index("pool") + 4])
    formula, source = simple(reading, given[0])
    settings = [*given[1:], *[None] * 6]
    extent = _axes(settings[0], axes, 1)
    stride = _axes(settings[1] or settings[0], axes, 1)
    padding = _axes(settings[2], axes, 0)
    largest = name.startswith("max")
    dilation = _axes(settings[3] if largest else 1, axes, 1)
    if math.prod(extent) > _MOST_IN_LOOPS:
        raise OtherError("its windows are larger than one thread can process")
    if not largest and (settings[3] or settings[5] is not None):
        raise OtherError("its means of windows round up the number of windows, or divide by a "
                         "number of their own")  # fmt: skip
    windows = Windows(extent, stride, padding, dilation, (1, 1, 1))
    images, results = _images(source, axes), _images(shape, axes)
    loops = _loops(extent)
    terms, conditions = _window(windows, images[-3:], results[-3:], _VARIABLES)
    size = count(results[-3:])
    terms.insert(0, Term(COMPUTED, size, None, count(images[-3:])))
    value = only_where(formula, Index(tuple(terms)), count(shape), conditions)
    if largest:
        value = or_else(value, conditions, number(-math.inf))
        return reading.begun(Loops(), shape, Folded("most", loops, value))
    total: Formula = Folded("sum", loops, or_else(value, conditions, number(0)))
    divisor: Formula = number(math.prod(extent))
    if settings[4] is False and any(padding):
        divisor = Folded("sum", loops, or_else(number(1), conditions, number(0)))
    return reading.begun(Loops(), shape, Calculated("({0} / {1})", (total, divisor)))


_VARIABLES = ("w0", "w1", "w2")


def _loops(extent: Axes) -> tuple[tuple[str, Size], ...]:
    return tuple((v, (e, e)) for v, e in zip(_VARIABLES, extent, strict=True) if e > 1)


def convolution(reading: Reading, given: Sequence[Any], groups: Size, shape: Shape) -> Value:
    """A convolution, also of images with zeros between their elements (`spread`)."""
    axes = len(shape) - 2
    filters = reading.value(given[1])
    if axes not in (1, 2, 3) or len(filters.shape) != axes + 2:
        raise OtherError("its convolution has no axis for images or channels")
    if any(one != other for one, other in filters.shape[2:]):
        raise OtherError("the windows of its convolution depend on its sizes")
    extent = (1,) * (3 - axes) + tuple(one for one, _ in filters.shape[2:])
    stride, padding, dilation, spread = (
        _axes(said, axes, usual)
        for said, usual in zip([*given[3:6], [*given, 1, 1][9]], (1, 0, 1, 1), strict=True)
    )
    windows = Windows(extent, stride, padding, dilation, spread)
    few = filters.shape[0][0] // groups[0] <= _FEW_FILTERS
    if few and count(filters.shape[1:])[0] <= _MOST_IN_LOOPS:
        found = _in_loops(reading, given, windows, groups, shape)
    else:
        images = reading.value(given[0])
        if not (isinstance(images, Array) and isinstance(filters, Array)):
            raise OtherError("it convolves what it has computed")
        if images.transposed or filters.transposed:
            raise OtherError("it convolves transposed arrays")
        if shape[0][0] * groups[0] > MOST_IMAGES:
            raise OtherError(f"it convolves more than {MOST_IMAGES} groups of channels at once")
        found = reading.begun(Convolution(images, filters, windows, groups, shape[2:]), shape)
    if given[2] is None:
        return found
    bias = reading.value(given[2])
    if not isinstance(bias, Array) or bias.shape != (shape[1],):
        raise OtherError("the bias of its convolution is computed")
    index = Index((Term(COMPUTED, count(shape[2:]), shape[1]),))
    element = Element(bias.name, bias.shape, index)
    return reading.computed(Calculated("({0} + {1})", (found.formula, element)), shape)


def _in_loops(
    reading: Reading, given: Sequence[Any], windows: Windows, groups: Size, shape: Shape
) -> Value:
    """A convolution each of whose elements is computed by one thread."""
    axes = len(shape) - 2
    formula, source = simple(reading, given[0])
    filters, of_filters = simple(reading, given[1])
    images, results = _images(source, axes)[-3:], _images(shape, axes)[-3:]
    area, channels, each = count(results), shape[1], of_filters[1]
    of_group = (channels[0] // groups[0], channels[1] // groups[1])
    terms, conditions = _window(windows, images, results, _VARIABLES)
    before = [
        Term(COMPUTED, times(area, channels), None, times(count(images), source[1])),
        Term(COMPUTED, times(area, of_group), groups, times(count(images), each)),
        Term("c", times=count(images)),
    ]
    window = tuple((e, e) for e in windows.extent)
    place = [Term(v, times=s) for v, s in zip(_VARIABLES, steps(window), strict=True)]
    weights = [
        Term(COMPUTED, area, channels, times(each, count(window))),
        Term("c", times=count(window)),
        *(term for term, extent in zip(place, windows.extent, strict=True) if extent > 1),
    ]
    loops = _loops(windows.extent)
    if each == ONE:
        del before[2], weights[1]
    else:
        loops = (("c", each), *loops)
    size = count(shape)
    one = only_where(formula, Index((*before, *terms)), size, conditions)
    other = only_where(filters, Index(tuple(weights)), size, [])
    product = Calculated("({0} * {1})", (or_else(one, conditions, number(0)), other))
    return reading.begun(Loops(), shape, Folded("sum", loops, product))
