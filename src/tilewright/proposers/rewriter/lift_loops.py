"""Counted loops."""

from __future__ import annotations

from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Body, Condition, Loop, Opaque, walk
from tilewright.proposers.rewriter.lift_branches import Branches
from tilewright.proposers.rewriter.lift_induction import (
    Count,
    Marked,
    at_head,
    behind,
    counted,
    mark_of,
)
from tilewright.proposers.rewriter.lift_scope import NotModelled, Scope, Value
from tilewright.proposers.rewriter.lift_steady import behind_last, steady
from tilewright.proposers.rewriter.lift_syntax import (
    comma_separated,
    declared_name,
    descendants,
    is_skip,
    leaves_early,
    text_of,
)


class Loops(Branches):
    """Loops of any form whose iterations can be counted."""

    def _loop(self, node: Node, scope: Scope) -> Body:
        """A counted loop: its body is lifted once to see how variables change, then for good."""
        body, test = node.child_by_field_name("body"), node.child_by_field_name("condition")
        if body is None or test is None:
            raise NotModelled("loop without a condition")
        within = body.named_children if body.type == "compound_statement" else [body]
        if any(leaves_early(s) and not is_skip(s) for s in within):
            raise NotModelled("loop that may end early")
        if node.type == "do_statement" and text_of(test).strip("() ") in ("0", "false"):
            return self._flattened_branch(body, scope)
        inner = scope.inner()
        own = self._loop_variables(node, inner)
        update = node.child_by_field_name("update")
        ahead = [n for n in descendants(test) if n.type == "update_expression"]
        late = list(comma_separated(update)) if update is not None else []
        if node.type == "do_statement":
            ahead, late = [], ahead
        exact = self._changing(ahead, body, late, inner)
        head = inner.branch()
        for name, marked in exact.items():
            head.assign(name, marked.mark)
        condition = self._tested(test, head, ahead)
        changing = steady(condition, exact)
        unique = {name: self._unique(name, inner) for name in changing}
        count = counted(condition, changing, unique)
        if node.type == "do_statement" and not _runs_once(count):
            raise NotModelled("loop that tests its condition last")
        for name, marked in changing.items():
            try:
                inner.assign(name, at_head(marked, count, changing))
            except NotModelled:
                inner.state.pop(inner.slots[name], None)
        turn = inner.branch()
        turn.loops = inner.loops | {count.variable}
        for part in ahead:
            self._expression(part, turn)
        stmts = self._branch(body, turn)
        self._check_text(stmts, count, changing, own)
        for name, marked in changing.items():
            try:
                if marked == exact[name]:
                    inner.assign(name, behind(marked, count, changing))
                else:
                    inner.assign(name, behind_last(name, exact, changing, count))
            except NotModelled:
                inner.state.pop(inner.slots[name], None)
        for part in ahead:  # the test that ends the loop changes its variables once more
            inner.state.pop(inner.slots[text_of(part.named_children[0])], None)
        if not stmts:
            return ()
        return (Loop(count.variable, count.lower, count.upper, count.step, stmts),)

    def _loop_variables(self, node: Node, scope: Scope) -> set[str]:
        """Declares or sets what the head of a `for` does; the names it declares."""
        first = node.child_by_field_name("initializer")
        if first is None:
            return set()
        if first.type != "declaration":
            for part in comma_separated(first):
                self._expression(part, scope)
            return set()
        kind = first.child_by_field_name("type")
        items = first.children_by_field_name("declarator")
        for item in items:
            self._declare(item, text_of(kind) if kind is not None else "", scope)
        return {declared_name(item) for item in items}

    def _tested(self, test: Node, head: Scope, ahead: list[Node]) -> Condition:
        """A loop's condition at the head of an iteration; what it changes is changed elsewhere.

        `ahead` are the changes that it makes before the iteration, not after the one before.
        """
        plain = self._reader(head)

        def stepped(node: Node) -> Value:
            amount = 1 if text_of(node.child_by_field_name("operator") or node) == "++" else -1
            prefix = node.named_children[0].start_byte > node.start_byte
            shift = (amount if prefix else 0) if node in ahead else (0 if prefix else -amount)
            return plain.combined("+", plain.value(node.named_children[0]), Expr(shift))

        return replace(plain, stepped=stepped).condition(test)

    def _changing(
        self, ahead: list[Node], body: Node, late: list[Node], scope: Scope
    ) -> dict[str, Marked]:
        """The variables that an iteration changes, with what it makes of their marks."""
        written = self._assigned(body).union(*(self._assigned(n) for n in (*ahead, *late)))
        found = {n: v for n in sorted(written) if (v := scope.get(n)) is not None}
        trial = scope.branch()
        marks: dict[str, Value] = {}
        for name, value in found.items():
            self._serial += 1
            mark = mark_of(value, f"{name}{self._serial}")
            if mark is None:
                raise NotModelled(f"variable {name} that changes in a loop")
            marks[name] = mark
            trial.assign(name, mark)
        known = set(self.names)
        for part in ahead:
            self._expression(part, trial)
        if self._assigned(body) & set(marks):
            self._branch(body, trial)
        for part in late:
            self._expression(part, trial)
        for atom in set(self.names) - known:
            del self.names[atom]
        return {n: Marked(found[n], marks[n], trial.get(n)) for n in marks}

    def _unique(self, name: str, scope: Scope) -> str:
        """A name for a loop's variable that no loop around it has."""
        while name in scope.loops or name in scope.arrays:
            name += "_"
        return name

    def _check_text(
        self, stmts: Body, count: Count, changing: dict[str, Marked], own: set[str]
    ) -> None:
        """Text in a loop may read the loop's variable by its name, and no other changing one."""
        for stmt in walk(stmts):
            if isinstance(stmt, Opaque):
                odd = stmt.names & (set(changing) | own) - {count.variable} - self.dropped
                if odd or count.variable in self._writes.get(stmt, ()):
                    raise NotModelled("loop whose variable changes in its body")
                direct = changing.get(count.variable)
                named = count.variable in stmt.names and direct is not None
                if named and direct is not None and count.lower != direct.first:
                    raise NotModelled("loop that does not count up")


def _runs_once(count: Count) -> bool:
    span = count.upper - count.lower
    return span.is_const and span.const > 0
