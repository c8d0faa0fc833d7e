"""Reads constant arrays of numbers, such as the weights of a stencil.

Before::

    static const float w[2][2] = {{0.5f, 0.25f}, {0.25f}};

Wherever such an array is declared, it is read as statements at the beginning of the kernel::

    float w_1[2][2];
    w_1[0][0] = 0.5f;
    w_1[0][1] = 0.25f;
    w_1[1][0] = 0.25f;
    w_1[1][1] = 0.0f;

An array with more values stays a static array with all its values.

Compilers convert the elements that are read back to constants.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from tree_sitter import Node

from tilewright.proposers.c.syntax import pointer_levels
from tilewright.proposers.loops.analysis.changes import fresh
from tilewright.proposers.loops.c_types import is_whole
from tilewright.proposers.loops.ir import (
    Assign,
    Call,
    Declare,
    Element,
    Expr,
    Number,
    Parameter,
    Statement,
    Type,
    Var,
    walk,
)
from tilewright.proposers.loops.parsing.arithmetic import converted, printed
from tilewright.proposers.loops.parsing.characters import characters
from tilewright.proposers.loops.parsing.expressions import Expressions
from tilewright.proposers.loops.parsing.scope import Place
from tilewright.proposers.loops.parsing.syntax import UnsupportedError, field_of

_STRINGS = ("string_literal", "concatenated_string")
_MOST_STATEMENTS = 64
"""Maximum number of values of one array that become statements of the kernel."""
_MOST_VALUES = 4096


class Tables(Expressions):
    """Reads arrays that are `const` and initialised.

    `tables` are the statements that set all of them. `names` are the names in the source and those
    printed so far, which a new name of the whole kernel must not equal. `declared` counts the
    declarations of each name. `constant_arrays` are the arrays with too many values.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[Statement] = []
        self.constant_arrays: list[Parameter] = []
        self.declared: Counter[str] = Counter()
        self.names: set[str] = set()
        self._given: set[str] = set()
        self._known: dict[int, Place] = {}

    def table(self, node: Node, declarator: Node, kind: Type) -> None:
        """Declare an array with its values. Raises `UnsupportedError`."""
        name, levels = pointer_levels(field_of(declarator, "declarator"))
        if declarator.start_byte not in self._known:  # a function is read again for each call
            value = field_of(declarator, "value")
            first = _length(value) if levels[0] is None else self.constant(levels[0])
            sizes = (first, *(self.constant(s) for s in levels[1:] if s is not None))
            if len(sizes) != len(levels) or math.prod(sizes) > _MOST_VALUES:
                message = f"{name} has unknown sizes or more than {_MOST_VALUES} values"
                raise UnsupportedError(node, message)
            self._known[declarator.start_byte] = self._filled(node, name, sizes, kind, value)
        self.scope.declare(name, self._known[declarator.start_byte])

    def printed_name(self, name: str) -> str:
        """A name for a variable that does not hide a visible variable of the kernel."""
        found = super().printed_name(name)
        self.names.add(found)
        self._given.add(found)
        return found

    def _filled(
        self, node: Node, name: str, sizes: tuple[int, ...], kind: Type, value: Node
    ) -> Place:
        large = math.prod(sizes) > _MOST_STATEMENTS
        alone = self.declared[name] == 1 and name not in self._given
        new = name if large and alone else fresh(name, self.names)
        self._printed[0].add(new)
        self._sizes[new] = sizes
        places = [*itertools.product(*map(range, sizes))]
        items: Mapping[tuple[int, ...], Node | int] = (
            _characters(node, value, sizes)
            if value.type in _STRINGS
            else initial(node, value, sizes)
        )
        if large:
            values = tuple(self._number(items.get(place), kind) for place in places)
            self.constant_arrays.append(Parameter(new, sizes, True, kind, values=values))
            return Place(new, kind, len(sizes), constant=True)
        self.tables.append(Declare(kind, new, sizes))
        for place in places:
            at = tuple(Number(str(index)) for index in place)
            self.tables.append(Assign(Element(new, at), self._number(items.get(place), kind)))
        return Place(new, kind, len(sizes))

    def _number(self, item: Node | int | None, kind: Type) -> Expr:
        if isinstance(item, int):
            return Number(str(item))
        if item is None:  # C sets missing values to zero
            return Number("0" if is_whole(kind) else "0.0f")
        found = printed(converted(item, self.value(item), kind))
        if any(isinstance(e, (Var, Element, Call)) for e in walk(found)):
            raise UnsupportedError(item, "the values of a constant array are not all numbers")
        return found


def is_table(declarator: Node) -> bool:
    """Whether a declarator is an array with a list of its values."""
    value = declarator.child_by_field_name("value")
    array = declarator.child_by_field_name("declarator")
    listed = value is not None and value.type in ("initializer_list", *_STRINGS)
    return listed and array is not None and array.type == "array_declarator"


def _items(listed: Node) -> list[Node]:
    return [c for c in listed.named_children if c.type != "comment"]


def _length(value: Node) -> int:
    """Number of values that a list or a string gives. A string ends with a zero."""
    if value.type == "initializer_list":
        return len(_items(value))
    return len(_text(value)) + 1


def _text(value: Node) -> bytes:
    """The characters of a string. Raises `UnsupportedError`."""
    parts = value.named_children if value.type == "concatenated_string" else [value]
    return bytes(c for part in parts for c in characters(part))


def _characters(node: Node, value: Node, sizes: Sequence[int]) -> dict[tuple[int, ...], int]:
    found = _text(value)
    if len(sizes) != 1 or len(found) > sizes[0]:
        raise UnsupportedError(node, "a string is longer than its array")
    return {(place,): character for place, character in enumerate(found)}


def initial(node: Node, listed: Node, sizes: Sequence[int]) -> dict[tuple[int, ...], Node]:
    """The values that a list gives to elements of an array, by subscripts. Those that are missing
    are zero. Raises `UnsupportedError`."""
    items = _items(listed)
    nested = {item.type == "initializer_list" for item in items}
    paired = any(item.type == "initializer_pair" for item in items)
    if paired or len(nested) > 1 or (nested == {True} and len(sizes) == 1):
        raise UnsupportedError(node, "the initial values of an array have an unsupported form")
    places = [*itertools.product(*map(range, sizes[:1] if nested == {True} else sizes))]
    if len(items) > len(places):
        raise UnsupportedError(node, "an array has more values than elements")
    found: dict[tuple[int, ...], Node] = {}
    for place, item in zip(places, items, strict=False):
        if nested == {True}:
            inner = initial(node, item, sizes[1:])
            found |= {(*place, *at): value for at, value in inner.items()}
        else:
            found[place] = item
    return found
