"""Reads loops whose bounds depend on data.

Before::

    for (int j = ptr[i]; j < ptr[i + 1]; j++) sum += val[j];

Read as::

    int j_first = ptr[i], j_end = ptr[i + 1];
    for (int j = j_first; j < j_end; j++) sum = sum + val[j];

The values of variables in such a loop are not tracked. A loop that changes tracked variables, such
as pointers, is refused.
"""

from __future__ import annotations

from tree_sitter import Node

from tilewright.proposers.c.syntax import assigned, descendants, text_of
from tilewright.proposers.loops.analysis.changes import touched_by, used_by
from tilewright.proposers.loops.ir import (
    Declare,
    Element,
    Expr,
    For,
    Number,
    Statement,
    Type,
    Var,
    walk,
)
from tilewright.proposers.loops.parsing.arithmetic import printed
from tilewright.proposers.loops.parsing.heads import Head, Test
from tilewright.proposers.loops.parsing.scope import Binding, Unknown, Value, Variable
from tilewright.proposers.loops.parsing.statements import Statements
from tilewright.proposers.loops.parsing.syntax import NotFollowedError, UnsupportedError

_EXAMPLE = 16
"""The number of iterations that estimates assume."""
_SMALL: frozenset[Type] = frozenset(("int", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t"))
"""Types whose values an int can hold."""
_SIGNED: frozenset[Type] = frozenset(("int", "int32_t", "int64_t"))


_EFFECTS = ("call_expression", "assignment_expression", "update_expression")
"""Expressions that may change something."""


class DataLoops(Statements):
    """Reads `for` loops whose limits are elements of arrays, or are computed from them."""

    def _data_limits(self, node: Node, test: Test) -> tuple[Value, Value] | None:
        """The first value of a loop's variable and its limit, if they depend on data."""
        start = self.scope.find(text_of(test.variable))
        if isinstance(start, Variable) and start.type in _SMALL:
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
        """The value of an expression if it depends on data and has a type that an int can hold."""
        if has_effects(node):
            return None
        value = self.value(node)
        return value if value.type in _SMALL and self._is_of_data(value) else None

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
        first, end = limits[0].expr, printed(limits[1])
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
        loop = For(here, 0, _EXAMPLE, step, tuple(read), limits=(ends[0], ends[1]))
        why = f"{name} depends on data after its loop"
        return [*before, loop], {name: Unknown(why, kind)}

    def _require_plain(
        self, head: Head, test: Test, limits: tuple[Value, Value], step: int
    ) -> None:
        """Raise unless a loop counts up to a limit that an int can hold."""
        name, node = text_of(test.variable), head.node
        what = f"the bounds of the loop over {name} depend on data"
        if step < 1 or test.sign != "<" or test.beside is not None or head.ends:
            raise UnsupportedError(node, f"{what}, and the loop does not count up with <")
        if any(name in assigned(n, {}) for n in head.body):
            raise UnsupportedError(node, f"{what}, and the loop's body changes {name}")
        if limits[0].type not in _SIGNED or limits[1].type not in _SMALL:
            raise UnsupportedError(node, f"{what}, and their type is not int")
        if self._guards:
            raise UnsupportedError(node, f"{what}, and the loop runs under a condition")


def has_effects(node: Node) -> bool:
    """Whether an expression may change something, so that it is computed only once."""
    return any(n.type in _EFFECTS for n in (node, *descendants(node)))
