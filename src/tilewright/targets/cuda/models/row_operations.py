"""Recognises operations of PyTorch that reduce an array along adjacent axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.targets.cuda.models.formulas import (
    COLUMNS,
    Calculated,
    Formula,
    OtherError,
    Shape,
    number,
)
from tilewright.targets.cuda.models.readings import Reading, Value


def row_operation(reading: Reading, name: str, given: Sequence[Any], shape: Shape) -> Value | None:
    """An operation that reduces rows, in terms of sums and largest elements; None for others."""
    known = ("sum", "mean", "amax", "amin", "max", "min", "_softmax", "_log_softmax", "logsumexp",
             "native_layer_norm", "linalg_vector_norm")  # fmt: skip
    if name not in known:
        return None
    if name in ("max", "min") and len(given) < 2:
        raise OtherError("it reduces all elements to one number")
    source = reading.value(given[0])
    over = given[2] if name == "linalg_vector_norm" else (given[1] if len(given) > 1 else None)
    axes = [over] if isinstance(over, int) else over
    if name == "native_layer_norm":
        axes = list(range(len(source.shape) - len(given[1]), len(source.shape)))
    if not axes or len(axes) == len(source.shape):
        raise OtherError("it reduces all elements to one number")
    axes = sorted(axis % len(source.shape) for axis in axes)
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
        if given[1] not in (1, 2):
            raise OtherError("it computes a norm other than the first or the second")
        powers = Calculated("fabsf({0})" if given[1] == 1 else "({0} * {0})", (x,))
        found = total("sum", powers)
        return Value(found if given[1] == 1 else Calculated("sqrtf({0})", (found,)), shape)
    if name == "mean":
        return Value(mean(x), shape)
    kind = {"sum": "sum", "amax": "most", "max": "most"}.get(name, "least")
    return Value(total(kind, x), shape)
