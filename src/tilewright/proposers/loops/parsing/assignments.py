"""Converts assignments of C to the intermediate form, also those whose value is used.

Before::

    sum += (e[i] = expf(x[i]));
    *y++ += *x++;

After::

    e[i] = expf(x[i]);
    sum = sum + e[i];
    y[i] = y[i] + x[i];
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Element,
    Expr,
    Load,
    Number,
    Select,
    Var,
    walk,
)
from tilewright.proposers.loops.parsing.arithmetic import combined, computed, printed
from tilewright.proposers.loops.parsing.declarations import Declarations, all_of
from tilewright.proposers.loops.parsing.narrowing import facts_of
from tilewright.proposers.loops.parsing.records import member_name
from tilewright.proposers.loops.parsing.scope import (
    Bundle,
    Place,
    Record,
    Unknown,
    Value,
    Variable,
    number,
)
from tilewright.proposers.loops.parsing.syntax import (
    Cut,
    NotFollowedError,
    SplitError,
    UnsupportedError,
    bare,
    field_of,
    operator_of,
)

_COMPOUND = ("+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")


class Assignments(Declarations):
    """Reads assignments. Under conditions, they keep the old value where a condition is false.

    `_open` are the variables of the loops around, and the loops. Loops are split at their `cuts`,
    because an element may exist only where a condition is true. For example, `for (i = 0; i < 8;
    i++) if (i < 2) y[i] = x[i];` is split at 2, because `y` may have only two elements.
    """

    def __init__(self) -> None:
        super().__init__()
        self._open: list[tuple[str, Node]] = []
        self.cuts: set[Cut] = set()
        self._uncertain: list[tuple[Node, Element, Cut | None]] | None = None

    def assigned(self, node: Node) -> Value:
        """The value of an assignment inside an expression. The assignment happens before the
        statement that contains the expression."""
        if self._conditional > len(self._guards):
            what = f"{text_of(node)!r} is computed only under a condition"
            raise UnsupportedError(node, what)
        target = self.assignment(node)
        return self.value(field_of(node, "left")) if target is None else target

    def assignment(self, node: Node) -> Value | None:
        """Make an assignment. Returns what was assigned, unless it is a variable that is
        followed."""
        target, right = bare(field_of(node, "left")), field_of(node, "right")
        sign = operator_of(node)
        if isinstance(self.scope.find(text_of(target)), Bundle):
            what = f"the structure {text_of(target)} is assigned as a whole"
            raise UnsupportedError(node, what)
        if sign in _COMPOUND:
            if not self._is_followed_place(target):
                return self.changed(node, target, sign[:-1], self.value(right))
            self._move(node, target, sign, right)
        elif sign != "=":
            raise UnsupportedError(node, f"the operator {sign} is not supported")
        elif self._is_first_of_field(target):
            self._set_field(node, target, right)
        elif (record := self._record_of(target)) is not None:
            self._copy(target, record, right)
        elif target.type == "identifier" and self._is_followed(target):
            self._set(node, text_of(target), right)
        else:
            value = self.value(right)
            place = self._target(target)
            self._assign(node, place.expr, printed(value))
            return place
        return None

    def _is_first_of_field(self, target: Node) -> bool:
        """Whether an assignment gives a field its first value, which does not change later."""
        if target.type != "field_expression":
            return False
        return isinstance(self.member(target), Unknown)

    def _set_field(self, node: Node, target: Node, right: Node) -> None:
        """Declare a field of a structure with its value."""
        name, before = member_name(target), self.member(target)
        assert isinstance(before, Unknown)
        if before.place is not None:
            self._pointer(node, name, [], before.type, right, None)
        else:
            self._scalar(node, name, before.type, right)

    def _record_of(self, target: Node) -> Record | None:
        """The structure that an assignment changes as a whole."""
        node: Node | None = target
        while node is not None and node.type != "identifier":
            if node.type == "field_expression":
                return None
            inner = node.child_by_field_name("argument") or node.child_by_field_name("left")
            node = inner or next(iter(node.named_children), None)
        found = self.scope.find(text_of(node)) if node is not None else None
        if node == target:
            return found if isinstance(found, Record) else None
        return found.record if isinstance(found, Place) else None

    def _copy(self, target: Node, record: Record, right: Node) -> None:
        """Assign all fields at once: all values on the right are read before any field changes."""
        kept: list[Expr] = []
        for field, value in zip(record.fields, self.fields(right, record), strict=True):
            if isinstance(value.expr, Number):
                kept.append(value.expr)
                continue
            self.declare(f".{field}", record.type, value)
            variable = self.scope.find(f".{field}")
            assert isinstance(variable, Variable)
            kept.append(Var(variable.name))
        for place, one in zip(self.fields(target, record), kept, strict=True):
            self._assign(target, place.expr, one)

    def _is_followed(self, target: Node) -> bool:
        return not isinstance(self.scope.find(text_of(target)), (Variable, type(None)))

    def _is_followed_place(self, target: Node) -> bool:
        return target.type == "identifier" and isinstance(self.scope.find(text_of(target)), Place)

    def _move(self, node: Node, target: Node, sign: str, right: Node) -> None:
        if sign not in ("+=", "-=") or self._guards:
            raise UnsupportedError(node, f"it is not known where {text_of(target)} points")
        self.advance(target, self.constant(right) * (1 if sign == "+=" else -1))

    def _set(self, node: Node, name: str, right: Node) -> None:
        """A variable that is followed gets another value."""
        before = self.scope.find(name)
        if self._guards:
            raise NotFollowedError(node, name, f"{name} is set under a condition")
        place = before.place if isinstance(before, Unknown) else before
        if isinstance(place, Place):
            found = self.place(right)
            if (found.type, found.record, found.whole) != (place.type, place.record, False):
                raise UnsupportedError(
                    node, f"{name} points to {found.type} but is used as a pointer to {place.type}"
                )
            if found.depth != place.depth:
                raise UnsupportedError(node, f"{name} is not a pointer like {text_of(right)!r}")
            self.scope.rebind(name, found)
            return
        assert isinstance(before, (Value, Unknown))
        value = self.value(right)
        if value.interval is None:
            raise NotFollowedError(node, name, f"the value of {name} is not known")
        self.scope.rebind(name, self.of_type(right, value, before.type))

    def changed(self, node: Node, target: Node, sign: str, by: Value) -> Value | None:
        """target = target sign by. Returns the target, unless it is a variable that is followed."""
        target = bare(target)
        if target.type == "identifier" and self._is_followed(target):
            known = by.interval is not None and by.interval[0] == by.interval[1]
            name = text_of(target)
            found = self.scope.find(name)
            if known and not self._guards and sign not in "+-" and isinstance(found, Value):
                made = combined(node, sign, found, by).interval
                if made is not None and made[0] == made[1]:
                    self.scope.rebind(name, self.of_type(node, number(made[0]), found.type))
                    return None
            if self._guards or sign not in "+-" or not known:
                raise NotFollowedError(node, name, f"the value of {name} is not known")
            assert by.interval is not None
            self.advance(target, by.interval[0] * (1 if sign == "+" else -1))
            return None
        place = self._target(target)
        self._assign(node, place.expr, printed(combined(node, sign, place, by)))
        return place

    def _grown(self, node: Node) -> Value | None:
        prefix = text_of(node).startswith(operator_of(node))
        if not prefix or self._conditional > len(self._guards):
            return None
        target = field_of(node, "argument")
        self.changed(node, target, operator_of(node)[0], number(1))
        return self.value(target)

    def _target(self, node: Node) -> Value:
        """The variable, element or vector that an assignment changes, with its type."""
        if node.type == "identifier":
            found = self.scope.find(text_of(node))
            if not isinstance(found, Variable):
                raise UnsupportedError(node, f"{text_of(node)!r} cannot be assigned")
            return Value(Var(found.name), found.type)
        if node.type in ("subscript_expression", "pointer_expression", "field_expression"):
            target = self.value(node)
            if isinstance(target.expr, (Element, Load)) or self.pointed(node) is not None:
                return target
        raise UnsupportedError(node, f"{text_of(node)!r} cannot be assigned")

    def _assign(self, node: Node, target: Expr, value: Expr) -> None:
        assert isinstance(target, (Var, Element, Load))
        if isinstance(target, Var):
            self.origins.setdefault(target.name, []).append(value)
        if self._guards:
            value = Select(all_of(self._guards), value, target)
            if isinstance(target, Load):
                raise UnsupportedError(node, "a vector is stored under a condition")
            if isinstance(target, Element) and not self.may_touch(target):
                self._doubt(node, target, self._cut())
        self._done.append(Assign(target, value))

    def _doubt(self, node: Node, element: Element, cut: Cut | None) -> None:
        """Refuse to write an element where a condition is false. Inside of an `if` with two
        branches, this is decided after both: they may write it in any case. A loop around is split
        at the `cut`, if there is one."""
        if self._uncertain is None:
            what = f"{element.array} may be written outside its sizes where the condition fails"
            if not self._sizes.get(element.array):
                what = f"{what}, because its declaration gives no sizes, as in {element.array}[64]"
            raise SplitError(node, cut, what) if cut else UnsupportedError(node, what)
        self._uncertain.append((node, element, cut))

    def _cut(self) -> Cut | None:
        """Where the conditions around begin or end to be true, if this depends on the variable of a
        loop around only."""
        for fact in self._facts:
            ends = (fact.least, None if fact.most is None else fact.most + 1)
            for name, loop in self._open:
                least, most = self._ranges.get(name, (0, 0))
                for end in ends:
                    if fact.terms == {Var(name): 1} and end is not None and least < end <= most:
                        return loop.start_byte, end
        return None

    def _settled(self, test: Expr) -> bool | None:
        """Whether a condition is true or false in all iterations of a part of a loop that was
        split."""
        split = {place for place, _ in self.cuts}
        names = {name for name, loop in self._open if loop.start_byte in split}
        for holds in (True, False):
            for fact in facts_of(test, self.interval_of, self._meanings, holds):
                if len(fact.terms) > 1 or not any(fact.terms.get(Var(name)) for name in names):
                    continue
                ((term, factor),) = fact.terms.items()
                reach = computed("*", self.interval_of(term), (factor, factor))
                assert reach is not None
                beyond = fact.least is not None and reach[1] < fact.least
                if beyond or (fact.most is not None and reach[0] > fact.most):
                    return not holds
        return None

    @contextmanager
    def _deferred(self) -> Iterator[list[tuple[Node, Element, Cut | None]]]:
        """The elements that it is not certain may be written, collected during a reading."""
        outer, self._uncertain = self._uncertain, []
        yield self._uncertain
        self._uncertain = outer

    def may_touch(self, element: Element) -> bool:
        """Whether an element is certainly inside its array, or is also read without the condition.

        During the first reading of an iteration, ranges are not known; the question is repeated
        later.
        """
        if self._rehearsing:
            return True
        if any(e == element for guard in self._guards for e in _always(guard)):
            return True
        return self.exists(element)


def _always(condition: Expr) -> Iterator[Expr]:
    """The parts of a condition that are always computed."""
    if isinstance(condition, Binary) and condition.operator in ("&&", "||"):
        yield from _always(condition.left)
    elif isinstance(condition, Select):
        yield from _always(condition.condition)
    else:
        yield from walk(condition)
