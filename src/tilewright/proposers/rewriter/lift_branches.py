"""Statements that run under a condition: `if`, and what follows an `if (..) continue;`."""

from __future__ import annotations

from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.rewriter.ir import Body, Command, Condition, Guard, Local, Operand, Stmt
from tilewright.proposers.rewriter.lift_scope import NotModelled, Scope, choice, decided, negated
from tilewright.proposers.rewriter.lift_state import Lifting
from tilewright.proposers.rewriter.lift_syntax import leaves_early


class Branches(Lifting):
    """Guards; branches that issue the same commands become one."""

    def _unless_skipped(self, node: Node, rest: list[Node], scope: Scope) -> Body:
        """What follows an `if (..) continue;` in the body of a loop."""
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
            raise NotModelled("branch that leaves early")
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
        if not body and orelse:
            body, orelse, condition = orelse, (), negated(condition)
        both = _either(condition, body, orelse)
        return both or ((Guard(condition, body, orelse),) if body else ())

    def _flattened_branch(self, node: Node, scope: Scope) -> Body:
        if node.type == "compound_statement":
            return self._flattened(node, scope)
        return self._statement(node, scope.inner())


def parts_of_if(node: Node) -> tuple[Node, Node, Node | None]:
    """The condition of an `if`, what it runs, and what it runs otherwise."""
    test, yes, no = (
        node.child_by_field_name(f) for f in ("condition", "consequence", "alternative")
    )
    if test is None or yes is None:
        raise NotModelled("if without a condition")
    if no is not None:
        no = next(c for c in no.named_children if c.type != "comment")
    return test, yes, no


def _either(condition: Condition, yes: Body, no: Body) -> Body:
    """Branches that issue the same commands with other addresses or flags, as one; else nothing."""
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
