"""Counted loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    comma_separated,
    declared_name,
    leaves_early,
    text_of,
)
from tilewright.proposers.rewriter.expr import Bounds, Expr, bounds
from tilewright.proposers.rewriter.ir import (
    Body,
    Condition,
    Loop,
    Opaque,
    walk,
)
from tilewright.proposers.rewriter.lifting.branches import Branches
from tilewright.proposers.rewriter.lifting.choice import decided
from tilewright.proposers.rewriter.lifting.induction import (
    Count,
    Marked,
    after_loop,
    at_head,
    counted,
    mark_of,
)
from tilewright.proposers.rewriter.lifting.loop_forms import Form, form_of, never_again
from tilewright.proposers.rewriter.lifting.remaining_amounts import after_last, steady
from tilewright.proposers.rewriter.lifting.scope import Scope
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled, Value

MOST_LISTED = 16
"""Maximum number of iterations of a loop that may be written out."""
MOST_ITERATIONS = 512
"""The same limit for all loops of a kernel together."""


class Loops(Branches):
    """Reads all forms of loops whose iterations can be counted."""

    def _loop(self, node: Node, scope: Scope) -> Body:
        """A counted loop. If this leaves text, its first iteration is written separately, or all
        iterations of a loop with few."""
        body = node.child_by_field_name("body")
        if node.type == "do_statement" and body is not None and never_again(node):
            if any(leaves_early(s) for s in body.named_children):
                raise NotModelled("a loop may end early, by break, return or goto")
            return self._flattened_branch(body, scope)
        form, trial, reason = form_of(node), scope.branch(), None
        stmts: Body = ()
        try:
            stmts = self._counted(form, trial)
        except NotModelled as error:
            reason = error
        if reason is None and not _has_text(stmts):
            scope.take(trial)
            return stmts
        for written in (self._peeled, self._listed):
            other = scope.branch()
            try:
                found = written(form, other)
            except NotModelled:
                continue
            scope.take(other)
            return found
        if reason is not None:
            raise reason
        scope.take(trial)
        return stmts

    def _peeled(self, form: Form, scope: Scope) -> Body:
        """The first iteration, and a loop of the others, in which variables may keep values of the
        previous iteration; `NotModelled` if a part of them stays text."""
        inner = scope.inner()
        self._loop_variables(form.first, inner)
        if form.last or not self._goes_on(form, inner):
            raise NotModelled("a loop may have no first iteration")
        self._iterations += 1
        if self._iterations > MOST_ITERATIONS:
            raise NotModelled("a loop has too many iterations to be written out")
        stmts = self._block(form.statements, inner.inner())
        for part in form.updates():
            self._expression(part, inner)
        stmts += self._counted(replace(form, first=None), inner)
        if _has_text(stmts):
            raise NotModelled("the iterations of a loop have different forms")
        return stmts

    def _listed(self, form: Form, scope: Scope) -> Body:
        """Every iteration written separately; `NotModelled` for many iterations, and if one of them
        stays text."""
        inner = scope.inner()
        self._loop_variables(form.first, inner)
        result: Body = ()
        for _ in range(MOST_LISTED):
            if not form.last and not self._goes_on(form, inner):
                return result
            turn = inner.inner()
            self._iterations += 1
            if self._iterations > MOST_ITERATIONS:
                break
            stmts = self._block(form.statements, turn)
            if _has_text(stmts):
                break
            result += stmts
            if form.last and not self._goes_on(form, turn):
                return result
            for part in form.updates():
                self._expression(part, inner)
        raise NotModelled("a loop has too many iterations to be written out")

    def _goes_on(self, form: Form, scope: Scope) -> bool:
        """Whether the loop continues. Also applies the changes that its test makes."""
        ahead = form.changes()
        holds = decided(self._tested(form, scope, ahead))
        if holds is None:
            raise NotModelled("the number of iterations of a loop is unknown")
        for part in ahead:
            self._expression(part, scope)
        return holds

    def _counted(self, form: Form, scope: Scope) -> Body:
        """A counted loop. Its body is lifted once to see how variables change, and then a second
        time."""
        inner = scope.inner()
        own = self._loop_variables(form.first, inner)
        ahead, late = form.changes(), form.updates()
        if form.last:
            ahead, late = [], ahead
        exact = self._changing(ahead, form.statements, late, inner)
        head = inner.branch()
        for name, marked in exact.items():
            head.assign(name, marked.mark)
        condition = self._tested(form, head, ahead)
        changing = steady(condition, exact)
        unique = {name: self._unique(name, inner) for name in changing}
        count = counted(condition, changing, unique)
        if form.last and not _runs_once(count):
            raise NotModelled(
                "a loop tests its condition at the end, and its first iteration may not satisfy it"
            )
        inner.ranges = {**inner.ranges, count.variable: _range(count, inner.ranges)}
        for name, marked in changing.items():
            try:
                inner.assign(name, at_head(marked, count, changing))
            except NotModelled:
                inner.state.pop(inner.slots[name], None)
        turn = inner.branch()
        turn.loops = inner.loops | {count.variable}
        for part in ahead:
            self._expression(part, turn)
        begun = dict(turn.state)
        stmts = self._block(form.statements, turn.inner())
        followed = {inner.slots[name] for name in changing}
        if any(turn.state.get(s) != v for s, v in begun.items() if s not in followed):
            raise NotModelled("a loop changes a variable through a pointer")
        self._check_text(stmts, count, changing, own)
        for name, marked in changing.items():
            try:
                if marked == exact[name]:
                    inner.assign(name, after_loop(marked, count, changing, scope.ranges))
                else:
                    inner.assign(name, after_last(name, exact, changing, count, scope.ranges))
            except NotModelled:
                inner.state.pop(inner.slots[name], None)
        for part in ahead:  # the test that ends the loop changes its variables once more
            inner.state.pop(inner.slots[text_of(part.named_children[0])], None)
        if not stmts:
            return ()
        return (Loop(count.variable, count.lower, count.upper, count.step, stmts),)

    def _loop_variables(self, first: Node | None, scope: Scope) -> set[str]:
        """Execute the first part of a `for`, and return the names that it declares."""
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

    def _tested(self, form: Form, head: Scope, ahead: list[Node]) -> Condition:
        """The condition at the beginning of an iteration. The changes that it makes are applied
        separately.

        `ahead` are the changes that it makes before the iteration, not after the previous one.
        """
        plain = self._reader(head)

        def stepped(node: Node) -> Value:
            amount = 1 if text_of(node.child_by_field_name("operator") or node) == "++" else -1
            prefix = node.named_children[0].start_byte > node.start_byte
            shift = (amount if prefix else 0) if node in ahead else (0 if prefix else -amount)
            return plain.combined("+", plain.value(node.named_children[0]), Expr(shift))

        reader = replace(plain, stepped=stepped)
        return reader.opposite(form.test) if form.leaves else reader.condition(form.test)

    def _changing(
        self, ahead: list[Node], body: list[Node], late: list[Node], scope: Scope
    ) -> dict[str, Marked]:
        """The variables that an iteration changes, with their values in terms of their marks."""
        within: frozenset[str] = frozenset().union(*(self._assigned(n) for n in body))
        written = within.union(*(self._assigned(n) for n in (*ahead, *late)))
        found = {n: v for n in sorted(written) if (v := scope.get(n)) is not None}
        trial = scope.branch()
        trial.kinds = {}  # how a mark changes is known only after its loop
        marks: dict[str, Value] = {}
        for name, value in found.items():
            self._serial += 1
            # a value that does not change by arithmetic must stay the same
            marks[name] = mark_of(value, f"{name}{self._serial}") or value
            trial.assign(name, marks[name])
        known = set(self.names)
        for part in ahead:
            self._expression(part, trial)
        if within & set(marks):
            for stmt in walk(self._block(body, trial.inner())):
                for name in self._writes.get(stmt, ()) if isinstance(stmt, Opaque) else ():
                    trial.state.pop(trial.slots.get(name, 0), None)
        for part in late:
            self._expression(part, trial)
        for atom in set(self.names) - known:
            del self.names[atom]
        for name, mark in marks.items():
            if mark == found[name] and trial.get(name) != mark:
                raise NotModelled(
                    f"a loop changes the variable {name}, and not in a way that can be counted"
                )
        return {n: Marked(found[n], marks[n], trial.get(n)) for n in marks}

    def _unique(self, name: str, scope: Scope) -> str:
        """A name for a loop's variable that no enclosing loop has."""
        while name in scope.loops or name in scope.arrays:
            name += "_"
        return name

    def _check_text(
        self, stmts: Body, count: Count, changing: dict[str, Marked], own: set[str]
    ) -> None:
        """Text in a loop may use the loop's variable by its name, but no other changing
        variable."""
        for stmt in walk(stmts):
            if isinstance(stmt, Opaque):
                odd = stmt.names & (set(changing) | own) - {count.variable} - self.dropped
                if odd or count.variable in self._writes.get(stmt, ()):
                    raise NotModelled("the body of a loop changes the loop's variable")
                direct = changing.get(count.variable)
                named = count.variable in stmt.names and direct is not None
                if named and direct is not None and count.lower != direct.first:
                    raise NotModelled(
                        "a loop does not count up from the initial value of its variable"
                    )


def _has_text(stmts: Body) -> bool:
    return any(isinstance(s, Opaque) for s in walk(stmts))


def _range(count: Count, ranges: Mapping[str, Bounds]) -> Bounds:
    """The smallest and largest value of a loop's variable."""
    return bounds(count.lower, ranges)[0], bounds(count.upper, ranges)[1] - 1


def _runs_once(count: Count) -> bool:
    span = count.upper - count.lower
    return span.is_const and span.const > 0
