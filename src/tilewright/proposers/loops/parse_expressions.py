"""Expressions of C text in the small form, and how a construct is refused."""

from __future__ import annotations

import re

from tree_sitter import Node

from tilewright.core.errors import InputError
from tilewright.proposers.loops.functions import VECTOR_OF, is_vector_function
from tilewright.proposers.loops.ir import (
    Address,
    Binary,
    Call,
    Element,
    Expr,
    Load,
    Negative,
    Number,
    Var,
)

_NUMBER = re.compile(
    r"0|[1-9]\d*"  # not octal, hexadecimal or with a suffix: whole numbers mean what they say
    r"|(?:(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)[fF]?"
)


class UnsupportedError(InputError):
    """A construct that the small form does not have; `line` is its own."""

    def __init__(self, node: Node, what: str) -> None:
        self.line = node.start_point[0] + 1
        self.what = what
        super().__init__(f"line {self.line}: {what}.")


def source_of(node: Node) -> str:
    """C text of a node."""
    return (node.text or b"").decode()


def field_of(node: Node, name: str) -> Node:
    """A part of a node by its name in the grammar; what lacks it is refused."""
    found = node.child_by_field_name(name)
    if found is None:
        raise UnsupportedError(node, f"{source_of(node)[:40]!r} is not complete")
    return found


def constant(node: Node) -> int:
    """A whole decimal number."""
    number = re.fullmatch(r"-?(?:0|[1-9]\d*)", source_of(node))
    if number is None:
        raise UnsupportedError(node, f"{source_of(node)!r} is no whole decimal number")
    return int(number.group())


def expression(node: Node) -> Expr:
    """A value, or what an assignment writes. Raises `UnsupportedError`."""
    if node.type == "parenthesized_expression":
        return expression(node.named_children[0])
    if node.type == "identifier":
        return Var(source_of(node))
    if node.type == "number_literal" and _NUMBER.fullmatch(source_of(node)):
        return Number(source_of(node))
    if node.type == "subscript_expression":
        return Element(*_subscripts(node))
    if node.type == "unary_expression" and source_of(field_of(node, "operator")) == "-":
        return Negative(expression(field_of(node, "argument")))
    if node.type == "binary_expression" and source_of(field_of(node, "operator")) in "+-*/%":
        left, right = expression(field_of(node, "left")), expression(field_of(node, "right"))
        return Binary(source_of(field_of(node, "operator")), left, right)
    if node.type == "pointer_expression":
        return _load(node)
    if node.type == "call_expression":
        return _call(node)
    raise UnsupportedError(node, f"the expression {source_of(node)!r} is not known")


def argument(node: Node) -> Expr:
    """Of a command: a number, an expression, or an address."""
    if node.type == "pointer_expression" and source_of(node).startswith("&"):
        inner = node.named_children[0]
        return Address(*_subscripts(inner))
    return expression(node)


def _subscripts(node: Node) -> tuple[str, tuple[Expr, ...]]:
    found: list[Expr] = []
    while node.type == "subscript_expression":
        found.insert(0, expression(field_of(node, "index")))
        node = field_of(node, "argument")
    if node.type != "identifier":
        raise UnsupportedError(node, f"{source_of(node)!r} is no array")
    return source_of(node), tuple(found)


def _load(node: Node) -> Load:
    """*(vf *)&array[...], with or without const."""
    cast_node = node.named_children[-1]
    if cast_node.type == "cast_expression" and source_of(field_of(cast_node, "type")) in (
        "const vf *",
        "vf *",
    ):
        address = field_of(cast_node, "value")
        if address.type == "pointer_expression" and source_of(address).startswith("&"):
            return Load(*_subscripts(address.named_children[-1]))
    raise UnsupportedError(node, f"the pointer {source_of(node)!r} is not known")


def _call(node: Node) -> Call:
    name = source_of(field_of(node, "function"))
    if name not in VECTOR_OF and not is_vector_function(name):
        raise UnsupportedError(node, f"the function {name} is not known")
    arguments = field_of(node, "arguments").named_children
    return Call(name, tuple(expression(a) for a in arguments))
