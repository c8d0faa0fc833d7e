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
from collections.abc import Sequence

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
from tilewright.proposers.loops.parsing.expressions import Expressions
from tilewright.proposers.loops.parsing.scope import Place
from tilewright.proposers.loops.parsing.syntax import UnsupportedError, field_of

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
            first = len(_items(value)) if levels[0] is None else self.constant(levels[0])
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
        if large:
            values = tuple(self._number(item, kind) for item in _values(node, value, sizes))
            self.constant_arrays.append(Parameter(new, sizes, True, kind, values=values))
            return Place(new, kind, len(sizes), constant=True)
        self.tables.append(Declare(kind, new, sizes))
        places = itertools.product(*map(range, sizes))
        for place, item in zip(places, _values(node, value, sizes), strict=True):
            at = tuple(Number(str(index)) for index in place)
            self.tables.append(Assign(Element(new, at), self._number(item, kind)))
        return Place(new, kind, len(sizes))

    def _number(self, item: Node | None, kind: Type) -> Expr:
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
    listed = value is not None and value.type == "initializer_list"
    return listed and array is not None and array.type == "array_declarator"


def _items(listed: Node) -> list[Node]:
    return [c for c in listed.named_children if c.type != "comment"]


def _values(node: Node, listed: Node, sizes: Sequence[int]) -> list[Node | None]:
    """The values of an array in memory order; None for values that are not given."""
    items, count = _items(listed), math.prod(sizes)
    nested = {item.type == "initializer_list" for item in items}
    paired = any(item.type == "initializer_pair" for item in items)
    if paired or len(nested) > 1 or (nested == {True} and len(sizes) == 1):
        raise UnsupportedError(node, "the values of a constant array have an unsupported form")
    found: list[Node | None] = []
    for item in items:
        found += _values(node, item, sizes[1:]) if nested == {True} else [item]
    if len(found) > count:
        raise UnsupportedError(node, "a constant array has more values than elements")
    return found + [None] * (count - len(found))
