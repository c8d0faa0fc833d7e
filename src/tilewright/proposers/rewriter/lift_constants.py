"""Named integer constants: those of the file and of `enum`s."""

from __future__ import annotations

from tree_sitter import Node

from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.lift_scope import NotModelled
from tilewright.proposers.rewriter.lift_syntax import declared_name, text_of
from tilewright.proposers.rewriter.lift_values import Reader


def declare_constants(root: Node, reader: Reader) -> None:
    """Constants that the file declares outside its functions."""
    for node in root.named_children:
        if node.type == "enum_specifier":
            declare_enumerators(node, reader)
        elif node.type == "type_definition" or node.type == "declaration":
            for child in node.named_children:
                if child.type == "enum_specifier":
                    declare_enumerators(child, reader)
            if "const" in text_of(node).split():
                for item in node.children_by_field_name("declarator"):
                    value = item.child_by_field_name("value")
                    if value is not None:
                        try:
                            reader.scope.declare(declared_name(item), reader.value(value))
                        except NotModelled:
                            continue


def structures(root: Node) -> dict[str, tuple[str, ...]]:
    """The fields of each structure type that the file declares, by the names of the type."""
    found: dict[str, tuple[str, ...]] = {}
    for node in root.named_children:
        kind = node if node.type == "struct_specifier" else node.child_by_field_name("type")
        body = kind.child_by_field_name("body") if kind is not None else None
        if kind is None or kind.type != "struct_specifier" or body is None:
            continue
        items = [
            i
            for member in body.named_children
            if member.type == "field_declaration"
            for i in member.children_by_field_name("declarator")
        ]
        if any(i.type != "field_identifier" for i in items):
            continue  # pointers and arrays in structures are not followed
        names = tuple(text_of(i) for i in items)
        tag = kind.child_by_field_name("name")
        if tag is not None:
            found[f"struct {text_of(tag)}"] = names
        if node.type == "type_definition":
            found |= {text_of(d): names for d in node.children_by_field_name("declarator")}
    return found


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
