"""Reads loops whose number of iterations depends on loops around them, as in triangular matrices.

Before::

    for (int i = 0; i < 64; i++)
      for (int j = i - 1; j >= 0; j--) sum += *a++ * x[j];

Read as::

    for (int i = 0; i < 64; i++)
      for (int j = 0; j < i; j++) sum = sum + A[i * 64 + j] * x[i - 1 - j];

The bounds are expressions of the variables of the loops around. The smallest and largest value of
the loop's variable are known.
"""

from __future__ import annotations

from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.loops.ir import For, Statement, Var
from tilewright.proposers.loops.parsing.carried import unknown_of
from tilewright.proposers.loops.parsing.heads import Head, Test
from tilewright.proposers.loops.parsing.loops import ALL, Iteration, Loops
from tilewright.proposers.loops.parsing.scope import Binding, Interval, Value, number, plus
from tilewright.proposers.loops.parsing.syntax import UnsupportedError

_OPPOSITE_WAY = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "!=": "!="}
"""The comparison of the limit with the variable."""


class VaryingLoops(Loops):
    """Reads loops with a varying number of iterations."""

    def _varying(
        self,
        head: Head,
        test: Test,
        ends: tuple[Value, Value],
        step: int,
        iteration: Iteration,
    ) -> tuple[list[Statement], dict[str, Binding]]:
        """A loop whose number of iterations depends on loops around it. Raises
        `UnsupportedError`."""
        name, node = text_of(test.variable), head.node
        start, limit = (self.widened(node, end) for end in ends)  # the loop runs in any case
        others, sign = iteration.moved, test.sign
        what = f"the number of iterations of the loop over {name} is not constant"
        if step < -1 or not step or head.tested_last or iteration.counters or (step > 1 and others):
            raise UnsupportedError(node, f"{what}, and its head does not count by one")
        at_end = _known(node, limit)[0] - (sign == ">=") if step < 0 else _known(node, start)[0]
        self._require_signed(node, test, min(_known(node, start)[0], at_end))
        if step < 0:  # count the iterations instead
            start, limit, sign = limit, start, _OPPOSITE_WAY[sign]
        (least, latest), (earliest, most) = _known(node, start), _known(node, limit)
        ends_exactly = sign == "!=" and abs(step) == 1 and latest <= earliest
        if sign not in ("<", "<=") and not ends_exactly:
            raise UnsupportedError(node, f"{what}, and it may not end")
        reach = (least, most - (sign != "<=")) if step > 0 else (least + (sign != "<="), most)
        end = plus(limit, number(1)) if sign == "<=" else limit
        length = plus(end, self._negated(node, start))
        longest = _known(node, length)[1]
        if longest <= 0:
            return [], {}
        first, last = (start, end) if step > 0 else (number(0), length)
        box = _known(node, first)[0], _known(node, last)[1]
        self._require_int(node, name, box, longest)
        own = Value(Var(f"{name}{ALL}"), "int", reach)
        amounts: dict[str, int | None] = {}
        self._open.append((f"{name}{ALL}", node))
        if others:
            amounts, turns = self._rehearsed(iteration.body, iteration.rest, [*others, name], own)
            if turns:
                raise UnsupportedError(node, f"{what}, and it exchanges pointers")
        self._open.pop()
        if test.limiting & {other for other in others if amounts[other] != 0}:
            raise UnsupportedError(node, f"the loop over {name} changes its own limit")
        here = self.printed_name(name)
        self._ranges[here] = box[0], box[1] - 1
        variable = Value(Var(here), "int", (box[0], box[1] - 1))
        passed = plus(variable, self._negated(node, first))
        passed = replace(passed, interval=(0, longest - 1))
        value = variable if step > 0 else plus(ends[0], self._negated(node, variable))
        value = replace(value, interval=reach)
        self._open.append((here, node))
        self._bind_control(node, name, ends[0], value)
        starts = {other: self.scope.find(other) for other in others}
        self._bound(amounts, starts, passed, longest)
        bound = self.scope.find(name)
        with self._collected() as read:
            self._iteration(iteration.body)
            for part in iteration.rest:
                self.effects(part)
        self._open.pop()
        if self.scope.find(name) != bound:
            raise UnsupportedError(node, f"{name} changes within its loop")
        left = "is moved in a loop with a varying number of iterations"
        later: dict[str, Binding] = {
            other: unknown_of(f"{other} {left}", starts[other])
            for other, amount in amounts.items()
            if other != name and amount != 0
        }
        later[name] = unknown_of(f"{name} {left}", ends[0])
        loop = For(
            here,
            *box,
            max(1, step),
            tuple(read),
            limits=(first.expr, last.expr),
            bounded=True,
        )
        return [loop], later


def _known(node: Node, value: Value) -> Interval:
    """The range of a bound of a loop. Raises `UnsupportedError`."""
    if value.interval is None:
        raise UnsupportedError(node, "the range of a bound of this loop is not known")
    return value.interval
