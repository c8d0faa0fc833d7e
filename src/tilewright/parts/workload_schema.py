"""The JSON Schema of `workload.toml`, which editors and `read_workload_file` use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from tilewright.parts.element_types import Float, Integer

MAX_DIMENSIONS = 8
MAX_CONSTANTS = 32
MAX_CONSTANT_LENGTH = 256
MAX_COUNT = 10**18
"""Maximum number of operations and elements; a machine would need years for more."""

_Part = dict[str, Any]

_COUNT: _Part = {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}
_POSITIVE: _Part = {"type": "integer", "exclusiveMinimum": 0, "maximum": MAX_COUNT}
_AT_LEAST_ZERO: _Part = {"type": "number", "minimum": 0}
_NAME: _Part = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": 64}
_CONSTANTS: list[_Part] = [
    {"type": "boolean"},
    {"type": "integer", "minimum": -MAX_COUNT, "maximum": MAX_COUNT},
    {"type": "number"},
]


def _pair(first: _Part, second: _Part) -> _Part:
    return {"type": "array", "prefixItems": [first, second], "minItems": 2, "maxItems": 2}


def _table(description: str, required: tuple[str, ...] = (), **fields: tuple[_Part, str]) -> _Part:
    """A table without other fields; each field is given with its description."""
    return {
        "type": "object",
        "description": description,
        "properties": {n: {"description": words, **part} for n, (part, words) in fields.items()},
        "required": list(required),
        "additionalProperties": False,
    }


_INPUTS = _table(
    "A description of the values, if not every value is meaningful; exactly one of the fields.",
    range=(
        _pair({"type": "number"}, {"type": "number"}),
        "Uniform from the first number to the second.",
    ),
    normal=(
        _pair({"type": "number"}, _AT_LEAST_ZERO),
        "Normally distributed: mean and standard deviation.",
    ),
    generator=(
        _NAME,
        "A function of `reference.py`, called as `generator(rng, shape)` with a "
        "`numpy.random.Generator`; it returns the values.",
    ),
)
_ARGUMENT = _table(
    "One parameter of the kernel, a row-major array.",
    ("name", "shape", "dtype", "role"),
    name=(_NAME, "The parameter's name; `reference` receives an input under the same name."),
    shape=(
        {"type": "array", "items": _POSITIVE, "minItems": 1, "maxItems": MAX_DIMENSIONS},
        "Elements in each dimension.",
    ),
    dtype=({"enum": [*get_args(Integer), *get_args(Float)]}, "Type of the elements."),
    role=(
        {"enum": ["input", "output", "inout"]},
        "`input` is only read, `output` only written; `inout` is given, written and compared.",
    ),
    inputs=({**_INPUTS, "minProperties": 1, "maxProperties": 1}, _INPUTS["description"]),
)
_TOLERANCE = _table(
    "The error that a result may have: |got - expected| <= absolute + relative * |expected|. With "
    "both 0, outputs must be exact. Without this table, floating-point outputs may have up to four "
    "times the error of straightforward arithmetic, and all other outputs must be exact.",
    absolute=(_AT_LEAST_ZERO, "Error allowed for every element."),
    relative=(_AT_LEAST_ZERO, "Further error allowed, as a share of the expected value."),
)
_CONSTANT = {
    "anyOf": [
        *_CONSTANTS,
        {"type": "string", "maxLength": MAX_CONSTANT_LENGTH},
        {"type": "array", "items": {"anyOf": _CONSTANTS}, "maxItems": MAX_CONSTANT_LENGTH},
    ]
}
_FIELDS = _table(
    "What a kernel computes, on which target, over which arrays (tilewright's workload.toml).",
    ("target", "operations", "argument"),
    name=(
        {"type": "string", "pattern": "^[A-Za-z0-9_.-]+$", "maxLength": 100},
        "Name in results; the folder's name unless given.",
    ),
    target=(
        {"type": "string"},
        "An installed target (`tilewright targets`), or the path of a .toml file that describes "
        "one, relative to this file.",
    ),
    operations=(
        _COUNT,
        "Multiply-adds that one call must perform. The utilisation is computed from this number. "
        "Give 0 if a Trainium kernel only moves data.",
    ),
    reduction=(
        _POSITIVE,
        "Number of terms in the sum of each output; 64 by default. tilewright scales the inputs "
        "accordingly, so that the outputs spread over their range.",
    ),
    tolerance=(_TOLERANCE, _TOLERANCE["description"]),
    constants=(
        {
            "type": "object",
            "propertyNames": _NAME,
            "additionalProperties": _CONSTANT,
            "maxProperties": MAX_CONSTANTS,
        },
        "Arguments of a Trainium kernel that are not arrays, by name. `reference` receives those "
        'for which it has a parameter. A string that names a type, such as "bfloat16", is passed '
        "to the kernel as this type, and a list is passed as a tuple.",
    ),
    argument=(
        {"type": "array", "items": _ARGUMENT, "minItems": 1},
        "The kernel's parameters, in their order.",
    ),
)

SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "workload.toml",
    **_FIELDS,
}
