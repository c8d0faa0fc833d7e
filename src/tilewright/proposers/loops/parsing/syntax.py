"""The errors with which a construct of C is refused, and functions on syntax trees."""

from __future__ import annotations

from typing import TypeAlias

from tree_sitter import Node

from tilewright.core.errors import InputError
from tilewright.proposers.c.syntax import descendants, text_of
from tilewright.proposers.loops.c_types import NAMES
from tilewright.proposers.loops.ir import Type

Cut: TypeAlias = tuple[int, int]
"""The position of a loop, and the first value of its variable in the second part of the loop."""

_SHOWN = 200
"""Maximum number of characters of an unsupported construct that are quoted."""


class UnsupportedError(InputError):
    """A construct that the intermediate form does not support; `line` is its line."""

    def __init__(self, node: Node, what: str) -> None:
        self.line = node.start_point[0] + 1
        self.what = what if len(what) <= _SHOWN else f"{what[:_SHOWN]}..."
        super().__init__(f"line {self.line}: {self.what}.")


class NotFollowedError(UnsupportedError):
    """An integer cannot be followed, so the variable `name` must be kept."""

    def __init__(self, node: Node, name: str, what: str) -> None:
        super().__init__(node, what)
        self.name = name


class FlatError(UnsupportedError):
    """The elements of several rows of `array` are used as one row."""

    def __init__(self, node: Node, array: str, what: str) -> None:
        super().__init__(node, what)
        self.array = array


class ShortAtEndError(UnsupportedError):
    """An inner loop has fewer iterations in the last iteration of a `loop` around it than in the
    others."""

    def __init__(self, node: Node, loop: Node, what: str) -> None:
        super().__init__(node, what)
        self.place = loop.start_byte


class SplitError(UnsupportedError):
    """A condition decides whether an element exists. It has the same result in all iterations of
    each part of a loop around it if the loop is split at `cut`.
    """

    def __init__(self, node: Node, cut: Cut, what: str) -> None:
        super().__init__(node, what)
        self.cut = cut


def field_of(node: Node, name: str) -> Node:
    """A part of a node by its name in the grammar. A node without it is refused."""
    found = node.child_by_field_name(name)
    if found is None:
        raise UnsupportedError(node, f"{text_of(node)[:40]!r} is not complete")
    return found


def bare(node: Node) -> Node:
    """An expression without the parentheses around it."""
    while node.type == "parenthesized_expression":
        node = node.named_children[0]
    return node


def has_effects(node: Node) -> bool:
    """Whether an expression may change something, so that it is computed only once."""
    effects = ("call_expression", "assignment_expression", "update_expression")
    return any(n.type in effects for n in descendants(node))


def inside(node: Node) -> list[Node]:
    """The statements of a block, or the single statement in its place."""
    inner = node.named_children if node.type == "compound_statement" else [node]
    return [n for n in inner if n.type not in ("comment", ";")]


def named_type(node: Node) -> Type:
    """The number type that a node names. Raises `UnsupportedError`."""
    words = [w for w in text_of(node).split() if w not in ("const", "volatile")]
    found = NAMES.get(" ".join(words))
    if found is None:
        raise UnsupportedError(node, f"the type {text_of(node)!r} is not supported")
    return found


def operator_of(node: Node) -> str:
    """The operator of an expression or an assignment."""
    return text_of(field_of(node, "operator"))


def is_constant(declaration: Node) -> bool:
    """Whether a declaration contains `const`."""
    words = (c for c in declaration.children if c.type == "type_qualifier")
    return any(text_of(word) == "const" for word in words)
