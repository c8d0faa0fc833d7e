"""Checks the content of a file against a JSON Schema, and says in words what is wrong.

Only the keywords that tilewright's own schemas use are implemented.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tilewright.core.text import listed

Schema = Mapping[str, Any]

_KINDS: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}
_WORDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "a text in quotes",
    "array": "a list",
    "object": "a table",
}


class Mistake(NamedTuple):
    """The first mistake of a value: the names and positions that lead to it, and what to do."""

    place: tuple[str | int, ...]
    advice: str


def first_mistake(value: object, schema: Schema) -> Mistake | None:
    """The first mistake of a value that was read from a file; None if the schema accepts it."""
    return next(_mistakes(value, schema, ()), None)


def _mistakes(value: Any, schema: Schema, place: tuple[str | int, ...]) -> Iterator[Mistake]:
    if "anyOf" in schema:
        yield from _of_none(value, schema["anyOf"], place)
        return
    if "enum" in schema and value not in schema["enum"]:
        shown = f" instead of {value!r}" if isinstance(value, str) and len(value) <= 20 else ""
        yield Mistake(place, f"give {_one_of(schema['enum'])}{shown}")
        return
    kind = schema.get("type")
    if kind is not None and not _is(value, kind):
        wrong_number = isinstance(value, bool) and kind in ("integer", "number")
        shown = f"a number instead of {str(value).lower()}" if wrong_number else _WORDS[kind]
        yield Mistake(place, f"give {shown}")
    elif kind in ("integer", "number"):
        yield from (Mistake(place, advice) for advice in _of_number(value, schema))
    elif kind == "string":
        yield from (Mistake(place, advice) for advice in _of_text(value, schema))
    elif kind == "array":
        yield from _of_list(value, schema, place)
    elif kind == "object":
        yield from _of_table(value, schema, place)


def _is(value: object, kind: str) -> bool:
    """Whether a value is of a kind; true and false are no numbers."""
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    return kind != "integer" or isinstance(value, int) or float(value).is_integer()  # type: ignore[arg-type]


def _of_none(
    value: object, schemas: list[Schema], place: tuple[str | int, ...]
) -> Iterator[Mistake]:
    """The mistake in the alternative that has the kind of the value, if no alternative fits."""
    if any(next(_mistakes(value, schema, place), None) is None for schema in schemas):
        return
    alike = [schema for schema in schemas if _is(value, schema["type"])]
    if alike:
        yield from _mistakes(value, alike[-1], place)
    else:
        yield Mistake(place, f"give {listed([_WORDS[schema['type']] for schema in schemas], 'or')}")


def _of_number(value: float, schema: Schema) -> Iterator[str]:
    if not abs(value) <= sys.float_info.max:
        yield "give a finite number"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"give a number greater than or equal to {schema['minimum']}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"give a number greater than {schema['exclusiveMinimum']}"
    if "maximum" in schema and value > schema["maximum"]:
        yield f"give a number less than or equal to {schema['maximum']}"


def _of_text(value: str, schema: Schema) -> Iterator[str]:
    if len(value) > schema.get("maxLength", len(value)):
        yield f"give at most {schema['maxLength']} characters"
    if "pattern" in schema and not re.search(schema["pattern"].removesuffix("$") + r"\Z", value):
        yield f"give a text of the form {schema['pattern']}"


def _of_list(value: list[Any], schema: Schema, place: tuple[str | int, ...]) -> Iterator[Mistake]:
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if least == most != len(value):
        yield Mistake(place, f"give {least} values")
    elif len(value) < least:
        yield Mistake(place, f"give at least {least} value{'s' * (least > 1)}")
    elif len(value) > most:
        yield Mistake(place, f"give at most {most} values")
    each = schema.get("prefixItems") or [schema["items"]] * len(value)
    for at, (item, part) in enumerate(zip(value, each, strict=False)):
        yield from _mistakes(item, part, (*place, at))


def _of_table(
    value: dict[str, Any], schema: Schema, place: tuple[str | int, ...]
) -> Iterator[Mistake]:
    fields: Mapping[str, Schema] = schema.get("properties", {})
    others = schema["additionalProperties"]
    for name in schema.get("required", ()):
        if name not in value:
            other = _nearest(name, [given for given in value if given not in fields])
            advice = f"correct the name {other!r} in the file" if other else "add it"
            yield Mistake((*place, name), f"the field is missing, so {advice}")
    least, most = schema.get("minProperties", 0), schema.get("maxProperties", len(value))
    if least == most == 1 != len(value):
        yield Mistake(place, f"give one of {listed(list(fields))}")
    elif len(value) > most:
        yield Mistake(place, f"give at most {most} values")
    for name, item in value.items():
        if name in fields:
            yield from _mistakes(item, fields[name], (*place, name))
        elif others is False:
            known = _nearest(name, list(fields))
            advice = f"write {known!r} instead" if known else "correct its name or remove it"
            yield Mistake((*place, name), f"no such field exists, so {advice}")
        else:
            for advice in _of_text(name, schema.get("propertyNames", {})):
                yield Mistake((*place, name), f"its name: {advice}")
            yield from _mistakes(item, others, (*place, name))


def _nearest(name: str, names: list[str]) -> str | None:
    """The name that is most similar to another name; None if none is similar."""
    return next(iter(difflib.get_close_matches(name[:64], names, n=1, cutoff=0.7)), None)


def _one_of(values: list[str]) -> str:
    return listed([f"'{value}'" for value in values], "or")
