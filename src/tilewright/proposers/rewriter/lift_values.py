"""Reads C expressions as IR values: integers, local addresses, array elements, conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tree_sitter import Node

from tilewright.proposers.rewriter.expr import Expr, minimum, quotient, remainder
from tilewright.proposers.rewriter.ir import (
    Array,
    Compare,
    Condition,
    Dram,
    Flag,
    Local,
    Operand,
    Text,
)
from tilewright.proposers.rewriter.machine import Machine

Value: TypeAlias = "Expr | Local | Dram | Flag"
_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


class NotModelled(Exception):
    """This code stays text; the message says why."""


@dataclass
class Scope:
    """Names in scope: constants and folded locals, arrays, and loop variables in use."""

    values: dict[str, Value]
    arrays: dict[str, Array]
    loops: set[str] = field(default_factory=set)

    def inner(self) -> Scope:
        """A nested scope; what is declared there does not leave it."""
        return Scope(dict(self.values), self.arrays, set(self.loops))


@dataclass(frozen=True, slots=True)
class Reader:
    """Evaluates expression nodes; raises `NotModelled` for what the IR cannot hold."""

    machine: Machine
    scope: Scope

    def operand(self, node: Node, *, keep_names: bool) -> Operand:
        """An operand of a command; with `keep_names`, constants of the target stay as written."""
        if node.type == "identifier" and text_of(node) not in self.scope.values:
            absent = self.machine.flags.get(text_of(node)) == "absent"
            if absent or (keep_names and text_of(node) in self.machine.constants):
                return Text(text_of(node))
        try:
            value = self.value(node)
        except NotModelled:
            if node.type == "number_literal":
                return Text(text_of(node))
            raise
        if isinstance(value, Flag):
            raise NotModelled("flag without an address")
        return value

    def integer(self, node: Node) -> Expr:
        """An affine integer."""
        value = self.value(node)
        if not isinstance(value, Expr):
            raise NotModelled("integer expected")
        return value

    def value(self, node: Node) -> Value:
        """Any value."""
        match node.type:
            case "number_literal":
                return _literal(text_of(node))
            case "identifier":
                return self._identifier(text_of(node))
            case "parenthesized_expression":
                return self.value(node.named_children[0])
            case "cast_expression":
                return self._cast(node)
            case "binary_expression":
                return self._binary(node)
            case "conditional_expression":
                return self._conditional(node)
            case "call_expression":
                return self._address(node)
            case "pointer_expression" | "subscript_expression":
                return self._element(node)
        raise NotModelled(node.type.replace("_", " "))

    def condition(self, node: Node) -> Condition:
        """A conjunction of comparisons; a bare integer means it is not zero."""
        if node.type == "parenthesized_expression":
            return self.condition(node.named_children[0])
        if node.type == "binary_expression":
            left, operator, right = _binary_parts(node)
            if operator == "&&":
                return self.condition(left) + self.condition(right)
            if operator in _COMPARISONS:
                return (Compare(operator, self.integer(left), self.integer(right)),)
        return (Compare("!=", self.integer(node), Expr(0)),)

    def _identifier(self, name: str) -> Value:
        if name in self.scope.values:
            return self.scope.values[name]
        if name in self.machine.flags:
            return Flag(name)
        if name in self.machine.constants and name not in self.machine.spaces:
            return Expr(self.machine.constants[name])
        if name in self.scope.arrays:
            return Dram(name, ())
        raise NotModelled(f"variable {name}")

    def _cast(self, node: Node) -> Value:
        kind, inner = node.child_by_field_name("type"), node.child_by_field_name("value")
        if kind is None or inner is None or "*" in text_of(kind):
            raise NotModelled("pointer cast")
        return self.value(inner)

    def _binary(self, node: Node) -> Value:
        left_node, operator, right_node = _binary_parts(node)
        left, right = self.value(left_node), self.value(right_node)
        if isinstance(left, Expr) and isinstance(right, Expr):
            return _arithmetic(operator, left, right)
        if isinstance(right, Local) and operator in ("+", "|"):
            left, right = right, left
        if isinstance(left, Local):
            if isinstance(right, Expr) and operator in ("+", "-"):
                row = left.row + right if operator == "+" else left.row - right
                return Local(left.space, row, left.flags)
            if isinstance(right, Flag) and operator == "|":
                return Local(left.space, left.row, (*left.flags, right))
            if operator == "|" and right == Expr(0):
                return left
        if isinstance(left, Dram) and isinstance(right, Expr) and operator == "+":
            return self._advanced(left, right)
        raise NotModelled(f"operator {operator} on addresses")

    def _advanced(self, base: Dram, offset: Expr) -> Dram:
        """A row pointer plus a number of elements of the next dimension."""
        shape = self.scope.arrays[base.array].shape
        if not shape or len(base.index) >= len(shape):
            raise NotModelled("pointer arithmetic")
        return Dram(base.array, (*base.index, offset))

    def _conditional(self, node: Node) -> Value:
        test, yes, no = (_field(node, n) for n in ("condition", "consequence", "alternative"))
        condition, first, second = self.condition(test), self.value(yes), self.value(no)
        if isinstance(first, Flag) and second == Expr(0):
            return Flag(first.name, condition + first.when)
        if isinstance(second, Flag) and first == Expr(0) and len(condition) == 1:
            compare = condition[0]
            opposite = Compare(_NEGATED[compare.op], compare.left, compare.right)
            return Flag(second.name, (opposite, *second.when))
        if isinstance(first, Expr) and isinstance(second, Expr) and len(condition) == 1:
            compare = condition[0]
            pair = {(compare.left - compare.right) * s for s in (1, -1)}
            smaller = first if compare.op in ("<", "<=") else second
            if (
                first - second in pair
                and smaller - (second if smaller is first else first)
                == compare.left - compare.right
            ):
                return minimum(first, second)
        raise NotModelled("conditional expression that is no minimum")

    def _address(self, node: Node) -> Value:
        name = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        if name is None or arguments is None or text_of(name) not in self.machine.spaces:
            raise NotModelled(f"call of {text_of(name) if name else '?'}")
        if len(arguments.named_children) != 1:
            raise NotModelled(f"{text_of(name)} without one row")
        return Local(text_of(name), self.integer(arguments.named_children[0]))

    def _element(self, node: Node) -> Dram:
        """`&A[i][j]`, or `A[i]` for the start of row i."""
        target = node
        if node.type == "pointer_expression":
            argument = node.child_by_field_name("argument")
            if argument is None or not text_of(node).startswith("&"):
                raise NotModelled("pointer dereference")
            target = argument
        index: list[Expr] = []
        while target.type == "subscript_expression":
            index.insert(0, self.integer(_field(target, "index")))
            target = _field(target, "argument")
        array = self.scope.arrays.get(text_of(target)) if target.type == "identifier" else None
        if array is None or len(index) > len(array.shape):
            raise NotModelled("pointer that is no array element")
        if node.type == "subscript_expression" and len(index) == len(array.shape):
            raise NotModelled("value loaded from memory")
        return Dram(array.name, tuple(index))


def text_of(node: Node) -> str:
    """Source text of a node."""
    return node.text.decode() if node.text is not None else ""


def identifiers(node: Node) -> Iterator[str]:
    """Every identifier a node mentions."""
    if node.type == "identifier":
        yield text_of(node)
    for child in node.named_children:
        yield from identifiers(child)


def _field(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    if child is None:
        raise NotModelled(f"{node.type.replace('_', ' ')} without {name}")
    return child


def _literal(text: str) -> Expr:
    try:
        return Expr(int(text.rstrip("uUlL"), 0))
    except ValueError:
        raise NotModelled(f"literal {text}") from None


def _binary_parts(node: Node) -> tuple[Node, str, Node]:
    left, operator, right = (_field(node, n) for n in ("left", "operator", "right"))
    return left, text_of(operator), right


def _arithmetic(operator: str, left: Expr, right: Expr) -> Expr:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*" if right.is_const:
            return left * right.const
        case "*" if left.is_const:
            return right * left.const
        case "/" if right.is_const and right.const > 0:
            return quotient(left, right.const)
        case "%" if right.is_const and right.const > 0:
            return remainder(left, right.const)
        case "<<" if right.is_const:
            return left * (1 << right.const)
        case ">>" if right.is_const:
            return quotient(left, 1 << right.const)
        case "&" if right.is_const and right.const > 0 and (right.const + 1) & right.const == 0:
            return remainder(left, right.const + 1)
    raise NotModelled(f"operator {operator} that is not affine")
