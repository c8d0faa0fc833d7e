"""Kernels that are wrong for any task, for attacks on its check before a budget is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tilewright.core.records import Argument
from tilewright.parts.hostile import under_own_names

_HEAD = """import nki
import nki.language as nl
import nki.isa as nisa


@nki.jit
def kernel({parameters}):
{outputs}
{body}
    return {returned}
"""


def hostile_kernels(arguments: Sequence[Argument]) -> Mapping[str, str]:
    """Sources in NKI 2 by a description. One that writes nothing is refused before it is built."""
    arguments = under_own_names(arguments)
    written = [a for a in arguments if a.is_written]
    return {
        "writes one element of each output": _kernel(arguments, [_touched(a) for a in written]),
        "writes zeros": _kernel(arguments, [_filled(a, 0.0) for a in written]),
        "writes ones": _kernel(arguments, [_filled(a, 1.0) for a in written]),
    }


def _kernel(arguments: Sequence[Argument], body: Sequence[str]) -> str:
    written = [a for a in arguments if a.is_written]
    outputs = [
        f"    {a.name} = nl.ndarray({a.shape!r}, dtype=nl.{a.dtype}, buffer=nl.shared_hbm)"
        for a in written
    ]
    return _HEAD.format(
        parameters=", ".join(a.name for a in arguments if a.is_given),
        outputs="\n".join(outputs),
        body="\n".join(body),
        returned=", ".join(a.name for a in written),
    )


def _touched(argument: Argument) -> str:
    """Statements that write the first element of an output."""
    name, columns = argument.name, argument.shape[-1]
    rows = math.prod(argument.shape[:-1])
    return f"""    one_{name} = nl.ndarray((1, 1), dtype=nl.{argument.dtype}, buffer=nl.sbuf)
    nisa.memset(dst=one_{name}, value=0.0)
    nisa.dma_copy(dst={name}.reshape(({rows}, {columns}))[0:1, 0:1], src=one_{name})"""


def _filled(argument: Argument, value: float) -> str:
    """Statements that fill an output row by row of at most 128 x 2048 elements."""
    name, columns = argument.name, argument.shape[-1]
    rows = math.prod(argument.shape[:-1])
    return f"""    flat_{name} = {name}.reshape(({rows}, {columns}))
    fill_{name} = nl.ndarray((128, {min(columns, 2048)}), dtype=nl.{argument.dtype}, buffer=nl.sbuf)
    nisa.memset(dst=fill_{name}, value={value})
    for r in nl.affine_range(div_ceil({rows}, 128)):
        high = min({rows}, (r + 1) * 128)
        for c in nl.affine_range(div_ceil({columns}, 2048)):
            wide = min({columns}, (c + 1) * 2048)
            nisa.dma_copy(
                dst=flat_{name}[r * 128:high, c * 2048:wide],
                src=fill_{name}[0:high - r * 128, 0:wide - c * 2048],
            )"""
