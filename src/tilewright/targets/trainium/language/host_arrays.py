"""Arrays that a kernel creates with numpy before it is traced: `np.tril`, arithmetic, `np.where`.

Every array keeps the numpy expression that creates it, so that a kernel can be translated.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.targets.trainium.errors import KernelError, not_supported, shown
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.host_values import (
    ELEMENTS_IN_A_STEP,
    computed,
    expression_text,
    key_text,
    key_value,
    picked,
    plain_value,
    text_of_value,
)
from tilewright.targets.trainium.language.values import Builtin
from tilewright.targets.trainium.tiles.dtypes import (
    HostArray,
)


@dataclass(frozen=True)
class _Maker:
    """A function of numpy: its parameters in order, and how many elements its result has."""

    parameters: tuple[str, ...]
    elements: Callable[[Mapping[str, Any]], int]


def _of_shape(given: Mapping[str, Any]) -> int:
    shape = given["shape"]
    return math.prod(int(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))


def _square(given: Mapping[str, Any]) -> int:
    rows = given.get("N", given.get("n", 0))
    columns = given.get("M")
    return int(rows) * int(rows if columns is None else columns)


def _broadcast(given: Mapping[str, Any]) -> int:
    return math.prod(np.broadcast_shapes(*(np.shape(value) for value in given.values())))


def _all(given: Mapping[str, Any]) -> int:
    return sum(np.size(part) for part in next(iter(given.values())))


def _same(given: Mapping[str, Any]) -> int:
    return int(np.size(next(iter(given.values()))))


def _range(given: Mapping[str, Any]) -> int:
    start, stop, step = given["start"], given.get("stop"), given.get("step", 1)
    start, stop = (0, start) if stop is None else (start, stop)
    count: int = math.ceil((stop - start) / step)
    return max(0, count)


def _repeated(given: Mapping[str, Any]) -> int:
    times = given.get("reps", given.get("repeats"))
    return int(np.size(given["a"])) * int(np.prod(times))


def _pairs(given: Mapping[str, Any]) -> int:
    return int(np.size(given["a"])) * int(np.size(given["b"]))


MAKERS: Mapping[str, _Maker] = {
    "eye": _Maker(("N", "M", "k", "dtype"), _square),
    "identity": _Maker(("n", "dtype"), _square),
    "tri": _Maker(("N", "M", "k", "dtype"), _square),
    "zeros": _Maker(("shape", "dtype"), _of_shape),
    "ones": _Maker(("shape", "dtype"), _of_shape),
    "full": _Maker(("shape", "fill_value", "dtype"), _of_shape),
    "zeros_like": _Maker(("a", "dtype"), _same),
    "ones_like": _Maker(("a", "dtype"), _same),
    "full_like": _Maker(("a", "fill_value", "dtype"), _same),
    "arange": _Maker(("start", "stop", "step", "dtype"), _range),
    "linspace": _Maker(("start", "stop", "num"), lambda given: int(given.get("num", 50))),
    "array": _Maker(("object", "dtype"), _same),
    "asarray": _Maker(("a", "dtype"), _same),
    "tril": _Maker(("m", "k"), _same),
    "triu": _Maker(("m", "k"), _same),
    "where": _Maker(("condition", "x", "y"), _broadcast),
    "reshape": _Maker(("a", "shape"), _same),
    "transpose": _Maker(("a", "axes"), _same),
    "expand_dims": _Maker(("a", "axis"), _same),
    "broadcast_to": _Maker(("array", "shape"), _of_shape),
    "concatenate": _Maker(("arrays", "axis"), _all),
    "stack": _Maker(("arrays", "axis"), _all),
    "tile": _Maker(("a", "reps"), _repeated),
    "repeat": _Maker(("a", "repeats", "axis"), _repeated),
    "outer": _Maker(("a", "b"), _pairs),
    "cumsum": _Maker(("a", "axis"), _same),
    "flip": _Maker(("m", "axis"), _same),
}
"""Functions that create an array from numbers and arrays. Positions are used for parameters that
numpy names."""
_ELEMENTWISE = frozenset({
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_not",
    "logical_xor", "floor", "ceil", "log2", "cos", "sqrt", "exp", "log", "sin", "tanh", "abs",
    "square", "sign", "negative", "reciprocal", "true_divide", "absolute",
})  # fmt: skip
_REDUCTIONS = frozenset({"sum", "max", "min", "mean", "prod"})


class ArrayFunction(Builtin):
    """A function of numpy that creates an array."""

    def __init__(self, name: str) -> None:
        super().__init__(f"np.{name}", lambda run: None)
        self._name, self._maker = name, MAKERS[name]

    def call(self, run: Execution, args: Sequence[object], kwargs: dict[str, Any]) -> Any:
        """Call it with numbers, lists and arrays."""
        run.function = self.name
        self._check_parameters(args, kwargs)
        values = [plain_value(run, arg, self.name) for arg in args]
        named = {key: plain_value(run, value, self.name) for key, value in kwargs.items()}
        given = {**dict(zip(self._maker.parameters, values, strict=False)), **named}
        given.pop("dtype", None)
        texts = [
            *map(text_of_value, args),
            *(f"{key}={text_of_value(value)}" for key, value in kwargs.items()),
        ]
        return computed(
            run, self.name, expression_text(f"{self.name}({', '.join(texts)})", texts),
            lambda: self._maker.elements(given),
            lambda: getattr(np, self._name)(*values, **named),
        )  # fmt: skip

    def _check_parameters(self, args: Sequence[object], kwargs: Mapping[str, Any]) -> None:
        known = self._maker.parameters
        wrong = [key for key in kwargs if key not in known]
        if wrong or len(args) > len(known):
            raise KernelError(
                "unexpected_keyword" if wrong else "too_many_arguments",
                f"{self.name} has the parameters {', '.join(known)}",
            )


def elementwise(run: Execution, name: str, args: Sequence[Any]) -> Any:
    """A function of numpy on arrays and numbers, applied element by element."""
    if name in _REDUCTIONS and len(args) == 1:
        return getattr(args[0].values, name)().item()
    if name not in _ELEMENTWISE:
        raise not_supported(f"np.{name} of an array")
    values = [plain_value(run, arg, f"np.{name}") for arg in args]
    texts = list(map(text_of_value, args))
    return computed(
        run, f"np.{name}", expression_text(f"np.{name}({', '.join(texts)})", texts),
        lambda: _broadcast(dict(enumerate(values))),  # type: ignore[arg-type]
        lambda: getattr(np, name)(*values),
    )  # fmt: skip


def operated(
    run: Execution, symbol: str, compute: Callable[..., Any], left: Any, right: Any
) -> Any:
    """`left symbol right`, where one operand is an array."""
    values = [plain_value(run, value, f"operator {symbol}") for value in (left, right)]
    texts = [text_of_value(left), text_of_value(right)]
    return computed(
        run, f"operator {symbol}", expression_text(f"({texts[0]} {symbol} {texts[1]})", texts),
        lambda: _broadcast(dict(enumerate(values))),  # type: ignore[arg-type]
        lambda: compute(*values),
    )  # fmt: skip


def negated(run: Execution, symbol: str, array: HostArray) -> Any:
    """`-array`, `+array` and `~array`."""
    compute = {"-": np.negative, "+": np.positive, "~": np.invert}[symbol]
    text = expression_text(f"({symbol}{array.text})", [array.text])
    return computed(run, symbol, text, lambda: array.values.size, lambda: compute(array.values))


def item(run: Execution, array: HostArray, key: Any) -> Any:
    """`array[key]`: a number or another array."""
    parts = key if isinstance(key, tuple) else (key,)
    values = tuple(key_value(run, part) for part in parts)
    texts = list(map(key_text, parts))
    return computed(
        run, "an index of an array",
        expression_text(f"{array.text}[{', '.join(texts)}]", texts, array),
        lambda: picked(array, values), lambda: array.values[values],
    )  # fmt: skip


def set_item_of_array(run: Execution, array: HostArray, key: Any, value: Any) -> None:
    """`array[key] = value`. Arrays that share its memory change, too, as in numpy."""
    parts = key if isinstance(key, tuple) else (key,)
    places = tuple(key_value(run, part) for part in parts)
    new = plain_value(run, value, "an element of an array")
    _change(run, array, "an index of an array", lambda: picked(array, places),
            lambda: array.values.__setitem__(places, new))  # fmt: skip


def changed_array(run: Execution, symbol: str, array: HostArray, value: Any) -> HostArray:
    """The array after `array symbol= value`, which changes it in place."""
    compute, new = _IN_PLACE[symbol], plain_value(run, value, f"operator {symbol}=")
    _change(run, array, f"operator {symbol}=", lambda: int(array.values.size),
            lambda: compute(array.values, new))  # fmt: skip
    return array


_IN_PLACE: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv,
    "//": operator.ifloordiv, "%": operator.imod, "**": operator.ipow, "<<": operator.ilshift,
    ">>": operator.irshift, "&": operator.iand, "|": operator.ior, "^": operator.ixor,
}  # fmt: skip


def _change(
    run: Execution, array: HostArray, name: str, elements: Callable[[], int],
    change: Callable[[], object],
) -> None:  # fmt: skip
    run.arrays_changed = True
    run.step(1 + elements() // ELEMENTS_IN_A_STEP)
    try:
        with np.errstate(all="ignore"):
            change()
    except (TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise KernelError("unsupported_operand", f"{name}: {shown(str(error))}") from None


def cast(run: Execution, array: HostArray, dtype: Any) -> Any:
    """`array.astype(dtype)`."""
    kind = plain_value(run, dtype, "astype")
    text = expression_text(
        f"{array.text}.astype({text_of_value(dtype)})", [text_of_value(dtype)], array
    )
    return computed(
        run, "astype", text, lambda: array.values.size, lambda: array.values.astype(kind)
    )


def attribute_of_array(array: HostArray, name: str) -> Any:
    """The attributes and methods of arrays."""
    if name == "shape":
        return tuple(map(int, array.values.shape))
    if name == "ndim":
        return array.values.ndim
    if name == "size":
        return int(array.values.size)
    if name == "dtype":
        return array.dtype
    if name == "T":
        return HostArray(array.values.T, expression_text(f"{array.text}.T", [], array))
    if name == "astype":
        return Builtin("astype", lambda run, dtype: cast(run, array, dtype))
    if name in ("reshape", "transpose", "copy", "flatten", "ravel"):
        return Builtin(name, lambda run, *args: _rearranged(run, array, name, args))
    if name in _REDUCTIONS:
        return Builtin(f"array.{name}", lambda run: getattr(array.values, name)().item())
    raise not_supported(f"attribute {name!r} of a NumPy array")


def _rearranged(run: Execution, array: HostArray, name: str, args: Sequence[Any]) -> Any:
    values = [plain_value(run, arg, name) for arg in args]
    text = expression_text(f"{array.text}.{name}({', '.join(map(text_of_value, args))})", [], array)
    return computed(
        run, name, text, lambda: array.values.size, lambda: getattr(array.values, name)(*values)
    )
