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

import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    assigned,
    descendants,
    parameters,
    text_of,
    without_pointers,
)
from tilewright.proposers.loops.c_types import NAMES, is_whole
from tilewright.proposers.loops.ir import Number, Type, Var
from tilewright.proposers.loops.parsing.arithmetic import converted
from tilewright.proposers.loops.parsing.records import type_name
from tilewright.proposers.loops.parsing.results import Results
from tilewright.proposers.loops.parsing.scope import (
    Callees,
    Pointed,
    Record,
    Scope,
    Unknown,
    Value,
    Variable,
    number,
)
from tilewright.proposers.loops.parsing.syntax import (
    NotFollowedError,
    UnsupportedError,
    field_of,
    named_type,
    operator_of,
)

_DEEPEST = 8
_Result = TypeVar("_Result")


class Functions(Results):
    """Reads calls of the functions whose definitions are in `functions`."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[str, Node] = {}
        self.constants = Scope(None)
        self._calls: list[str] = []

    def function_at(self, node: Node) -> str:
        """The name of the function of the file that an expression names or points to, or ""."""
        node, index = without_pointers(node), 0
        if node.type == "subscript_expression":
            at = field_of(node, "index")
            if not re.fullmatch(r"0|[1-9]\d*", text_of(at)):  # `010` is eight
                return ""
            node, index = field_of(node, "argument"), int(text_of(at))
        found = self.scope.find(text_of(node)) if node.type == "identifier" else None
        if isinstance(found, Callees):
            return found.names[index] if index < len(found.names) else ""
        return text_of(node) if found is None and text_of(node) in self.functions else ""

    def callee(self, call: Node) -> str:
        """The name of the function that is called, directly or through a pointer."""
        function = field_of(call, "function")
        return self.function_at(function) or text_of(function)

    def called(self, node: Node) -> Value | None:
        """The number that a function in the file returns, after its statements were read."""
        function = self.functions[self.callee(node)]
        declared, pointer = field_of(function, "type"), field_of(function, "declarator")
        nothing = text_of(declared) == "void" or pointer.type == "pointer_declarator"
        kind = None if nothing else named_type(declared)
        return self._inlined(node, lambda block: self.returned(block, kind))

    def fields(self, node: Node, record: Record) -> list[Value]:
        """The values of the fields of a structure, which a function may return."""
        name = self.callee(node) if node.type == "call_expression" else ""
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
        name = self.callee(node)
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
            if (callee := self.function_at(argument)) and name not in changed:
                inner.declare(name, Callees((callee,)))
                continue
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
                only_read = _is_only_read(name, field_of(function, "body"), self.functions)
                variable = self._variable_at(argument, kind, only_read=only_read)
            if variable is not None:
                inner.declare(name, Pointed(variable))
                continue
            place = self.place(argument)
            if place.record != record or (record is not None and (place.whole or len(levels) > 1)):
                raise UnsupportedError(
                    argument,
                    f"the argument {text_of(argument)!r} does not match the parameter {name}",
                )
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
