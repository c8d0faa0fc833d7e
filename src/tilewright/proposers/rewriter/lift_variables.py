"""Local variables: declared, assigned, and folded into what uses them."""

from __future__ import annotations

from tree_sitter import Node

from tilewright.proposers.rewriter.c_types import INTEGER_TYPES
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Body, Text
from tilewright.proposers.rewriter.lift_core import assignment, local_array
from tilewright.proposers.rewriter.lift_scope import (
    NotModelled,
    Pointer,
    Record,
    Scope,
    Table,
    Value,
)
from tilewright.proposers.rewriter.lift_state import Lifting, fits
from tilewright.proposers.rewriter.lift_syntax import (
    comma_separated,
    declared_name,
    pointer_levels,
    text_of,
)


class Variables(Lifting):
    """Declarations and expressions as statements."""

    def _declaration(self, node: Node, scope: Scope) -> Body:
        kind = node.child_by_field_name("type")
        items = node.children_by_field_name("declarator")
        words = [text_of(c) for c in node.children if c.type.endswith(("qualifier", "specifier"))]
        if kind is None or ("static" in words and "const" not in words):
            raise NotModelled("declaration of a variable that outlives the call")
        for item in items:
            self._declare(item, text_of(kind), scope)
        declared = {name for item in items if (name := declared_name(item))}
        if self._calls:
            return ()
        self.dropped |= declared
        if declared & self.pinned:
            return (self._opaque(node, "used by code that is not modelled"),)
        return ()

    def _declare(self, item: Node, kind: str, scope: Scope) -> None:
        target = item.child_by_field_name("declarator") if item.type == "init_declarator" else item
        given = item.child_by_field_name("value") if item.type == "init_declarator" else None
        if target is None:
            raise NotModelled("declaration without a name")
        name, sizes = pointer_levels(target)
        if name in self._unmodelled and not self._calls:
            scope.declare(name, None)
            raise NotModelled(f"variable {name} that changes")
        integer = bool(set(kind.split()) & INTEGER_TYPES)
        if given is None and not sizes and integer:
            scope.declare(name, None)
            return
        if kind in scope.records and not sizes and name not in self.pinned:
            reader = self._reader(scope)
            if given is None:
                scope.declare(name, Record(tuple((n, None) for n in scope.records[kind])))
            elif given.type == "initializer_list":
                scope.declare(name, reader.record(kind, given))
            else:
                scope.declare(name, reader.value(given))
            return
        if given is None and target.type == "array_declarator" and name not in self.pinned:
            self._declare_array(name, sizes, kind, scope)
            return
        scope_value = self._initial(target, given, sizes, integer, scope)
        scope.declare(name, scope_value)
        self._remember(name, scope_value)

    def _declare_array(self, name: str, sizes: list[Node | None], kind: str, scope: Scope) -> None:
        """A local array, which is printed at the head of the kernel again."""
        array = local_array(name, sizes, kind, self._reader(scope))
        if scope.arrays.get(name, array) != array or self._calls:
            raise NotModelled(f"two arrays with the name {name}")
        scope.arrays[name] = array
        scope.declare(name, Pointer(name, (Expr(),) * len(array.shape), 0))

    def _initial(
        self,
        target: Node,
        given: Node | None,
        sizes: list[Node | None],
        integer: bool,
        scope: Scope,
    ) -> Value | None:
        """What a declared variable holds; `NotModelled` for types that are not followed."""
        if given is None:
            if sizes and sizes[0] is None:
                return None
            raise NotModelled("declaration of something other than an integer")
        reader = self._reader(scope)
        if target.type == "array_declarator" and given.type == "initializer_list" and integer:
            entries = [e for e in given.named_children if e.type != "comment"]
            if len(sizes) == 1 and entries:
                return Table(tuple(reader.value(e) for e in entries))
        if target.type != "array_declarator" or "(" in text_of(target):
            value = reader.value(given)
            if isinstance(value, Pointer) and fits(value, sizes):
                return value
            plain = not isinstance(value, Pointer | Table)
            if plain and not sizes and (integer or isinstance(value, Text)):
                return value
        raise NotModelled("declaration of something other than an integer")

    def _expressions(self, node: Node, scope: Scope) -> Body:
        result: Body = ()
        if node.named_children:
            for part in comma_separated(node.named_children[0]):
                result += self._expression(part, scope)
        return result

    def _expression(self, node: Node, scope: Scope) -> Body:
        if node.type == "call_expression":
            return self._call(node, scope)
        if node.type not in ("assignment_expression", "update_expression"):
            raise NotModelled(node.type.replace("_", " "))
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if target is not None and target.type == "field_expression":
            return self._set_field(node, target, scope)
        if target is None or target.type != "identifier":
            return (assignment(node, self._reader(scope)),)
        name = text_of(target)
        if name in self._unmodelled and not self._calls:
            raise NotModelled(f"variable {name} that changes")
        reader = self._reader(scope)
        operator = text_of(node.child_by_field_name("operator") or node)
        if node.type == "update_expression":
            amount = Expr(1 if "+" in operator else -1)
            value = self._plus(scope, reader.value(target), amount)
        else:
            right = node.child_by_field_name("right")
            if right is None:
                raise NotModelled("assignment of nothing")
            value = self._assigned_value(scope, target, operator, right)
        scope.assign(name, value)
        self._remember(name, value)
        return ()

    def _set_field(self, node: Node, target: Node, scope: Scope) -> Body:
        """`t.row = value` for a structure in a local variable."""
        base, field = target.child_by_field_name("argument"), target.child_by_field_name("field")
        right = node.child_by_field_name("right")
        held = scope.get(text_of(base)) if base is not None else None
        if not isinstance(held, Record) or base is None or field is None or right is None:
            raise NotModelled("field of a structure that is not local")
        if text_of(base) in self._unmodelled and not self._calls:
            raise NotModelled(f"variable {text_of(base)} that changes")
        operator = text_of(node.child_by_field_name("operator") or node)
        value = self._assigned_value(scope, target, operator, right)
        scope.assign(text_of(base), held.with_field(text_of(field), value))
        return ()

    def _assigned_value(self, scope: Scope, target: Node, operator: str, right: Node) -> Value:
        reader = self._reader(scope)
        if operator == "=":
            return reader.value(right)
        left = reader.value(target)
        if operator in ("+=", "-="):
            amount = reader.value(right)
            if isinstance(amount, Expr):
                return self._plus(scope, left, amount if operator == "+=" else amount * -1)
        return reader.combined(operator[:-1], left, reader.value(right))

    def _plus(self, scope: Scope, value: Value, amount: Expr) -> Value:
        return self._reader(scope).combined("+", value, amount)
