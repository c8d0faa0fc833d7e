"""Finds counters that begin again, which another variable than that of the loop counts.

Before::

    int c = 0;
    for (int i = 0; i < 4096; i++) { y[i] = x[i] + bias[c]; if (++c == 64) c = 0; }

Read as::

    for (int i = 0; i < 4096; i++) y[i] = x[i] + bias[i % 64];

How the counter is written does not matter (`c = (c + 1) % 64`, `c = c == 63 ? 0 : c + 1`): its
statements are executed until it has its first value again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    assigned,
    comma_separated,
    descendants,
    identifiers,
    text_of,
)
from tilewright.proposers.loops.parsing.arithmetic import combined
from tilewright.proposers.loops.parsing.scope import Value, number, plus, times
from tilewright.proposers.loops.parsing.statements import condition_of, otherwise
from tilewright.proposers.loops.parsing.syntax import (
    UnsupportedError,
    field_of,
    inside,
    operator_of,
)

_LONGEST = 1 << 14
"""Maximum number of iterations until a counter begins again."""
_LARGEST = (1 << 31) - 1
_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Counter:
    """A variable that has the values `first`, `first + step`, ... in `period` iterations, and then
    begins again with `first`.

    `nodes` are the statements of an iteration that change the variable. No statement after them
    reads the variable in the same iteration.
    """

    first: int
    step: int
    period: int
    nodes: tuple[Node, ...]

    def at(self, node: Node, iteration: Value) -> Value:
        """The value in an iteration, which is counted from 0."""
        assert iteration.interval is not None
        turn = iteration
        if iteration.interval[1] >= self.period:
            turn = combined(node, "%", iteration, number(self.period))
        return plus(times(turn, self.step), number(self.first))

    def after(self, iterations: int) -> int:
        """The value after a number of iterations."""
        return self.first + self.step * (iterations % self.period)


def counter_of(
    name: str,
    first: int,
    largest: int,
    iteration: Sequence[Node],
    changing: Collection[str],
    constant: Callable[[Node], int],
) -> Counter | None:
    """The counter that the statements of an iteration count, or None if it is none of this kind.

    The type of the variable holds numbers up to `largest`. `changing` are the variables that the
    loop changes, and `constant` gives the value of an expression that contains none of them.
    """
    places = [i for i, node in enumerate(iteration) if name in assigned(node, {})]
    if not places or any(name in identifiers(node) for node in _others(iteration, places)):
        return None
    if any(n.type == "continue_statement" for node in iteration for n in descendants(node)):
        return None  # it may skip the statements that count
    nodes = tuple(iteration[place] for place in places)
    if not any(_begins_again(n) for node in nodes for n in descendants(node)):
        return None
    used = {other for node in nodes for other in identifiers(node)}
    if used & ({*changing} - {name}):
        return None
    values = [first]
    try:
        while len(values) <= _LONGEST:
            after = _Execution(name, values[-1], largest, constant)
            for node in nodes:
                after.statement(node)
            if after.value == first:
                step = values[-1] - values[-2] if len(values) > 1 else 0
                return Counter(first, step, len(values), nodes) if step else None
            values.append(after.value)
            if len(values) > 2 and values[-1] - values[-2] != values[1] - first:
                return None
    except (UnsupportedError, _NotACounterError):
        pass
    return None


def _others(iteration: Sequence[Node], places: Sequence[int]) -> Iterator[Node]:
    """The statements after the first of those at `places` which are not among them."""
    for place in range(places[0], len(iteration)):
        if place not in places:
            yield iteration[place]


def _begins_again(node: Node) -> bool:
    """Whether a node may give a variable that is counted its first value again."""
    if node.type in ("binary_expression", "assignment_expression"):
        return operator_of(node) in ("%", "%=")
    return node.type in ("if_statement", "conditional_expression")


class _NotACounterError(Exception):
    """Statements do more than counting, or a number is negative, so that its type would matter."""


class _Execution:
    """Executes statements that change one variable only."""

    def __init__(
        self, name: str, value: int, largest: int, constant: Callable[[Node], int]
    ) -> None:
        self._name = name
        self.value = value
        self._largest = largest
        self._constant = constant

    def statement(self, node: Node) -> None:
        """One statement, or one expression of which only the effect matters."""
        if node.type == "compound_statement":
            for inner in inside(node):
                self.statement(inner)
        elif node.type == "if_statement":
            other = otherwise(node)
            holds = self._number(condition_of(node))
            for inner in inside(field_of(node, "consequence")) if holds else []:
                self.statement(inner)
            for inner in inside(other) if other is not None and not holds else []:
                self.statement(inner)
        elif node.type == "expression_statement":
            for inner in node.named_children:
                for part in comma_separated(inner):
                    self._number(part)
        else:
            self._number(node)

    def _number(self, node: Node) -> int:
        found = self._computed(node)
        if not 0 <= found <= _LARGEST:
            raise _NotACounterError
        return found

    def _computed(self, node: Node) -> int:
        if node.type == "parenthesized_expression":
            return self._number(node.named_children[0])
        if self._name not in identifiers(node):
            return self._constant(node)
        if node.type == "identifier":
            return self.value
        if node.type == "update_expression":
            before = self.value
            self._set(field_of(node, "argument"), before + (1 if "++" in text_of(node) else -1))
            return self.value if text_of(node)[0] in "+-" else before
        if node.type == "assignment_expression":
            value, sign = self._number(field_of(node, "right")), operator_of(node)
            if sign != "=":
                value = self._operation(sign[:-1], self.value, value)
            self._set(field_of(node, "left"), value)
            return self.value
        if node.type == "binary_expression":
            sides = [self._number(field_of(node, side)) for side in ("left", "right")]
            return self._operation(operator_of(node), *sides)
        if node.type == "conditional_expression":
            holds = self._number(field_of(node, "condition"))
            return self._number(field_of(node, "consequence" if holds else "alternative"))
        raise _NotACounterError

    def _operation(self, sign: str, left: int, right: int) -> int:
        if sign == "%" and right > 0:
            return left % right
        if sign not in _ARITHMETIC:
            raise _NotACounterError
        return int(_ARITHMETIC[sign](left, right))

    def _set(self, target: Node, value: int) -> None:
        if text_of(target) != self._name or not 0 <= value <= self._largest:
            raise _NotACounterError
        self.value = value
