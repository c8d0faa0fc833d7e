"""Recognises operations of PyTorch that reduce an array along adjacent axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.targets.cuda.models.composites import Operation, name_of
from tilewright.targets.cuda.models.formulas import (
    COLUMN,
    COLUMNS,
    Calculated,
    Formula,
    number,
)
from tilewright.targets.cuda.models.places import WHOLE, OtherError, Shape, count
from tilewright.targets.cuda.models.readings import Reading, Value

_OF_ALL = {"sum": "sum.dim_IntList", "mean": "mean.dim", "amax": "amax.default",
           "amin": "amin.default", "max": "amax.default", "min": "amin.default"}  # fmt: skip
"""Operations that can reduce all elements to one number, and the same along some axes."""
MOST_WHOLE = 1 << 24
"""Integers up to this one are exact as float32."""
_ROWS = 1024
"""Number of rows that keep a GPU busy."""


def in_two_steps(
    named: Sequence[tuple[str, Operation, Operation]],
) -> list[tuple[str, Operation, Operation]]:
    """The operations with the names of their results. Where all elements of an array are reduced to
    one number, the rows of its last axes are reduced first, so that many blocks can compute."""
    found = list[tuple[str, Operation, Operation]]()
    for place, one, other in named:
        name = name_of(one)
        shape = one["given"][0]["shape"] if _reduces_all(name, one) else ()
        if len(shape) < 2:
            found.append((place, one, other))
            continue
        kept = next((k for k in range(1, len(shape)) if math.prod(shape[:k]) >= _ROWS),
                    len(shape) - 1)  # fmt: skip
        rows, all_rows = _halves(one, _OF_ALL[name], f"{place} rows", kept)
        other_rows, all_other_rows = _halves(other, _OF_ALL[name], f"{place} rows", kept)
        found.append((f"{place} rows", rows, other_rows))
        found.append((place, all_rows, all_other_rows))
    return found


def _reduces_all(name: str, operation: Mapping[str, Any]) -> bool:
    given = operation["given"]
    if name not in _OF_ALL or not given or not isinstance(given[0], Mapping):
        return False
    whole = not operation["gives"][0]["shape"] or set(operation["gives"][0]["shape"]) == {1}
    return whole and len(operation["gives"]) == 1


def _halves(
    operation: Mapping[str, Any], does: str, name: str, kept: int
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A reduction of all elements as a reduction of rows, each of which has the axes from `kept` on
    and whose results have a `name`, and a reduction of these results."""
    source = operation["given"][0]
    rows = {"array": name, "shape": source["shape"][:kept], "dtype": source["dtype"]}
    first = {"does": does, "given": [source, list(range(kept, len(source["shape"])))],
             "words": {}, "gives": [{**operation["gives"][0], "shape": rows["shape"]}]}  # fmt: skip
    return first, {**operation, "does": does, "given": [rows, list(range(kept))]}


def row_operation(reading: Reading, name: str, given: Sequence[Any], shape: Shape) -> Value | None:
    """An operation that reduces rows, in terms of sums and largest elements; None for others."""
    known = ("sum", "mean", "amax", "amin", "max", "min", "_softmax", "_log_softmax", "logsumexp",
             "native_layer_norm", "linalg_vector_norm", "argmax", "argmin", "gather")  # fmt: skip
    if name not in known:
        return None
    source = reading.value(given[0])
    at = 2 if name == "linalg_vector_norm" else 1
    over = given[at] if len(given) > at else None
    axes = [over] if isinstance(over, int) else over
    if name == "native_layer_norm":
        axes = list(range(len(source.shape) - len(given[1]), len(source.shape)))
    axes = sorted(axis % len(source.shape) for axis in axes or range(len(source.shape)))
    if not axes:
        raise OtherError("it reduces a single number")
    if axes != list(range(axes[0], axes[-1] + 1)):
        raise OtherError("it reduces along axes that are not adjacent")
    columns, inner = source.shape[axes[0] : axes[-1] + 1], source.shape[axes[-1] + 1 :]
    x = reading.operand(given[0], source.shape)
    reading.computed(x, source.shape)
    reading.require_whole(source.shape)

    def total(kind: str, of: Formula) -> Formula:
        return reading.row(kind, of, columns, inner)

    def mean(of: Formula) -> Formula:
        return Calculated("({0} / {1})", (total("sum", of), COLUMNS))

    if name == "native_layer_norm":
        off = Calculated("({0} - {1})", (x, mean(x)))
        spread = Calculated(f"rsqrtf({{0}} + {number(given[4]).text})",
                            (mean(Calculated("({0} * {0})", (off,))),))  # fmt: skip
        found: Formula = Calculated("({0} * {1})", (off, spread))
        for said, sign in zip(given[2:4], "*+", strict=True):
            if said is not None:
                found = Calculated(f"({{0}} {sign} {{1}})", (found, reading.operand(said, shape)))
        return reading.computed(found, shape)
    if name in ("_softmax", "_log_softmax", "logsumexp"):
        most = total("most", x)
        raised = Calculated("expf({0} - {1})", (x, most))
        whole = total("sum", raised)
        text, of = {
            "_softmax": ("({0} / {1})", (raised, whole)),
            "_log_softmax": ("({0} - {2} - logf({1}))", (x, whole, most)),
            "logsumexp": ("({0} + logf({1}))", (most, whole)),
        }[name]
        return reading.computed(Calculated(text, of), shape)
    if name == "linalg_vector_norm":
        order = given[1] if len(given) > 1 else 2
        if order not in (1, 2):
            raise OtherError("it computes a norm other than the first or the second")
        powers = Calculated("fabsf({0})" if order == 1 else "({0} * {0})", (x,))
        found = total("sum", powers)
        return Value(found if order == 1 else Calculated("sqrtf({0})", (found,)), shape)
    if name == "mean":
        return Value(mean(x), shape)
    if name in ("argmax", "argmin", "gather") and count(columns)[0] > MOST_WHOLE:
        raise OtherError("its rows have more than 2^24 elements, which it counts")
    if name in ("argmax", "argmin"):
        best = total("most" if name == "argmax" else "least", x)
        place = Calculated("({0} == {1} ? {2} : 3.4e38f)", (x, best, COLUMN))
        return Value(total("least", place), shape, kind=WHOLE)
    if name == "gather":
        if shape != tuple((1, 1) if i == axes[0] else s for i, s in enumerate(source.shape)):
            raise OtherError("it gathers several elements of a row")
        index = reading.operand(given[2], source.shape)
        chosen = Calculated("({0} == {1} ? {2} : 0.0f)", (COLUMN, index, x))
        return Value(total("sum", chosen), shape)
    kind = {"sum": "sum", "amax": "most", "max": "most"}.get(name, "least")
    return Value(total(kind, x), shape)
