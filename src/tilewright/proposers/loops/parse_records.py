"""Pointers to structures, which are read as arrays of their fields.

Before::

    struct point { float x, y; };
    void kernel(const struct point *p, float *size) {
      for (int i = 0; i < 64; i++) size[i] = p[i].x * p[i].x + p[i].y * p[i].y;
    }

Read as::

    void kernel(const float *p, float *size) {
      for (int i = 0; i < 64; i++) size[i] = p[i * 2] * p[i * 2] + p[i * 2 + 1] * p[i * 2 + 1];
    }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.loops.c_types import NAMES
from tilewright.proposers.loops.parse_syntax import UnsupportedError, field_of
from tilewright.proposers.loops.scope import Place, Record, Value, plus, times


def defined_records(node: Node) -> Mapping[str, Record]:
    """The names that a definition gives to a structure. Raises `UnsupportedError`."""
    specifier = node if node.type == "struct_specifier" else node.child_by_field_name("type")
    if specifier is None or specifier.type != "struct_specifier":
        return {}
    body = specifier.child_by_field_name("body")
    if body is None:
        return {}
    tag = specifier.child_by_field_name("name")
    names = [f"struct {text_of(tag)}"] if tag is not None else []
    if node.type == "type_definition":
        names += [text_of(d) for d in node.children_by_field_name("declarator")]
    fields: list[str] = []
    kinds = set()
    for line in body.named_children:
        if line.type == "comment":
            continue
        kinds.add(NAMES.get(text_of(field_of(line, "type"))))
        for declarator in line.children_by_field_name("declarator"):
            if declarator.type != "field_identifier":
                raise UnsupportedError(line, f"the field {text_of(declarator)!r} is not a number")
            fields.append(text_of(declarator))
    (kind, *others) = kinds or {None}
    if kind is None or others:
        raise UnsupportedError(
            node, "only structures whose fields are numbers of one type are supported"
        )
    return dict.fromkeys(names, Record(kind, tuple(fields)))


def type_name(node: Node) -> str:
    """The name of a type without qualifiers."""
    return " ".join(w for w in text_of(node).split() if w not in ("const", "volatile"))


def stride_of(place: Place) -> int:
    """Elements from what a pointer points to, to the next."""
    in_a_row = place.rank - len(place.subscripts) == 1
    return len(place.record.fields) if place.record is not None and in_a_row else 1


def record_at(node: Node, place: Place, index: Value) -> Place:
    """The structure at an index of a pointer to structures that lie in a row."""
    if index.interval is None:
        raise UnsupportedError(node, f"it is not known which structure {text_of(node)!r} is")
    return replace(place, offset=plus(place.offset, times(index, stride_of(place))), whole=True)


def seen_as(place: Place, kind: str, record: Record | None) -> Place | None:
    """A pointer after a cast to numbers or to structures; None where their types differ."""
    if place.whole or place.rank - len(place.subscripts) != 1 or place.type != kind:
        return place if place.record == record and place.type == kind else None
    return replace(place, record=record)
