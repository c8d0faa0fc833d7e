"""Calls of a file's own functions, which are inlined where they are called.

Before::

    static float twice(float x) { return x + x; }
    ...
    Y[i] = twice(X[i]);

After::

    float x = X[i];
    Y[i] = x + x;
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from tree_sitter import Node

from tilewright.proposers.c.syntax import assigned, descendants, parameters, text_of
from tilewright.proposers.loops.analysis.changes import changed_outside, used_by
from tilewright.proposers.loops.c_types import NAMES, is_whole
from tilewright.proposers.loops.ir import (
    Binary,
    Element,
    Expr,
    Number,
    Select,
    Type,
    Var,
    expressions,
)
from tilewright.proposers.loops.parsing.arithmetic import converted, printed
from tilewright.proposers.loops.parsing.data_loops import has_effects
from tilewright.proposers.loops.parsing.heads import return_of
from tilewright.proposers.loops.parsing.records import type_name
from tilewright.proposers.loops.parsing.scope import (
    Binding,
    Pointed,
    Record,
    Scope,
    Unknown,
    Value,
    Variable,
    number,
)
from tilewright.proposers.loops.parsing.statements import (
    condition_of,
    followed,
    inside,
    otherwise,
    returns,
)
from tilewright.proposers.loops.parsing.syntax import (
    NotFollowedError,
    UnsupportedError,
    field_of,
    named_type,
    operator_of,
)
from tilewright.proposers.loops.parsing.varying_loops import VaryingLoops

_DEEPEST = 8
_LOOPS = ("for_statement", "while_statement", "do_statement")
_MOST_COPIES = 3
"""Maximum number of conditions, each with a `return` in only some of its cases, for which the
statements after them are read once for each case."""
_Result = TypeVar("_Result")


class Functions(VaryingLoops):
    """Reads calls of the functions whose definitions are in `functions`."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[str, Node] = {}
        self.constants = Scope(None)
        self._calls: list[str] = []
        self._inside_tests = 0
        self._tested: set[int] = set()

    def called(self, node: Node) -> Value | None:
        """The return value of a function in the file, after its statements were read."""
        function = self.functions[text_of(field_of(node, "function"))]
        declared = field_of(function, "type")
        kind = None if text_of(declared) == "void" else named_type(declared)
        return self._inlined(node, lambda block: self.returned(block, kind))

    def fields(self, node: Node, record: Record) -> list[Value]:
        """The values of the fields of a structure, which a function may return."""
        name = text_of(field_of(node, "function")) if node.type == "call_expression" else ""
        if name not in self.functions:
            return super().fields(node, record)
        if self.records.get(type_name(field_of(self.functions[name], "type"))) != record:
            raise UnsupportedError(node, f"{name} does not return the declared type")

        def read(block: Sequence[Node]) -> list[Value]:
            last = block[-1] if block else node
            if last.type != "return_statement" or not last.named_children:
                raise UnsupportedError(node, f"{name} does not end with the structure it returns")
            for statement in block[:-1]:
                self.statement(statement)
            return self.fields(last.named_children[0], record)

        return self._inlined(node, read)

    def _inlined(self, node: Node, read: Callable[[Sequence[Node]], _Result]) -> _Result:
        """The result of `read` on the statements of the called function."""
        name = text_of(field_of(node, "function"))
        function = self.functions[name]
        if name in self._calls or len(self._calls) > _DEEPEST:
            raise UnsupportedError(node, f"{name} calls itself")
        block = [c for c in field_of(function, "body").named_children if c.type != "comment"]
        inner = Scope(self.constants)
        self._bind(node, function, inner)
        outer, self.scope = self.scope, inner
        after, self._after = self._after, []
        self._calls.append(name)
        with self._returning(None):
            found = read(block)
        self.complete()
        self._calls.pop()
        self.scope, self._after = outer, after
        return found

    def _bind(self, node: Node, function: Node, inner: Scope) -> None:
        """Declare the value of each parameter of a call in `inner`."""
        given = [a for a in field_of(node, "arguments").named_children if a.type != "comment"]
        wanted = [*parameters(field_of(function, "declarator"))]
        if len(given) != len(wanted):
            raise UnsupportedError(
                node, f"{text_of(node)!r} does not match the parameters of its function"
            )
        changed = assigned(field_of(function, "body"), self._changes)
        for argument, (name, levels, named) in zip(given, wanted, strict=True):
            bundle = self.bundles.get(named)
            if bundle is not None and self.bundle_at(argument, bundle) is not None:
                self.bind_bundle(inner, name, argument, bundle, copied=not levels)
                continue
            record = self.records.get(named)
            if record is not None and not levels:
                given_fields = self.fields(argument, record)
                inner.declare(name, record)
                for field, value in zip(record.fields, given_fields, strict=True):
                    self.declare_in(inner, f"{name}.{field}", record.type, value)
                continue
            kind = record.type if record is not None else NAMES.get(named)
            if kind is None:
                raise UnsupportedError(function, f"the type {named!r} of {name} is not supported")
            if not levels:
                self._bind_number(node, inner, name, kind, self.value(argument), name in changed)
                continue
            if text_of(argument) == "NULL" and self.scope.find("NULL") is None:
                inner.declare(name, number(0))
                continue
            variable: Variable | Value | None = None
            if levels == [None]:
                only_read = _is_only_read(name, field_of(function, "body"), {*self.functions})
                variable = self._variable_at(argument, kind, only_read=only_read)
            if variable is not None:
                inner.declare(name, Pointed(variable))
                continue
            place = self.place(argument)
            if place.record != record or (record is not None and (place.whole or len(levels) > 1)):
                raise UnsupportedError(argument, f"{name} is not like {text_of(argument)!r}")
            rank = place.depth
            if record is None and (place.type != kind or rank != len(levels)):
                message = f"{name} is not an array like {text_of(argument)!r}"
                raise UnsupportedError(argument, message)
            inner.declare(name, place)

    def _variable_at(
        self, argument: Node, kind: Type, *, only_read: bool
    ) -> Variable | Value | None:
        """The variable whose address is an argument, or its value if it is known and `only_read`.

        None if the argument is the address of an element.
        """
        if argument.type == "identifier":
            found = self.scope.find(text_of(argument))
            if not isinstance(found, Pointed):
                return None
            if isinstance(found.variable, Value) and not only_read:
                raise UnsupportedError(
                    argument, "a pointer that was only read through is passed on"
                )
            return found.variable
        if argument.type != "pointer_expression" or operator_of(argument) != "&":
            return None
        named = field_of(argument, "argument")
        found = self.scope.find(text_of(named)) if named.type == "identifier" else None
        if isinstance(found, Value) and only_read and found.type == kind:
            return found
        if isinstance(found, (Value, Unknown)):
            name = text_of(named)
            raise NotFollowedError(argument, name, f"the address of {name} is taken")
        if not isinstance(found, Variable):
            return None
        if found.type != kind:
            what = f"{text_of(named)!r} of type {found.type} is used through a pointer to {kind}"
            raise UnsupportedError(argument, what)
        return found

    def _bind_number(
        self, node: Node, inner: Scope, name: str, kind: Type, value: Value, changes: bool
    ) -> None:
        if value.interval is not None and is_whole(kind) and name not in self.kept:
            inner.declare(name, converted(node, value, kind))
        elif isinstance(value.expr, (Var, Number)) and value.type == kind and not changes:
            inner.declare(name, value)
        else:
            self.declare_in(inner, name, kind, value)

    def declare_in(self, scope: Scope, name: str, kind: Type, value: Value) -> None:
        """Declare a variable that is kept in another scope."""
        outer, self.scope = self.scope, scope
        self.declare(name, kind, value)
        self.scope = outer

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
            self._printed[-1] = names
            for name, binding in before.items():
                self.scope.rebind(name, binding)
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
                if not node.named_children or kind is None:
                    return None
                return converted(node, self.value(node.named_children[0]), kind)
            if (end := return_of(node)) is not None:
                self._done += self.loop(node)
                return self.returned([end], kind)
            if node.type == "compound_statement" and returns(node):
                within = followed(node, nodes[place + 1 :])
                if node in within:
                    what = "a block that returns declares the name of another variable"
                    raise UnsupportedError(node, what)
                return self.returned(within, kind)
            if node.type == "if_statement" and returns(node) and kind is None:
                self._left_by_return(node, nodes[place + 1 :])
                return None
            if node.type == "if_statement" and returns(node):
                return self._chosen_by_returns(node, nodes[place + 1 :], kind)
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
        if any(returns(n) for n in (*first, *second)):
            what = "a `return` in an inner statement leaves this function"
            raise UnsupportedError(node, what)
        self._if(node, first, second)

    def without_hints(self, nodes: Sequence[Node]) -> list[Node]:
        """The statements of a block without comments and promises to the compiler."""
        raise NotImplementedError

    def _chosen_by_returns(self, node: Node, rest: Sequence[Node], kind: Type | None) -> Value:
        """if (condition) return value; return other;"""
        names, before = set(self._printed[-1]), self.scope.bindings()
        with self._collected() as tested:
            condition, other = self.value(condition_of(node)), otherwise(node)
        if self._after or changed_outside(tuple(tested)) or before != self.scope.bindings():
            self._after.clear()
            return self._returned_as_statements([node, *rest], kind, names, before)
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
            return self._returned_as_statements([node, *rest], kind, names, before)
        self._done += found
        return Value(Select(test, printed(first), printed(second)), first.type)

    def _returned_as_statements(
        self,
        nodes: Sequence[Node],
        kind: Type | None,
        names: set[str],
        before: Mapping[str, Binding],
    ) -> Value:
        """The value of statements whose branches or conditions change something, which are read
        again with the names that were printed `before`."""
        self._printed[-1] = names
        for name, binding in before.items():
            self.scope.rebind(name, binding)
        early = self.returned_early(nodes, kind)
        assert early is not None
        return early


def _is_only_read(name: str, body: Node, functions: Collection[str]) -> bool:
    """Whether a function uses a pointer only to read `*name`, or passes it on to functions of the
    file, for which the same question is asked."""
    for node in descendants(body):
        if node.type != "identifier" or text_of(node) != name:
            continue
        outer = node.parent
        while outer is not None and outer.type == "parenthesized_expression":
            outer = outer.parent
        if outer is None:
            return False
        call = outer.parent if outer.type == "argument_list" else None
        if call is not None and text_of(field_of(call, "function")) in functions:
            continue
        if outer.type != "pointer_expression" or operator_of(outer) != "*":
            return False
        around = outer.parent
        while around is not None and around.type == "parenthesized_expression":
            outer, around = around, around.parent
        if around is None or around.type in ("update_expression", "pointer_expression"):
            return False
        if around.type == "assignment_expression" and field_of(around, "left") == outer:
            return False
    return True


def _returns_anywhere(nodes: Sequence[Node], most: int) -> bool:
    """Whether statements return within a loop, or within more than `most` conditions that return
    only in some of their cases."""
    inside = [n for node in nodes for n in (node, *descendants(node))]
    partial = sum(n.type == "if_statement" and _returns_sometimes(n) for n in inside)
    return partial > most or any(
        n.type in _LOOPS and returns(n) and return_of(n) is None for n in inside
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
