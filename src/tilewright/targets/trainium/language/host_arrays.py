"""Arrays that a kernel creates with numpy before it is traced: `np.tril`, arithmetic, `np.where`.

Every array keeps the numpy expression that creates it, so that a kernel can be translated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.targets.trainium.errors import KernelError, not_supported, shown
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.values import Builtin
from tilewright.targets.trainium.tiles.dtypes import (
    MOST_HOST_ELEMENTS,
    DType,
    HostArray,
    HostType,
)

MOST_TEXT = 1000
"""Maximum number of characters of an array's expression."""
_PYTHON_TYPES = {"float": float, "int": int, "bool": bool}
_ELEMENTS_IN_A_STEP = 1000
_MOST_AXES = 8


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
        values = [_plain(run, arg, self.name) for arg in args]
        named = {key: _plain(run, value, self.name) for key, value in kwargs.items()}
        given = {**dict(zip(self._maker.parameters, values, strict=False)), **named}
        given.pop("dtype", None)
        texts = [*map(_text, args), *(f"{key}={_text(value)}" for key, value in kwargs.items())]
        return _computed(
            run, self.name, _written(f"{self.name}({', '.join(texts)})", texts),
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
    values = [_plain(run, arg, f"np.{name}") for arg in args]
    texts = list(map(_text, args))
    return _computed(
        run, f"np.{name}", _written(f"np.{name}({', '.join(texts)})", texts),
        lambda: _broadcast(dict(enumerate(values))),  # type: ignore[arg-type]
        lambda: getattr(np, name)(*values),
    )  # fmt: skip


def operated(
    run: Execution, symbol: str, compute: Callable[..., Any], left: Any, right: Any
) -> Any:
    """`left symbol right`, where one operand is an array."""
    values = [_plain(run, value, f"operator {symbol}") for value in (left, right)]
    texts = [_text(left), _text(right)]
    return _computed(
        run, f"operator {symbol}", _written(f"({texts[0]} {symbol} {texts[1]})", texts),
        lambda: _broadcast(dict(enumerate(values))),  # type: ignore[arg-type]
        lambda: compute(*values),
    )  # fmt: skip


def negated(run: Execution, symbol: str, array: HostArray) -> Any:
    """`-array`, `+array` and `~array`."""
    compute = {"-": np.negative, "+": np.positive, "~": np.invert}[symbol]
    text = _written(f"({symbol}{array.text})", [array.text])
    return _computed(run, symbol, text, lambda: array.values.size, lambda: compute(array.values))


def item(run: Execution, array: HostArray, key: Any) -> Any:
    """`array[key]`: a number or another array."""
    parts = key if isinstance(key, tuple) else (key,)
    values = tuple(_key(run, part) for part in parts)
    texts = list(map(_key_text, parts))
    return _computed(
        run, "an index of an array", _written(f"{array.text}[{', '.join(texts)}]", texts, array),
        lambda: _picked(array, values), lambda: array.values[values],
    )  # fmt: skip


def cast(run: Execution, array: HostArray, dtype: Any) -> Any:
    """`array.astype(dtype)`."""
    kind = _plain(run, dtype, "astype")
    text = _written(f"{array.text}.astype({_text(dtype)})", [_text(dtype)], array)
    return _computed(
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
        return HostArray(array.values.T, _written(f"{array.text}.T", [], array))
    if name == "astype":
        return Builtin("astype", lambda run, dtype: cast(run, array, dtype))
    if name in ("reshape", "transpose"):
        return Builtin(name, lambda run, *args: _rearranged(run, array, name, args))
    if name in ("copy", "flatten", "ravel"):
        shape = (array.values.size,)
        return Builtin(
            name,
            lambda run: array if name == "copy" else _rearranged(run, array, "reshape", shape),
        )
    if name in _REDUCTIONS:
        return Builtin(f"array.{name}", lambda run: getattr(array.values, name)().item())
    raise not_supported(f"attribute {name!r} of an array of numpy")


def _rearranged(run: Execution, array: HostArray, name: str, args: Sequence[Any]) -> Any:
    values = [_plain(run, arg, name) for arg in args]
    text = _written(f"{array.text}.{name}({', '.join(map(_text, args))})", [], array)
    return _computed(
        run, name, text, lambda: array.values.size, lambda: getattr(array.values, name)(*values)
    )


def _computed(
    run: Execution, name: str, text: str, elements: Callable[[], int], compute: Callable[[], Any]
) -> Any:
    """The result as an array or a number, if it is not too large. `text` is its expression."""
    try:
        count = elements()
        if count > MOST_HOST_ELEMENTS:
            raise KernelError("too_large", f"{name} of {count:,} elements")
        run.step(1 + count // _ELEMENTS_IN_A_STEP)
        with np.errstate(all="ignore"):
            found = np.asarray(compute())
    except (TypeError, ValueError, IndexError, KeyError, ArithmeticError) as error:
        raise KernelError("unsupported_operand", f"{name}: {shown(str(error))}") from None
    if found.dtype.kind not in "biufV" or found.ndim > _MOST_AXES:
        raise KernelError("unsupported_dtype", f"{name}: an array of {found.dtype}")
    run.take_host_bytes(found.nbytes)
    return HostArray(found, text) if found.ndim else found.item()


def _plain(run: Execution, value: Any, name: str) -> Any:
    """The value that numpy gets for a value of the kernel."""
    if isinstance(value, HostArray):
        return value.values
    run.step()
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(run, part, name) for part in value)
    if isinstance(value, DType):
        return value.exact
    if isinstance(value, HostType):
        return np.dtype(value.name)
    if isinstance(value, Builtin) and value.name in _PYTHON_TYPES:
        return _PYTHON_TYPES[value.name]
    raise KernelError("unsupported_operand", f"{name} does not take {shown(value)}")


def _text(value: Any) -> str:
    """A value as Python text; empty for an array without an expression."""
    if isinstance(value, HostArray):
        return value.text
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "(-np.inf)"
    if isinstance(value, (list, tuple)):
        parts = [_text(part) for part in value[: MOST_TEXT // 2]]
        if len(parts) < len(value) or not all(parts):
            return ""
        inner = ", ".join(parts) + ("," if len(parts) == 1 and isinstance(value, tuple) else "")
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, (DType, HostType)):
        return f"{'np' if value.name in _NUMPY_TYPES else 'nl'}.{value.name}".replace(
            "np.bool", "np.bool_"
        )
    if isinstance(value, Builtin):
        return value.name
    return f"({value!r})" if isinstance(value, (int, float)) and value < 0 else repr(value)


_NUMPY_TYPES = frozenset({
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16",
    "uint32", "bool",
})  # fmt: skip


def _written(text: str, parts: Sequence[str], array: HostArray | None = None) -> str:
    """The text; empty if a part has none or it is too long."""
    known = all(parts) and (array is None or array.text)
    return text if known and len(text) <= MOST_TEXT else ""


def _key(run: Execution, part: Any) -> Any:
    if isinstance(part, slice):
        return slice(*(_plain(run, end, "a slice") for end in (part.start, part.stop, part.step)))
    return part if part is Ellipsis else _plain(run, part, "an index of an array")


def _key_text(part: Any) -> str:
    if isinstance(part, slice):
        ends = ["" if end is None else _text(end) for end in (part.start, part.stop, part.step)]
        return ":".join(ends[: 2 if part.step is None else 3])
    return "..." if part is Ellipsis else _text(part)


def _picked(array: HostArray, key: tuple[Any, ...]) -> int:
    """Refuses to select more than a maximum number of elements."""
    arrays = [part for part in key if isinstance(part, (np.ndarray, list))]
    return int(array.values.size) * max([1, *(int(np.size(part)) for part in arrays)])
