"""`functools.cache`, `lru_cache` and `wraps`."""

from __future__ import annotations

from functools import partial
from typing import Any

from tilewright.targets.trainium.errors import KernelError, too_large
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.arithmetic import MOST_ITEMS, hashable
from tilewright.targets.trainium.language.calling import call
from tilewright.targets.trainium.language.classes import Class, Wrapped
from tilewright.targets.trainium.language.frames import Function
from tilewright.targets.trainium.language.python import whole
from tilewright.targets.trainium.language.values import Builtin, MemberSet


def _key(value: Any) -> Any:
    """Distinguishes arguments: plain values by their type and value, all others by identity.
    `KernelError` for values that cannot be arguments of a cached function in Python."""
    if isinstance(value, (list, dict, MemberSet)):
        return type(value), hashable(value, None)
    try:
        return type(value), hashable(value, None)
    except KernelError:
        return id(value)


def _cached(run: Execution, function: Any, most: int | None = None) -> Builtin:
    """The function, of which the results of the last `most` different calls are kept."""
    kept: dict[Any, tuple[Any, Any]] = {}

    def call_once(run: Execution, *args: Any, **options: Any) -> Any:
        key = tuple(map(_key, args)), tuple((n, _key(v)) for n, v in options.items())
        if key not in kept:
            if len(kept) >= MOST_ITEMS:
                raise too_large(f"a cache of more than {MOST_ITEMS:,} results")
            arguments = args, options  # keeps them alive, so that no other value has their identity
            result = call(run, function, args, dict(options))
            kept[key] = arguments, result
            if most is not None and len(kept) > most:
                del kept[next(iter(kept))]
            return result
        kept[key] = kept.pop(key)  # it was used last
        return kept[key][1]

    return Wrapped(_name_of(function), call_once, masked=False)


def _name_of(function: Any) -> str:
    return function.name if isinstance(function, (Function, Builtin, Class)) else "function"


def cache() -> Builtin:
    """`functools.cache`."""
    return Builtin("functools.cache", _cached, masked=False)


def lru_cache() -> Builtin:
    """`functools.lru_cache`, with or without a size."""

    def decorate(run: Execution, maxsize: Any = 128, typed: Any = False) -> Any:
        if isinstance(maxsize, (Function, Builtin)):
            return _cached(run, maxsize, 128)
        most = None if maxsize is None else max(0, whole(maxsize, "lru_cache"))
        return Builtin("functools.cache", partial(_cached, most=most), masked=False)

    return Builtin("functools.lru_cache", decorate, masked=False)


def wraps() -> Builtin:
    """`functools.wraps(function)`, which gives another function the same name."""

    def decorate(run: Execution, function: Any, **options: Any) -> Builtin:
        def rename(run: Execution, other: Any) -> Any:
            if isinstance(other, Function) and isinstance(function, (Function, Builtin, Class)):
                other.name = function.name
            return other

        return Builtin("functools.wraps", rename, masked=False)

    return Builtin("functools.wraps", decorate, masked=False)
