"""Named integer constants: those of the file and of `enum`s."""

from __future__ import annotations

from tree_sitter import Node

from tilewright.proposers.c.syntax import pointer_levels, text_of
from tilewright.proposers.rewriter.c_types import INTEGER_TYPES
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.lifting.braces import ENTRIES, initial
from tilewright.proposers.rewriter.lifting.narrow_integers import is_narrow
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled
from tilewright.proposers.rewriter.lifting.values import Reader


def declare_constants(root: Node, reader: Reader) -> None:
    """Constants that the file declares outside its functions."""
    for node in root.named_children:
        if node.type == "enum_specifier":
            declare_enumerators(node, reader)
        elif node.type == "type_definition" or node.type == "declaration":
            for child in node.named_children:
                if child.type == "enum_specifier":
                    declare_enumerators(child, reader)
            kind = node.child_by_field_name("type")
            if "const" in text_of(node).split() and kind is not None:
                for item in node.children_by_field_name("declarator"):
                    _declare_constant(item, type_name(kind), reader)


def _declare_constant(item: Node, kind: str, reader: Reader) -> None:
    value = item.child_by_field_name("value")
    if value is not None:
        name, sizes = pointer_levels(item)
        try:
            reader.scope.declare(name, initial(reader, kind, sizes, value))
        except NotModelled:
            return


def type_name(kind: Node) -> str:
    """The name of a type, which may also be defined here."""
    tag = kind.child_by_field_name("name")
    return f"struct {text_of(tag)}" if kind.type == "struct_specifier" and tag else text_of(kind)


def structures(root: Node) -> dict[str, dict[str, str]]:
    """The fields of each structure type that the file declares, by the names of the type."""
    found: dict[str, dict[str, str]] = {}
    for node in root.named_children:
        kind = node if node.type == "struct_specifier" else node.child_by_field_name("type")
        body = kind.child_by_field_name("body") if kind is not None else None
        if kind is None or kind.type != "struct_specifier" or body is None:
            continue
        fields: dict[str, str] = {}
        for member in body.named_children:
            inner = member.child_by_field_name("type")
            for item in member.children_by_field_name("declarator"):
                held = item.child_by_field_name("declarator")
                if item.type == "array_declarator" and inner is not None and held is not None:
                    entries = held.type == "field_identifier" and _is_whole(text_of(inner))
                    fields[field_name(held) if entries else ""] = ENTRIES
                    continue
                plain = item.type == "field_identifier" and inner is not None
                fields[field_name(item)] = type_name(inner) if plain and inner is not None else ""
        if "" in fields:
            continue  # arrays of other types and bit fields are not followed
        tag = kind.child_by_field_name("name")
        if tag is not None:
            found[f"struct {text_of(tag)}"] = fields
        if node.type == "type_definition":
            found |= {text_of(d): fields for d in node.children_by_field_name("declarator")}
    return found


def _is_whole(kind: str) -> bool:
    """Whether a type is an integer type whose range no arithmetic here exceeds."""
    return bool(set(kind.split()) & INTEGER_TYPES) and not is_narrow(kind)


def field_name(item: Node) -> str:
    """The name of a field or a pointer in a structure; "" for any other declarator."""
    while item.type == "pointer_declarator":
        inner = item.child_by_field_name("declarator")
        if inner is None:
            return ""
        item = inner
    return text_of(item) if item.type == "field_identifier" else ""


def declare_enumerators(node: Node, reader: Reader) -> None:
    """The constants of an `enum`."""
    body = node.child_by_field_name("body")
    following = Expr(0)
    for item in body.named_children if body is not None else []:
        name, value = item.child_by_field_name("name"), item.child_by_field_name("value")
        if name is not None:
            following = reader.integer(value) if value is not None else following
            reader.scope.declare(text_of(name), following)
            following = following + 1
