"""Reads pointers to structures as arrays of their fields.

Before::

    struct point { float x, y; };
    void kernel(const struct point *p, float *size) {
      for (int i = 0; i < 64; i++) size[i] = p[i].x * p[i].x + p[i].y * p[i].y;
    }

Read as::

    void kernel(const float *p, float *size) {
      for (int i = 0; i < 64; i++) size[i] = p[i * 2] * p[i * 2] + p[i * 2 + 1] * p[i * 2 + 1];
    }

The fields of a structure may also be arrays, such as `struct points { float x[64], y[64]; }`. The
element `p->y[i]` is then `p[64 + i]`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import descendants, pointer_levels, text_of
from tilewright.proposers.loops.c_types import NAMES
from tilewright.proposers.loops.ir import Type
from tilewright.proposers.loops.parsing.scope import Bundle, Place, Record, Value, plus, times
from tilewright.proposers.loops.parsing.syntax import UnsupportedError, bare, field_of


def records_used(node: Node, root: Node, constant: Callable[[Node], int]) -> Mapping[str, Bundle]:
    """The names that a definition in a file gives to a structure.

    `constant` reads the sizes of arrays. Raises `UnsupportedError` if the definition is not
    understood, unless nothing in the file uses it.
    """
    try:
        return defined_records(node, constant)
    except UnsupportedError:
        specifier = node.child_by_field_name("type") or node
        tag = specifier.child_by_field_name("name")
        names = [*([tag] if tag is not None else []), *node.children_by_field_name("declarator")]
        own = {text_of(name) for name in names}
        within = range(node.start_byte, node.end_byte)
        if any(
            n.type == "type_identifier" and text_of(n) in own and n.start_byte not in within
            for n in descendants(root)
        ):
            raise
        return {}


def defined_records(node: Node, constant: Callable[[Node], int]) -> Mapping[str, Bundle]:
    """The names that a definition gives to a structure. Raises `UnsupportedError`."""
    specifier = node if node.type == "struct_specifier" else node.child_by_field_name("type")
    if specifier is None or specifier.type != "struct_specifier":
        return {}
    body = specifier.child_by_field_name("body")
    if body is None:
        return {}
    if any(map(_changes_layout, descendants(node))):
        raise UnsupportedError(node, "a structure with bit-fields or alignments is not supported")
    tag = specifier.child_by_field_name("name")
    names = [f"struct {text_of(tag)}"] if tag is not None else []
    if node.type == "type_definition":
        names += [text_of(d) for d in node.children_by_field_name("declarator")]
    fields: list[tuple[str, Type, bool]] = []
    shapes: list[tuple[int, ...]] = []
    for line in body.named_children:
        if line.type == "comment":
            continue
        kind = NAMES.get(type_name(field_of(line, "type")))
        for declarator in line.children_by_field_name("declarator"):
            pointer = declarator.type == "pointer_declarator"
            target = field_of(declarator, "declarator") if pointer else declarator
            named, sizes = (target, ()) if pointer else _without_sizes(target, constant)
            if kind is None or named.type != "field_identifier":
                what = (
                    f"the field {text_of(declarator)!r} is neither a number, nor a pointer to one, "
                    "nor an array of numbers"
                )
                raise UnsupportedError(line, what)
            fields.append((text_of(named), kind, pointer))
            shapes.append(sizes)
    if not fields:
        raise UnsupportedError(node, "a structure without fields is not supported")
    found = Bundle(tuple(fields), shapes=tuple(shapes) if any(shapes) else ())
    if found.shapes and found.record is None:
        what = "a structure with arrays is supported only if all its numbers have one type"
        raise UnsupportedError(node, what)
    return dict.fromkeys(names, found)


def _without_sizes(
    declarator: Node, constant: Callable[[Node], int]
) -> tuple[Node, tuple[int, ...]]:
    """The name in the declarator of an array, and the sizes of the array."""
    sizes: list[int] = []
    while declarator.type == "array_declarator":
        size = declarator.child_by_field_name("size")
        if size is None:
            raise UnsupportedError(declarator, f"the size of {text_of(declarator)!r} is not given")
        sizes.insert(0, constant(size))
        declarator = field_of(declarator, "declarator")
    return declarator, tuple(sizes)


def _changes_layout(node: Node) -> bool:
    """Whether fields do not follow each other as numbers of their types do."""
    if node.type == "attribute_specifier":  # `packed` removes gaps; fields of one type have none
        return "aligned" in text_of(node)
    return node.type in ("bitfield_clause", "alignas_qualifier", "attribute_declaration")


def fields_in_order(listed: Node, names: Sequence[str]) -> list[Node | None] | None:
    """The values of a structure in the order of its fields. A value is None if C sets it to zero.

    The result is None if the values are given in an unknown form.
    """
    given: dict[str, Node] = {}
    for place, item in enumerate(c for c in listed.named_children if c.type != "comment"):
        name = names[place] if place < len(names) else ""
        if item.type == "initializer_pair":
            name = text_of(field_of(item, "designator")).removeprefix(".").strip()
            item = field_of(item, "value")
        elif given.keys() != {*names[:place]}:
            return None  # some have names, the positions of others follow from these
        if item.type == "initializer_list" or name not in names or name in given:
            return None
        given[name] = item
    return [given.get(name) for name in names]


def assigned_fields(root: Node) -> Iterator[str]:
    """The names of the fields that a file assigns, or whose address it takes."""
    for node in descendants(root):
        target = None
        if node.type == "assignment_expression":
            target = node.child_by_field_name("left")
        elif node.type in ("update_expression", "pointer_expression"):
            target = node.child_by_field_name("argument")
        while target is not None and target.type == "parenthesized_expression":
            target = target.named_children[0]
        if target is not None and target.type == "field_expression":
            yield text_of(field_of(target, "field"))


def types_assigned_whole(root: Node) -> frozenset[str]:
    """The names of the types of variables that a file assigns, such as `v = (struct point){1, 2}`.

    Variables of the same name are not distinguished.
    """
    targets = (
        bare(field_of(n, "left")) for n in descendants(root) if n.type == "assignment_expression"
    )
    changed = {text_of(target) for target in targets if target.type == "identifier"}
    return frozenset(
        type_name(field_of(node, "type"))
        for node in descendants(root)
        if node.type in ("declaration", "parameter_declaration")
        and any(pointer_levels(d)[0] in changed for d in node.children_by_field_name("declarator"))
    )


def first_set_fields(root: Node) -> frozenset[str]:
    """The names of the fields whose only changes are first values, assigned after the declaration.

    Each is `name.field = value;` in the block that declares the structure `name` without a value,
    once in this block.
    """
    counted = Counter(assigned_fields(root))
    first: Counter[str] = Counter()
    for block in (n for n in descendants(root) if n.type == "compound_statement"):
        declared: set[str] = set()
        seen: set[tuple[str, str]] = set()
        for line in block.named_children:
            if line.type == "declaration":
                names = line.children_by_field_name("declarator")
                declared |= {text_of(n) for n in names if n.type == "identifier"}
            found = line.named_children if line.type == "expression_statement" else []
            inner = found[0] if found else None  # an empty statement has none
            if inner is None or inner.type != "assignment_expression":
                continue
            target = field_of(inner, "left")
            if target.type != "field_expression" or text_of(field_of(inner, "operator")) != "=":
                continue
            of, field = (text_of(field_of(target, part)) for part in ("argument", "field"))
            if of in declared and (of, field) not in seen and "->" not in text_of(target):
                seen.add((of, field))
                first[field] += 1
    return frozenset(field for field, count in counted.items() if first[field] == count)


def type_name(node: Node) -> str:
    """The name of a type without qualifiers."""
    return " ".join(w for w in text_of(node).split() if w not in ("const", "volatile"))


def stride_of(place: Place) -> int:
    """Number of elements from one element that a pointer can point to, to the next."""
    if place.rows:
        return math.prod(place.rows)
    in_a_row = place.rank - len(place.subscripts) == 1
    return place.record.size if place.record is not None and in_a_row else 1


def record_at(node: Node, place: Place, index: Value) -> Place:
    """The structure at an index of a pointer to consecutive structures."""
    if index.interval is None:
        raise UnsupportedError(node, f"it is not known which structure {text_of(node)!r} is")
    return replace(place, offset=plus(place.offset, times(index, stride_of(place))), whole=True)


def member_name(node: Node) -> str:
    """The name of the variable for the field of a structure variable."""
    of, field = bare(field_of(node, "argument")), field_of(node, "field")
    return f"{text_of(of)}{text_of(field_of(node, 'operator'))}{text_of(field)}"


def seen_as(
    place: Place, kind: str, record: Record | None, sizes: Sequence[int] = ()
) -> Place | None:
    """A pointer after a cast to numbers or to structures; None if their types differ.

    Each row of an array of these `sizes` is a structure if it has as many numbers as the fields.
    Otherwise, the pointer to rows stays as it is, so that the caller asks for an array without
    rows.
    """
    dimensions = place.rank - len(place.subscripts)
    plain = (place.type, place.record, place.whole) == (kind, None, False)
    if record is not None and dimensions > 1 and plain:
        fits = dimensions == 2 and sizes[-1] == record.size
        return replace(place, record=record) if fits else place
    if place.whole or dimensions != 1 or place.type != kind:
        return place if place.record == record and place.type == kind else None
    return replace(place, record=record)
