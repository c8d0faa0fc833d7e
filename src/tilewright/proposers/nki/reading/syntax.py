"""Queries of a kernel's syntax tree: defaults, ranges, and names whose values are passed between
iterations."""

from __future__ import annotations

import ast
from collections.abc import Sequence

RANGES = ("affine_range", "sequential_range", "static_range")


def defaults_of(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """The defaults of parameters, by name."""
    every, values = function.args, function.args.defaults
    names = [p.arg for p in (*every.posonlyargs, *every.args)]
    found = dict(zip(names[len(names) - len(values) :], values, strict=True))
    for parameter, value in zip(every.kwonlyargs, every.kw_defaults, strict=True):
        if value is not None:
            found[parameter.arg] = value
    return found


def is_range(over: ast.expr) -> bool:
    """Whether a loop iterates over a range that is written in its head."""
    if not isinstance(over, ast.Call) or not isinstance(over.func, (ast.Name, ast.Attribute)):
        return False
    name = over.func.id if isinstance(over.func, ast.Name) else over.func.attr
    return name == "range" or name in RANGES


def stored(body: Sequence[ast.stmt]) -> set[str]:
    """Names to which statements assign a value."""
    return {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def carried(body: Sequence[ast.stmt]) -> bool:
    """Whether an iteration uses the value that the previous one assigned to a name."""
    inner = {
        node.target.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.comprehension) and isinstance(node.target, ast.Name)
    }
    bound, done = stored(body) - inner, set[str]()
    for statement in body:
        assigned = stored([statement])
        own = assigned if isinstance(statement, (ast.For, ast.If)) else set[str]()
        for node in ast.walk(statement):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                if node.target.id not in done:
                    return True
            elif isinstance(node, ast.Attribute) and node.attr == "append":
                if isinstance(node.value, ast.Name) and node.value.id not in done:
                    return True
            elif (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and node.id in bound
                and node.id not in done
                and node.id not in own
            ):
                return True
        done |= assigned
    return False
