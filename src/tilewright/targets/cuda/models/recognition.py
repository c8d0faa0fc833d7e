"""Finds what a model computes (a product, a convolution, a scan, row operations or element-wise
operations) and its formula.

    view, t, addmm, view, relu      Recognised(product of input 0 and self.fc.weight transposed,
                                               relu(value + self.fc.bias[place % count]))

An operation that does not fit into the kernel of those before it begins another kernel, to which
their results are arrays (`step 0`).

The operations were written down by the process that runs the model, so that nothing here is
believed: a kernel that is made of them is checked like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from tilewright.targets.cuda.models.composites import (
    Operation,
    arrays_of,
    in_steps,
    name_of,
    used,
)
from tilewright.targets.cuda.models.formulas import (
    FLOAT,
    WHOLE,
    Calculated,
    Element,
    Formula,
    OtherError,
    Shape,
    calculated,
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
    Scan,
    Value,
    element,
    is_simple,
    is_view,
)
from tilewright.targets.cuda.models.row_operations import in_two_steps, row_operation

_VIEWS = {"view", "_unsafe_view", "reshape", "flatten", "unsqueeze", "squeeze", "clone", "alias",
          "detach", "contiguous"}  # fmt: skip
_PERMUTING = {"t", "transpose", "permute", "numpy_T"}
_SHARING = _VIEWS - {"clone"} | {"expand"} | _PERMUTING
"""Operations whose result may be another view of their operand."""
_ALIASES = {"clamp_min.Tensor": "maximum", "clamp_max.Tensor": "minimum",
            "norm.ScalarOpt_dim": "linalg_vector_norm"}  # fmt: skip
"""Names of operations with the same meaning."""
_FILLED = {"zeros_like": 0.0, "ones_like": 1.0}
_ON_WHOLE = {*_VIEWS, "argmax", "argmin", "gather", "eq", "ne", "differs"}
"""Operations that may take or give whole numbers."""
_OF_FLOATS = {"argmax", "argmin", "gather"}
"""Those of them whose first operand may not be whole numbers."""
_INDICES = "torch.int64"
_TRUTHS = "torch.bool"
_TYPES = ("torch.float32", _TRUTHS)
"""The types of computed arrays. The truth values of masks become 1 and 0."""


def recognised(full: Any, reduced: Any) -> Sequence[Recognised]:
    """The kernels, in order, of the model with these operations at its own sizes and at those of
    the check. The last kernel computes the result.

    Raises `OtherError` for a model that tilewright's kernels do not compute.
    """
    try:
        return _recognised(full, reduced)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        said = "the record of what it computes cannot be read"
        raise OtherError(said) from None


def _recognised(full: Any, reduced: Any) -> Sequence[Recognised]:
    pairs = list(zip(full["operations"], reduced["operations"], strict=True))
    if not pairs:
        raise OtherError("it computes nothing, or has too many operations")
    steps = in_two_steps(_in_steps(pairs, full["outputs"]))
    names = [{str(s["array"]) for s in arrays_of(one)} for _, one, _ in steps]
    shared = set[str]()
    reading, arrays, kernels = Reading(), dict[str, Shape](), list[Recognised]()
    for place, (name, one, other) in enumerate(steps):
        _known(reading, arrays, one, other)
        does = name_of(one)
        if does.endswith("_") and not names[place].isdisjoint(arrays.keys() | shared):
            raise OtherError("it changes an array that it may use elsewhere")
        if does in _SHARING:
            shared |= {name, *names[place]}
        begun = replace(reading)
        try:
            found = _operation(reading, one, other)
        except OtherError as error:
            needed = set[str]().union(*names[place:], full["outputs"])
            for now in (set[str](), names[place]):
                more, known = [*kernels], dict(arrays)
                again = _next(begun, needed, now, known, more)
                try:
                    if again is None:
                        raise error
                    found = _operation(again, one, other)
                except OtherError:
                    if now:
                        raise
                else:
                    reading, arrays, kernels = again, known, more
                    break
        reading.values[name] = found
    if len(full["outputs"]) != 1:
        raise OtherError("it returns several arrays")
    result = reading.values[full["outputs"][0]]
    if isinstance(result, Array):
        raise OtherError("it computes nothing")
    if is_simple(result.formula) and not _reads_arrays(result.formula):
        raise OtherError("its result does not depend on its arrays")
    if steps[-1][1]["gives"][0]["dtype"] == _TRUTHS:
        raise OtherError("its result is a mask")
    return [*kernels, reading.kernel(result, arrays)]


def _in_steps(
    pairs: Sequence[tuple[Operation, Operation]], outputs: Sequence[str]
) -> list[tuple[str, Operation, Operation]]:
    """The simple operations on which the outputs depend, with the names of their results."""
    found = list[tuple[str, Operation, Operation]]()
    for place in used([one for one, _ in pairs], outputs):
        one, other = (in_steps(place, operation) for operation in pairs[place])
        found += [(name, step, again) for (name, step), (_, again) in zip(one, other, strict=True)]
    return found


def _known(
    reading: Reading, arrays: dict[str, Shape], one: Mapping[str, Any], other: Mapping[str, Any]
) -> None:
    """Adds the arrays that an operation takes. Raises `OtherError` for types that kernels do not
    support."""
    if one["does"] != other["does"]:
        raise OtherError("at other sizes it executes other operations")
    whole = name_of(one) in _ON_WHOLE
    for said, again in zip(arrays_of(one), arrays_of(other), strict=True):
        name, dtype = str(said["array"]), str(said["dtype"])
        may_be_whole = whole and not (said is one["given"][0] and name_of(one) in _OF_FLOATS)
        if dtype not in _TYPES and not (may_be_whole and dtype == _INDICES):
            raise OtherError(f"it computes with {dtype[:20]}, and not float32")
        if name and name not in reading.values:
            if dtype == _TRUTHS:
                raise OtherError("it reads an array of truth values")
            arrays[name] = _shape(said["shape"], again["shape"])
            kind = WHOLE if dtype == _INDICES else FLOAT
            reading.values[name] = Array(name, arrays[name], kind=kind)
    dtype = str(one["gives"][0]["dtype"])
    if dtype not in _TYPES and not (whole and dtype == _INDICES):
        raise OtherError(f"it computes {dtype[:20]}, and not float32")


def _next(
    reading: Reading, needed: AbstractSet[str], now: AbstractSet[str], arrays: dict[str, Shape],
    kernels: list[Recognised],
) -> Reading | None:  # fmt: skip
    """The values for another kernel: those that are `needed` are arrays if the kernels so far
    compute them. Values of arrays alone are computed again, unless they are among those `now`.

    None if nothing was computed that could become an array.
    """
    values, made = dict[str, Array | Value](), dict[Formula, str]()
    for name, value in reading.values.items():
        values[name] = value
        if name not in needed or isinstance(value, Array):
            continue
        simple = is_simple(value.formula)
        if simple and (name not in now or not _reads_arrays(value.formula)):
            continue
        if value.kind != FLOAT:
            raise OtherError("a kernel would read whole numbers that another one computes")
        if value.formula not in made:
            if reading.begins is not None and not simple and made:
                raise OtherError("it computes several arrays from one product")
            made[value.formula] = f"step {len(kernels)}"
            kernels.append(reading.kernel(value, dict(arrays)))
            arrays[made[value.formula]] = value.shape
        values[name] = Array(made[value.formula], value.shape)
    return Reading(values) if made else None


def _reads_arrays(formula: Formula) -> bool:
    """Whether a formula contains elements of arrays."""
    return any(isinstance(part, Element) for part in parts(formula))


def _shape(full: Sequence[int], reduced: Sequence[int]) -> Shape:
    return tuple((int(one), int(other)) for one, other in zip(full, reduced, strict=True))


def _operation(reading: Reading, one: Mapping[str, Any], other: Mapping[str, Any]) -> Array | Value:
    does = str(one["does"]).removeprefix("aten.").replace("_.", ".")
    given, words = list(one["given"]), dict(one["words"])
    name = _ALIASES.get(does) or does.partition(".")[0]
    shape = _shape(one["gives"][0]["shape"], other["gives"][0]["shape"])
    if name in _VIEWS or name == "expand":
        value = reading.value(given[0])
        if name == "expand" and shape != value.shape:
            if not isinstance(value, Array) or value.transposed:
                raise OtherError("it repeats what it has computed")
            return reading.computed(element(value, shape), shape)
        return _viewed(value, shape)
    if name in ("scalar_tensor", "full_like", *_FILLED):
        filled = given[-1] if name == "scalar_tensor" else _FILLED.get(name, given[-1])
        return Value(number(filled), shape)
    if name in _PERMUTING:
        return _permuted(reading.value(given[0]), name, given[1:], shape)
    settings = [g for g in given if not isinstance(g, dict)]
    again = [g for g in other["given"] if not isinstance(g, dict)]
    match name:
        case "mm" | "bmm":
            return reading.begun(_product(reading, given), shape)
        case "addmm" | "baddbmm":
            value = reading.begun(_product(reading, given[1:]), shape)
            return reading.computed(_plus(value.formula, reading, given[0], shape), shape)
        case "convolution":
            return _convolution(reading, given, shape)
        case "cumsum" | "cumprod":
            return _scan(reading, "+" if name == "cumsum" else "*", given, shape)
    of_rows = row_operation(reading, name, given, shape)
    if of_rows is not None:
        return of_rows
    if settings != again or words != dict(other["words"]):
        raise OtherError("it computes with numbers that follow from its sizes")
    count = operands_of(name)
    operands = tuple(reading.operand(said, shape) for said in given[:count])
    more = [*given[count:], *words.values()]
    return reading.computed(calculated(name, operands, more), shape)


def _viewed(value: Array | Value, shape: Shape) -> Array | Value:
    """The same elements in the same order with another shape."""
    if not is_view(shape, value.shape):
        raise OtherError("it takes parts of an array")
    if isinstance(value, Array):
        if value.transposed and shape[-2:] != value.shape[-2:]:
            raise OtherError("it views a transposed array with another shape")
        return replace(value, shape=shape)
    return replace(value, shape=shape, viewed=value.viewed or shape != value.shape)


def _permuted(value: Array | Value, name: str, given: Sequence[Any], shape: Shape) -> Array | Value:
    """The value with its axes in another order. The order of its elements stays the same, or the
    last two axes of an array change places."""
    axes = list(range(len(shape)))
    if name == "permute":
        axes = [int(axis) % len(shape) for axis in given[0]]
    elif name == "transpose":
        one, other = (int(axis) % len(shape) for axis in given[:2])
        axes[one], axes[other] = other, one
    else:
        axes.reverse()
    if isinstance(value, Array) and value.transposed:  # the order of the axes in memory
        swapped = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        axes = [swapped[axis] for axis in axes]
    long = [axis for axis, size in zip(axes, shape, strict=True) if size != (1, 1)]
    if long == sorted(long):
        plain = replace(value, transposed=False) if isinstance(value, Array) else value
        return _viewed(plain, shape)
    last = axes[-2:]
    if isinstance(value, Array) and [*long[:-2], *last[::-1]] == sorted(long):
        return Array(value.name, shape, True)
    raise OtherError("it transposes other axes than the last two")


def _scan(reading: Reading, sign: str, given: Sequence[Any], shape: Shape) -> Value:
    """The sums or products of each element and those before it along one axis."""
    of = reading.operand(given[0], shape)
    reading.computed(of, shape)
    axis = int(given[1]) % len(shape)
    return reading.begun(Scan(sign, of, shape[axis : axis + 1], shape[axis + 1 :]), shape)


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
