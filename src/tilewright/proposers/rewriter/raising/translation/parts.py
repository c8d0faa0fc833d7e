"""Parts of a translated C file and of its syntax tree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from tilewright.proposers.c.syntax import descendants, text_of
from tilewright.proposers.rewriter.raising.types import (
    DOUBLE,
    FLOAT,
    INT,
    Number,
    Pointer,
    Type,
)

ENTRY = "kernel"
SPACING = 1 << 40
"""Distance in bytes between the addresses of two arguments: argument n is at (n + 1) * SPACING."""
FUNCTIONS = 1 << 16
"""The address of the first function of the file; the following ones have the next addresses."""
OWN = 1 << 62
"""The first address of the kernel's own arrays, which have the same distance."""


class Untranslated(Exception):
    """A construct that cannot be executed here; `line` is its line."""

    def __init__(self, node: Node, what: str) -> None:
        self.line = node.start_point[0] + 1
        self.what = what
        super().__init__(f"line {self.line}: {what}")


@dataclass(frozen=True, slots=True)
class Place:
    """The target of an assignment: a Python variable, or the code of an address."""

    code: str
    kind: Type
    in_memory: bool


@dataclass(frozen=True, slots=True)
class Own:
    """An array of numbers of the kernel that commands may load and store.

    If it is `static`, it keeps its values from call to call. If it is `outside` of functions, the
    file's text declares it. If it is `constant`, this text also contains its values.
    """

    name: str
    of: Number
    shape: tuple[int, ...]
    static: bool
    outside: bool
    constant: bool = False

    @property
    def bytes(self) -> int:
        """Number of bytes of all elements."""
        return self.of.bytes * math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the file: its parameters with their types, its return type, and its body."""

    name: str
    parameters: tuple[tuple[str, Type], ...]
    result: Type | None
    body: Node


def literal(node: Node) -> tuple[str, Type | None]:
    """Python code of a number or character, and the type that C gives it."""
    text = text_of(node).lower().replace("'", "") if node.type == "number_literal" else ""
    if node.type == "char_literal":
        inner = text_of(node)[1:-1]
        if len(inner) != 1:
            raise Untranslated(node, f"the character constant {text_of(node)} is not supported")
        return str(ord(inner)), INT
    hexadecimal = text.startswith("0x")
    if not hexadecimal and any(c in text for c in ".ef"):
        single = text.endswith("f")
        return repr(float(text.rstrip("fl"))), FLOAT if single else DOUBLE
    digits = text.rstrip("ul")
    suffix = text[len(digits) :]
    try:
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdecimal()
        value = int(digits, 8 if octal else 0)
    except ValueError as error:
        raise Untranslated(node, f"the number {text!r} is not supported") from error
    unsigned, long = "u" in suffix, "l" in suffix
    kinds = [Number(4), Number(4, signed=False), Number(8), Number(8, signed=False)]
    for kind in kinds:
        if (unsigned and kind.signed) or (long and kind.bytes < 8):
            continue
        if not kind.signed and not (unsigned or hexadecimal or octal):
            continue
        if value < 1 << (8 * kind.bytes - kind.signed):
            return str(value), kind
    raise Untranslated(node, f"the number {text!r} fits no integer type")


def pointee(kind: Type | None, node: Node) -> Type:
    """The type to which a pointer of this type points; bytes if it is unknown."""
    if isinstance(kind, Pointer) and kind.to is not None:
        return kind.to
    if isinstance(kind, Pointer):
        return Number(1)
    raise Untranslated(node, f"{text_of(node)!r} is not a pointer")


def addressed(body: Node) -> Iterator[str]:
    """Variables whose address is taken."""
    for node in descendants(body):
        if node.type == "pointer_expression" and text_of(node).startswith("&"):
            inner = field_of(node, "argument")
            while inner.type in ("parenthesized_expression", "field_expression"):
                inner = inner.named_children[0]
            if inner.type == "identifier":
                yield text_of(inner)


def field_of(node: Node, name: str) -> Node:
    """The child of a node under a name of the grammar; `Untranslated` if there is none."""
    child = node.child_by_field_name(name)
    if child is None:
        raise Untranslated(node, f"this {node.type.replace('_', ' ')} has no {name}")
    return child
