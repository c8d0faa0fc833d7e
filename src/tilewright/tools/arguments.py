"""The arguments of tools: their declaration, their description as JSON Schema, and reading those of
a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.core.errors import InputError, UnknownNameError
from tilewright.core.text import plain_text

MOST_KERNELS = 4
"""Maximum number of kernels of one call of `try`."""
LONGEST_NOTE = 2000
"""Maximum number of characters of a note, a step or a name."""
LONGEST_KERNEL = 1 << 18
"""Maximum number of characters of a kernel or of edits, which no real kernel has."""

_SHOWN = 60
"""Number of characters of a name that a message shows."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool: a text, or for `many` a list of objects with `kernel` and `edits`."""

    name: str
    text: str
    required: bool = False
    many: bool = False


KERNEL = Parameter(
    "kernel",
    "A kernel: its whole source, an id that a tool printed, or one of start, parent and best.",
    required=True,
)
OF_KERNEL = Parameter("kernel", f"{KERNEL.text} The parent unless given.")
EDITS = Parameter("edits", "Search/replace edits to apply to the kernel.")
NOTE = Parameter("note", "What was changed and why, in a sentence.")


def read_arguments(name: str, parameters: Sequence[Parameter], arguments: object) -> dict[str, Any]:
    """The arguments of a call after a check of names, types and sizes; `InputError` names the
    argument that is wrong.
    """
    if not isinstance(arguments, Mapping):
        raise InputError(
            f"the arguments of {name} are not a JSON object: give their names and values."
        )
    known = {parameter.name: parameter for parameter in parameters}
    read: dict[str, Any] = {}
    for key, value in arguments.items():
        if key not in known:
            raise UnknownNameError(f"argument of {name}", plain_text(str(key)[:_SHOWN]), known)
        read[key] = _value(name, known[key], value)
    for parameter in parameters:
        if parameter.required and not read.get(parameter.name):
            raise InputError(
                f"the tool {name} needs the argument {parameter.name}. {parameter.text}"
            )
    return read


def _value(tool: str, parameter: Parameter, value: object) -> object:
    name = parameter.name
    if not parameter.many:
        return _text(tool, name, value)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InputError(f"{name} of {tool} is not a list: give objects with kernel and edits.")
    if len(value) > MOST_KERNELS:
        raise InputError(
            f"{name} of {tool} has {len(value)} entries: give at most {MOST_KERNELS} at a time."
        )
    kernels = []
    for entry in value:
        if not isinstance(entry, Mapping) or not {"kernel"} <= set(entry) <= {"kernel", "edits"}:
            raise InputError(f"an entry of {name} is not an object with kernel and edits.")
        kernels.append({key: _text(tool, key, text) for key, text in entry.items()})
    return kernels


def _text(tool: str, name: str, value: object) -> str:
    longest = LONGEST_KERNEL if name in ("kernel", "edits") else LONGEST_NOTE
    if name == "loop" and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise InputError(f"{name} of {tool} is a {type(value).__name__}: give a string.")
    if len(value) > longest:
        raise InputError(f"{name} of {tool} has {len(value)} characters: give at most {longest}.")
    return plain_text(value)


def schema_of(parameter: Parameter) -> dict[str, Any]:
    """One argument as JSON Schema."""
    if not parameter.many:
        return {"type": "string", "description": parameter.text}
    entry = {
        "type": "object",
        "properties": {p.name: schema_of(p) for p in (KERNEL, EDITS)},
        "required": ["kernel"],
        "additionalProperties": False,
    }
    return {
        "type": "array",
        "items": entry,
        "maxItems": MOST_KERNELS,
        "description": parameter.text,
    }
