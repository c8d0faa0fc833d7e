"""Reads heads of loops: the condition, the step after each iteration, and the body.

Before::

    while (n--) *y++ = *x++;
    do { Y[i] = X[i]; } while (++i < 64);
    for (;;) { if (i == 64) break; Y[i] = X[i]; i++; }

Read as::

    for (; n != 0;) { n--; *y++ = *x++; }      (n is one less after the loop as well)
    for (first = true; first || i < 64; i++) Y[i] = X[i];
    for (; i != 64;) { Y[i] = X[i]; i++; }
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    LOOPS,
    comma_separated,
    declared_name,
    descendants,
    identifiers,
    text_of,
)
from tilewright.proposers.loops.parsing.syntax import (
    UnsupportedError,
    bare,
    field_of,
    inside,
    operator_of,
)

NO_STEP = "the body of this loop does not end with a step of the loop variable"
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!=", "==": "=="}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_SCALING = ("*=", "/=", "<<=", ">>=")


@dataclass(frozen=True, slots=True)
class Head:
    """The parts of a loop: a condition, the step of a `for`, and the body.

    `tested_last` is whether the first iteration happens in any case. The condition `ends` the loop
    where it stands before a `break`.
    """

    node: Node
    condition: Node
    update: tuple[Node, ...]
    body: tuple[Node, ...]
    tested_last: bool
    ends: bool = False

    @property
    def declared(self) -> set[str]:
        """Names that the body declares."""
        found = (n for n in self.body if n.type == "declaration")
        return {declared_name(d) for n in found for d in n.children_by_field_name("declarator")}


@dataclass(frozen=True, slots=True)
class Test:
    """A condition `variable sign limit`; a missing limit is zero. `step` changes the variable in
    the condition.

    A `late` step happens after the comparison, as in `n--`. `beside` is a value that is added to
    the variable, or subtracted with the other `operator`. Values of the variable below `lowest`
    are converted to large unsigned numbers for the comparison.
    """

    variable: Node
    sign: str
    limit: Node | None
    step: Node | None
    late: bool
    beside: Node | None = None
    operator: str = "+"
    lowest: int | None = None

    @property
    def limiting(self) -> set[str]:
        """The variables that decide where the loop ends, other than its own."""
        nodes = [n for n in (self.limit, self.beside) if n is not None]
        return {name for n in nodes for name in identifiers(n)} - {text_of(self.variable)}


def head_of(node: Node) -> Head:
    """The head of a loop. Raises `UnsupportedError`."""
    condition, update, body = _condition_of(node), update_of(node), inside(field_of(node, "body"))
    if condition is None:
        return _left_by_break(node, body, update)
    return Head(node, condition, update, tuple(body), node.type == "do_statement")


def _condition_of(node: Node) -> Node | None:
    """The condition of a loop, or None if the loop is endless."""
    condition = node.child_by_field_name("condition")
    endless = condition is None or text_of(bare(condition)) in ("1", "true")
    return None if endless else condition


def update_of(node: Node) -> tuple[Node, ...]:
    """The parts of the step in the head of a `for`; none in other loops."""
    update = node.child_by_field_name("update")
    return (*comma_separated(update),) if update is not None else ()


def _left_by_break(node: Node, body: list[Node], update: tuple[Node, ...]) -> Head:
    """An endless loop whose first or last statement is `if (condition) break;`."""
    for place, rest in ((0, body[1:]), (-1, body[:-1])):
        condition = _break_of(body[place]) if body else None
        if condition is not None and not (place and update):
            return Head(node, condition, update, tuple(rest), place == -1, ends=True)
    what = "this loop has no condition, and neither begins nor ends with `if (...) break;`"
    raise UnsupportedError(node, what)


def return_of(node: Node) -> Node | None:
    """The `return` of an endless loop whose first or last statement is `if (condition) return;`."""
    if node.type not in LOOPS or _condition_of(node) is not None:
        return None
    body = inside(field_of(node, "body"))
    for end in (body[0], body[-1]) if body else ():
        if _break_of(end) is not None:
            return next((n for n in descendants(end) if n.type == "return_statement"), None)
    return None


def value_of(node: Node) -> Node | None:
    """The expression of a `return`."""
    return next((n for n in node.named_children if n.type != "comment"), None)


def _break_of(node: Node) -> Node | None:
    """The condition of a statement that does nothing but end the loop, or return from the
    function."""
    if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
        return None
    inner = field_of(node, "consequence")
    inner = inner.named_children[0] if inner.type == "compound_statement" else inner
    leaves = inner.type in ("break_statement", "return_statement")
    return field_of(node, "condition") if leaves else None


def test_of(head: Head, changing: frozenset[str]) -> Test:
    """The comparison in the condition of a loop. `changing` are variables that iterations
    change."""
    condition = bare(head.condition)
    if condition.type == "binary_expression" and operator_of(condition) in _TURNED:
        left, right = field_of(condition, "left"), field_of(condition, "right")
        sign = operator_of(condition)
        if not _is_control(left, changing) and _is_control(right, changing):
            left, right, sign = right, left, _TURNED[sign]
        sign = _OPPOSITE[sign] if head.ends else sign
        if sign == "==":
            message = f"the condition {text_of(condition)!r} holds for one value only"
            raise UnsupportedError(head.node, message)
    elif condition.type in ("identifier", "update_expression") and not head.ends:
        left, right, sign = condition, None, "!="
    else:
        message = f"the condition {text_of(condition)!r} is not a comparison"
        raise UnsupportedError(head.node, message)
    left = bare(left)
    step, late = None, False
    beside, operator = None, "+"
    if left.type == "binary_expression" and operator_of(left) in ("+", "-"):
        operator, beside = operator_of(left), field_of(left, "right")
        left = bare(field_of(left, "left"))
        if operator == "+" and not _is_control(left, changing):
            left, beside = bare(beside), left
    if left.type in ("update_expression", "assignment_expression"):
        step, late = left, left.type == "update_expression" and text_of(left)[-1] in "+-"
        left = field_of(left, "argument" if left.type == "update_expression" else "left")
    if left.type != "identifier":
        raise UnsupportedError(
            head.node, "only loops whose condition compares a variable are supported"
        )
    if step is None and text_of(left) not in changing:
        raise UnsupportedError(head.node, NO_STEP)
    return Test(left, sign, right, step, late, beside, operator)


def require_step_reached(head: Head, name: str) -> None:
    """Raise if a `continue` could skip the last statement of a body that changes the loop
    variable."""
    last = head.body[-1] if head.body else head.node
    steps = last.named_children[:1] if last.type == "expression_statement" else []
    if not any(updates(part, name) for step in steps for part in comma_separated(step)):
        return
    if any(n.type == "continue_statement" for child in head.body for n in descendants(child)):
        raise UnsupportedError(head.node, "`continue` skips the step of this loop")


def scales(node: Node) -> bool:
    """Whether the variable of a `for` loop is multiplied, divided or shifted in each iteration."""
    for part in update_of(node):
        if part.type == "assignment_expression":
            right = field_of(part, "right")
            name, sign = text_of(field_of(part, "left")), operator_of(part)
            if sign == "=" and right.type == "binary_expression":
                sides = (text_of(field_of(right, side)) for side in ("left", "right"))
                sign = f"{operator_of(right)}=" if name in sides else sign
            if sign in _SCALING:
                return True
    return False


def takes_what_is_left(node: Node) -> bool:
    """Whether a loop takes an amount from its variable that depends on the variable itself, as in
    `while (n > 0) { int m = n < 9 ? n : 9; ...; n -= m; }`."""
    condition = node.child_by_field_name("condition")
    if node.type == "do_statement" or condition is None:
        return False
    condition = bare(condition)
    if condition.type == "binary_expression" and operator_of(condition) in ("&&", "||"):
        return False  # data may end such a loop, whose other side counts
    body = inside(field_of(node, "body"))
    simple = (n for n in body if n.type == "expression_statement")
    steps = [part for n in simple for part in n.named_children[:1]]  # none in an empty statement
    for name in identifiers(condition):
        taken = [n for n in steps if n.type == "assignment_expression" and updates(n, name)]
        amounts = {i for n in taken for i in identifiers(field_of(n, "right"))} - {name}
        values = (value for child in body for value in _values_of(amounts, child))
        if any(name in identifiers(value) for value in values):
            return True
    return False


def _values_of(names: set[str], node: Node) -> Iterator[Node]:
    """The values that a statement gives to variables."""
    for part in descendants(node):
        target = part.child_by_field_name("declarator") or part.child_by_field_name("left")
        value = part.child_by_field_name("value") or part.child_by_field_name("right")
        if target is not None and value is not None and text_of(bare(target)) in names:
            yield value


def updates(part: Node, name: str) -> bool:
    """Whether an expression changes a variable."""
    if part.type == "update_expression":
        return text_of(bare(field_of(part, "argument"))) == name
    return part.type == "assignment_expression" and text_of(bare(field_of(part, "left"))) == name


def _is_control(node: Node, changing: frozenset[str]) -> bool:
    """Whether an operand of a comparison is the variable of a loop."""
    node = bare(node)
    if node.type == "binary_expression" and operator_of(node) in ("+", "-"):
        sides = (field_of(node, "left"), field_of(node, "right"))
        return any(
            side.type != "binary_expression" and _is_control(side, changing) for side in sides
        )
    steps = ("update_expression", "assignment_expression")
    return node.type in steps or (node.type == "identifier" and text_of(node) in changing)
