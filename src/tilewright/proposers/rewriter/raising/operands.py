"""Writes operands of commands whose values are known from a run."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Array, Command, Operand, Text
from tilewright.proposers.rewriter.machine import Machine


def setting(machine: Machine, name: str, given: Sequence[object]) -> Command:
    """A configuration as it was given, with the name of the dataflow."""
    attributes = machine.effects[name].attributes
    named = [attributes.get(k) for k in ("sums_in_memory", "sums_in_array")]
    first = next((n for n in named if n and machine.constants.get(n) == given[0]), None)
    operands = [written(value) for value in given]
    return Command(name, (Text(first), *operands[1:]) if first else tuple(operands))


def written(value: object) -> Operand:
    """A number of a recorded command as an operand."""
    return as_float(value) if isinstance(value, float) else Expr(int(str(value)))


def as_float(value: float) -> Text:
    """A number of type float."""
    return Text(f"{value!r}f")


def strides(array: Array) -> list[int]:
    """Number of elements between neighbours along each axis."""
    sizes = [1]
    for extent in reversed(array.shape[1:]):
        sizes.insert(0, sizes[0] * extent)
    return sizes
