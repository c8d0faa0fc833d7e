"""Reads what functions return, and what is computed only under a condition.

Before::

    if (x < 0.0f) return 0.0f;
    return sqrtf(x);

Read as::

    x < 0.0f ? 0.0f : sqrtf(x)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    LOOPS,
    declared_names,
    descendants,
    identifiers,
    may_break,
)
from tilewright.proposers.loops.analysis.changes import changed_outside, used_by
from tilewright.proposers.loops.ir import Binary, Element, Expr, Number, Select, Type, expressions
from tilewright.proposers.loops.parsing.arithmetic import converted, printed
from tilewright.proposers.loops.parsing.heads import return_of, value_of
from tilewright.proposers.loops.parsing.scope import Binding, Value
from tilewright.proposers.loops.parsing.statements import (
    condition_of,
    followed,
    otherwise,
    returns,
)
from tilewright.proposers.loops.parsing.syntax import (
    UnsupportedError,
    field_of,
    has_effects,
    inside,
)
from tilewright.proposers.loops.parsing.varying_loops import VaryingLoops

_MOST_COPIES = 3
"""Maximum number of conditions, each with a `return` in only some of its cases, for which the
statements after them are read once for each case."""


class Results(VaryingLoops):
    """Reads the statements of a function up to each `return`, and values under conditions."""

    def __init__(self) -> None:
        super().__init__()
        self._inside_tests = 0
        self._tested: set[int] = set()

    def computed_under(self, test: Expr, node: Node, read: Callable[[], Value]) -> Value:
        """The value of a node that is computed only if a test is true."""
        with self._collected() as found:
            value = self._only_under(test, node, read)
        if used_by(test) & changed_outside(tuple(found)):
            raise UnsupportedError(node, "what runs under a condition changes this condition")
        self._done += found
        return value

    def _only_under(self, test: Expr, node: Node, read: Callable[[], Value]) -> Value:
        """The value of a node that is computed only if a test is true.

        Statements of functions that it calls are executed before the test, and therefore always,
        unless they change anything that they do not declare. These, and those with elements that
        may be outside their arrays, are executed only if the test is true. The nodes for which this
        is known, inside of the outermost one, are read only once from then on: if each node inside
        of another one were read twice, the time would double with each.
        """
        if not self._inside_tests:
            self._tested.clear()
        self._inside_tests += 1
        if node.id not in self._tested:
            names, before = set(self._printed[-1]), self.scope.bindings()
            with self._collected() as found, self._maybe(test):
                value = read()
            parts = expressions(tuple(found))
            if (
                not changed_outside(tuple(found))
                and all(self.scope.find(name) == binding for name, binding in before.items())
                and all(self.may_touch(e) for e in parts if isinstance(e, Element))
            ):
                self._done += found
                self._inside_tests -= 1
                return value
            self._go_back(names, before)
            self._tested.add(node.id)
        with self._under(test):
            value = read()
        self._inside_tests -= 1
        return value

    def returned(self, nodes: Sequence[Node], kind: Type | None) -> Value | None:
        """The value that statements return, converted to a type, after the statements before were
        read."""
        nodes = self.without_hints(nodes)
        if self._result is None and _returns_anywhere(nodes, _MOST_COPIES if kind else 0):
            return self.returned_early(nodes, kind)
        for place, node in enumerate(nodes):
            if node.type == "return_statement":
                given = value_of(node)
                if given is None:
                    return None
                if kind is None:
                    self.effects(given)
                    return None
                return converted(node, self.value(given), kind)
            if (end := return_of(node)) is not None:
                if any(map(may_break, inside(field_of(node, "body")))):
                    what = "a loop without a condition contains both `break` and `return`"
                    raise UnsupportedError(node, what)
                if {*declared_names(node)} & {*identifiers(end)}:
                    what = "a `return` in a loop uses a name that the loop declares"
                    raise UnsupportedError(end, what)
                self._done += self.loop(node)
                return self.returned([end], kind)
            if node.type == "compound_statement" and returns(node):
                within = followed(node, nodes[place + 1 :])
                if node in within:
                    what = "a block that returns declares the name of another variable"
                    raise UnsupportedError(node, what)
                return self.returned(within, kind)
            if node.type == "if_statement" and returns(node):
                if kind is not None:
                    return self._chosen_by_returns(node, nodes[place + 1 :], kind)
                self._left_by_return(node, nodes[place + 1 :])
                return None
            if node.type == "switch_statement" and returns(node):
                return self.returned([*self.case_of(node), *nodes[place + 1 :]], kind)
            self.statement(node)
        return None

    def _left_by_return(self, node: Node, rest: Sequence[Node]) -> None:
        """if (condition) return; in a function that returns nothing."""
        other = otherwise(node)
        places = field_of(node, "consequence"), other
        test = condition_of(node)
        known = None if has_effects(test) else self.value(test).interval
        if known in ((0, 0), (1, 1)):
            self.returned(followed(places[known == (0, 0)], rest), None)
            return
        branches = [inside(field_of(node, "consequence")), inside(other) if other else []]
        ends = [bool(b) and b[-1].type == "return_statement" for b in branches]
        first, second = (
            branch[:-1] if end else followed(place, rest)
            for place, branch, end in zip(places, branches, ends, strict=True)
        )
        effects = any(end and has_effects(b[-1]) for b, end in zip(branches, ends, strict=True))
        if effects or any(map(returns, (*first, *second))):
            self.returned_early([node, *rest], None)
            return
        self._if(node, first, second)

    def without_hints(self, nodes: Sequence[Node]) -> list[Node]:
        """The statements of a block without comments and promises to the compiler."""
        raise NotImplementedError

    def _chosen_by_returns(self, node: Node, rest: Sequence[Node], kind: Type) -> Value:
        """if (condition) return value; return other;"""
        names, before = set(self._printed[-1]), self.scope.bindings()
        with self._collected() as tested:
            condition, other = self.value(condition_of(node)), otherwise(node)

        def as_statements() -> Value:
            """The same if the condition or a branch changes something: all is read again."""
            self._go_back(names, before)
            early = self.returned_early([node, *rest], kind)
            assert early is not None
            return early

        if self._after or changed_outside(tuple(tested)) or before != self.scope.bindings():
            self._after.clear()
            return as_statements()
        self._done += tested

        def returned(statements: Sequence[Node]) -> Value:
            found = self.returned(statements, kind)
            if found is None:
                what = "a function that returns only under a condition is not supported"
                raise UnsupportedError(node, what)
            return found

        test = printed(condition)
        chosen = followed(field_of(node, "consequence"), rest)
        left = followed(other, rest)
        if condition.interval in ((0, 0), (1, 1)):
            return returned(chosen if condition.interval[0] else left)
        opposite = Binary("==", test, Number("0"))
        with self._collected() as found:
            branch = field_of(node, "consequence")
            first = self._only_under(test, branch, lambda: returned(chosen))
            second = self._only_under(opposite, node, lambda: returned(left))
        if changed_outside(tuple(found)):
            return as_statements()
        self._done += found
        return Value(Select(test, printed(first), printed(second)), first.type)

    def _go_back(self, names: set[str], before: Mapping[str, Binding]) -> None:
        """Go back to the printed `names` and the meanings of names `before` what was read."""
        self._printed[-1] = names
        for name, binding in before.items():
            self.scope.rebind(name, binding)


def _returns_anywhere(nodes: Sequence[Node], most: int) -> bool:
    """Whether statements return within a loop, or within more than `most` conditions that return
    only in some of their cases."""
    found = [n for node in nodes for n in descendants(node)]
    partial = sum(n.type == "if_statement" and _returns_sometimes(n) for n in found)
    return partial > most or any(
        n.type in LOOPS and returns(n) and return_of(n) is None for n in found
    )


def _returns_sometimes(node: Node) -> bool:
    """Whether a branch of an `if` contains a `return` that not all of its cases reach."""
    branches = field_of(node, "consequence"), otherwise(node)
    return any(b is not None and returns(b) and not _returns_always(b) for b in branches)


def _returns_always(node: Node) -> bool:
    last = (inside(node) or [node])[-1]
    if last.type != "if_statement":
        return last.type == "return_statement"
    other = otherwise(last)
    return other is not None and all(
        _returns_always(branch) for branch in (field_of(last, "consequence"), other)
    )
