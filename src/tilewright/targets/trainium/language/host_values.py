"""Values of numpy arrays of kernels: computed within limits, each with its numpy expression."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.targets.trainium.errors import KernelError, shown, too_large
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
ELEMENTS_IN_A_STEP = 1000
"""Number of elements whose computation counts as one step of the kernel."""
_MOST_AXES = 8


def computed(
    run: Execution, name: str, text: str, elements: Callable[[], int], compute: Callable[[], Any]
) -> Any:
    """The result as an array or a number, if it is not too large. `text` is its expression."""
    try:
        count = elements()
        if count > MOST_HOST_ELEMENTS:
            raise too_large(f"{name} of {count:,} elements")
        run.step(1 + count // ELEMENTS_IN_A_STEP)
        with np.errstate(all="ignore"):
            found = np.asarray(compute())
    except (TypeError, ValueError, IndexError, KeyError, ArithmeticError) as error:
        raise KernelError("unsupported_operand", f"{name}: {shown(str(error))}") from None
    if found.dtype.kind not in "biufV" or found.ndim > _MOST_AXES:
        raise KernelError(
            "unsupported_dtype",
            f"{name} returns an array of {found.dtype} with {found.ndim} axes, which is not "
            "supported",
        )
    run.take_host_bytes(found.nbytes)
    return HostArray(found, text) if found.ndim else found.item()


def plain_value(run: Execution, value: Any, name: str) -> Any:
    """The value that numpy gets for a value of the kernel."""
    if isinstance(value, HostArray):
        return value.values
    run.step()
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(plain_value(run, part, name) for part in value)
    if isinstance(value, DType):
        return value.exact
    if isinstance(value, HostType):
        return np.dtype(value.name)
    if isinstance(value, Builtin) and value.name in _PYTHON_TYPES:
        return _PYTHON_TYPES[value.name]
    raise KernelError("unsupported_operand", f"{name} does not take {shown(value)}")


def text_of_value(value: Any) -> str:
    """A value as Python text; empty for an array without an expression."""
    if isinstance(value, HostArray):
        return value.text
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "(-np.inf)"
    if isinstance(value, (list, tuple)):
        parts = [text_of_value(part) for part in value[: MOST_TEXT // 2]]
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


def expression_text(text: str, parts: Sequence[str], array: HostArray | None = None) -> str:
    """The text; empty if a part has none or it is too long."""
    known = all(parts) and (array is None or array.text)
    return text if known and len(text) <= MOST_TEXT else ""


def key_value(run: Execution, part: Any) -> Any:
    """A part of an index as numpy takes it."""
    if isinstance(part, slice):
        return slice(
            *(plain_value(run, end, "a slice") for end in (part.start, part.stop, part.step))
        )
    return part if part is Ellipsis else plain_value(run, part, "an index of an array")


def key_text(part: Any) -> str:
    """The text of a part of an index."""
    if isinstance(part, slice):
        ends = [
            "" if end is None else text_of_value(end) for end in (part.start, part.stop, part.step)
        ]
        return ":".join(ends[: 2 if part.step is None else 3])
    return "..." if part is Ellipsis else text_of_value(part)


def picked(array: HostArray, key: tuple[Any, ...]) -> int:
    """Refuses to select more than a maximum number of elements."""
    arrays = [part for part in key if isinstance(part, (np.ndarray, list))]
    return int(array.values.size) * max([1, *(int(np.size(part)) for part in arrays)])
