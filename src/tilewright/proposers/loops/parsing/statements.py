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

from collections.abc import Sequence

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    LOOPS,
    comma_separated,
    declared_names,
    descendants,
    identifiers,
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
    Number,
    Select,
    Statement,
    Var,
    statements,
)
from tilewright.proposers.loops.parsing.arithmetic import decided, printed, truth
from tilewright.proposers.loops.parsing.assignments import Assignments
from tilewright.proposers.loops.parsing.declarations import all_of
from tilewright.proposers.loops.parsing.heads import return_of
from tilewright.proposers.loops.parsing.scope import Value, number
from tilewright.proposers.loops.parsing.switches import as_tests
from tilewright.proposers.loops.parsing.syntax import (
    UnsupportedError,
    bare,
    field_of,
    has_effects,
    inside,
    operator_of,
)

LEAVES = "a `continue` skips statements after the block that contains it"


class Statements(Assignments):
    """Reads statements. They wait in `_done` until the enclosing statement is complete.

    `_stored` are the statements inside of the outermost condition whose own condition is known to
    be stored in a variable. They are read only once from then on: if each condition inside of
    another one were read twice, the time would double with each condition.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stored: set[int] = set()

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
        places = field_of(node, "consequence"), other
        first, second = (
            branch[:-1] if end else followed(place, rest)
            for place, branch, end in zip(places, branches, ends, strict=True)
        )
        self._if(node, first, second)

    def statement(self, node: Node) -> None:
        """One statement. Raises `UnsupportedError`."""
        if node.type == "compound_statement":
            with self._inner():
                self.statements(node.named_children)
        elif node.type == "declaration":
            self.declaration(node)
        elif runs_once(node):
            self.statement(field_of(node, "body"))
        elif node.type in LOOPS:
            if return_of(node) is not None:
                raise UnsupportedError(node, "a `return` in an inner statement ends this loop")
            self._done += self.loop(node)
        elif node.type == "if_statement":
            other = otherwise(node)
            self._if(node, inside(field_of(node, "consequence")), inside(other) if other else [])
        elif node.type == "expression_statement":
            for inner in node.named_children:
                self.effects(inner)
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
        """The statements that a `switch` on a known number executes, and an `if` for a `switch` on
        data.

        A case without `break` or `return` continues with the next case.
        """
        try:
            chosen = self.constant(condition_of(node))
        except UnsupportedError:
            return [as_tests(node)]
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

    def effects(self, node: Node) -> None:
        """The effects of an expression whose value is not used, such as `(void)n`, `(void)f(p)`, or
        `return g(p)` in a function whose result is not used or is a pointer."""
        node = bare(node)
        if not has_effects(node):
            return
        if node.type == "comma_expression":
            for part in comma_separated(node):
                self.effects(part)
        elif node.type == "cast_expression":
            self.effects(field_of(node, "value"))
        elif node.type == "call_expression":
            self.command(node)
        elif node.type == "assignment_expression":
            self.assignment(node)
        elif node.type == "update_expression":
            self.changed(node, field_of(node, "argument"), operator_of(node)[0], number(1))
        else:
            self.place(node)
        self.complete()

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
        settled = self._settled(test)
        if settled is not None:
            with self._inner():
                self.statements(chosen if settled else otherwise)
            return
        opposite = Binary("==", test, Number("0"))
        if not otherwise:
            self._guarded(node, test, chosen)
            return
        if not chosen:
            self._guarded(node, opposite, otherwise)
            return
        if not self._guards:
            self._stored.clear()
            with self._deferred():
                first, second = self._branches(test, opposite, chosen, otherwise)
            joined = _joined(first, second, test, opposite)
            if joined is not None:
                self._done += joined
                return
        kept = self._kept(test)
        opposite = Binary("==", kept, Number("0"))
        with self._deferred() as uncertain:
            first, second = self._branches(kept, opposite, chosen, otherwise)
        written = _written(first, kept) & _written(second, opposite)
        for place, target, cut in uncertain:
            if target not in written or None in map(self.interval_of, target.subscripts):
                self._doubt(place, target, cut)
        self._done += [*first, *second]

    def _branches(
        self, test: Expr, opposite: Expr, chosen: Sequence[Node], otherwise: Sequence[Node]
    ) -> tuple[list[Statement], list[Statement]]:
        """The statements of both branches of an `if`."""
        with self._inner(), self._collected() as first, self._under(test):
            self.statements(chosen)
        with self._inner(), self._collected() as second, self._under(opposite):
            self.statements(otherwise)
        return first, second

    def _decided(
        self, condition: Node, chosen: Sequence[Node], otherwise: Sequence[Node]
    ) -> bool | None:
        """Whether ranges decide a condition that guards only assignments to a followed variable."""
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
        settled = self._settled(test)
        if settled is not None:
            with self._inner():
                self.statements(nodes if settled else ())
            return
        if not self._guards:
            self._stored.clear()
        if node.id not in self._stored:
            names, meanings = set(self._printed[-1]), dict(self._meanings)
            with self._inner(), self._collected() as found, self._under(test):
                self.statements(nodes)
            changes = sum(isinstance(s, Assign) for s in statements(tuple(found)))
            if changes <= 1 and not any(isinstance(s, For) for s in found):
                self._done += found
                return
            if self._guards:  # only the outermost reading that is repeated leaves out names
                self._printed[-1], self._meanings = names, meanings
            self._stored.add(node.id)
        kept = self._kept(test)
        with self._inner(), self._under(kept):
            self.statements(nodes)

    def _kept(self, test: Expr) -> Expr:
        if isinstance(test, Var):
            return test
        name = self.printed_name("holds")
        test = truth(test)  # an int keeps no fraction
        value = Select(all_of(self._guards), test, Number("0")) if self._guards else test
        self._done.append(Declare("int", name, (), value))
        self._meanings[name] = test
        return Var(name)


def condition_of(node: Node) -> Node:
    """The condition of an `if`."""
    found = field_of(node, "condition")
    return found.named_children[0] if found.type == "parenthesized_expression" else found


def otherwise(node: Node) -> Node | None:
    """The statements of an `if` for a false condition."""
    found = node.child_by_field_name("alternative")
    return found.named_children[-1] if found is not None else None


def runs_once(node: Node) -> bool:
    """Whether a statement is `do { ... } while (0)`, as in macros."""
    return node.type == "do_statement" and text_of(condition_of(node)) in ("0", "false")


def returns(node: Node) -> bool:
    """Whether a statement may return from its function."""
    return any(n.type == "return_statement" for n in descendants(node))


def followed(branch: Node | None, rest: Sequence[Node]) -> list[Node]:
    """The statements of a branch of an `if` and those after the `if`. The latter do not see the
    names that the branch declares."""
    if branch is None:
        return [*rest]
    found = inside(branch)
    named = {name for node in rest for name in identifiers(node)}
    if named & {name for n in found for name in declared_names(n)}:
        found = [branch]  # a block, which has a scope of its own
    return [*found, *rest]


def _written(found: Sequence[Statement], condition: Expr) -> frozenset[Element]:
    """Elements that conditional statements write whenever the condition is true, and no other
    condition around has to be true."""
    return frozenset(
        s.target
        for s in found
        if isinstance(s, Assign)
        and isinstance(s.target, Element)
        and isinstance(s.value, Select)
        and s.value.condition == condition
    )


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
