"""Converts f-strings to functions of a frame."""

from __future__ import annotations

import ast

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.language.contents import text_of
from tilewright.targets.trainium.language.conversion import converts, expression
from tilewright.targets.trainium.language.frames import Expression, Frame
from tilewright.targets.trainium.language.methods import LONGEST_TEXT


@converts(ast.JoinedStr)
def _text(node: ast.JoinedStr) -> Expression:
    parts: list[Expression] = []
    for value in node.values:
        if isinstance(value, ast.FormattedValue):
            if value.format_spec is not None and not _is_short(value.format_spec):
                raise not_supported("this format in an f-string", node.lineno)
            parts.append(_formatted(value))
        else:
            parts.append(expression(value))

    def compute(frame: Frame) -> str:
        return "".join(part(frame) for part in parts)[:LONGEST_TEXT]

    return compute


def _is_short(spec: ast.expr) -> bool:
    """Whether a format is a literal with a width of at most two digits."""
    values = spec.values if isinstance(spec, ast.JoinedStr) else []
    texts = [v.value for v in values if isinstance(v, ast.Constant)]
    return len(texts) == len(values) and all(
        isinstance(t, str) and sum(c.isdigit() for c in t) <= 2 for t in texts
    )


def _formatted(node: ast.FormattedValue) -> Expression:
    value = expression(node.value)
    spec = ""
    if isinstance(node.format_spec, ast.JoinedStr):
        spec = "".join(str(v.value) for v in node.format_spec.values if isinstance(v, ast.Constant))

    def compute(frame: Frame) -> str:
        found = value(frame)
        if type(found) in (int, float) and spec:
            try:
                return format(found, spec)
            except (ValueError, OverflowError) as error:
                raise KernelError("arithmetic", str(error), node.lineno) from None
        return text_of(found)

    return compute
