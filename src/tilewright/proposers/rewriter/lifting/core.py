"""Code that the core runs on elements of arrays, and the local arrays that it uses."""

from __future__ import annotations

from tree_sitter import Node

from tilewright.proposers.c.syntax import identifiers, text_of
from tilewright.proposers.rewriter.c_types import array_of
from tilewright.proposers.rewriter.ir import Array, Assign, Dram
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled, Pointer
from tilewright.proposers.rewriter.lifting.values import Reader

_Sum = tuple[tuple[tuple[float, Dram], ...], float]
"""The terms of a linear combination, and its constant."""


def assignment(node: Node, reader: Reader) -> Assign:
    """`a[i] = -2 * b[i] + c[i]`, or with `+=` or `-=`; `NotModelled` if it is not linear."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    operator = text_of(node.child_by_field_name("operator") or node)
    if node.type != "assignment_expression" or left is None or right is None:
        raise NotModelled("this form of assignment to memory is not supported")
    target = _element(left, reader)
    terms, constant = _linear(right, reader)
    if operator == "-=":
        terms, constant = _scaled((terms, constant), -1.0)
    if operator in ("+=", "-="):
        terms = ((1.0, target), *terms)
    elif operator != "=":
        raise NotModelled(f"the operator {operator} changes memory")
    return Assign(target, _collected(terms), constant)


def local_array(
    name: str, sizes: list[Node | None], kind: str, reader: Reader, *, static: bool
) -> Array:
    """A local array without initial values; `NotModelled` if a size is not a constant."""
    if any(s is not None and any(True for _ in identifiers(s)) for s in sizes):
        raise NotModelled(f"the array {name} has variable length")
    extents = [reader.integer(s) if s is not None else None for s in sizes]
    known = [e.const if e is not None and e.is_const else None for e in extents]
    if not known or any(k is None or k < 1 for k in known):
        raise NotModelled(f"the size of the array {name} is not a constant")
    found = array_of(name, known, kind)
    return Array(name, found.shape, found.element, local=True, static=static)


def _element(node: Node, reader: Reader) -> Dram:
    """An element of an array that the core reads or writes."""
    pointer = reader.place(node)
    if not isinstance(pointer, Pointer) or pointer.axis != len(pointer.index):
        raise NotModelled("the core accesses memory that is not an array element")
    return Dram(pointer.array, pointer.index)


def _linear(node: Node, reader: Reader) -> _Sum:
    match node.type:
        case "parenthesized_expression":
            return _linear(node.named_children[0], reader)
        case "number_literal":
            return (), _number(text_of(node))
        case "subscript_expression" | "pointer_expression":
            return ((1.0, _element(node, reader)),), 0.0
        case "unary_expression":
            sign = {"-": -1.0, "+": 1.0}.get(text_of(node.child_by_field_name("operator") or node))
            inner = node.child_by_field_name("argument")
            if sign is not None and inner is not None:
                return _scaled(_linear(inner, reader), sign)
        case "binary_expression":
            return _combined(node, reader)
    raise NotModelled(f"this {node.type.replace('_', ' ')} with array elements is not supported")


def _combined(node: Node, reader: Reader) -> _Sum:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    assert left is not None
    assert right is not None
    first, second = _linear(left, reader), _linear(right, reader)
    match text_of(node.child_by_field_name("operator") or node):
        case "+":
            return (*first[0], *second[0]), first[1] + second[1]
        case "-":
            minus = _scaled(second, -1.0)
            return (*first[0], *minus[0]), first[1] + minus[1]
        case "*" if not first[0]:
            return _scaled(second, first[1])
        case "*" if not second[0]:
            return _scaled(first, second[1])
    raise NotModelled("the arithmetic on array elements is not linear")


def _scaled(value: _Sum, factor: float) -> _Sum:
    return tuple((factor * f, dram) for f, dram in value[0]), factor * value[1]


def _collected(terms: tuple[tuple[float, Dram], ...]) -> tuple[tuple[float, Dram], ...]:
    """The terms with equal elements combined, in the order of their first occurrence."""
    total: dict[Dram, float] = {}
    for factor, dram in terms:
        total[dram] = total.get(dram, 0.0) + factor
    return tuple((factor, dram) for dram, factor in total.items())


def _number(text: str) -> float:
    try:
        return float(text.rstrip("fFlL")) if "x" not in text.lower() else float(int(text, 16))
    except ValueError:
        raise NotModelled(f"the literal {text} is not a number") from None
