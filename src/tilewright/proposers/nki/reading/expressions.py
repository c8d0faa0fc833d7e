"""Evaluates the expressions of a kernel to numbers, regions and names."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.parts.languages.python import literal
from tilewright.proposers.nki.ir import Region
from tilewright.proposers.nki.linear import Linear
from tilewright.proposers.nki.reading.constants import constant
from tilewright.proposers.nki.reading.functions import (
    MOST_ITEMS,
    Items,
    Reader,
    builtin,
    items_of,
    method,
)
from tilewright.proposers.nki.reading.values import (
    TILE_SIZES,
    Name,
    UnsupportedError,
    compared,
    divided,
    indexed,
    integer,
    linear,
    number,
)

_REAL: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip
MODULES = {"nki.language": "nl", "nki.isa": "nisa", "nki": "nki", "numpy": "np", "math": "math"}
LARGEST = 1 << 256
"""Limit for integers, because larger ones would only waste time and memory."""
_MOST_POWER = 256
_LONGEST_NAME = 1000


def evaluated(reader: Reader, node: ast.expr) -> Any:
    """The value of an expression. Integers that depend on loops are `Linear`."""
    reader.step()
    found = _EVALUATE.get(type(node))
    if found is None:
        raise UnsupportedError(f"`{ast.unparse(node)[:60]}` is not understood", node.lineno)
    try:
        return _bounded(number(found(reader, node)))
    except UnsupportedError as error:
        error.line = error.line or node.lineno
        raise
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError):
        text = ast.unparse(node)[:60]
        raise UnsupportedError(f"`{text}` is not understood", node.lineno) from None


def _bounded(value: Any) -> Any:
    """A value; refused if it is so large that it would only waste time and memory."""
    if isinstance(value, int) and not -LARGEST < value < LARGEST:
        raise UnsupportedError("a number is too large")
    if isinstance(value, Name) and len(value.text) > _LONGEST_NAME:
        raise UnsupportedError("an expression of parameters is too long")
    if isinstance(value, tuple) and len(value) > MOST_ITEMS:
        raise UnsupportedError(f"a list of more than {MOST_ITEMS:,} items")
    return value


def _constant(reader: Reader, node: ast.Constant) -> Any:
    return node.value


def _name(reader: Reader, node: ast.Name) -> Any:
    if node.id in reader.names:
        return reader.names[node.id]
    raise UnsupportedError(f"{node.id} has no value that is known")


def _attribute(reader: Reader, node: ast.Attribute) -> Any:
    value = evaluated(reader, node.value)
    if isinstance(value, Region):
        tensor = reader.tensors[value.tensor]
        if node.attr == "shape":
            return value.shape
        if node.attr == "dtype":
            return Name(f"nl.{tensor.dtype}")
    if isinstance(value, Name):
        if value.last == "tile_size" and node.attr in TILE_SIZES:
            return TILE_SIZES[node.attr]
        if value.text == "math" and node.attr == "pi":
            return math.pi
        return Name(MODULES.get(f"{value.text}.{node.attr}", f"{value.text}.{node.attr}"))
    raise UnsupportedError(f"`{ast.unparse(node)[:60]}` is not understood")


def _arithmetic(reader: Reader, node: ast.BinOp) -> Any:
    left, right = evaluated(reader, node.left), evaluated(reader, node.right)
    if isinstance(node.op, (ast.FloorDiv, ast.Mod)):
        return divided(left, right, reader.trips)[isinstance(node.op, ast.Mod)]
    if Linear in (type(left), type(right)):
        if isinstance(node.op, ast.Mult):
            left, right = (right, left) if isinstance(right, Linear) else (left, right)
            return linear(left) * integer(right, reader.trips)
        if isinstance(node.op, ast.Add):
            return linear(left) + linear(right)
        if isinstance(node.op, ast.Sub):
            return linear(left) - linear(right)
    if isinstance(left, (int, float, tuple)) and isinstance(right, (int, float, tuple)):
        _require_small(node.op, left, right)
        return _REAL[type(node.op)](left, right)
    if isinstance(left, (int, float, Name)) and isinstance(right, (int, float, Name)):
        return Name(f"({_text(left)} {_SIGNS[type(node.op)]} {_text(right)})")
    raise UnsupportedError(f"`{ast.unparse(node)[:60]}` is not understood")


def _require_small(op: ast.operator, left: Any, right: Any) -> None:
    """The result of an operation must be limited before it is computed."""
    if isinstance(op, ast.Pow) and isinstance(right, int) and abs(right) > _MOST_POWER:
        raise UnsupportedError("a power is too large")
    if isinstance(op, ast.Mult):
        for items, times in ((left, right), (right, left)):
            if isinstance(items, tuple) and len(items) * times > MOST_ITEMS:
                raise UnsupportedError(f"a list of more than {MOST_ITEMS:,} items")


_SIGNS: Mapping[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"
}  # fmt: skip


def _text(value: Any) -> str:
    return value.text if isinstance(value, Name) else literal(value)


def _unary(reader: Reader, node: ast.UnaryOp) -> Any:
    value = evaluated(reader, node.operand)
    if isinstance(node.op, ast.Not):
        return not value
    if isinstance(node.op, ast.USub):
        if isinstance(value, Name):
            return Name(f"-{value.text}")
        return linear(value) * -1 if isinstance(value, Linear) else -value
    raise UnsupportedError("this operator is not understood")


def _comparison(reader: Reader, node: ast.Compare) -> bool:
    left = evaluated(reader, node.left)
    for sign, item in zip(node.ops, node.comparators, strict=True):
        right = evaluated(reader, item)
        if isinstance(sign, (ast.Is, ast.IsNot)):
            holds = (left is right) == isinstance(sign, ast.Is)
        elif isinstance(sign, (ast.In, ast.NotIn)):
            left = integer(left, reader.trips) if isinstance(left, Linear) else left
            right = right if isinstance(right, (dict, str)) else tuple(items_of(right))
            holds = (left in right) == isinstance(sign, ast.In)
        elif isinstance(left, Name) or isinstance(right, Name):
            if not isinstance(sign, (ast.Eq, ast.NotEq)):
                raise UnsupportedError("a comparison is not between integers")
            holds = (left == right) == isinstance(sign, ast.Eq)
        else:
            holds = compared(sign, left, right, reader.trips)
        if not holds:
            return False
        left = right
    return True


def _boolean(reader: Reader, node: ast.BoolOp) -> bool:
    every = isinstance(node.op, ast.And)
    for item in node.values:
        if bool(evaluated(reader, item)) != every:
            return not every
    return every


def _choice(reader: Reader, node: ast.IfExp) -> Any:
    return evaluated(reader, node.body if evaluated(reader, node.test) else node.orelse)


def _tuple(reader: Reader, node: ast.Tuple | ast.List) -> Any:
    kind = tuple if isinstance(node, ast.Tuple) else Items
    return kind(evaluated(reader, item) for item in node.elts)


def _comprehension(reader: Reader, node: ast.ListComp | ast.GeneratorExp) -> Any:
    found: list[Any] = []
    before = dict(reader.names)
    _generated(reader, node, 0, found)
    reader.names.clear()
    reader.names.update(before)
    return Items(found)


def _generated(
    reader: Reader, node: ast.ListComp | ast.GeneratorExp, number: int, found: list[Any]
) -> None:
    """The items of a comprehension, from one of its `for` clauses on."""
    if number == len(node.generators):
        found.append(evaluated(reader, node.elt))
        return
    part = node.generators[number]
    for item in items_of(evaluated(reader, part.iter)):
        reader.step()
        _bind(reader, part.target, item)
        if all(evaluated(reader, test) for test in part.ifs):
            _generated(reader, node, number + 1, found)
        if len(found) > MOST_ITEMS:
            raise UnsupportedError("this comprehension is too long")


def _bind(reader: Reader, target: ast.expr, item: Any) -> None:
    if isinstance(target, ast.Tuple):
        for part, value in zip(target.elts, item, strict=True):
            _bind(reader, part, value)
    elif isinstance(target, ast.Name):
        reader.names[target.id] = item
    else:
        raise UnsupportedError("this comprehension is not understood")


def _dict(reader: Reader, node: ast.Dict) -> Any:
    return {
        evaluated(reader, key): evaluated(reader, value)
        for key, value in zip(node.keys, node.values, strict=True)
        if key is not None
    }


def _string(reader: Reader, node: ast.JoinedStr) -> str:
    """Any text can be used here, because kernels use it only in names and messages."""
    return ""


def _subscript(reader: Reader, node: ast.Subscript) -> Any:
    value = evaluated(reader, node.value)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if isinstance(value, Region):
        index = [_index(reader, part) for part in parts]
        return indexed(value, reader.tensors[value.tensor], index, reader.trips)
    if isinstance(value, dict):
        return value[evaluated(reader, node.slice)]
    if isinstance(value, tuple):
        place = _index(reader, node.slice)
        return value[place if isinstance(place, slice) else integer(place, reader.trips)]
    raise UnsupportedError(f"`{ast.unparse(node)[:60]}` is not understood")


def _index(reader: Reader, node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else evaluated(reader, part) for part in parts))
    found = evaluated(reader, node)
    return slice(found[1], found[1] + found[2]) if _is_span(found) else found


def _is_span(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and value[0] == "ds"


def _call(reader: Reader, node: ast.Call) -> Any:
    if any(isinstance(a, ast.Starred) for a in node.args) or any(
        k.arg is None for k in node.keywords
    ):
        raise UnsupportedError("arguments with * or ** are not understood")
    if ast.unparse(node.func) == "nl.shared_constant":
        return constant(node, reader.names)
    args = [evaluated(reader, a) for a in node.args]
    kwargs = {str(k.arg): evaluated(reader, k.value) for k in node.keywords}
    if isinstance(node.func, ast.Attribute):
        owner = evaluated(reader, node.func.value)
        if isinstance(owner, Region):
            return method(reader, owner, node.func.attr, args, kwargs)
        if isinstance(owner, dict) and node.func.attr in ("items", "keys", "values", "get"):
            found = getattr(owner, node.func.attr)(*args)
            return found if node.func.attr == "get" else tuple(found)
    elif isinstance(node.func, ast.Name) and node.func.id not in reader.names:
        return builtin(reader, node.func.id, args)
    return reader.call(evaluated(reader, node.func), args, kwargs, node.lineno)


_EVALUATE: Mapping[type[ast.expr], Callable[[Any, Any], Any]] = {
    ast.Constant: _constant, ast.Name: _name, ast.Attribute: _attribute, ast.BinOp: _arithmetic,
    ast.UnaryOp: _unary, ast.Compare: _comparison, ast.BoolOp: _boolean, ast.IfExp: _choice,
    ast.Tuple: _tuple, ast.List: _tuple, ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension, ast.Dict: _dict, ast.JoinedStr: _string,
    ast.Subscript: _subscript, ast.Call: _call,
}  # fmt: skip
