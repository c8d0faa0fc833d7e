"""Converts literals, names, attributes, operators and comparisons to functions of a frame."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported, too_large
from tilewright.targets.trainium.language import arithmetic
from tilewright.targets.trainium.language.arithmetic import (
    NUMBERS,
    truth,
)
from tilewright.targets.trainium.language.classes import (
    Class,
    NumberMember,
    Parent,
    Record,
    special_method,
)
from tilewright.targets.trainium.language.contents import attribute_named, each_of
from tilewright.targets.trainium.language.conversion import converts, expression
from tilewright.targets.trainium.language.formats import percent
from tilewright.targets.trainium.language.frames import Expression, Frame, Function
from tilewright.targets.trainium.language.iterators import KernelIterator
from tilewright.targets.trainium.language.python import type_of
from tilewright.targets.trainium.language.values import (
    Builtin,
    MemberSet,
    Missing,
    Namespace,
)

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}
_FAST = {"+", "-", "*", "//", "%"}
_SAFE = 1 << 100


def symbol_of(node: ast.operator) -> str:
    """The text of an operator."""
    found = _BINARY.get(type(node))
    if found is None:
        raise not_supported(f"the operator {type(node).__name__}", getattr(node, "lineno", None))
    return found


@converts(ast.Constant)
def _constant(node: ast.Constant) -> Expression:
    value = node.value
    if isinstance(value, (bytes, complex)):
        raise not_supported(f"a literal of type {type(value).__name__}", node.lineno)
    if isinstance(value, int) and abs(value) >= arithmetic.LARGEST:
        raise too_large("an integer of 2**256 or more", node.lineno)
    return lambda frame: value


@converts(ast.Name)
def _name(node: ast.Name) -> Expression:
    name, line = node.id, node.lineno
    if name.startswith("__") and name != "__name__":
        raise not_supported(f"the name {name}", line)

    def load(frame: Frame) -> Any:
        here: Frame | None = frame
        while here is not None:
            found = here.names.get(name, here)
            if found is not here:
                if type(found) is Missing:
                    raise used(found, line)
                return found
            here = here.outer
        raise KernelError("undefined_name", f"name {name!r} is not defined here", line)

    return load


def used(missing: Missing, line: int) -> KernelError:
    """The error for a name that is used but has no value here."""
    found = missing.error
    return KernelError(found.code, found.message, line, found.kind)


@converts(ast.Attribute)
def _attribute(node: ast.Attribute) -> Expression:
    value, name, line = expression(node.value), node.attr, node.lineno
    private = name.startswith("_")
    special = name.startswith("__")
    if special and name not in ("__class__", "__name__") and name not in arithmetic.SPECIAL:
        raise not_supported(f"the attribute {name}", line)

    def load(frame: Frame) -> Any:
        owner = value(frame)
        run = frame.run
        run.line = line
        if type(owner) is Namespace and name in owner.members:
            return owner.members[name]
        if name == "__class__":
            return type_of(owner)
        if name == "__name__" and isinstance(owner, (Class, Function, Builtin)):
            return owner.name
        if private and not isinstance(owner, (Record, NumberMember, Class, Parent)):
            raise not_supported(f"the attribute {name}", line)
        return attribute_named(run, owner, name)

    return load


@converts(ast.BinOp)
def _binary(node: ast.BinOp) -> Expression:
    left, right = expression(node.left), expression(node.right)
    symbol, line = symbol_of(node.op), node.lineno
    fast = symbol in _FAST
    plain = arithmetic.BINARY.get(symbol, max)

    def compute(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        if fast and type(one) is int and type(other) is int and other:
            found = plain(one, other)
            if -_SAFE < found < _SAFE:
                return found
        frame.run.line = line
        if symbol == "%" and type(one) is str:
            return percent(one, other)
        return arithmetic.binary(frame.run, symbol, one, other)

    return compute


@converts(ast.UnaryOp)
def _unary(node: ast.UnaryOp) -> Expression:
    operand, line = expression(node.operand), node.lineno
    if isinstance(node.op, ast.Not):

        def negate(frame: Frame) -> bool:
            value = operand(frame)
            frame.run.line = line
            return not truth(value)

        return negate
    symbol = _UNARY[type(node.op)]

    def compute(frame: Frame) -> Any:
        value = operand(frame)
        frame.run.line = line
        return arithmetic.unary(frame.run, symbol, value)

    return compute


@converts(ast.BoolOp)
def _boolean(node: ast.BoolOp) -> Expression:
    parts = [expression(value) for value in node.values]
    stops_at, line = isinstance(node.op, ast.Or), node.lineno

    def compute(frame: Frame) -> Any:
        found: Any = None
        for part in parts:
            found = part(frame)
            frame.run.line = line
            if truth(found) is stops_at:
                return found
        return found

    return compute


@converts(ast.Compare)
def _compare(node: ast.Compare) -> Expression:
    line = node.lineno
    parts = [expression(node.left), *(expression(item) for item in node.comparators)]
    steps = [_comparison(op, line) for op in node.ops]

    def compute(frame: Frame) -> Any:
        left, found = parts[0](frame), None
        for number, step in enumerate(steps):
            right = parts[number + 1](frame)
            frame.run.line = line
            found = step(frame, left, right)
            if number + 1 < len(steps) and not truth(found):
                return found
            left = right
        return found

    return compute


def _comparison(op: ast.cmpop, line: int) -> Callable[[Frame, Any, Any], Any]:
    symbol = _COMPARE.get(type(op))
    if symbol is not None:
        plain = arithmetic.COMPARE[symbol]

        def by_value(frame: Frame, left: Any, right: Any) -> Any:
            if type(left) in NUMBERS and type(right) in NUMBERS:
                return plain(left, right)
            return arithmetic.compare(frame.run, symbol, left, right)

        return by_value
    if isinstance(op, (ast.Is, ast.IsNot)):
        wanted = isinstance(op, ast.Is)
        return lambda frame, left, right: (left is right) == wanted
    inside = isinstance(op, ast.In)

    def contained(frame: Frame, left: Any, right: Any) -> bool:
        if special_method(right, "__contains__") is None and special_method(right, "__iter__"):
            right = each_of(right)
        if isinstance(right, KernelIterator):  # the items after the one found remain
            return any(left is item or _same(frame, left, item) for item in right) == inside
        own = special_method(right, "__contains__")
        if own is not None:
            return truth(own.call(frame.run, [left], {})) == inside
        if not isinstance(right, (list, tuple, dict, MemberSet, str, range)):
            raise KernelError(
                "unsupported_operand", "'in' needs a list, tuple, dict, set or string", line
            )
        if isinstance(right, str) and not isinstance(left, str):
            raise KernelError("unsupported_operand", "only a string can be in a string", line)
        if isinstance(right, str):
            return (left in right) == inside
        if isinstance(right, (dict, MemberSet)):
            return (arithmetic.hashable(left, line) in right) == inside
        return any(left is item or _same(frame, left, item) for item in right) == inside

    return contained


def _same(frame: Frame, left: Any, right: Any) -> bool:
    plain = (int, float, str, bool, tuple, list, dict, Record, type(None))
    if not isinstance(left, plain) or not isinstance(right, plain):
        return False
    return truth(arithmetic.compare(frame.run, "==", left, right))


@converts(ast.IfExp)
def _choice(node: ast.IfExp) -> Expression:
    test, yes, no = expression(node.test), expression(node.body), expression(node.orelse)
    line = node.lineno

    def compute(frame: Frame) -> Any:
        condition = test(frame)
        frame.run.line = line
        return yes(frame) if truth(condition) else no(frame)

    return compute
