"""What calls of a kernel pass, as text and as numbers, for `facts`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from tree_sitter import Node

from tilewright.proposers.c.syntax import declared_name, descendants, text_of
from tilewright.proposers.rewriter.machine import Machine

_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def called(call: Node) -> str:
    """The name of the function or macro that is called."""
    return text_of(call.child_by_field_name("function") or call)


def product_of(call: Node, machine: Machine) -> Literal["keeps", "replaces"] | None:
    """Whether a product uses the operand that is in the array already; None for other calls."""
    name = called(call)
    base, _ = machine.forms.get(name, (name, None))
    if base not in machine.effects or machine.attribute(base, "uses") != "array":
        return None
    return "keeps" if machine.attribute(base, "keeps") is not None else "replaces"


def may_be_one(scale: str) -> bool:
    """Whether a scale is 1, left out, or no literal."""
    text = scale.strip("() \t").rstrip("fF")
    try:
        return float(text or 1) == 1
    except ValueError:
        return True


def arguments(call: Node) -> list[Node]:
    """The arguments of a call."""
    given = call.child_by_field_name("arguments")
    return [a for a in given.named_children if a.type != "comment"] if given else []


def parameters(function: Node) -> list[str]:
    """The names of a function's parameters."""
    found = next((n for n in descendants(function) if n.type == "parameter_list"), None)
    if found is None:
        return []
    return [declared_name(p) for p in found.named_children if p.type == "parameter_declaration"]


def value(node: Node, known: Mapping[str, int]) -> int | None:
    """The value of an expression of literals and known names; None for any other."""
    text = text_of(node)
    if node.type == "number_literal":
        try:
            return int(text.rstrip("uUlL"), 0)
        except ValueError:
            return None
    if node.type == "identifier":
        return known.get(text)
    if node.type == "parenthesized_expression":
        return value(node.named_children[0], known)
    if node.type == "binary_expression":
        left, right = (value(node.named_children[n], known) for n in (0, -1))
        sign = text_of(node.child_by_field_name("operator") or node)
        if left is None or right is None or sign not in _OPERATORS:
            return None
        return _OPERATORS[sign](left, right)
    return None


def texts_given(
    call: Node, position: int, every: Sequence[Node], functions: Mapping[str, Node]
) -> list[str]:
    """The texts of an operand: those that all calls pass, if it is a parameter; "" if it is
    left out.
    """
    passed = arguments(call)
    if position >= len(passed):
        return [""]
    text = text_of(passed[position])
    for name, function in functions.items():
        names = parameters(function)
        if function.start_byte <= call.start_byte < function.end_byte and text in names:
            calls = [arguments(c) for c in every if called(c) == name]
            place = names.index(text)
            return [text_of(a[place]) for a in calls if place < len(a)] or [text]
    return [text]
