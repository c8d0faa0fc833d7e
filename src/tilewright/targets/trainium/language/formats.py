"""Texts of a kernel's values, and the formats of f-strings, `%` and `str.format`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported, too_large
from tilewright.targets.trainium.language.arithmetic import bounded
from tilewright.targets.trainium.language.classes import Class, Record, special_method
from tilewright.targets.trainium.language.frames import Function
from tilewright.targets.trainium.language.values import MemberSet
from tilewright.targets.trainium.tiles.dtypes import DType

LONGEST_TEXT = 10_000
_MOST_SHOWN = 1000
"""Number of items of a sequence of which the text is made."""
_DEEPEST = 5
_SPEC = re.compile(r"(.?[<>=^])?[-+ ]?#?0?\d{0,2}[,_]?(\.\d{1,2})?[bcdeEfFgGnosxX%]?")
_PERCENT = re.compile(r"%(?:\((\w+)\))?([-+ #0]*\d{0,2}(?:\.\d{1,2})?)(.)")


def text_of(value: Any) -> str:
    """What `str` makes of a value: its text in an f-string or in a message."""
    return _text(value, quoted=False, depth=0)[:LONGEST_TEXT]


def quoted_text_of(value: Any) -> str:
    """What `repr` makes of a value."""
    return _text(value, quoted=True, depth=0)[:LONGEST_TEXT]


def _text(value: Any, *, quoted: bool, depth: int) -> str:
    if isinstance(value, str):
        return repr(value) if quoted else value
    if isinstance(value, (int, float, type(None), DType)):
        return str(value)
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, (tuple, list, dict, MemberSet)):
        return _text_of_items(bounded(value), depth + 1)
    if isinstance(value, Record):
        return _text_of_record(value, quoted=quoted, depth=depth + 1)
    if isinstance(value, (Class, Function)):
        return f"<{type(value).__name__.lower()} {value.name}>"
    return f"<{type(value).__name__}>"


def _text_of_items(value: Any, depth: int) -> str:
    shown = [*value][:_MOST_SHOWN]
    items = [_text(item, quoted=True, depth=depth) for item in shown]
    if isinstance(value, dict):
        values = [_text(value[key], quoted=True, depth=depth) for key in shown]
        return "{" + ", ".join(map(": ".join, zip(items, values, strict=True))) + "}"
    words = ", ".join(items)
    if isinstance(value, tuple):
        return f"({words},)" if len(value) == 1 else f"({words})"
    return f"[{words}]" if isinstance(value, list) else f"{{{words}}}" if words else "set()"


def _text_of_record(record: Record, *, quoted: bool, depth: int) -> str:
    for name in ("__repr__",) if quoted else ("__str__", "__repr__"):
        own = special_method(record, name)
        if own is not None:
            found = own.call(own.function.run, [], {})
            return found if isinstance(found, str) else f"<{record.cls.name}>"
    if record.cls.kind == "error":
        args = record.values["args"]
        return _text(args[0] if len(args) == 1 else args or "", quoted=quoted, depth=depth)
    if record.cls.kind in ("dataclass", "tuple"):
        fields = record.values.items()
        parts = [f"{name}={_text(item, quoted=True, depth=depth)}" for name, item in fields]
        return f"{record.cls.name}({', '.join(parts)})"
    return f"{record.cls.name}.{record.values['name']}" if record.cls.is_enum else (
        f"<{record.cls.name}>")  # fmt: skip


def formatted(value: Any, spec: str) -> str:
    """What `format` makes of a value. Widths have at most two digits."""
    if not spec:
        return text_of(value)
    if isinstance(value, (list, tuple, dict, MemberSet, type(None))):
        raise KernelError(
            "unsupported_operand", f"the format {spec[:40]!r} needs a number or string"
        )
    if not _SPEC.fullmatch(spec):
        raise not_supported(f"the format {spec[:40]!r}")
    found = value if isinstance(value, (int, float)) else text_of(value)
    try:
        return format(int(found) if isinstance(found, int) else found, spec)
    except (ValueError, OverflowError) as error:
        raise KernelError("arithmetic", str(error)) from None


CONVERSIONS: Mapping[str, Callable[[Any], str]] = {
    "r": quoted_text_of, "a": quoted_text_of, "s": text_of,
}  # fmt: skip
"""What the letter after `!` in a format does."""


def percent(text: str, values: Any) -> str:
    """`text % values`."""
    waiting = list(values) if isinstance(values, tuple) else [values]

    def one(found: re.Match[str]) -> str:
        name, flags, letter = found.groups()
        if letter == "%":
            return "%"
        if name is not None:
            if not isinstance(values, dict) or name not in values:
                raise KernelError("index", f"the format needs a dict with the key {name!r}")
            value = values[name]
        elif not waiting:
            raise KernelError(
                "missing_argument", f"{text[:40]!r} has more placeholders than values"
            )
        else:
            value = waiting.pop(0)
        return _percent(value, flags, letter)

    if len(text) > LONGEST_TEXT or text.count("%") * LONGEST_TEXT > _LONGEST_TOTAL:
        raise too_large(f"a format of {len(text):,} characters")
    found = _PERCENT.sub(one, text)
    if waiting and not isinstance(values, dict):
        raise KernelError("too_many_arguments", f"{text[:40]!r} has fewer placeholders than values")
    return str(found)[:LONGEST_TEXT]


_LONGEST_TOTAL = 100 * LONGEST_TEXT


def _percent(value: Any, flags: str, letter: str) -> str:
    if letter in CONVERSIONS:
        return f"%{flags}s" % CONVERSIONS[letter](value)
    if letter not in "diouxXeEfFgGc":
        raise not_supported(f"the format %{letter}")
    if not isinstance(value, (int, float)):
        raise KernelError("unsupported_operand", f"%{letter} takes a number, not {text_of(value)}")
    try:
        found: str = f"%{flags}{letter}" % value
        return found
    except (TypeError, ValueError, OverflowError) as error:
        raise KernelError("arithmetic", str(error)) from None


def format_text(text: str, *args: Any, **named: Any) -> str:
    """`text.format(...)`, with numbers and names of values as fields."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise KernelError("arithmetic", str(error)) from None
    found, following, length = [], 0, 0
    for literal, field, spec, conversion in parts:
        found.append(literal)
        if field is not None:
            value = _field(field or str(following), args, named)
            following += not field
            if conversion:
                value = CONVERSIONS[conversion](value) if conversion in CONVERSIONS else value
            inner = format_text(spec, *args, **named) if spec and "{" in spec else spec or ""
            found.append(formatted(value, inner))
        length += sum(map(len, found[-2:]))
        if length > _LONGEST_TOTAL:
            raise too_large(f"a string of more than {LONGEST_TEXT:,} characters")
    return "".join(found)[:LONGEST_TEXT]


def _field(field: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    if field.isdigit() and len(field) < 3 and int(field) < len(args):
        return args[int(field)]
    if field in named:
        return named[field]
    if field.isidentifier() or field.isdigit():
        raise KernelError("missing_argument", f"the format needs {field!r}")
    raise not_supported(f"the field {field[:40]!r} of a format")
