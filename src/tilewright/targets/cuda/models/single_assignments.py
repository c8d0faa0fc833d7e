"""Splits assignments to several names into assignments to one name each.

N, D = 64, 128            N = 64; D = 128
self.a = self.b = x       self.a = x; self.b = x
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


def split_assignments(tree: ast.Module) -> ast.Module:
    """The module with single assignments where this cannot change what they assign."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for statement in body for one in _split(statement)]  # type: ignore[attr-defined]
    return tree


def _split(node: ast.stmt) -> Iterator[ast.stmt]:
    """The statement, or the single assignments that do the same."""
    pairs = list(_pairs(node)) if isinstance(node, ast.Assign) else []
    if len(pairs) > 1 and _are_independent(pairs):
        for target, value in pairs:
            yield ast.copy_location(ast.Assign([target], value), node)
    else:
        yield node


def _are_independent(pairs: Sequence[tuple[ast.expr, ast.expr]]) -> bool:
    """Whether the values can be computed again, and one after the other: they call nothing, and
    read none of the targets, which are names and attributes."""
    stored = {ast.unparse(target) for target, _ in pairs}
    read = [part for _, value in pairs for part in ast.walk(value)]
    return (
        all(isinstance(target, ast.Name | ast.Attribute) for target, _ in pairs)
        and not any(isinstance(part, ast.Call | ast.NamedExpr | ast.Lambda) for part in read)
        and not any(
            isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) in stored
            for part in read
        )
    )


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment, each with its value."""
    for target in node.targets:
        if (
            isinstance(target, ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and len(target.elts) == len(node.value.elts)
        ):
            yield from zip(target.elts, node.value.elts, strict=True)
        else:
            yield target, node.value
