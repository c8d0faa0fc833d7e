"""The JSON Schema of the tools' answers, which is made from the records."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from tilewright.tools.records import Refused
from tilewright.tools.toolbox import Tool

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}


def output_schema(tool: Tool) -> dict[str, Any]:
    """The schema of a tool's answer from `answer_json`, which is its record or a refusal.

    Empty fields are left out of the JSON, so only `answer` is always present.
    """
    record = get_type_hints(tool.run)["return"]
    kind = record.__name__.lower()
    own = {"type": "string", "enum": [kind, "refused"], "description": "The kind of the answer."}
    reason = _of(get_type_hints(Refused)["reason"])
    properties = {"answer": own, **_properties(record), "reason": reason}
    return {
        "type": "object",
        "description": _first_sentence(record),
        "properties": properties,
        "required": ["answer"],
        "additionalProperties": False,
    }


@cache
def _properties(record: type) -> dict[str, Any]:
    return {name: _of(hint) for name, hint in _hints(record).items()}


def _hints(record: type) -> dict[str, Any]:
    hints = get_type_hints(record)
    return {field.name: hints[field.name] for field in fields(record)}


def _of(hint: Any) -> dict[str, Any]:
    """The schema of the type of a field."""
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if is_dataclass(hint) and isinstance(hint, type):
        return _nested(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        schemas = [_of(part) for part in arguments if part is not type(None)]
        with_none = len(schemas) < len(arguments)
        return {"anyOf": [*schemas, *([{"type": "null"}] if with_none else [])]}
    if origin is tuple:
        return {"type": "array", "items": _of(arguments[0])}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _of(arguments[1])}
    raise TypeError(f"records of tools have no fields of type {hint}")


def _nested(record: type) -> dict[str, Any]:
    """The schema of a record in another record. Records in lists contain empty fields, others do
    not.
    """
    return {"type": "object", "properties": _properties(record), "additionalProperties": False}


def _first_sentence(record: type) -> str:
    return (record.__doc__ or "").partition("\n")[0]
