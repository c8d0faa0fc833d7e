"""Triton kernels that are wrong for any task and must fail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tilewright.core.records import Argument
from tilewright.parts.hostile import under_own_names

_HEAD = """\
import triton
import triton.language as tl


@triton.jit
def fill(to, origin, count, given, COPIES: tl.constexpr):
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    value = tl.zeros((1024,), dtype=tl.float32)
    if COPIES:
        value = tl.load(origin + i % given).to(tl.float32)
    tl.store(to + i, value.to(to.dtype.element_ty), mask=i < count)


"""


def hostile_kernels(arguments: Sequence[Argument]) -> Mapping[str, str]:
    """Sources by a description. Their launchers take any sizes after the arrays, and use none."""
    names = [a.name for a in arguments]
    arguments = under_own_names(arguments)
    given = [a for a in arguments if a.is_given]
    written = [a for a in arguments if a.is_written]
    bodies = {"writes zeros": [_filled(a, None) for a in written]}
    if given:
        name = names[arguments.index(given[0])]
        bodies[f"copies {name}"] = [_filled(a, given[0]) for a in written]
    taken = ", ".join([*(a.name for a in arguments), "*sizes"])
    return {
        name: f"{_HEAD}def kernel({taken}):\n" + "".join(f"    {line}\n" for line in lines)
        for name, lines in bodies.items()
    }


def _filled(argument: Argument, source: Argument | None) -> str:
    count = math.prod(argument.shape)
    origin, given = (source.name, math.prod(source.shape)) if source else (argument.name, 1)
    return (
        f"fill[({-(-count // 1024)},)]({argument.name}, {origin}, {count}, {given}, "
        f"COPIES={source is not None})"
    )
