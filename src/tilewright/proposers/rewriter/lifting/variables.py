"""Local variables: their declarations, their assignments, and the replacement of their uses by
values."""

from __future__ import annotations

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    TELLS,
    comma_separated,
    declared_name,
    descendants,
    has_no_effect,
    identifiers,
    pointer_levels,
    text_of,
)
from tilewright.proposers.rewriter.c_types import INTEGER_TYPES
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Body, Text
from tilewright.proposers.rewriter.lifting.braces import initial, length, unset
from tilewright.proposers.rewriter.lifting.core import assignment, local_array
from tilewright.proposers.rewriter.lifting.narrow_integers import stored
from tilewright.proposers.rewriter.lifting.scope import Scope
from tilewright.proposers.rewriter.lifting.state import Lifting, fits
from tilewright.proposers.rewriter.lifting.symbolic_values import (
    NotModelled,
    Pointer,
    Record,
    Reference,
    Table,
    Value,
)


class Variables(Lifting):
    """Reads declarations, and expressions as statements."""

    def _declaration(self, node: Node, scope: Scope) -> Body:
        kind = node.child_by_field_name("type")
        items = node.children_by_field_name("declarator")
        words = [text_of(c) for c in node.children if c.type.endswith(("qualifier", "specifier"))]
        static = "static" in words and "const" not in words
        if kind is None or (static and any(i.type != "array_declarator" for i in items)):
            raise NotModelled("a static variable keeps its value after the call")
        for item in items:
            if static:
                self._declare_array(item, text_of(kind), scope, static=True)
            else:
                self._declare(item, text_of(kind), scope)
        declared = {name for item in items if (name := declared_name(item))}
        if self._calls:
            return ()
        around = node.parent.parent if node.parent is not None else None
        if around is not None and around.type == "function_definition":
            declared -= self._placed.keys()  # they stay declared for the whole function
        self.dropped |= declared
        if declared & self.pinned:
            return (self._opaque(node, "unrecognised code uses this variable"),)
        return ()

    def _declare(self, item: Node, kind: str, scope: Scope) -> None:
        target = item.child_by_field_name("declarator") if item.type == "init_declarator" else item
        given = item.child_by_field_name("value") if item.type == "init_declarator" else None
        if target is None:
            raise NotModelled("a declaration has no name")
        name, sizes = pointer_levels(target)
        if name in self._unmodelled and not self._calls:
            scope.declare(name, None)
            raise NotModelled(f"unrecognised code uses {name}, which changes")
        integer = bool(set(kind.split()) & INTEGER_TYPES)
        if given is None and not sizes and integer:
            scope.declare(name, None, kind)
            return
        reader = self._reader(scope)
        if kind in scope.records and not sizes and name not in self.pinned:
            held = unset(reader, kind) if given is None else initial(reader, kind, [], given)
            scope.declare(name, held)
            return
        if given is None and self._is_table(item, kind, scope):
            scope.declare(name, Table((None,) * length(reader, sizes[0])), kind)
            return
        if given is None and target.type == "array_declarator" and name not in self.pinned:
            self._declare_array(target, kind, scope, static=False)
            return
        scope_value = self._initial(target, given, sizes, kind, scope)
        if isinstance(scope_value, Table) and name in self.pinned and not _is_constant(item):
            scope.declare(name, None)  # text may change its entries
            raise NotModelled(f"unrecognised code may change the array {name}")
        scope.declare(name, scope_value, kind)
        self._remember(name, scope_value)

    def _is_table(self, item: Node, kind: str, scope: Scope) -> bool:
        """Whether a declared array contains numbers or addresses that only the kernel uses."""
        name, sizes = pointer_levels(item)
        numbers = bool(set(kind.split()) & INTEGER_TYPES) or "*" in text_of(item)
        if not numbers or not sizes or sizes[0] is None or name in self.pinned:
            return False
        if any(s is not None for s in sizes[1:]):
            return False  # rows of entries
        return not self._varies(sizes, scope) and only_entries(item, name, scope)

    def _varies(self, sizes: list[Node | None], scope: Scope) -> bool:
        """Whether a size contains anything other than constants of the file."""
        named = {n for s in sizes if s is not None for n in identifiers(s)} & scope.slots.keys()
        return any(scope.slots[n] != self.outermost.slots.get(n) for n in named)

    def _declare_array(self, item: Node, kind: str, scope: Scope, *, static: bool) -> None:
        """A local array, which is printed again at the beginning of the kernel."""
        name, sizes = pointer_levels(item)
        array = local_array(name, sizes, kind, self._reader(scope), static=static)
        known = name in scope.arrays and self._placed.get(name) != item.start_byte
        if known or self._calls:
            raise NotModelled(
                f"there are several arrays with the name {name}, or a called function declares it"
            )
        if name in self.pinned:
            raise NotModelled(f"unrecognised code may change the array {name}")
        scope.arrays[name] = array
        self._placed[name] = item.start_byte
        scope.declare(name, Pointer(name, (Expr(),) * len(array.shape), 0))

    def _initial(
        self,
        target: Node,
        given: Node | None,
        sizes: list[Node | None],
        kind: str,
        scope: Scope,
    ) -> Value | None:
        """The initial value of a variable; `NotModelled` for types that are not followed."""
        integer = bool(set(kind.split()) & INTEGER_TYPES)
        if given is None:
            if sizes and sizes[0] is None:
                return None
            raise NotModelled("a declared variable is neither an integer nor an address")
        reader = self._reader(scope)
        if given.type == "initializer_list" and sizes:
            return initial(reader, kind, sizes, given)
        if target.type != "array_declarator" or "(" in text_of(target):
            value = reader.value(given)
            if isinstance(value, Pointer) and fits(value, sizes):
                return value
            if isinstance(value, Reference) and len(sizes) == 1:
                return value
            if value == Expr(0) and len(sizes) == 1 and target.type == "pointer_declarator":
                return value  # NULL
            plain = not isinstance(value, Pointer | Table | Reference)
            if plain and not sizes and (integer or isinstance(value, Text)):
                return value
        raise NotModelled("a declared variable is neither an integer nor an address")

    def _expressions(self, node: Node, scope: Scope) -> Body:
        result: Body = ()
        if node.named_children:
            for part in comma_separated(node.named_children[0]):
                result += self._expression(part, scope)
        return result

    def _expression(self, node: Node, scope: Scope) -> Body:
        if _only_tells(node, scope) and has_no_effect(node):
            return ()
        if node.type == "call_expression":
            return self._call(node, scope)
        if node.type not in ("assignment_expression", "update_expression"):
            raise NotModelled(f"this {node.type.replace('_', ' ')} is not supported")
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if target is not None and self._is_held(target, scope):
            return self._set_part(node, target, scope)
        if target is None or target.type != "identifier":
            return (assignment(node, self._reader(scope)),)
        name = text_of(target)
        if name in self._unmodelled and not self._calls:
            raise NotModelled(f"unrecognised code uses {name}, which changes")
        reader = self._reader(scope)
        operator = text_of(node.child_by_field_name("operator") or node)
        if node.type == "update_expression":
            amount = Expr(1 if "+" in operator else -1)
            value = self._plus(scope, reader.value(target), amount)
        else:
            right = node.child_by_field_name("right")
            if right is None:
                raise NotModelled("an assignment has no value")
            value = self._assigned_value(scope, target, operator, right)
        scope.assign(name, value)
        self._remember(name, value)
        return ()

    def _is_held(self, target: Node, scope: Scope) -> bool:
        """Whether an assignment changes a part of a variable, and not memory or a whole
        variable."""
        if target.type == "subscript_expression":
            inner = target.child_by_field_name("argument")
            if inner is not None and inner.type == "identifier":
                return isinstance(scope.get(text_of(inner)), Table)
            return inner is not None and self._is_held(inner, scope)
        return target.type == "field_expression"

    def _set_part(self, node: Node, target: Node, scope: Scope) -> Body:
        """`t.row = value`, `p->row += 16` and `at[2] = value`."""
        right = node.child_by_field_name("right")
        if node.type != "assignment_expression" or right is None:
            raise NotModelled("++ or -- changes a part of a variable")
        operator = text_of(node.child_by_field_name("operator") or node)
        self._store(target, self._assigned_value(scope, target, operator, right), scope)
        return ()

    def _store(self, target: Node, value: Value, scope: Scope) -> None:
        """Store a new value in a variable, or in its field or entry."""
        reader, inner = self._reader(scope), target.child_by_field_name("argument")
        if target.type == "identifier":
            if text_of(target) in self._unmodelled and not self._calls:
                raise NotModelled(f"unrecognised code uses {text_of(target)}, which changes")
            scope.assign(text_of(target), value)
            return
        held = reader.value(inner) if inner is not None else None
        name, index = target.child_by_field_name("field"), target.child_by_field_name("index")
        slot = held.slot if isinstance(held, Reference) else None
        whole = scope.state.get(slot) if slot is not None else held
        if isinstance(whole, Record) and name is not None:
            for fields in scope.records.values():
                stored(fields.get(text_of(name), ""), value, scope.ranges)
            new: Value = whole.with_field(text_of(name), value)
        elif isinstance(whole, Table) and index is not None:
            stored(scope.kind(text_of(inner)) if inner is not None else "", value, scope.ranges)
            at = reader.integer(index)
            if not at.is_const or not 0 <= at.const < len(whole.values):
                raise NotModelled("an entry of a table is assigned at an index that varies")
            new = Table((*whole.values[: at.const], value, *whole.values[at.const + 1 :]))
        else:
            raise NotModelled("a field of a structure that is not local is assigned")
        if slot is not None:
            scope.state[slot] = new
        elif inner is not None:
            self._store(inner, new, scope)

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


def _only_tells(node: Node, scope: Scope) -> bool:
    """Whether a statement is an expression cast to void, or a call that only states an
    assumption."""
    while node.type == "parenthesized_expression":
        node = node.named_children[0]
    if node.type == "cast_expression":
        return text_of(node.child_by_field_name("type") or node) == "void"
    function = node.child_by_field_name("function") if node.type == "call_expression" else None
    name = text_of(function) if function is not None else ""
    return name in TELLS and name not in scope.functions


def _is_constant(item: Node) -> bool:
    """Whether a declared array contains constants. A qualifier before `*` does not apply to the
    array."""
    kinds = item.parent.children if item.parent is not None else []
    constant = any(c.type == "type_qualifier" and text_of(c) == "const" for c in kinds)
    return constant and "*" not in text_of(item.child_by_field_name("declarator") or item)


def only_entries(item: Node, name: str, scope: Scope) -> bool:
    """Whether a local array is only used entry by entry, for values that cannot be in an array in
    memory.

    The accelerator does not access such an array, so its entries are followed like variables.
    """
    block = item.parent
    while block is not None and block.type != "compound_statement":
        block = block.parent
    if block is None or item.type not in ("array_declarator", "pointer_declarator"):
        return False
    declared = {n.id for n in descendants(item)}
    for node in descendants(block):
        if node.type == "identifier" and text_of(node) == name and node.id not in declared:
            entry = node.parent
            if entry is None or entry.type != "subscript_expression" or _taken(entry):
                return False
        left = node.child_by_field_name("left") if node.type == "assignment_expression" else None
        if left is not None and left.type == "subscript_expression":
            right = node.child_by_field_name("right")
            base = left.child_by_field_name("argument")
            here = base is not None and text_of(base) == name
            if here and right is not None and any(_loads(n, scope) for n in descendants(right)):
                return False
    return True


def _taken(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "pointer_expression"


def _loads(node: Node, scope: Scope) -> bool:
    """Whether an expression is an element of an array in memory."""
    if node.type != "subscript_expression" or _taken(node):
        return False
    depth, inner = 0, node
    while inner.type == "subscript_expression":
        depth, inner = depth + 1, inner.named_children[0]
    array = scope.arrays.get(text_of(inner))
    return array is not None and depth >= len(array.shape)
