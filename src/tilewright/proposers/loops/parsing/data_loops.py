"""Reads loops whose bounds depend on data.

Before::

    for (int j = ptr[i]; j < ptr[i + 1]; j++) sum += val[j];

Read as::

    int j_first = ptr[i], j_end = ptr[i + 1];
    for (int j = j_first; j < j_end; j++) sum = sum + val[j];

Ends of other types than int are compared in their own type, and converted to int after that::

    for (size_t j = ptr[i]; j <= last[i]; j++) sum += val[j];

Read as::

    int j_first = ptr[i], j_end = (uint64_t)ptr[i] <= last[i] ? last[i] + 1 : ptr[i];

This is the same if the loop's variable is used in subscripts only, as no array has 2^31 elements.

The values of variables in such a loop are not tracked. A loop that changes tracked variables, such
as pointers, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import assigned, text_of
from tilewright.proposers.loops.analysis.changes import touched_by, used_by
from tilewright.proposers.loops.c_types import is_whole
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Cast,
    Declare,
    Element,
    Expr,
    For,
    Number,
    Select,
    Statement,
    Type,
    Var,
    expressions,
    parts,
    walk,
)
from tilewright.proposers.loops.parsing.arithmetic import combined, printed
from tilewright.proposers.loops.parsing.heads import Head, Test
from tilewright.proposers.loops.parsing.scope import Binding, Unknown, Value, Variable, number
from tilewright.proposers.loops.parsing.statements import Statements
from tilewright.proposers.loops.parsing.syntax import (
    NotFollowedError,
    UnsupportedError,
    has_effects,
)

_EXAMPLE = 16
"""The number of iterations that estimates assume."""
_SMALL: frozenset[Type] = frozenset(("int", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t"))
"""Types whose values an int can hold."""
_COUNTING: frozenset[Type] = frozenset(("int", "int32_t", "uint32_t", "int64_t", "uint64_t"))
"""Types of variables that do not begin again within the loops of a kernel."""


class DataLoops(Statements):
    """Reads `for` loops whose limits are elements of arrays, or are computed from them."""

    def _data_limits(self, node: Node, test: Test) -> tuple[Value, Value] | None:
        """The first value of a loop's variable and its limit, if they depend on data."""
        start = self.scope.find(text_of(test.variable))
        if isinstance(start, Variable) and is_whole(start.type):
            start = Value(Var(start.name), start.type)
        if not isinstance(start, Value) or test.limit is None or node.type != "for_statement":
            return None
        if has_effects(test.limit):
            return None
        limit = self.value(test.limit)
        if not any(self._is_of_data(end) for end in (start, limit)):
            return None
        return start, limit

    def _of_data(self, node: Node) -> Value | None:
        """The value of an integer if it depends on data."""
        if has_effects(node):
            return None
        value = self.value(node)
        return value if is_whole(value.type) and self._is_of_data(value) else None

    def _is_of_data(self, value: Value) -> bool:
        """Whether elements of arrays give a number, directly or through variables."""
        if value.interval is not None:
            return False
        seen: set[str] = set()
        exprs = [value.expr]
        while exprs:
            for e in walk(exprs.pop()):
                if isinstance(e, Element):
                    return True
                if isinstance(e, Var) and e.name not in seen:
                    seen.add(e.name)
                    exprs += self.origins.get(e.name, [])
        return False

    def _between(
        self,
        head: Head,
        test: Test,
        limits: tuple[Value, Value],
        step: int,
        changing: frozenset[str],
    ) -> tuple[list[Statement], dict[str, Binding]]:
        """The loop, after variables for its ends, and what is known of its variable after it.

        The `step` is 0 if the head contains anything other than one step.
        """
        name, node = text_of(test.variable), head.node
        self._require_plain(head, test, limits, step)
        for other in sorted((changing & self.scope.followed()) - {name}):
            what = f"{other} is changed in a loop whose bounds depend on data"
            raise NotFollowedError(node, other, what)
        variables = map(self.scope.find, changing - {name})
        moving = {Var(found.name) for found in variables if isinstance(found, Variable)}
        first, end, exact = self._limits_as_int(node, test, limits)
        ends: list[Expr] = []
        before: list[Statement] = []
        for expr, word in ((first, "first"), (end, "end")):
            if not isinstance(expr, (Number, Var)) or expr in moving:
                kept = self.printed_name(f"{name}_{word}")
                before.append(Declare("int", kept, (), expr))
                expr = Var(kept)
            ends.append(expr)
        here = self.printed_name(name)
        self._ranges.pop(here, None)
        kind = limits[0].type
        self.scope.declare(name, Value(Var(here), kind, retyped=kind != "int"))
        with self._collected() as read, self._inner():
            self.statements(head.body)
        if (used_by(end) | used_by(ends[0])) & touched_by(tuple(read)):
            raise UnsupportedError(node, f"the loop over {name} changes its own limit")
        if not exact and not _only_subscript(here, tuple(read)):
            what = f"{name} may be larger than an int, and is not used in subscripts only"
            raise UnsupportedError(node, what)
        loop = For(here, 0, _EXAMPLE, step, tuple(read), limits=(ends[0], ends[1]))
        why = f"{name} depends on data after its loop"
        return [*before, loop], {name: Unknown(why, kind)}

    def _limits_as_int(
        self, node: Node, test: Test, limits: tuple[Value, Value]
    ) -> tuple[Expr, Expr, bool]:
        """The first value and the limit for `<` as an int, and whether they have that type in the
        source."""
        (first, end), kind = limits, limits[0].type
        exact = end.type in _SMALL and kind in _SMALL
        if exact and test.sign == "<":
            return first.expr, printed(end), True
        assert test.limit is not None
        begun = replace(first, expr=Cast(kind, first.expr), interval=None, retyped=False)
        runs = printed(combined(node, test.sign, begun, end))
        after = combined(node, "+", end, number(1)) if test.sign == "<=" else end
        return first.expr, Select(runs, Cast("int", printed(after)), first.expr), exact

    def _require_plain(
        self, head: Head, test: Test, limits: tuple[Value, Value], step: int
    ) -> None:
        """Raise unless a loop counts up to a limit that an int can hold."""
        name, node = text_of(test.variable), head.node
        what = f"the bounds of the loop over {name} depend on data"
        if step < 1 or test.sign not in ("<", "<=") or test.beside is not None or head.ends:
            raise UnsupportedError(node, f"{what}, and the loop does not count up with < or <=")
        if any(name in assigned(n, {}) for n in head.body):
            raise UnsupportedError(node, f"{what}, and the loop's body changes {name}")
        if not is_whole(limits[1].type) or limits[0].type not in _COUNTING:
            raise UnsupportedError(node, f"{what}, and are not integers of 32 or 64 bits")
        if self._guards:
            raise UnsupportedError(node, f"{what}, and the loop runs under a condition")


def _only_subscript(name: str, body: tuple[Statement, ...]) -> bool:
    """Whether a variable is used in subscripts only, and one of the elements is read in any case.

    A value that no int holds is then beyond the end of the array.
    """
    inside = [e for e in expressions(body) if isinstance(e, Element) and Var(name) in walk(e)]
    uses = sum(e == Var(name) for e in expressions(body))
    return sum(s == Var(name) for e in inside for s in e.subscripts) == uses and any(
        Var(name) in e.subscripts for s in body for e in _always_read(s)
    )


def _always_read(statement: Statement) -> Iterator[Element]:
    """Elements that a statement reads whatever its conditions are."""
    if isinstance(statement, For) and statement.limits is None and statement.trips:
        for inner in statement.body:
            yield from _always_read(inner)
    waiting = [statement.value] if isinstance(statement, (Declare, Assign)) else []
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, Select):
            waiting.append(expr.condition)
        elif isinstance(expr, Binary) and expr.operator in ("&&", "||"):
            waiting.append(expr.left)
        elif expr is not None:
            waiting += parts(expr)
            if isinstance(expr, Element):
                yield expr
