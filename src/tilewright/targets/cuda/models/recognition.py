"""Finds what a model computes (a product, a convolution, row operations or element-wise operations)
and its formula.

    view, t, addmm, view, relu      Recognised(product of input 0 and self.fc.weight transposed,
                                               relu(value + self.fc.bias[place % count]))

The operations were written down by the process that runs the model, so that nothing here is
believed: a kernel that is made of them is checked like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.targets.cuda.models.formulas import (
    Calculated,
    Element,
    Formula,
    OtherError,
    Shape,
    calculated,
    is_of_a_row,
    number,
    operands_of,
    parts,
)
from tilewright.targets.cuda.models.readings import (
    Array,
    Convolution,
    Product,
    Reading,
    Recognised,
    Value,
    is_view,
)
from tilewright.targets.cuda.models.row_operations import row_operation

_VIEWS = {"view", "_unsafe_view", "reshape", "flatten", "unsqueeze", "squeeze", "clone", "alias",
          "detach", "contiguous"}  # fmt: skip
_FILLED = {"zeros_like": 0.0, "ones_like": 1.0}
_TYPES = ("torch.float32", "torch.bool")
"""The types of computed arrays. The truth values of masks become 1 and 0."""


def recognised(full: Any, reduced: Any) -> Recognised:
    """The model with these operations at its own sizes and at those of the check.

    Raises `OtherError` for a model that none of tilewright's kernels computes.
    """
    try:
        return _recognised(full, reduced)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        said = "the record of what it computes cannot be read"
        raise OtherError(said) from None


def _recognised(full: Any, reduced: Any) -> Recognised:
    pairs = list(zip(full["operations"], reduced["operations"], strict=True))
    if not pairs:
        raise OtherError("it computes nothing, or has too many operations")
    reading, arrays = Reading(), dict[str, Shape]()
    for number_, (one, other) in enumerate(pairs):
        if one["does"] != other["does"]:
            raise OtherError("at other sizes it executes other operations")
        for said, again in zip(_arrays(one), _arrays(other), strict=True):
            name = str(said["array"])
            if name and name not in reading.values:
                if said["dtype"] != "torch.float32":
                    raise OtherError(f"it computes with {str(said['dtype'])[:20]}, and not float32")
                arrays[name] = _shape(said["shape"], again["shape"])
                reading.values[name] = Array(name, arrays[name])
        for given in (one["gives"][:1], other["gives"][:1]):
            if given[0]["dtype"] not in _TYPES:
                raise OtherError(f"it computes {str(given[0]['dtype'])[:20]}, and not float32")
        found = _operation(reading, one, other)
        reading.values[f"{number_}.0"] = found
    if len(full["outputs"]) != 1:
        raise OtherError("it returns several arrays")
    result = reading.values[full["outputs"][0]]
    if isinstance(result, Array):
        raise OtherError("it computes nothing")
    if not any(isinstance(p, Element) for p in parts(result.formula)) and reading.begins is None:
        raise OtherError("its result does not depend on its arrays")
    if pairs[-1][0]["gives"][0]["dtype"] != "torch.float32":
        raise OtherError("its result is a mask")
    if not is_of_a_row(result.formula):
        reading.require_whole(result.shape)
    return Recognised(result.formula, result.shape, reading.begins, reading.columns, reading.inner,
                      reading.grid, arrays)  # fmt: skip


def _arrays(operation: Mapping[str, Any]) -> list[Any]:
    return [said for said in operation["given"] if isinstance(said, dict) and "array" in said]


def _shape(full: Sequence[int], reduced: Sequence[int]) -> Shape:
    return tuple((int(one), int(other)) for one, other in zip(full, reduced, strict=True))


def _operation(reading: Reading, one: Mapping[str, Any], other: Mapping[str, Any]) -> Array | Value:
    does = str(one["does"]).removeprefix("aten.").partition(".")
    name, given, words = does[0], list(one["given"]), dict(one["words"])
    shape = _shape(one["gives"][0]["shape"], other["gives"][0]["shape"])
    if name in _VIEWS:
        value = reading.value(given[0])
        if not is_view(shape, value.shape):
            raise OtherError("it takes parts of an array")
        if isinstance(value, Array):
            return replace(value, shape=shape)
        return replace(value, shape=shape, viewed=value.viewed or shape != value.shape)
    if name in ("scalar_tensor", "full_like", *_FILLED):
        filled = given[-1] if name == "scalar_tensor" else _FILLED.get(name, given[-1])
        return Value(number(filled), shape)
    if name in ("t", "transpose", "permute", "numpy_T"):
        array = reading.value(given[0])
        if not isinstance(array, Array) or len(shape) != 2 or shape != array.shape[::-1]:
            raise OtherError("it transposes what it has computed")
        return Array(array.name, shape, not array.transposed)
    settings = [g for g in given if not isinstance(g, dict)]
    again = [g for g in other["given"] if not isinstance(g, dict)]
    match name:
        case "mm":
            return reading.begun(_product(reading, given), shape)
        case "addmm":
            value = reading.begun(_product(reading, given[1:]), shape)
            return reading.computed(_plus(value.formula, reading, given[0], shape), shape)
        case "convolution":
            return _convolution(reading, given, shape)
    of_rows = row_operation(reading, name, given, shape)
    if of_rows is not None:
        return of_rows
    if settings != again or words != dict(other["words"]):
        raise OtherError("it computes with numbers that follow from its sizes")
    count = operands_of(name)
    operands = tuple(reading.operand(said, shape) for said in given[:count])
    more = [*given[count:], *words.values()]
    return reading.computed(calculated(name, operands, more), shape)


def _plus(formula: Formula, reading: Reading, said: Any, shape: Shape) -> Formula:
    return Calculated("({0} + {1})", (formula, reading.operand(said, shape)))


def _product(reading: Reading, given: Sequence[Any]) -> Product:
    left, right = reading.value(given[0]), reading.value(given[1])
    if not (isinstance(left, Array) and isinstance(right, Array)):
        raise OtherError("it multiplies matrices that it has computed")
    if left.transposed:
        raise OtherError("the left factor of its product is transposed")
    return Product(left, right)


def _convolution(reading: Reading, given: Sequence[Any], shape: Shape) -> Value:
    images, filters = reading.value(given[0]), reading.value(given[1])
    stride, padding, dilation, transposed, _, groups = given[3:9]
    axes = len(shape) - 2
    if not (isinstance(images, Array) and isinstance(filters, Array)):
        raise OtherError("it convolves what it has computed")
    plain = not transposed and groups == 1 and set(dilation) == {1} and axes in (2, 3)
    alike = len(set(stride)) == len(set(padding)) == 1
    if not plain or not alike or (axes == 3 and (stride[0] != 1 or padding[0] != 0)):
        raise OtherError("its convolution is transposed, grouped or dilated, or moves differently "
                         "along its axes, or in three dimensions at all")  # fmt: skip
    if any(one != other for one, other in filters.shape[2:]):
        raise OtherError("the windows of its convolution depend on its sizes")
    found = reading.begun(Convolution(images, filters, int(stride[0]), int(padding[0])), shape)
    if given[2] is None:
        return found
    bias = reading.value(given[2])
    if not isinstance(bias, Array) or bias.shape != (shape[1],):
        raise OtherError("the bias of its convolution is computed")
    element = Element(bias.name, bias.shape, shape[2:])
    return reading.computed(Calculated("({0} + {1})", (found.formula, element)), shape)
