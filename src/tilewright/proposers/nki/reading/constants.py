"""Arrays of constants in HBM, whose expressions are kept unchanged."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tilewright.proposers.nki.ir import ITEM_BYTES
from tilewright.proposers.nki.reading.values import Fresh, Name, UnsupportedError

_MODULES = {"np": "np", "nl": "nl"}


def constant(call: ast.Call, names: Mapping[str, Any]) -> Fresh:
    """`nl.shared_constant(EXPRESSION.reshape((128, 64)), dtype=nl.float32)`.

    Any other form raises `UnsupportedError`, because the target writes constants in this form.
    """
    match call:
        case ast.Call(
            args=[ast.Call(func=ast.Attribute(attr="reshape"), args=[ast.Tuple(elts=sizes)])],
            keywords=[ast.keyword(arg="dtype", value=ast.Attribute(attr=dtype))],
        ) if dtype in ITEM_BYTES:
            pass
        case _:
            raise UnsupportedError("an array of constants", call.lineno)
    shape = tuple(
        size.value for size in sizes
        if isinstance(size, ast.Constant) and isinstance(size.value, int) and size.value > 0
    )  # fmt: skip
    used = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    for name in used:
        known = names.get(name)
        if not isinstance(known, Name) or known.text != _MODULES.get(name):
            raise UnsupportedError(f"an array of constants depends on {name}", call.lineno)
    if len(shape) != len(sizes):
        raise UnsupportedError("an array of constants has an unknown shape", call.lineno)
    return Fresh(shape, dtype, "hbm", ast.unparse(call))
