"""Calls of commands, and of the file's own functions, which are inlined."""

from __future__ import annotations

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    has_no_effect,
    identifiers,
    leaves_early,
    parameters,
    text_of,
)
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Dram,
    Guard,
    Local,
    Operand,
    Text,
)
from tilewright.proposers.rewriter.lifting.branches import parts_of_if
from tilewright.proposers.rewriter.lifting.choice import choice, settled
from tilewright.proposers.rewriter.lifting.narrow_integers import stored
from tilewright.proposers.rewriter.lifting.scope import Scope
from tilewright.proposers.rewriter.lifting.state import Lifting, fits
from tilewright.proposers.rewriter.lifting.symbolic_values import (
    NotModelled,
    Pointer,
    Reference,
    Table,
    Value,
    Word,
)
from tilewright.proposers.rewriter.lifting.values import Reader

_ADDRESSES = {"dram_read": Dram, "dram_write": Dram, "local_read": Local, "local_write": Local}
_DEEPEST = 16
"""Maximum depth of nested calls; a deeper function is regarded as endlessly recursive."""


class Calls(Lifting):
    """Reads commands with their operands, and inlines functions with their arguments."""

    def _call(self, call: Node, scope: Scope) -> Body:
        function, arguments = (call.child_by_field_name(f) for f in ("function", "arguments"))
        if function is None or arguments is None:
            raise NotModelled("the called function has no name")
        name = text_of(function)
        given = [a for a in arguments.named_children if a.type != "comment"]
        if name in self.machine.forms:
            return (self._unpacked(name, given, self._reader(scope)),)
        if not self.machine.is_command(name):
            return self._inlined(call, name, given, scope)
        reader = self._reader(scope)
        named = self.machine.unit(name) == "config"
        either = next((v for a in given if (v := reader.either(a)) is not None), None)
        if either is None:
            return (self._command(name, [reader.operand(a, keep_names=named) for a in given]),)
        branches: list[Body] = []
        for first in (True, False):
            operands: list[Operand] = []
            for argument in given:
                held = reader.either(argument)
                if held is not None and held.condition != either.condition:
                    raise NotModelled(f"different conditions choose the addresses of {name}")
                chosen = held and (held.first if first else held.second)
                operands.append(chosen or reader.operand(argument, keep_names=named))
            branches.append((self._command(name, operands),))
        return (Guard(either.condition, branches[0], branches[1]),)

    def _unpacked(self, name: str, given: list[Node], reader: Reader) -> Command:
        """The command for which a form with packed blocks stands."""
        of, form = self.machine.forms[name]
        if len(given) != len(form.operands):
            raise NotModelled(f"{name} has a wrong number of operands: {len(given)}")
        found: dict[int, Operand] = {}
        for positions, argument in zip(form.operands, given, strict=True):
            if len(positions) == 1:
                found[positions[0]] = reader.operand(argument, keep_names=False)
                continue
            word = reader.value(argument)
            if not isinstance(word, Word):
                raise NotModelled(f"a packed block of {name} is not an affine expression")
            found |= zip(positions, (word.local, word.columns, word.rows), strict=True)
        return self._command(of, [found[at] for at in sorted(found)])

    def _command(self, name: str, operands: list[Operand]) -> Command:
        for at in self.machine.local_operands(name):
            if at < len(operands):
                operands[at] = self.machine.local(operands[at])
        self._check_operands(name, tuple(operands))
        return Command(name, tuple(operands))

    def _check_operands(self, name: str, given: tuple[Operand, ...]) -> None:
        effect = self.machine.effects[name]
        fewest = len(effect.operands) - int(effect.attributes.get("optional", "0"))
        if not fewest <= len(given) <= len(effect.operands):
            raise NotModelled(f"{name} has a wrong number of operands: {len(given)}")
        for role, operand in zip(effect.operands, given, strict=False):
            kind = _ADDRESSES.get(role)
            zero = role == "dram_read" and operand == Expr(0)
            absent = isinstance(operand, Text) and (
                self.machine.flags.get(operand.text) == "absent"
            )
            if kind is not None and not (isinstance(operand, kind) or zero or absent):
                raise NotModelled(f"an address of {name} is not an affine expression")

    def _inlined(self, call: Node, name: str, given: list[Node], scope: Scope) -> Body:
        """The statements of one of the file's own functions, for the given arguments."""
        body, inner = self._entered(name, given, scope)
        self._calls.append(name)
        try:
            statements = [s for s in body.named_children if s.type != "comment"]
            last = statements[-1] if statements else None
            if last is not None and last.type == "return_statement" and last.named_children:
                raise NotModelled(f"{name} is called, and its result is not used")
            if any(leaves_early(s) for s in statements[:-1]):
                raise NotModelled(f"{name} is called and returns before its last statement")
            kept = [s for s in statements if s.type != "return_statement"]
            return tuple(s for k in kept for s in self._statement(k, inner))
        finally:
            self._calls.pop()

    def _entered(self, name: str, given: list[Node], scope: Scope) -> tuple[Node, Scope]:
        """The body of a function, and a scope with its parameters."""
        function = scope.functions.get(name)
        body = function.child_by_field_name("body") if function is not None else None
        if function is None or body is None:
            raise NotModelled(f"{name} is called, but this file does not define it")
        recursive = name in identifiers(body)
        if recursive or name in self._calls or len(self._calls) >= _DEEPEST:
            raise NotModelled(f"the called function {name} calls itself, or calls nest too deeply")
        inner = scope.function(self.outermost)
        reader = self._reader(scope)
        expected = list(parameters(function))
        if len(expected) != len(given):
            raise NotModelled(f"{name} is called with a wrong number of arguments: {len(given)}")
        for (parameter, sizes, kind), argument in zip(expected, given, strict=True):
            try:
                value = self._given(reader, name, argument, sizes)
            except NotModelled:
                if parameter in identifiers(body) or not has_no_effect(argument):
                    raise
                inner.declare(parameter, None, kind)  # its value is not used
                continue
            inner.declare(parameter, value, kind)
        return body, inner

    def _given(self, reader: Reader, name: str, argument: Node, sizes: list[Node | None]) -> Value:
        """The initial value of a parameter with this number of dimensions."""
        value = reader.value(argument)
        if isinstance(value, Table) and argument.type == "identifier":
            value = Reference(reader.scope.slots[text_of(argument)])
        if value == Expr(0) and sizes:
            return value  # NULL
        if isinstance(value, Pointer | Reference) != bool(sizes) or (
            isinstance(value, Pointer) and not fits(value, sizes)
        ):
            raise NotModelled(
                f"{name} is called with an argument that does not match the parameter's type"
            )
        return value

    def _called_value(self, call: Node, scope: Scope) -> Value:
        """The return value of a call of one of the file's own functions."""
        function, arguments = (call.child_by_field_name(f) for f in ("function", "arguments"))
        assert function is not None
        assert arguments is not None
        name = text_of(function)
        given = [a for a in arguments.named_children if a.type != "comment"]
        body, inner = self._entered(name, given, scope)
        self._calls.append(name)
        try:
            kind = scope.functions[name].child_by_field_name("type")
            value = self._returned(list(body.named_children), inner)
            return value if kind is None else stored(text_of(kind), value, scope.ranges)
        finally:
            self._calls.pop()

    def _returned(self, statements: list[Node], scope: Scope) -> Value:
        for at, node in enumerate(statements):
            if node.type == "comment":
                continue
            if node.type == "return_statement":
                return self._reader(scope).value(node.named_children[0])
            if node.type == "compound_statement" and leaves_early(node):
                return self._returned(list(node.named_children), scope.inner())
            if node.type == "if_statement" and leaves_early(node):
                test, yes, no = parts_of_if(node)
                condition = self._reader(scope).condition(test)
                rest = ([no] if no is not None else []) + statements[at + 1 :]
                first = self._returned([yes], scope.branch())
                second = self._returned(rest, scope.branch())
                return settled(choice(condition, first, second), scope.ranges)
            if self._statement(node, scope):
                raise NotModelled(
                    f"the value of {self._calls[-1]} is used, but it also issues commands"
                )
        raise NotModelled(
            f"the value of {self._calls[-1]} is used, but {self._calls[-1]} returns nothing"
        )
