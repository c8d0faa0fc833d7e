"""Constraints between the parameters of a template, which are interpreted and never executed as
Python.

Constraints come from files and models. Their operations, their length and the size of their numbers
are therefore limited.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence

from tilewright.core.errors import InputError

LONGEST = 1000
"""Maximum number of characters of a constraint. It also limits the size of results to a few
thousand bits.
"""
LARGEST = (1 << 63) - 1
"""Maximum absolute value of the numbers of a template."""
_SHOWN = 80
"""Number of characters of a template that a message shows."""

_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp,
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Compare, ast.Eq, ast.NotEq, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE, ast.Name, ast.Load, ast.Constant, ast.Call,
)  # fmt: skip
FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max}


def _expression(text: str) -> ast.Expression:
    """A constraint's syntax tree, which contains only allowed operations."""
    if "#" in text or "\\" in text:  # an instance has it in a comment, which must end with the line
        raise _unusable(text)
    if len(text) > LONGEST:
        raise InputError(
            f"the template's constraint {shown(text)} has {len(text)} characters. Write at most "
            f"{LONGEST}."
        )
    python = text.replace("&&", " and ").replace("||", " or ")
    python = re.sub(r"!(?!=)", " not ", python)
    python = re.sub(r"(?<!/)/(?!/)", "//", python)
    try:
        tree = ast.parse(python.strip(), mode="eval")
        nodes = list(ast.walk(tree))
        compile(tree, "<constraint>", "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unusable(text) from None
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    for node in nodes:
        allowed = isinstance(node, _ALLOWED)
        if isinstance(node, ast.Constant):
            allowed = type(node.value) is int and node.value <= LARGEST
        elif isinstance(node, ast.Call):
            plain = isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS
            allowed = plain and not node.keywords and len(node.args) > 1
        elif isinstance(node, ast.Name) and node.id in FUNCTIONS:
            allowed = id(node) in called
        if not allowed:
            raise _unusable(text)
    return tree


def _unusable(text: str) -> InputError:
    return InputError(
        f"the template's constraint {shown(text)} cannot be read. A constraint may contain "
        "parameters, whole numbers of 64 bits, + - * / %, comparisons, &&, ||, !, min and max."
    )


def shown(text: str) -> str:
    """The beginning of a template's text, for messages."""
    text = text.strip()
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ...")


def names_and_length(text: str) -> tuple[list[str], int]:
    """The names in a constraint, and how many names, numbers and operators it has.

    Raises `InputError` if the text is not a constraint.
    """
    nodes = list(ast.walk(_expression(text)))
    names = [node.id for node in nodes if isinstance(node, ast.Name) and node.id not in FUNCTIONS]
    return names, len(nodes)


def together(constraints: Sequence[str], names: Sequence[str]) -> Callable[[Sequence[int]], bool]:
    """Whether all constraints hold for these values. They are tested in their order up to the first
    one that does not hold; `InputError` if one of those divides by zero."""
    tests = [(text, compile(_expression(text), "<constraint>", "eval")) for text in constraints]

    def holds(point: Sequence[int]) -> bool:
        scope = {"__builtins__": {}, **FUNCTIONS, **dict(zip(names, point, strict=True))}
        for text, test in tests:
            try:
                if not eval(test, scope):
                    return False
            except ZeroDivisionError:
                raise _divides_by_zero(text, dict(zip(names, point, strict=True))) from None
        return True

    return holds


def _divides_by_zero(text: str, values: Mapping[str, int]) -> InputError:
    used = dict.fromkeys(names_and_length(text)[0])
    given = ", ".join(f"{name} = {values[name]}" for name in used)
    zero = next((name for name in used if values[name] == 0), "DIVISOR")
    return InputError(
        f"the template's constraint {shown(text)} divides by zero{' for ' * bool(given)}{given}. "
        f"Remove this value, or test it first in a constraint such as {zero} != 0."
    )
