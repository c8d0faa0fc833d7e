"""Loops of C to those of the small form: which iterations there are, and what moves with them.

Before::

    for (size_t i = 64; i-- != 0; ) ...            (refused: the condition changes something)
    for (i = 63; i >= 0; i--) *y++ = X[i];

After::

    for (int i = 0; i < 64; i++) Y[i] = X[63 - i];
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import assigned, comma_separated, pointer_levels, text_of
from tilewright.proposers.loops.c_types import RANGES
from tilewright.proposers.loops.independence import linear
from tilewright.proposers.loops.ir import Binary, For, Statement, Var
from tilewright.proposers.loops.parse_heads import NO_STEP, Head, head_of, updates
from tilewright.proposers.loops.parse_statements import Statements
from tilewright.proposers.loops.parse_syntax import (
    NotFollowedError,
    UnsupportedError,
    field_of,
    operator_of,
)
from tilewright.proposers.loops.scope import Binding, Place, Unknown, Value, number, plus, times

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}
_START = "?"
"""Begins names that stand for the values of variables before an iteration."""


class Loops(Statements):
    """Reads `for` and `while` loops."""

    def __init__(self) -> None:
        super().__init__()
        self._changes: dict[int, frozenset[str]] = {}

    def loop(self, node: Node) -> list[Statement]:
        """A loop of known iterations. Raises `UnsupportedError`."""
        with self._collected() as head, self._inner():
            self._printed.append(set())
            declared = self._begin(node)
            found, later = self._iterations(node)
            self._printed.pop()
        for name, binding in later.items():
            if name not in declared:
                self.scope.rebind(name, binding)
        return [*head, found]

    def _begin(self, node: Node) -> set[str]:
        """Carries out the first part of the head; the names it declares."""
        first = node.child_by_field_name("initializer")
        if first is None:
            return set()
        if first.type != "declaration":
            for part in comma_separated(first):
                self._effect(part)
            return set()
        names = {pointer_levels(d)[0] for d in first.children_by_field_name("declarator")}
        kept, self.kept = self.kept, self.kept - names
        self.declaration(first)
        self.kept = kept
        return names

    def _iterations(self, node: Node) -> tuple[For, dict[str, Binding]]:
        """The loop, and what variables that are followed are after it."""
        head = head_of(node)
        control, sign, limit = self._condition_of(head)
        name = text_of(control)
        steps = [part for part in head.update if updates(part, name)]
        if len(steps) != 1:
            raise UnsupportedError(node, f"{name} has no constant step")
        step = self._step(steps[0], name)
        start = self.scope.find(name)
        assert isinstance(start, (Value, Place))
        first = start if isinstance(start, Value) else start.offset or number(0)
        trips = self._trips(node, sign, first, limit, step)
        body = head.body
        rest = [part for part in head.update if part is not steps[0]]
        if name in head.declared:
            raise UnsupportedError(node, f"another {name} is declared within the loop over it")
        moving = self._moving([*body, *rest], name)
        plain = step > 0 and first.interval is not None and first.interval[0] == first.interval[1]
        plain = plain and isinstance(start, Value) and (not moving or step == 1)
        printed_name = self.printed_name(name)
        if plain:
            assert first.interval is not None
            begin, stride = first.interval[0], step
        else:
            begin, stride = 0, 1
        last = begin + max(0, trips - 1) * stride
        self._ranges[printed_name] = begin, last
        variable = Value(Var(printed_name), "int", (begin, last))
        iteration = plus(variable, number(-begin))
        here = variable if plain else plus(first, times(iteration, step))
        self._bind_control(node, name, start, here)
        later: dict[str, Binding] = {}
        if moving:
            later = self._rehearse(body, rest, moving, iteration, trips)
        bound = self.scope.find(name)
        with self._collected() as found:
            self._iteration(body)
            for part in rest:
                self._effect(part)
        if self.scope.find(name) != bound:
            raise UnsupportedError(node, f"{name} changes within its loop")
        later[name] = self._as_bound(start, plus(first, number(trips * step)))
        loop = For(printed_name, begin, begin + trips * stride, stride, tuple(found))
        return loop, later

    def _iteration(self, body: Sequence[Node]) -> None:
        with self._inner():
            self.statements(body)

    def _bind_control(self, node: Node, name: str, start: Value | Place, here: Value) -> None:
        bound = self._as_bound(start, here)
        if isinstance(bound, Value):
            assert bound.interval is not None
            least, most = RANGES[bound.type]
            if bound.interval[0] < least or bound.interval[1] > most:
                raise UnsupportedError(node, f"{name} leaves the range of its type")
        self.scope.declare(name, bound)

    def _as_bound(self, start: Value | Place, value: Value) -> Value | Place:
        if isinstance(start, Place):
            return replace(start, offset=value)
        return replace(value, type=start.type, retyped=start.type != "int")

    def _condition_of(self, head: Head) -> tuple[Node, str, Value]:
        """The variable of a loop, how its condition compares, and with what."""
        node, condition = head.node, head.condition
        if condition.type == "parenthesized_expression":
            condition = condition.named_children[0]
        if condition.type != "binary_expression" or operator_of(condition) not in _TURNED:
            message = f"the condition {text_of(condition)!r} is not a comparison"
            raise UnsupportedError(node, message)
        left, right, sign = (
            field_of(condition, "left"),
            field_of(condition, "right"),
            operator_of(condition),
        )
        if not any(updates(part, text_of(left)) for part in head.update):
            left, right, sign = right, left, _TURNED[sign]
            if not head.in_head and not any(updates(u, text_of(left)) for u in head.update):
                raise UnsupportedError(node, NO_STEP)
        if left.type != "identifier":
            raise UnsupportedError(node, "only loops while a variable is compared are known")
        start = self.scope.find(text_of(left))
        if isinstance(start, Unknown):
            raise NotFollowedError(node, text_of(left), start.why)
        if isinstance(start, Place):
            end = self.place(right)
            if end.array != start.array or end.subscripts != start.subscripts:
                raise UnsupportedError(node, f"where {text_of(left)} ends is not known")
            return left, sign, end.offset or number(0)
        limit = self.value(right)
        if not isinstance(start, Value) or start.interval is None:
            raise UnsupportedError(node, f"where {text_of(left)} begins is not known")
        if limit.interval is None:
            raise UnsupportedError(node, f"the limit {text_of(right)!r} is not constant")
        if start.type.startswith("u") and sign == ">=":
            raise UnsupportedError(node, f"{text_of(condition)!r} always holds for {start.type}")
        return left, sign, limit

    def _step(self, update: Node, name: str) -> int:
        """By how much the variable of a loop grows."""
        if update.type == "update_expression":
            return 1 if operator_of(update) == "++" else -1
        right, sign = field_of(update, "right"), operator_of(update)
        if sign in ("+=", "-="):
            step = self.constant(right) * (1 if sign == "+=" else -1)
        elif sign == "=" and right.type == "binary_expression" and operator_of(right) in "+-":
            one, other = field_of(right, "left"), field_of(right, "right")
            if text_of(one) != name and operator_of(right) == "+":
                one, other = other, one
            if text_of(one) != name:
                message = f"{text_of(update)!r} is not a constant step of {name}"
                raise UnsupportedError(update, message)
            step = self.constant(other) * (1 if operator_of(right) == "+" else -1)
        else:
            step = 0
        if not step:
            raise UnsupportedError(update, f"{text_of(update)!r} is not a constant step of {name}")
        return step

    def _trips(self, node: Node, sign: str, first: Value, limit: Value, step: int) -> int:
        terms, span = linear(Binary("-", limit.expr, first.expr))
        if terms:
            raise UnsupportedError(node, "the number of iterations of this loop is not constant")
        if sign == "!=":
            if span % step or span // step < 0:
                raise UnsupportedError(node, "this loop steps over its end")
            return span // step
        if (sign in ("<", "<=")) != (step > 0):
            raise UnsupportedError(node, "this loop steps away from its end")
        span = span if step > 0 else -span
        span += sign in ("<=", ">=")
        return max(0, -(-span // abs(step)))

    def _moving(self, nodes: Sequence[Node], control: str) -> list[str]:
        """Variables that are followed and change from one iteration to the next."""
        changed = frozenset().union(*(assigned(n, self._changes) for n in nodes))
        return sorted((changed & self.scope.followed()) - {control})

    def _rehearse(
        self,
        body: Sequence[Node],
        rest: Sequence[Node],
        moving: Sequence[str],
        iteration: Value,
        trips: int,
    ) -> dict[str, Binding]:
        """Reads one iteration to see by how much each variable moves, and binds it for all.

        Gives what each is after the loop.
        """
        starts = {name: self.scope.find(name) for name in moving}
        for name, start in starts.items():
            self.scope.declare(name, _symbol(name, start))
        rehearsing, self._rehearsing = self._rehearsing, True
        self._printed.append(set())
        with self._collected():
            self._iteration(body)
            for part in rest:
                self._effect(part)
        self._printed.pop()
        self._rehearsing = rehearsing
        later: dict[str, Binding] = {}
        for name, start in starts.items():
            amount = _moved_by(name, self.scope.find(name))
            if amount is None or isinstance(start, Unknown):
                why = f"{name} is carried from one iteration to the next"
                unknown = _unknown(why, start)
                self.scope.declare(name, unknown)
                later[name] = unknown
                continue
            assert isinstance(start, (Value, Place))
            offset = start if isinstance(start, Value) else start.offset or number(0)
            inside, after = times(iteration, amount), number(trips * amount)
            self.scope.declare(name, self._as_bound(start, plus(offset, inside)))
            later[name] = self._as_bound(start, plus(offset, after))
        return later


def _symbol(name: str, start: object) -> Value | Place | Unknown:
    """What stands for the value of a variable before an iteration."""
    value = Value(Var(f"{_START}{name}"), "int", (0, 1))
    if isinstance(start, Place):
        return replace(start, offset=value)
    if isinstance(start, Value):
        return replace(value, type=start.type)
    assert isinstance(start, Unknown)
    return start


def _moved_by(name: str, after: object) -> int | None:
    """By how much a variable moved in an iteration; None where that is not constant."""
    value = after.offset if isinstance(after, Place) else after
    if not isinstance(value, Value):
        return None
    terms, amount = linear(Binary("-", value.expr, Var(f"{_START}{name}")))
    return None if terms else amount


def _unknown(why: str, start: object) -> Unknown:
    if isinstance(start, Unknown):
        return replace(start, why=why)
    if isinstance(start, Place):
        return Unknown(why, start.type, Place("", start.type, 1))
    assert isinstance(start, Value)
    return Unknown(why, start.type)
