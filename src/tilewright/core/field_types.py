"""Checks the types of the fields of a record, which may come from an untrusted JSON text."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

MOST_INTEGER = 1 << 128
"""Limit for integers in records, which is above all seeds and can be converted to a float."""

_Fits = Callable[[Any], bool]


def require_types(record: Any) -> None:
    """Raise `TypeError` if a field of a dataclass instance does not have its declared type.

    Numbers must be finite, and texts must be encodable. For fields that are records, only the class
    is checked, because `core.codec` checks each record when it constructs it.
    """
    for name, fits in _fields_of(record.__class__):
        if not fits(getattr(record, name)):
            raise TypeError(
                f"the field {name} of {type(record).__name__} has a value of the wrong type"
            )


@cache
def _fields_of(cls: type[Any]) -> tuple[tuple[str, _Fits], ...]:
    hints = get_type_hints(cls)
    return tuple((field.name, _fits(hints[field.name])) for field in dataclasses.fields(cls))


def _fits(declared: Any) -> _Fits:
    """Whether a value is of the declared type."""
    if declared in _PLAIN:
        return _PLAIN[declared]
    kind, inner = get_origin(declared), get_args(declared)
    if kind in (Union, types.UnionType):
        options = [_fits(option) for option in inner]
        first, *others = options
        return lambda value: first(value) or any(fits(value) for fits in others)
    if kind is Literal:
        return lambda value: isinstance(value, str) and value in inner
    if kind is tuple:
        assert inner[1:] == (Ellipsis,), f"no record has a field of type {declared}"
        item = _fits(inner[0])
        return lambda value: isinstance(value, tuple) and all(map(item, value))
    if kind is Mapping:
        key, item = map(_fits, inner)
        return lambda value: (
            isinstance(value, (dict, Mapping))
            and all(map(key, value))
            and all(map(item, value.values()))
        )
    assert isinstance(declared, type), f"no record has a field of type {declared}"
    record = declared
    return lambda value: isinstance(value, record)


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:  # half of a character pair
        return False


def _is_integer(value: Any) -> bool:
    return type(value) is int and -MOST_INTEGER < value < MOST_INTEGER


def _is_number(value: Any) -> bool:
    return math.isfinite(value) if type(value) is float else _is_integer(value)


_PLAIN: dict[Any, _Fits] = {
    str: _is_text,
    int: _is_integer,
    float: _is_number,
    bool: lambda value: isinstance(value, bool),
    type(None): lambda value: value is None,
    object: lambda value: True,
}
