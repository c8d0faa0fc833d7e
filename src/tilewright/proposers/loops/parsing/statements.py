"""Converts statements of C to the intermediate form. Variables that are followed are left out, and
`if` becomes `?:`.

Before::

    const float *x = X + r * 64;
    int n = 0;
    for (int c = 0; c < 64; c++) {
      if (*x < 0.0f) Y[n] = 0.0f; else Y[n] = *x;
      n++; x++;
    }

After::

    for (int c = 0; c < 64; c++) Y[c] = X[r * 64 + c] < 0.0f ? 0.0f : X[r * 64 + c];
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    comma_separated,
    descendants,
    is_skip,
    leaves_early,
    may_continue,
    text_of,
)
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Declare,
    Element,
    Expr,
    For,
    Load,
    Number,
    Select,
    Statement,
    Type,
    Var,
    statements,
    walk,
)
from tilewright.proposers.loops.parsing.arithmetic import combined, decided, printed
from tilewright.proposers.loops.parsing.declarations import Declarations, all_of
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
    NotFollowedError,
    UnsupportedError,
    field_of,
    operator_of,
)

LEAVES = "a `continue` skips statements after the block that contains it"
_COMPOUND = ("+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")


class Statements(Declarations):
    """Reads statements. They wait in `_done` until the enclosing statement is complete."""

    def __init__(self) -> None:
        super().__init__()
        self._both = False
        self._written: frozenset[Element] = frozenset()

    def block(self, nodes: Sequence[Node]) -> tuple[Statement, ...]:
        """Statements in a separate scope."""
        with self._inner(), self._collected() as found:
            self.statements(nodes)
        return tuple(found)

    def statements(self, nodes: Sequence[Node]) -> None:
        """The statements of a block. Those after a `continue` get the opposite condition."""
        nodes = [node for node in nodes if node.type not in ("comment", ";")]
        for place, node in enumerate(nodes):
            if is_skip(node):
                opposite = Binary("==", self.expression(condition_of(node)), Number("0"))
                self._guarded(node, opposite, nodes[place + 1 :])
                return
            if node.type != "continue_statement" and may_continue(node):
                self._skipping(node, nodes[place + 1 :])
                return
            self.statement(node)

    def _skipping(self, node: Node, rest: Sequence[Node]) -> None:
        """A statement that contains a `continue`, and the following ones, which the `continue`
        skips."""
        if node.type != "if_statement":
            if rest or node.type != "compound_statement":
                raise UnsupportedError(node, LEAVES)
            self.statement(node)
            return
        other = otherwise(node)
        branches = [inside(field_of(node, "consequence")), inside(other) if other else []]
        ends = [bool(b) and b[-1].type == "continue_statement" for b in branches]
        if rest and not any(ends):
            raise UnsupportedError(node, LEAVES)
        first, second = (
            branch[:-1] if end else [*branch, *rest]
            for branch, end in zip(branches, ends, strict=True)
        )
        self._if(node, first, second)

    def statement(self, node: Node) -> None:
        """One statement. Raises `UnsupportedError`."""
        if node.type == "compound_statement":
            with self._inner():
                self.statements(node.named_children)
        elif node.type == "declaration":
            self.declaration(node)
        elif _runs_once(node):
            self.statement(field_of(node, "body"))
        elif node.type in ("for_statement", "while_statement", "do_statement"):
            self._done += self.loop(node)
        elif node.type == "if_statement":
            other = otherwise(node)
            self._if(node, inside(field_of(node, "consequence")), inside(other) if other else [])
        elif node.type == "expression_statement":
            for inner in node.named_children:
                for part in comma_separated(inner):
                    self._effect(part)
        elif node.type == "enum_specifier":
            self.enumeration(node)
        elif node.type == "switch_statement":
            with self._inner():
                self.statements(self.case_of(node))
        elif node.type not in ("comment", ";"):
            kind = node.type.removesuffix("_statement")
            raise UnsupportedError(
                node, f"{_first_line(node)!r}: statements of this kind ({kind}) are not supported"
            )

    def case_of(self, node: Node) -> list[Node]:
        """The statements that a `switch` on a known number executes.

        A case without `break` or `return` continues with the next case.
        """
        chosen = self.constant(condition_of(node))
        found: list[Node] = []
        cases = [c for c in field_of(node, "body").named_children if c.type == "case_statement"]
        first = next(
            (n for n, c in enumerate(cases) if (v := c.child_by_field_name("value")) is not None
             and self.constant(v) == chosen),
            next((n for n, c in enumerate(cases) if c.child_by_field_name("value") is None), None),
        )  # fmt: skip
        for case in cases[first:] if first is not None else ():
            value = case.child_by_field_name("value")
            for inner in case.named_children:
                if inner.type == "break_statement":
                    return found
                if inner != value and inner.type != "comment":
                    if inner.type != "return_statement" and leaves_early(inner):
                        what = "a `break` or `return` under a condition in a case is not supported"
                        raise UnsupportedError(inner, what)
                    found.append(inner)
                if inner.type == "return_statement":
                    return found
        return found

    def loop(self, node: Node) -> list[Statement]:
        """A loop with its other parts."""
        raise NotImplementedError

    def command(self, node: Node) -> None:
        """A call as a statement."""
        raise NotImplementedError

    def _effect(self, node: Node) -> None:
        if node.type == "parenthesized_expression":
            self._effect(node.named_children[0])
        elif node.type == "call_expression":
            self.command(node)
        elif node.type == "cast_expression" and text_of(field_of(node, "type")) == "void":
            self._unused(field_of(node, "value"))
        elif node.type == "assignment_expression":
            self._assignment(node)
        elif node.type == "update_expression":
            self._changed(node, field_of(node, "argument"), operator_of(node)[0], number(1))
        else:
            raise UnsupportedError(node, f"the effect of {text_of(node)!r} is not known")
        self.complete()

    def _unused(self, node: Node) -> None:
        """Values that are not used, such as `(void)name;`, which only suppresses compiler
        warnings.
        """
        if node.type == "call_expression":
            self.command(node)
        elif node.type not in ("identifier", "number_literal"):
            raise UnsupportedError(node, f"the effect of {text_of(node)!r} is not known")

    def _assignment(self, node: Node) -> None:
        target, right = field_of(node, "left"), field_of(node, "right")
        sign = operator_of(node)
        if isinstance(self.scope.find(text_of(target)), Bundle):
            what = f"the structure {text_of(target)} is assigned as a whole"
            raise UnsupportedError(node, what)
        if right.type == "assignment_expression":
            self._assignment(right)
            right = field_of(right, "left")
        if sign in _COMPOUND:
            if self._is_followed_place(target):
                self._move(node, target, sign, right)
            else:
                self._changed(node, target, sign[:-1], self.value(right))
        elif sign != "=":
            raise UnsupportedError(node, f"the operator {sign} is not supported")
        elif (record := self._record_of(target)) is not None:
            self._copy(target, record, right)
        elif target.type == "identifier" and self._is_followed(target):
            self._set(node, text_of(target), right)
        else:
            value = self.value(right)
            self._assign(node, self._target(target), printed(value))

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
            assert isinstance(place.expr, (Var, Element))
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
        self.scope.rebind(name, replace(value, type=before.type, retyped=before.type != "int"))

    def _changed(self, node: Node, target: Node, sign: str, by: Value) -> None:
        """target = target sign by."""
        if target.type == "identifier" and self._is_followed(target):
            known = by.interval is not None and by.interval[0] == by.interval[1]
            if self._guards or sign not in "+-" or not known:
                name = text_of(target)
                raise NotFollowedError(node, name, f"the value of {name} is not known")
            assert by.interval is not None
            self.advance(target, by.interval[0] * (1 if sign == "+" else -1))
            return
        place = self._target(target)
        kind = self._type_of(target)
        self._assign(node, place, printed(combined(node, sign, Value(place, kind), by)))

    def _grown(self, node: Node) -> Value | None:
        prefix = text_of(node).startswith(operator_of(node))
        if not prefix or self._conditional > len(self._guards):
            return None
        target = field_of(node, "argument")
        self._changed(node, target, operator_of(node)[0], number(1))
        return self.value(target)

    def _type_of(self, target: Node) -> Type:
        while target.type == "parenthesized_expression":
            target = target.named_children[0]
        variable = self.pointed(target)
        if target.type == "identifier":
            found = self.scope.find(text_of(target))
            assert isinstance(found, Variable)
            return found.type
        if variable is not None:
            return variable.type
        if target.type == "pointer_expression" and "vf" in text_of(target):
            return "vector"
        return self.place(target).type

    def _target(self, node: Node) -> Var | Element | Load:
        while node.type == "parenthesized_expression":
            node = node.named_children[0]
        if node.type == "identifier":
            found = self.scope.find(text_of(node))
            if not isinstance(found, Variable):
                raise UnsupportedError(node, f"{text_of(node)!r} cannot be assigned")
            return Var(found.name)
        if node.type in ("subscript_expression", "pointer_expression", "field_expression"):
            target = self.value(node).expr
            if isinstance(target, (Element, Load)) or self.pointed(node) is not None:
                assert isinstance(target, (Var, Element, Load))
                return target
        raise UnsupportedError(node, f"{text_of(node)!r} cannot be assigned")

    def _assign(self, node: Node, target: Var | Element | Load, value: Expr) -> None:
        if isinstance(target, Var):
            self.origins.setdefault(target.name, []).append(value)
        if self._guards:
            value = Select(all_of(self._guards), value, target)
            if isinstance(target, Load):
                raise UnsupportedError(node, "a vector is stored under a condition")
            if isinstance(target, Element) and not (self._both or self.may_touch(target)):
                what = f"{target.array} may be written outside its sizes where the condition fails"
                raise UnsupportedError(node, what)
        self._done.append(Assign(target, value))

    def may_touch(self, element: Element) -> bool:
        """Whether an element is certainly inside its array, or is also read without the condition.

        During the first reading of an iteration, ranges are not known; the question is repeated
        later.
        """
        if self._rehearsing:
            return True
        if any(e == element for guard in self._guards for e in _always(guard)):
            return True
        if element in self._written and all(self.interval_of(s) for s in element.subscripts):
            return True
        sizes = self._sizes.get(element.array, ())
        return len(sizes) == len(element.subscripts) and all(
            (interval := self.interval_of(s)) is not None and interval[0] >= 0 and interval[1] < n
            for s, n in zip(element.subscripts, sizes, strict=True)
        )

    def _if(self, node: Node, chosen: Sequence[Node], otherwise: Sequence[Node]) -> None:
        """Execute `chosen` if the condition of a statement is true, and `otherwise` if it is
        false."""
        holds = self._decided(condition_of(node), chosen, otherwise)
        if holds is not None:
            self.statements(chosen if holds else otherwise)
            return
        condition = self.value(condition_of(node))
        self.complete()
        if condition.interval is not None and condition.interval[0] == condition.interval[1]:
            with self._inner():
                self.statements(chosen if condition.interval[0] else otherwise)
            return
        test = printed(condition)
        opposite = Binary("==", test, Number("0"))
        if not otherwise:
            self._guarded(node, test, chosen)
            return
        if not chosen:
            self._guarded(node, opposite, otherwise)
            return
        both, self._both = self._both, True
        with self._inner(), self._collected() as first, self._under(test):
            self.statements(chosen)
        with self._inner(), self._collected() as second, self._under(opposite):
            self.statements(otherwise)
        self._both = both
        joined = None if self._guards else _joined(first, second, test, opposite)
        if joined is not None:
            self._done += joined
            return
        outer, guards = self._written, self._guards
        written = _written(first, all_of([*guards, test]))
        self._written = outer | (written & _written(second, all_of([*guards, opposite])))
        kept = self._kept(test)
        with self._inner(), self._under(kept):
            self.statements(chosen)
        with self._inner(), self._under(Binary("==", kept, Number("0"))):
            self.statements(otherwise)
        self._written = outer

    def _decided(
        self, condition: Node, chosen: Sequence[Node], otherwise: Sequence[Node]
    ) -> bool | None:
        """Whether ranges decide a condition under which only a followed variable is set."""
        signs = ("<", "<=", ">", ">=")
        if condition.type != "binary_expression" or operator_of(condition) not in signs:
            return None
        for node in (*chosen, *otherwise):
            inner = node.named_children[0] if node.type == "expression_statement" else node
            target = inner.child_by_field_name("left")
            if inner.type != "assignment_expression" or target is None:
                return None
            if not isinstance(self.scope.find(text_of(target)), Value):
                return None
        sides = (self.value(field_of(condition, side)) for side in ("left", "right"))
        return decided(operator_of(condition), *sides)

    def _guarded(self, node: Node, test: Expr, nodes: Sequence[Node]) -> None:
        """Statements under a condition. The condition is stored in a variable if the statements can
        change it."""
        with self._inner(), self._collected() as found, self._under(test):
            self.statements(nodes)
        changes = sum(isinstance(s, Assign) for s in statements(tuple(found)))
        if changes > 1 or any(isinstance(s, For) for s in found):
            kept = self._kept(test)
            with self._inner(), self._collected() as found, self._under(kept):
                self.statements(nodes)
        self._done += found

    def _kept(self, test: Expr) -> Expr:
        if isinstance(test, Var):
            return test
        name = self.printed_name("holds")
        value = Select(all_of(self._guards), test, Number("0")) if self._guards else test
        self._done.append(Declare("int", name, (), value))
        return Var(name)


def condition_of(node: Node) -> Node:
    """The condition of an `if`."""
    found = field_of(node, "condition")
    return found.named_children[0] if found.type == "parenthesized_expression" else found


def otherwise(node: Node) -> Node | None:
    """The statements of an `if` for a false condition."""
    found = node.child_by_field_name("alternative")
    return found.named_children[-1] if found is not None else None


def _runs_once(node: Node) -> bool:
    """Whether a statement is `do { ... } while (0)`, as in macros."""
    return node.type == "do_statement" and text_of(condition_of(node)) in ("0", "false")


def returns(node: Node) -> bool:
    """Whether a statement may return from its function."""
    return any(n.type == "return_statement" for n in descendants(node))


def inside(node: Node) -> list[Node]:
    """The statements of a block, or the single statement in its place."""
    inner = node.named_children if node.type == "compound_statement" else [node]
    return [n for n in inner if n.type not in ("comment", ";")]


def _written(found: Sequence[Statement], condition: Expr) -> frozenset[Element]:
    """Elements that conditional statements write whenever the condition is true."""
    return frozenset(
        s.target
        for s in found
        if isinstance(s, Assign)
        and isinstance(s.target, Element)
        and isinstance(s.value, Select)
        and s.value.condition == condition
    )


def _always(condition: Expr) -> Iterator[Expr]:
    """The parts of a condition that are always computed."""
    if isinstance(condition, Binary) and condition.operator in ("&&", "||"):
        yield from _always(condition.left)
    elif isinstance(condition, Select):
        yield from _always(condition.condition)
    else:
        yield from walk(condition)


def _joined(
    first: list[Statement], second: list[Statement], test: Expr, opposite: Expr
) -> list[Statement] | None:
    """A single assignment of a choice, if both branches assign the same target once."""
    if len(first) != 1 or len(second) != 1:
        return None
    one, other = first[0], second[0]
    if not isinstance(one, Assign) or not isinstance(other, Assign) or one.target != other.target:
        return None
    if not isinstance(one.value, Select) or not isinstance(other.value, Select):
        return None
    if one.value.condition != test or other.value.condition != opposite:
        return None  # there is another condition inside
    return [Assign(one.target, Select(test, one.value.value, other.value.value))]


def _first_line(node: Node) -> str:
    return text_of(node).splitlines()[0]
