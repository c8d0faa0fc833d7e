"""Initial values in braces for arrays and structures, which can be nested."""

from __future__ import annotations

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.lifting.narrow_integers import stored
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled, Record, Table, Value
from tilewright.proposers.rewriter.lifting.values import Reader

ENTRIES = "[]"
"""The type of a field that is an array of integers, in the form of `structures`."""
LONGEST = 256
"""Maximum number of entries of an array that is followed entry by entry."""


def initial(reader: Reader, kind: str, sizes: list[Node | None], given: Node) -> Value:
    """The initial value of a variable, or of an array of a type."""
    if given.type != "initializer_list":
        return stored(kind, reader.value(given), reader.scope.ranges)
    items = [e for e in given.named_children if e.type != "comment"]
    if sizes:
        if any(i.type == "initializer_pair" for i in items):
            raise NotModelled("this form of initializer list is not supported")
        values = [initial(reader, kind, sizes[1:], i) for i in items]
        size = length(reader, sizes[0]) if sizes[0] is not None else len(values)
        if not 0 < len(values) <= size:
            raise NotModelled("this form of initializer list is not supported")
        return Table((*values, *(Expr(0) for _ in range(size - len(values)))))
    if kind not in reader.scope.records:
        raise NotModelled("this form of initializer list is not supported")
    return _record(reader, kind, items)


def _numbers(reader: Reader, items: list[Node]) -> Table:
    """The given entries of an array in a structure; the others are not followed."""
    if not items or any(i.type == "initializer_pair" for i in items):
        raise NotModelled("this form of initializer list is not supported")
    return Table(tuple(reader.value(i) for i in items))


def unset(reader: Reader, kind: str) -> Record:
    """A structure whose fields have no values yet."""
    fields = reader.scope.records[kind]
    return Record(
        tuple(
            (name, unset(reader, inner) if inner in reader.scope.records else None)
            for name, inner in fields.items()
        )
    )


def length(reader: Reader, size: Node | None) -> int:
    """The number of entries of an array with this size."""
    extent = reader.integer(size) if size is not None else None
    if extent is None or not extent.is_const or not 0 < extent.const <= LONGEST:
        raise NotModelled("the size of an array is not a constant")
    return extent.const


def _record(reader: Reader, kind: str, items: list[Node]) -> Record:
    """A structure. Fields that are not given are 0."""
    fields = reader.scope.records[kind]
    if len(items) > len(fields):
        raise NotModelled(f"the initializer does not match the structure {kind}")
    values: dict[str, Value | None] = {
        n: _record(reader, k, []) if k in reader.scope.records else Expr(0)
        for n, k in fields.items()
    }
    for name, item in zip(fields, items, strict=False):
        if item.type == "initializer_pair":
            named, value = item.child_by_field_name("designator"), item.child_by_field_name("value")
            if named is None or value is None:
                raise NotModelled(f"the initializer does not match the structure {kind}")
            name, item = text_of(named).lstrip("."), value
        if name not in fields:
            raise NotModelled(f"the initializer does not match the structure {kind}")
        if fields[name] == ENTRIES and item.type == "initializer_list":
            values[name] = _numbers(reader, [e for e in item.named_children if e.type != "comment"])
        else:
            values[name] = initial(reader, fields[name], [], item)
    return Record(tuple(values.items()))
