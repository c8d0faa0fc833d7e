"""Reads C expressions as symbolic values: integers, local addresses, array elements, conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.rewriter.c_types import SIZES, element_of
from tilewright.proposers.rewriter.expr import Expr, bounds, quotient
from tilewright.proposers.rewriter.ir import (
    Compare,
    Condition,
    Dram,
    Flag,
    Local,
    Operand,
    Text,
)
from tilewright.proposers.rewriter.lifting.arithmetic import (
    arithmetic,
    flipped,
    is_bit,
    literal,
    looked_up,
    toggled,
)
from tilewright.proposers.rewriter.lifting.choice import (
    as_number,
    choice,
    decided,
    negated,
    settled,
)
from tilewright.proposers.rewriter.lifting.float_constants import folded
from tilewright.proposers.rewriter.lifting.narrow_integers import stored
from tilewright.proposers.rewriter.lifting.scope import Scope
from tilewright.proposers.rewriter.lifting.symbolic_values import (
    MARK,
    Either,
    Flags,
    NotModelled,
    Pointer,
    Record,
    Reference,
    Table,
    Truth,
    Value,
    Word,
)
from tilewright.proposers.rewriter.machine import Machine

_POINTER = 8
"""Size of a pointer on the core, in bytes."""
_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))
Inlined: TypeAlias = Callable[[Node, "Scope"], "Value"]
"""Evaluates a call of one of the file's own functions."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Evaluates expression nodes. Raises `NotModelled` for values that the IR cannot represent.

    `stepped` gives the value of `n++` and similar expressions in a loop's condition, and `braces`
    that of an initialiser for a type.
    """

    machine: Machine
    scope: Scope
    inlined: Inlined | None = None
    stepped: Callable[[Node], Value] | None = None
    braces: Callable[[Reader, str, Node], Value] | None = None

    def operand(self, node: Node, *, keep_names: bool) -> Operand:
        """An operand of a command. With `keep_names`, constants of the target stay as written."""
        name = text_of(node)
        if keep_names and name in self.machine.constants and name not in self.scope.slots:
            return Text(name)
        match value := self.value(node):
            case Pointer(array, index):
                return Dram(array, in_rows(index, self.scope.arrays[array].shape))
            case Expr() | Local() | Text():
                return value
            case Flags(()):
                return Expr(0)
        raise NotModelled(
            f"an operand is a {_KINDS.get(type(value), 'value')}, not an integer or an address"
        )

    def either(self, node: Node) -> Either | None:
        """The address of an operand that exists only under a condition."""
        if node.type not in ("conditional_expression", "identifier", "parenthesized_expression"):
            return None
        if node.type == "identifier" and text_of(node) not in self.scope.slots:
            return None
        value = self.value(node)
        return value if isinstance(value, Either) else None

    def integer(self, node: Node) -> Expr:
        """An affine integer."""
        value = self.value(node)
        if not isinstance(value, Expr):
            raise NotModelled("a value is not an integer")
        return value

    def value(self, node: Node) -> Value:
        """The value of an expression of any type."""
        match node.type:
            case "number_literal":
                return literal(text_of(node))
            case "identifier" | "true" | "false":
                return self._identifier(text_of(node))
            case "null":
                return Expr(0)
            case "parenthesized_expression":
                return self.value(node.named_children[0])
            case "cast_expression":
                return self._cast(node)
            case "unary_expression":
                return self._unary(node)
            case "binary_expression":
                return self._binary(node)
            case "conditional_expression":
                test, yes, no = (_field(node, n) for n in _CONDITIONAL)
                return self._chosen(self.condition(test), yes, no)
            case "call_expression":
                return self._call(node)
            case "update_expression" if self.stepped is not None:
                return self.stepped(node)
            case "sizeof_expression":
                return self._size(node)
            case "pointer_expression":
                return self._addressed(node)
            case "field_expression":
                return self._field_of(node)
            case "compound_literal_expression":
                if self.braces is None:
                    raise NotModelled("a compound literal is not supported here")
                return self.braces(self, text_of(_field(node, "type")), _field(node, "value"))
            case "subscript_expression":
                return self._element(self._subscripted(node))
        raise NotModelled(f"this {node.type.replace('_', ' ')} is not supported")

    def condition(self, node: Node) -> Condition:
        """A conjunction of comparisons. An integer alone means that it is not zero."""
        value = self.value(node)
        if isinstance(value, Truth):
            return value.condition
        if isinstance(value, Expr):
            return (Compare("!=", value, Expr(0)),)
        if isinstance(value, Pointer | Reference):  # nothing with an address is at NULL
            return (Compare("!=", Expr(1), Expr(0)),)
        raise NotModelled("a condition compares values that are not integers")

    def opposite(self, node: Node) -> Condition:
        """The conjunction that is true if a test is false."""
        if node.type == "parenthesized_expression":
            return self.opposite(node.named_children[0])
        if node.type == "unary_expression" and text_of(_field(node, "operator")) == "!":
            return self.condition(_field(node, "argument"))
        if node.type == "binary_expression" and text_of(_field(node, "operator")) == "||":
            return self.opposite(_field(node, "left")) + self.opposite(_field(node, "right"))
        return negated(self.condition(node))

    def _field_of(self, node: Node) -> Value:
        base, name = self.value(_field(node, "argument")), text_of(_field(node, "field"))
        base = self._referred(base) if isinstance(base, Reference) else base
        value = base.get(name) if isinstance(base, Record) else None
        if value is None:
            raise NotModelled(f"the value of the field {name} of a structure is unknown")
        return value

    def _referred(self, reference: Reference) -> Value:
        value = self.scope.state.get(reference.slot)
        if value is None:
            raise NotModelled(
                "the value of a variable is not an affine expression of loop variables"
            )
        return value

    def pointee(self, node: Node) -> Pointer:
        """The value of an expression whose type is a pointer."""
        value = self.value(node)
        if not isinstance(value, Pointer):
            raise NotModelled("a pointer does not point to an array element")
        return value

    def place(self, node: Node) -> Value:
        """The place of `p[i]` or `*p` in memory."""
        if node.type == "subscript_expression":
            return self._subscripted(node)
        if node.type == "pointer_expression" and not text_of(node).startswith("&"):
            return self._subscript(self.pointee(_field(node, "argument")), Expr())
        raise NotModelled("the core accesses memory that is not an array element")

    def _chosen(self, condition: Condition, yes: Node, no: Node) -> Value:
        holds = decided(condition)
        if holds is not None:
            return self.value(yes if holds else no)
        first, second = self.value(yes), self.value(no)
        if isinstance(first, Expr) and isinstance(second, Expr) and first != second:
            places = [self._as_local(number) for number in (first, second)]
            if len({(p.space, p.row) if isinstance(p, Local) else p for p in places}) == 1:
                return choice(condition, *places)  # they differ only in flags
        return settled(choice(condition, first, second), self.scope.ranges)

    def _identifier(self, name: str) -> Value:
        if name in self.scope.slots:
            value = self.scope.get(name)
            if value is None:
                raise NotModelled(
                    f"the value of {name} is not an affine expression of loop variables"
                )
            return value
        if name in ("true", "false"):
            return Expr(int(name == "true"))
        if name in self.machine.flags:
            if self.machine.flags[name] == "absent":
                return Text(name)
            return Flags((Flag(name),))
        if name in self.machine.constants and name not in self.machine.spaces:
            return Expr(self.machine.constants[name])
        if name in self.scope.arrays:
            dims = len(self.scope.arrays[name].shape)
            if not dims:
                raise NotModelled(f"the size of the array {name} is unknown")
            return Pointer(name, (Expr(),) * dims, 0)
        raise NotModelled(f"the value of {name} is unknown")

    def _cast(self, node: Node) -> Value:
        kind, value = text_of(_field(node, "type")), self.value(_field(node, "value"))
        if "*" not in kind:
            if isinstance(value, Pointer):
                if not any(SIZES.get(word) == _POINTER for word in kind.split()):
                    raise NotModelled("a pointer is converted to a number that is too narrow")
                return Pointer(value.array, value.index, None)  # the steps would be bytes
            return stored(kind, value, self.scope.ranges)
        if not isinstance(value, Pointer):
            raise NotModelled("a value other than an array's address is converted to a pointer")
        element = element_of(kind)
        same = kind.count("*") == 1 and element == self.scope.arrays[value.array].element
        return Pointer(value.array, value.index, len(value.index) - 1 if same else None)

    def _unary(self, node: Node) -> Value:
        operator, inner = text_of(_field(node, "operator")), _field(node, "argument")
        if operator == "!":
            bit = self.value(inner)
            if isinstance(bit, Expr) and is_bit(bit):
                return flipped(bit)
            return Truth(negated(self.condition(inner)))
        if operator == "-":
            value = self.value(inner)
            return Text("-" + value.text) if isinstance(value, Text) else self.integer(inner) * -1
        if operator == "+":
            return self.integer(inner)
        if operator == "~" and (value := self.integer(inner)).is_const:
            return Expr(~value.const)
        raise NotModelled(f"the result of the operator {operator} is not an affine expression")

    def _binary(self, node: Node) -> Value:
        left_node, right_node = _field(node, "left"), _field(node, "right")
        operator = text_of(_field(node, "operator"))
        if operator == "&&":
            return Truth(self.condition(left_node) + self.condition(right_node))
        if operator == "||":
            return self._either(self.condition(left_node), right_node)
        return self.combined(operator, self.value(left_node), self.value(right_node))

    def _either(self, left: Condition, right_node: Node) -> Value:
        """`left || right` with a constant operand, which occurs as an argument of inlined
        functions."""
        holds = decided(left)
        if holds:
            return Expr(1)
        right = self.condition(right_node)
        if holds is False:
            return Truth(right)
        if decided(right) is False:
            return Truth(left)
        raise NotModelled("both conditions of an operator || depend on variables")

    def _as_local(self, value: Flags | Expr) -> Value:
        """A number as the local address that it stands for."""
        found = self.machine.local(value) if isinstance(value, Expr) else value
        return found if isinstance(found, Local) else value

    def _is_row_mask(self, local: Local, mask: Expr) -> bool:
        """Whether a mask only contains bits of row numbers."""
        rows = self.machine.spaces[local.space].rows
        return mask.is_const and 0 <= mask.const < rows and rows & (rows - 1) == 0

    def _flags(self, operator: str, right: Value) -> Flags | None:
        """The flags of which `1 << right` or `1 * right` consists; None for other numbers."""
        if isinstance(right, Flags) and operator == "*":
            return right
        if not isinstance(right, Expr) or not right.is_const or operator not in ("<<", "*"):
            return None
        number = 1 << max(right.const, 0) if operator == "<<" else right.const
        bits = {f: self.machine.constants[f] for f in self.machine.flags}
        known = {f: bit for f, bit in bits.items() if bit & number == bit}
        return Flags(tuple(map(Flag, known))) if known and sum(known.values()) == number else None

    def combined(self, operator: str, left: Value, right: Value) -> Value:
        """`left operator right`."""
        if operator in _COMPARISONS:
            return self._compared(operator, left, right)
        if isinstance(left, Expr | Flags) and isinstance(right, Truth) and operator == "*":
            left, right = right, left
        if isinstance(left, Truth) and (named := self._flags(operator, right)) is not None:
            return choice(left.condition, named, Flags(()))
        if isinstance(left, Truth) and isinstance(right, Expr):
            left = as_number(left)
        if isinstance(left, Expr) and isinstance(right, Truth):
            right = as_number(right)
        if isinstance(left, Expr) and isinstance(right, Expr):
            if operator == "|" and self._apart(left, right):
                return left + right
            if operator == "&" and (cleared := self._without_bit(left, right)) is not None:
                return cleared
            if operator in ("/", "%") and self._may_be_negative(left):
                raise NotModelled("a number that is divided may be negative")
            return arithmetic(operator, left, right)
        if (number := folded(operator, left, right)) is not None:
            return number
        if isinstance(right, Local | Pointer) and operator in ("+", "|", "^"):
            left, right = right, left
        if isinstance(left, Flags | Expr) and isinstance(right, Flags | Expr) and operator == "|":
            several = [v.flags for v in (left, right) if isinstance(v, Flags)]
            if all(isinstance(v, Flags) or v == Expr(0) for v in (left, right)):
                return Flags(tuple(f for some in several for f in some))
            left, right = (self._as_local(v) for v in (left, right))
            if isinstance(right, Local):
                left, right = right, left
        if isinstance(left, Local):
            if isinstance(right, Expr) and operator in ("+", "-"):
                row = left.row + right if operator == "+" else left.row - right
                return Local(left.space, row, left.flags)
            if isinstance(right, Expr) and operator == "^" and self._is_row_mask(left, right):
                return Local(left.space, toggled(left.row, right.const), left.flags)
            if isinstance(right, Flags) and operator in ("|", "+"):
                new = tuple(f for f in right.flags if f not in left.flags)
                return Local(left.space, left.row, left.flags + new)
            if operator == "|" and right == Expr(0):
                return left
        if isinstance(right, Word) and operator in ("+", "|"):
            left, right = right, left
        if isinstance(left, Word):
            local = self.combined(operator, left.local, right)
            if isinstance(local, Local):
                return Word(local, left.columns, left.rows)
        if isinstance(left, Pointer) and isinstance(right, Expr) and operator in ("+", "-"):
            return self.advanced(left, right if operator == "+" else right * -1)
        if isinstance(left, Pointer) and isinstance(right, Pointer) and operator == "-":
            return self._distance(left, right)
        raise NotModelled(f"the operator {operator} is applied to addresses or conditions")

    def _may_be_negative(self, dividend: Expr) -> bool:
        """Whether C may round a quotient towards zero, while the IR rounds down.

        A value at the beginning of an unknown iteration is examined when its loop is known.
        """
        if dividend.is_const or any(name.endswith(MARK) for name in dividend.names()):
            return False
        return bounds(dividend, self.scope.ranges)[0] < 0

    def _without_bit(self, value: Expr, mask: Expr) -> Expr | None:
        """`value & ~bit`, for a value that always or never has this bit."""
        bit = ~mask.const
        if not mask.is_const or bit <= 0 or bit & (bit - 1):
            return None
        low, high = (
            int(b) // bit if isfinite(b) else None for b in bounds(value, self.scope.ranges)
        )
        if low is None or low != high or low < 0:
            return None
        return value - bit if low % 2 else value

    def _apart(self, left: Expr, right: Expr) -> bool:
        """Whether two numbers have no common bit, because one has only high bits and the other is
        smaller."""
        if left.is_const and not right.is_const:
            left, right = right, left
        if not right.is_const or left.const < 0 or right.const <= 0 or left.const & right.const:
            return False
        if left.is_const:
            return True
        bit = right.const & -right.const
        low, high = bounds(left - left.const + left.const % bit, self.scope.ranges)
        return low >= 0 and high < bit

    def _compared(self, operator: str, left: Value, right: Value) -> Truth:
        if isinstance(left, Pointer) and isinstance(right, Pointer):
            left, right = self._distance(left, right), Expr(0)
        if operator in ("==", "!=") and Expr(0) in (left, right):
            left, right = (
                Expr(1) if isinstance(v, Pointer | Reference) else v for v in (left, right)
            )
        if isinstance(left, Truth) and isinstance(right, Expr) and right.is_const:
            if (operator, right.const) in (("!=", 0), ("==", 1)):
                return left
            if (operator, right.const) in (("==", 0), ("!=", 1)):
                return Truth(negated(left.condition))
        if not (isinstance(left, Expr) and isinstance(right, Expr)):
            raise NotModelled("a condition compares values that are not integers")
        return Truth((Compare(operator, left, right),))

    def advanced(self, base: Pointer, offset: Expr) -> Pointer:
        """A pointer moved by a number of elements. Whole rows are added to the index of the row."""
        if base.axis is None:
            raise NotModelled("a pointer moves in steps of another type than the array's elements")
        index, shape = list(base.index), self.scope.arrays[base.array].shape
        for axis in range(base.axis, 0, -1):
            size = shape[axis]
            rows = Expr(
                offset.const // size if offset.const % size == 0 else 0,
                tuple((a, c // size) for a, c in offset.terms if c % size == 0),
            )
            index[axis] = index[axis] + offset - rows * size
            offset = rows
        index[0] = index[0] + offset
        return Pointer(base.array, tuple(index), base.axis)

    def _distance(self, left: Pointer, right: Pointer) -> Expr:
        """Number of elements between two pointers into one array."""
        if left.array != right.array or left.axis != right.axis or left.axis is None:
            raise NotModelled("pointers to different arrays or types are compared")
        shape, result = self.scope.arrays[left.array].shape, Expr()
        for axis, (a, b) in enumerate(zip(left.index, right.index, strict=True)):
            result = result * (shape[axis] if axis else 1) + (a - b)
        for size in shape[left.axis + 1 :]:
            result = quotient(result, size)
        return result

    def _call(self, node: Node) -> Value:
        name = text_of(_field(node, "function"))
        given = [a for a in _field(node, "arguments").named_children if a.type != "comment"]
        if name in self.machine.spaces:
            if len(given) != 1:
                raise NotModelled(f"{name} does not have exactly one operand, the row")
            return Local(name, self.integer(given[0]))
        if self.machine.words is not None and name == self.machine.words.macro:
            return self._word(given)
        if self.inlined is None or name not in self.scope.functions:
            raise NotModelled(f"the value of {name} is used, but this file does not define it")
        return self.inlined(node, self.scope)

    def _word(self, given: list[Node]) -> Word:
        if len(given) != 3:
            raise NotModelled(
                "a packed block does not have the three operands address, columns and rows"
            )
        local = self.machine.local(self.operand(given[0], keep_names=False))
        if not isinstance(local, Local | Text):
            raise NotModelled("the address of a packed block is not an affine expression")
        return Word(local, self.integer(given[1]), self.integer(given[2]))

    def _size(self, node: Node) -> Expr:
        kind = node.child_by_field_name("type")
        if kind is not None:
            words = set(text_of(kind).split()) - {"const"}
            sizes = {SIZES[w] for w in words if w in SIZES}
            if len(sizes) == 1:
                return Expr(sizes.pop())
        inner = node.child_by_field_name("value")
        while inner is not None and inner.type == "parenthesized_expression":
            inner = inner.named_children[0]
        base, depth = inner, 0
        while base is not None and base.type in ("subscript_expression", "pointer_expression"):
            base, depth = base.child_by_field_name("argument"), depth + 1
        array = self.scope.arrays.get(text_of(base)) if base is not None else None
        if array is not None and depth == len(array.shape) and array.element in SIZES:
            return Expr(SIZES[array.element])
        raise NotModelled("sizeof is applied to something other than a type or an array element")

    def _addressed(self, node: Node) -> Value:
        """`&p[i]` and `*p`."""
        inner = _field(node, "argument")
        if not text_of(node).startswith("&"):
            value = self.value(inner)
            if isinstance(value, Reference):
                return self._referred(value)
            return self._element(self._subscript(self.pointee(inner), Expr()))
        while inner.type == "parenthesized_expression":
            inner = inner.named_children[0]
        if inner.type == "subscript_expression":
            return self._subscripted(inner, inside=False)
        name = text_of(inner)
        if inner.type == "identifier" and isinstance(self.scope.get(name), Record | Expr | Text):
            return Reference(self.scope.slots[name])
        raise NotModelled("& is applied to something other than an array element or a variable")

    def _subscripted(self, node: Node, *, inside: bool = True) -> Value:
        """`p[i]`: the element at i, or a pointer to it if it is an array."""
        base, index = self.value(_field(node, "argument")), self.integer(_field(node, "index"))
        if isinstance(base, Reference) and inside:
            held = self._referred(base)
            if not isinstance(held, Table) and index == Expr(0):
                return held
            base = held
        if isinstance(base, Table):
            if not inside:
                raise NotModelled("& is applied to an entry of a table")
            return looked_up(base, index)
        if not isinstance(base, Pointer):
            raise NotModelled("a pointer does not point to an array element")
        return self._subscript(base, index) if inside else self.advanced(base, index)

    def _subscript(self, base: Pointer, index: Expr) -> Pointer:
        at = self.advanced(base, index)
        assert at.axis is not None
        return Pointer(at.array, at.index, at.axis + 1)

    def _element(self, value: Value) -> Value:
        if isinstance(value, Pointer) and value.axis == len(value.index):
            raise NotModelled("the core loads a value from memory")
        return value


def in_rows(index: tuple[Expr, ...], shape: tuple[int, ...]) -> tuple[Expr, ...]:
    """The same element with a normalised index, such as `[0][256]` of 256 columns as `[1][0]`."""
    result = list(index)
    for axis in range(len(index) - 1, 0, -1):
        part, size = result[axis], shape[axis]
        whole = tuple((a, c // size) for a, c in part.terms if c % size == 0)
        alone = len(whole) == len(part.terms)  # a constant may be split off
        rows = Expr(part.const // size if alone else 0, whole)
        result[axis], result[axis - 1] = part - rows * size, result[axis - 1] + rows
    return tuple(result)


_CONDITIONAL = ("condition", "consequence", "alternative")
_KINDS = {
    Flags: "flag without an address",
    Truth: "condition",
    Table: "table",
    Reference: "reference",
    Word: "packed block",
}


def _field(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    if child is None:
        raise NotModelled(f"this {node.type.replace('_', ' ')} has no {name}")
    return child
