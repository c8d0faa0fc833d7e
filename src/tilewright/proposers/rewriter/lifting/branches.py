"""Conditional statements: `if`, and the statements after an `if (..) continue;`."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from tree_sitter import Node

from tilewright.proposers.c.syntax import leaves_early
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Compare,
    Condition,
    Guard,
    Local,
    Operand,
    Stmt,
)
from tilewright.proposers.rewriter.lifting.choice import choice, decided, negated
from tilewright.proposers.rewriter.lifting.scope import Scope
from tilewright.proposers.rewriter.lifting.state import Lifting
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled


class Branches(Lifting):
    """Converts conditional statements to guards. Branches that issue the same commands are
    merged."""

    def _unless_skipped(self, node: Node, rest: list[Node], scope: Scope) -> Body:
        """The statements after an `if (..) continue;` in the body of a loop."""
        condition = self._reader(scope).opposite(parts_of_if(node)[0])
        holds = decided(condition)
        if holds is not None:
            return self._block(rest, scope) if holds else ()
        run, skipped = scope.branch(), scope.branch()
        body = self._block(rest, run)
        scope.merge(condition, run, skipped)
        return (Guard(condition, body),) if body else ()

    def _guard(self, node: Node, scope: Scope) -> Body:
        test, yes, no = parts_of_if(node)
        condition = self._reader(scope).condition(test)
        if leaves_early(node):
            raise NotModelled("a branch contains break, continue, return or goto")
        holds = decided(condition)
        if holds is not None:
            chosen = yes if holds else no
            return () if chosen is None else self._flattened_branch(chosen, scope)
        first, second = scope.branch(), scope.branch()
        body = self._branch(yes, first)
        orelse = self._branch(no, second) if no is not None else ()
        scope.merge(condition, first, second)
        for name in sorted(self._assigned(node)):
            self._remember(name, scope.get(name))
        return _joined(condition, body, orelse)

    def _switch(self, node: Node, scope: Scope) -> Body:
        """A `switch` whose cases end with `break`, as a sequence of tests."""
        subject = node.child_by_field_name("condition")
        if subject is None:
            raise NotModelled("this form of switch statement is not supported")
        return self._cases(self._reader(scope).integer(subject), cases_of(node), scope)

    def _cases(self, subject: Expr, cases: list[Case], scope: Scope) -> Body:
        if not cases:
            return ()
        values, statements = cases[0]
        if not values:
            return self._block(statements, scope.inner())
        held = [self._reader(scope).integer(v) for v in values]
        tests = [(Compare("==", subject, value),) for value in held]
        known = [decided(test) for test in tests]
        if any(known) or not any(k is None for k in known):
            if any(known):
                return self._block(statements, scope.inner())
            return self._cases(subject, cases[1:], scope)
        if len(tests) > 1:
            raise NotModelled("several case labels of a switch statement share their statements")
        first, second = scope.branch(), scope.branch()
        body = self._block(statements, first.inner())
        orelse = self._cases(subject, cases[1:], second)
        scope.merge(tests[0], first, second)
        return _joined(tests[0], body, orelse)

    def _flattened_branch(self, node: Node, scope: Scope) -> Body:
        if node.type == "compound_statement":
            return self._flattened(node, scope)
        return self._statement(node, scope.inner())


def parts_of_if(node: Node) -> tuple[Node, Node, Node | None]:
    """The condition and both branches of an `if`."""
    test, yes, no = (
        node.child_by_field_name(f) for f in ("condition", "consequence", "alternative")
    )
    if test is None or yes is None:
        raise NotModelled("an if statement has no condition")
    if no is not None:
        no = next(c for c in no.named_children if c.type != "comment")
    return test, yes, no


Case: TypeAlias = tuple[list[Node], list[Node]]
"""The values of a case (none for `default`), and its statements without the last `break`."""


def cases_of(node: Node) -> list[Case]:
    """The cases of a `switch`, `default` last; `NotModelled` if a case continues into the next
    one."""
    body = node.child_by_field_name("body")
    labels = [n for n in (body.named_children if body is not None else []) if n.type != "comment"]
    if not labels or any(n.type != "case_statement" for n in labels):
        raise NotModelled("this form of switch statement is not supported")
    found: list[Case] = []
    values: list[Node] = []
    other = False
    for label in labels:
        value = label.child_by_field_name("value")
        inside = [n for n in label.named_children if n.type != "comment" and n != value]
        other |= value is None
        values += [value] if value is not None else []
        if inside and inside[-1].type == "compound_statement" and len(inside) == 1:
            inside = [n for n in inside[0].named_children if n.type != "comment"]
        ends = bool(inside) and inside[-1].type == "break_statement"
        if inside and not ends and label is not labels[-1]:
            raise NotModelled("a case of a switch statement falls through into the next case")
        statements = inside[:-1] if ends else inside
        if any(leaves_early(s) for s in statements):
            raise NotModelled("a case of a switch statement ends before its last statement")
        if other and label is not labels[-1]:
            raise NotModelled("the default of a switch statement is not its last case")
        if inside or label is labels[-1]:
            found.append(([] if other else values, statements))
            values = []
    return found


def _joined(condition: Condition, body: Body, orelse: Body) -> Body:
    """One branch or the other."""
    if not body and orelse:
        body, orelse, condition = orelse, (), negated(condition)
    both = _either(condition, body, orelse)
    return both or ((Guard(condition, body, orelse),) if body else ())


def _either(condition: Condition, yes: Body, no: Body) -> Body:
    """Branches that issue the same commands with other addresses or flags, merged; otherwise
    None."""
    result: list[Stmt] = []
    for first, second in zip(yes, no, strict=False):
        if not (isinstance(first, Command) and isinstance(second, Command)):
            return ()
        if first.name != second.name or len(first.operands) != len(second.operands):
            return ()
        operands: list[Operand] = []
        for one, other in zip(first.operands, second.operands, strict=True):
            if one == other:
                operands.append(one)
            elif isinstance(one, Local) and isinstance(other, Local):
                try:
                    chosen = choice(condition, one, other)
                except NotModelled:
                    return ()
                assert isinstance(chosen, Local)
                operands.append(chosen)
            else:
                return ()
        result.append(replace(first, operands=tuple(operands)))
    return tuple(result) if len(yes) == len(no) else ()
