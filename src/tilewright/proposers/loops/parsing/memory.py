"""Reads calls of `memset`, `memcpy` and `memmove`, and `sizeof`, which determines their sizes.

Before::

    memset(bins, 0, 256 * sizeof(int32_t));

Read as::

    for (int at = 0; at < 256; at++) bins[at] = 0;
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.c_types import BYTES, is_whole
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Element,
    Expr,
    For,
    Negative,
    Number,
    Statement,
    Var,
)
from tilewright.proposers.loops.parsing.functions import Functions
from tilewright.proposers.loops.parsing.records import type_name
from tilewright.proposers.loops.parsing.scope import Place, Value, number, plus
from tilewright.proposers.loops.parsing.syntax import UnsupportedError, field_of, named_type

MEMORY = ("memset", "memcpy", "memmove")
"""Functions of string.h that are supported."""


class Memory(Functions):
    """Reads calls that move or clear whole parts of arrays.

    `pointers` are the parameters of the kernel, whose `sizeof` is that of an address.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pointers: set[str] = set()

    def value(self, node: Node) -> Value:
        """A value with its type, including values of `sizeof`. Raises `UnsupportedError`."""
        return self._size(node) if node.type == "sizeof_expression" else super().value(node)

    def moved(self, node: Node, name: str, arguments: Sequence[Node]) -> list[Statement]:
        """Loops for a call of one of `MEMORY`. Raises `UnsupportedError`."""
        if len(arguments) != 3:
            raise UnsupportedError(node, f"{name} takes three arguments")
        if self._guards:
            raise UnsupportedError(node, f"{name} under a condition is not supported")
        target = self._piece(arguments[0])
        width, size = BYTES.get(target.type, 4), self.constant(arguments[2])
        if size % width:
            raise UnsupportedError(
                node, f"{size} bytes are not a whole number of elements of {target.array}"
            )
        if name == "memset":
            if self.constant(arguments[1]) != 0:
                raise UnsupportedError(node, "memset is supported only with the value 0")
            source = None
        else:
            source = self._piece(arguments[1])
            if source.type != target.type:
                raise UnsupportedError(
                    node, f"{name} is supported only between two arrays of the same type"
                )
        return self._loops(node, target, source, size // width)

    def _piece(self, node: Node) -> Place:
        while node.type == "cast_expression":
            node = field_of(node, "value")
        return self.place(node)

    def _loops(
        self, node: Node, target: Place, source: Place | None, count: int
    ) -> list[Statement]:
        sizes = self._shape(node, target, count)
        if source is not None and self._shape(node, source, count) != sizes:
            raise UnsupportedError(node, "the two arrays have different shapes")
        down = source is not None and self._moves_up(node, source, target, sizes)
        self._printed.append(set())
        names = [self.printed_name("at") for _ in sizes]
        self._printed.pop()
        at = [Value(Var(n), "int", (0, s - 1)) for n, s in zip(names, sizes, strict=True)]
        if down:  # the last element is moved first
            assert source is not None
            last = number(count - 1)
            target = replace(target, offset=plus(target.offset, last))
            source = replace(source, offset=plus(source.offset, last))
            at = [Value(Negative(at[0].expr), "int", (1 - count, 0))]
        value: Expr = Number("0" if is_whole(target.type) else "0.0f")
        if source is not None:
            value = _element(source, at)
        body: Statement = Assign(_element(target, at), value)
        for name, size in zip(reversed(names), reversed(sizes), strict=True):
            body = For(name, 0, size, 1, (body,))
        return [body]

    def _moves_up(self, node: Node, source: Place, target: Place, sizes: tuple[int, ...]) -> bool:
        """Whether elements move to higher addresses of the same array, where they may overwrite
        elements that are moved later.

        Two pieces that begin at unknown places of a row must not overlap.
        """
        if source.array != target.array:
            return False
        if source.offset is None and target.offset is None:
            return False  # the two pieces are the same, or do not overlap
        begin, end = (place.offset or number(0) for place in (source, target))
        terms, moved = linear(Binary("-", end.expr, begin.expr))
        if terms or source.subscripts != target.subscripts or len(sizes) != 1:
            what = "elements move within one array by a number of elements that is not constant"
            raise UnsupportedError(node, what)
        return moved > 0

    def _shape(self, node: Node, place: Place, count: int) -> tuple[int, ...]:
        """Sizes of the loops over `count` elements that begin at a place."""
        open_sizes = self._sizes.get(place.array, ())[len(place.subscripts) :]
        if len(open_sizes) <= 1 or place.offset is not None:
            if len(place.subscripts) + 1 != place.rank:
                raise UnsupportedError(node, "a part of several rows is not supported")
            if open_sizes and place.offset is None and count > open_sizes[0]:
                raise UnsupportedError(node, f"this extends beyond the end of {place.array}")
            return (count,)
        if math.prod(open_sizes) != count:
            raise UnsupportedError(node, f"this is only a part of {place.array}")
        return open_sizes

    def _size(self, node: Node) -> Value:
        """The value of `sizeof`, a number of bytes."""
        declared = node.child_by_field_name("type")
        if declared is not None and declared.child_by_field_name("declarator") is None:
            name = text_of(field_of(declared, "type"))
            if (record := self.records.get(type_name(field_of(declared, "type")))) is not None:
                return self._bytes(record.type, record.size)
            if self.scope.find(name) is None:
                return self._bytes(named_type(field_of(declared, "type")), 1)
        inner = node.child_by_field_name("value")
        while inner is not None and inner.type == "parenthesized_expression":
            inner = inner.named_children[0]
        record = self.records.get(text_of(inner)) if inner is not None else None
        if record is not None:  # the grammar parses the name of a type as a variable
            return self._bytes(record.type, record.size)
        if inner is None or inner.type not in (
            "identifier",
            "subscript_expression",
            "pointer_expression",
        ):
            raise UnsupportedError(node, f"{text_of(node)!r} is not supported")
        if inner.type == "identifier" and text_of(inner) in self.pointing:
            raise UnsupportedError(node, f"{text_of(node)!r} is the size of an address")
        place = self.place(inner)
        sizes = self._sizes.get(place.array, ())[len(place.subscripts) :]
        if len(place.subscripts) == place.rank:
            return self._bytes(place.type, 1)
        address = place.array in self.pointers and not place.subscripts
        if self._calls or place.offset is not None or not sizes or address:
            raise UnsupportedError(node, f"{text_of(node)!r} is the size of an address")
        return self._bytes(place.type, math.prod(sizes))

    def _bytes(self, kind: str, count: int) -> Value:
        return replace(number(BYTES.get(kind, 4) * count), type="uint64_t", retyped=True)


def _element(place: Place, at: Sequence[Value]) -> Element:
    first = plus(place.offset, at[0])
    return Element(place.array, (*place.subscripts, first.expr, *(v.expr for v in at[1:])))
