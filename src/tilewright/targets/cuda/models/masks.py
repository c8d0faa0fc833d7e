"""Recognises positions and triangles of matrices, as in the causal mask of an attention.

torch.arange(n)                     place % n
torch.ones(n, n).tril()             place / n % n - place % n + 0 is at least 0
x.triu(1)                           x where that holds for the columns, and 0 elsewhere

A kernel computes them for each element from its place, so that no mask is read from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilewright.targets.cuda.models.formulas import (
    Number,
    Position,
    calculated,
    is_simple,
    number,
    parts,
)
from tilewright.targets.cuda.models.places import (
    COMPUTED,
    FLOAT,
    ONE,
    WHOLE,
    Element,
    Index,
    Inside,
    OtherError,
    Shape,
    Size,
    Term,
    negative,
    plus,
    steps,
)
from tilewright.targets.cuda.models.readings import Reading, Value

_FILLED = {"zeros": 0.0, "zeros_like": 0.0, "new_zeros": 0.0,
           "ones": 1.0, "ones_like": 1.0, "new_ones": 1.0}  # fmt: skip
_FILLED_BY = {"scalar_tensor", "lift_fresh", "full", "full_like", "new_full"}
_MOST = 1 << 24
"""Least whole number after which a float may not be exact."""


def generated(
    reading: Reading, name: str, one: Mapping[str, Any], other: Mapping[str, Any], shape: Shape
) -> Value | None:
    """The value of an operation that generates numbers, or that keeps a triangle of a matrix; None
    for other operations.

    `one` and `other` are the operation at the problem's own sizes and at those of the check.
    """
    given = list(one["given"])
    if name in _FILLED or name in _FILLED_BY:
        return Value(number(_FILLED.get(name, given[-1])), shape)
    if name == "arange":
        kind = FLOAT if one["gives"][0]["dtype"] == "torch.float32" else WHOLE
        return replace(_counted(str(one["does"]), given, list(other["given"]), shape), kind=kind)
    if name in ("tril", "triu"):
        diagonal = [int(said[1]) if len(said) > 1 else 0 for said in (given, other["given"])]
        return _triangle(reading, name, given[0], (diagonal[0], diagonal[1]), shape)
    return None


def _counted(does: str, given: list[Any], again: list[Any], shape: Shape) -> Value:
    """The whole numbers from a start, a step apart."""
    variant = does.rpartition(".")[2]
    if variant not in ("default", "start", "start_step"):
        raise OtherError("it counts in an unusual way")

    def at(place: int, usual: int) -> Size:
        found = [said[place] if len(said) > place else usual for said in (given, again)]
        if not all(isinstance(one, int) and abs(one) < _MOST for one in found):
            raise OtherError("it counts in an unusual way")
        return found[0], found[1]

    start = (0, 0) if variant == "default" else at(0, 0)
    step = at(2, 1) if variant == "start_step" else ONE
    if max(size * abs(by) for size, by in zip(shape[0], step, strict=True)) >= _MOST:
        raise OtherError("it counts further than a float can")
    return Value(Position(Index((Term(times=step),), start)), shape)


def _triangle(reading: Reading, name: str, said: Any, diagonal: Size, shape: Shape) -> Value:
    """A matrix whose elements on one side of a diagonal are 0."""
    (rows, columns), (below, beside) = shape[-2:], steps(shape)[-2:]
    signs = (ONE, negative(ONE)) if name == "tril" else (negative(ONE), ONE)
    index = Index(
        (Term(COMPUTED, below, rows, signs[0]), Term(COMPUTED, beside, columns, signs[1])),
        diagonal if name == "tril" else negative(diagonal),
    )
    most = plus(rows, diagonal) if name == "tril" else plus(columns, negative(diagonal))
    kept = Inside(index, (max(most[0], 0), max(most[1], 0)))
    value = reading.operand(said, shape)
    found = calculated("where", (kept, value, Number("0.0f")), [])
    reads = any(isinstance(part, Element) for part in parts(found))
    if is_simple(found) and not reads:
        return Value(found, shape)
    return reading.computed(found, shape)
