"""Facts about a kernel of commands that its expressions and parameters show, or that the rewriter
finds, for `facts`.
"""

from __future__ import annotations

from functools import lru_cache

from tree_sitter import Node

from tilewright.core.errors import InputError
from tilewright.proposers.c.syntax import descendants, text_of
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.ir import has_opaque
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.reading import read
from tilewright.proposers.rewriter.rewrites.dead_moves import remove_dead_moves

MOST_STRIDE = 4
"""Largest factor of a loop variable in the position of a window."""

LEAST_DIMENSIONS = 4
"""Number of dimensions of an array from which on it may be that of a convolution."""


def has_windows(root: Node) -> bool:
    """Whether windows of an array may overlap, as those of a convolution do.

    An address then contains the sum of two loop variables that both advance by one, or an array
    has four dimensions.
    """
    counted = {
        name for loop in descendants(root) if loop.type == "for_statement" for name in _by_one(loop)
    }
    return any(_is_window(node, counted) for node in descendants(root)) or any(
        node.type == "parameter_declaration" and _dimensions(node) >= LEAST_DIMENSIONS
        for node in descendants(root)
    )


def _by_one(loop: Node) -> set[str]:
    """The variables that a loop's update increments by one."""
    update = loop.child_by_field_name("update")
    if update is None:
        return set()
    found = set()
    for node in [update, *descendants(update)]:
        text = "".join(text_of(node).split())
        if node.type == "update_expression" and "++" in text:
            found.add(text.replace("++", ""))
        elif node.type == "assignment_expression" and text.endswith("+=1"):
            found.add(text.removesuffix("+=1"))
    return found


def _is_window(node: Node, counted: set[str]) -> bool:
    if node.type != "binary_expression" or text_of(node.children[1]) != "+":
        return False
    names = [_counter(side, counted) for side in (node.children[0], node.children[2])]
    return None not in names and names[0] != names[1]


def _counter(node: Node, counted: set[str]) -> str | None:
    """The loop variable, if an expression is a loop variable or a small multiple of one."""
    while node.type == "parenthesized_expression":
        node = node.named_children[0]
    text = text_of(node)
    if node.type == "identifier":
        return text if text in counted else None
    if node.type != "binary_expression" or text_of(node.children[1]) != "*":
        return None
    factors = [node.children[0], node.children[2]]
    variable = next((_counter(f, counted) for f in factors if f.type == "identifier"), None)
    literal = next((text_of(f) for f in factors if f.type == "number_literal"), "")
    return variable if literal.isdecimal() and int(literal) <= MOST_STRIDE else None


def _dimensions(parameter: Node) -> int:
    return sum(node.type == "array_declarator" for node in descendants(parameter))


@lru_cache(maxsize=256)
def has_unread_loads(source: str, machine: Machine) -> bool:
    """Whether some loads are never used. Known only for kernels that the rewriter understands
    completely."""
    try:
        kernel = read(source, machine)
        if has_opaque(kernel.body):
            return True
        remove_dead_moves(kernel, machine)
    except NotApplicable:
        return False
    except InputError:
        return True
    return True
