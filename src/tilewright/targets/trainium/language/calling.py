"""Calls of values that kernels may call: functions of NKI and of the kernel, types, operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.arithmetic import (
    NUMBERS,
    of_numbers,
)
from tilewright.targets.trainium.language.classes import (
    Bound,
    Class,
    special_method,
)
from tilewright.targets.trainium.language.frames import Function
from tilewright.targets.trainium.language.grid import Launch
from tilewright.targets.trainium.language.host_arrays import cast, elementwise
from tilewright.targets.trainium.language.values import (
    Builtin,
    Decorator,
)
from tilewright.targets.trainium.operations.functions import Operator
from tilewright.targets.trainium.tiles.dtypes import DType, HostArray, HostType
from tilewright.targets.trainium.tiles.view import View


def call(run: Execution, called: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a value that kernels may call."""
    if isinstance(called, (Builtin, Function, Class, Bound, Launch)):
        return called.call(run, args, kwargs)
    own = special_method(called, "__call__")
    if own is not None:
        return own.call(run, args, kwargs)
    if isinstance(called, Decorator):
        return _decorated(called, args, kwargs)
    if isinstance(called, DType) and len(args) == 1 and type(args[0]) in NUMBERS:
        return float(args[0]) if called.is_float else int(args[0])
    if isinstance(called, HostType) and len(args) == 1 and type(args[0]) in NUMBERS:
        return float(args[0]) if called.name.startswith("float") else int(args[0])
    if isinstance(called, (DType, HostType)) and len(args) == 1 and isinstance(args[0], HostArray):
        return cast(run, args[0], called)
    if isinstance(called, Operator) and any(isinstance(arg, HostArray) for arg in args):
        if kwargs:
            raise not_supported(f"{called.spelled} of an array, with {', '.join(kwargs)},")
        return elementwise(run, called.name, args)
    if isinstance(called, Operator):
        if args and all(type(arg) in NUMBERS for arg in args):
            return of_numbers(called, args)
        raise KernelError(
            "not_supported",
            f"{called.spelled} cannot be called with these arguments: for tiles, use the function "
            "of nl",
        )
    if isinstance(called, View):
        raise KernelError("unsupported_operand", "a tile is not a function")
    raise KernelError("unsupported_operand", f"a {type(called).__name__} is not a function")


def _decorated(decorator: Decorator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`nki.jit` does not change a function; `nki.jit(mode=...)` is the same decorator."""
    if len(args) != 1 or not isinstance(args[0], (Function, Class, Builtin)):
        return decorator
    if decorator.name.startswith("nki.") and isinstance(args[0], Function):
        args[0].is_kernel = True
    return args[0]
