"""Converts f-strings to functions of a frame."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewright.targets.trainium.language.conversion import converts, expression
from tilewright.targets.trainium.language.formats import CONVERSIONS, LONGEST_TEXT, formatted
from tilewright.targets.trainium.language.frames import Expression, Frame


@converts(ast.JoinedStr)
def _text(node: ast.JoinedStr) -> Expression:
    parts = [
        _formatted(value) if isinstance(value, ast.FormattedValue) else expression(value)
        for value in node.values
    ]
    return lambda frame: "".join(part(frame) for part in parts)[:LONGEST_TEXT]


def _formatted(node: ast.FormattedValue) -> Expression:
    value, line = expression(node.value), node.lineno
    spec = None if node.format_spec is None else expression(node.format_spec)
    convert: Callable[[Any], Any] | None = None
    if node.conversion > 0:
        convert = CONVERSIONS[chr(node.conversion)]

    def compute(frame: Frame) -> str:
        found = value(frame)
        wanted = "" if spec is None else spec(frame)
        frame.run.line = line
        return formatted(found if convert is None else convert(found), wanted)

    return compute
