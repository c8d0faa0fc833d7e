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
    PRODUCT,
    Calculated,
    Formula,
    calculated,
    is_simple,
    of_sizes,
    operands_of,
    parts,
    with_product,
)
from tilewright.targets.cuda.models.masks import generated
from tilewright.targets.cuda.models.places import FLOAT, WHOLE, Element, OtherError, Shape
from tilewright.targets.cuda.models.readings import (
    Array,
    Loops,
    Product,
    Reading,
    Recognised,
    Scan,
    Value,
    element,
)
from tilewright.targets.cuda.models.rearranging import PERMUTING, SHARING, VIEWS, rearranged
from tilewright.targets.cuda.models.row_operations import in_two_steps, row_operation
from tilewright.targets.cuda.models.windows import convolution, pooled

_ALIASES = {"clamp_min.Tensor": "maximum", "clamp_max.Tensor": "minimum",
            "norm.ScalarOpt_dim": "linalg_vector_norm"}  # fmt: skip
"""Names of operations with the same meaning."""
_ON_WHOLE = {
    *VIEWS,
    *PERMUTING,
    "embedding",
    "slice",
    "select",
    "argmax",
    "argmin",
    "gather",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "differs",
    "arange",
}
"""Operations that may take or give integers."""
_OF_FLOATS = {"argmax", "argmin", "gather"}
"""Those of them whose first operand may not be integers."""
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
        if does in SHARING:
            shared |= {name, *names[place]}
        begun = replace(reading)
        try:
            found = _operation(reading, one, other)
        except OtherError as error:
            last = error
            needed = set[str]().union(*names[place:], full["outputs"])
            for now, copies in ((set[str](), False), (names[place], False), (names[place], True)):
                more, known = [*kernels], dict(arrays)
                try:
                    again = _next(begun, needed, now, copies, known, more)
                    if again is None:
                        continue
                    found = _operation(again, one, other)
                except OtherError as later:
                    last = later
                else:
                    reading, arrays, kernels = again, known, more
                    break
            else:
                raise last from None
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
    reading: Reading, needed: AbstractSet[str], now: AbstractSet[str], copies: bool,
    arrays: dict[str, Shape], kernels: list[Recognised],
) -> Reading | None:  # fmt: skip
    """The values for another kernel: those that are `needed` are arrays if the kernels so far
    compute them. Values of arrays alone are computed again, unless they are among those `now`.
    With `copies`, transposed arrays among them are copied.

    None if nothing was computed that could become an array.
    """
    values, made = dict[str, Array | Value](), dict[Formula, str]()
    written = _product_alone(reading, needed, arrays, kernels)
    for name, given in reading.values.items():
        values[name] = value = given
        if isinstance(value, Array) and value.transposed and copies and name in now:
            value = Value(element(value), value.shape, value.kind)
        if name not in needed or isinstance(value, Array):
            continue
        if written is not None:
            values[name] = value = replace(value, formula=with_product(value.formula, written))
            made.setdefault(written, written.array)
        simple = is_simple(value.formula)
        if simple and (name not in now or not _reads_arrays(value.formula)):
            continue
        if value.kind != FLOAT:
            raise OtherError("a kernel would read integers that another one computes")
        if value.formula not in made:
            made[value.formula] = f"step {len(kernels)}"
            kernels.append(reading.kernel(value, dict(arrays)))
            arrays[made[value.formula]] = value.shape
        values[name] = Array(made[value.formula], value.shape)
    return Reading(values) if made else None


def _product_alone(
    reading: Reading, needed: AbstractSet[str], arrays: dict[str, Shape],
    kernels: list[Recognised],
) -> Element | None:  # fmt: skip
    """An element of the product, if several needed values follow from it. A kernel then computes
    the product alone."""
    if reading.begins is None or isinstance(reading.begins, Loops):
        return None
    formulas = {
        value.formula
        for name, value in reading.values.items()
        if name in needed and isinstance(value, Value) and not is_simple(value.formula)
    }
    if len(formulas) < 2:
        return None
    found = Element(f"step {len(kernels)}", reading.grid)
    kernels.append(reading.kernel(Value(PRODUCT, reading.grid), dict(arrays)))
    arrays[found.array] = reading.grid
    return found


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
    moved = rearranged(reading, name, one, other, shape)
    if moved is not None:
        return moved
    made = generated(reading, name, one, other, shape)
    if made is not None:
        return made
    settings = [g for g in given if not isinstance(g, dict)]
    again = [g for g in other["given"] if not isinstance(g, dict)]
    if name.startswith(("max_pool", "avg_pool")):
        if settings != again:
            raise OtherError("its windows depend on its sizes")
        return pooled(reading, name, given, shape)
    match name:
        case "mm" | "bmm":
            return reading.begun(_product(reading, given), shape)
        case "addmm" | "baddbmm":
            value = reading.begun(_product(reading, given[1:]), shape)
            return reading.computed(_plus(value.formula, reading, given[0], shape), shape)
        case "convolution":
            return convolution(reading, given, (int(given[8]), int(other["given"][8])), shape)
        case "cumsum" | "cumprod":
            return _scan(reading, "+" if name == "cumsum" else "*", given, shape)
    of_rows = row_operation(reading, name, given, shape)
    if of_rows is not None:
        return of_rows
    count = operands_of(name)
    operands = tuple(
        reading.operand(said, shape) if str(said) == str(second) or isinstance(said, dict)
        else of_sizes(said, second)
        for said, second in zip(given[:count], other["given"], strict=False)
    )  # fmt: skip
    more = [*given[count:], *words.values()]
    if more != [*other["given"][count:], *dict(other["words"]).values()]:
        raise OtherError("it computes with numbers that follow from its sizes")
    return reading.computed(calculated(name, operands, more), shape)


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
