"""Rules for each instruction on hidden columns: whether its result can be left out, is zero, or is
unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from tilewright.proposers.nki.analysis.hidden_columns import DROPPED, FAR, Action, Span
from tilewright.proposers.nki.ir import Op, Region


class Columns(Protocol):
    """The columns of tiles that are followed."""

    def hide(self, region: Region, value: float, live: tuple[int, int] = (0, 0)) -> None:
        """Record that a region has a value at all indices except `live`."""
        ...

    def skip_product(self, region: Region) -> None:
        """Record that nothing is added to a sum of products."""
        ...


def _by_element(columns: Columns, op: Op, spans: Mapping[str, Span]) -> Action | None:
    """An instruction whose result elements each depend on the same elements of its operands."""
    span = next(iter(spans.values()))
    value = _computed(op, span.value)
    if value is None or set(spans) - set(_OPERANDS) or len(set(spans.values())) > 1:
        return None
    target, result = op.region("dst"), op.get("reduce_res")
    keys = tuple(k for k, r in op.regions if k in (*_OPERANDS, "dst") and r.columns > 1)
    if not span.empty and any(_count(op.region(key)) != span.count for key in keys):
        return None
    if isinstance(result, Region) and not _is_neutral(str(op.get("reduce_op")), value):
        return None
    columns.hide(target, value, (span.low, span.high))
    if isinstance(result, Region) and span.empty:
        columns.hide(result, value)
    return span.action(*keys)


_OPERANDS = ("data", "src", "data1", "data2")


def _count(region: Region) -> int:
    return next((n for _, n in region.dims[1:] if n > 1), 1)


def _computed(op: Op, value: float) -> float | None:
    """The result for a hidden value: far below all scores, or zero; None if unknown."""
    if op.name == "tensor_copy":
        return value
    if op.name in ("activation", "activation_reduce"):
        scale = op.get("scale") or 1.0
        scaled = value * scale if isinstance(scale, (int, float)) else None
        if op.get("op") == "nl.exp" and scaled is not None and scaled <= FAR:
            return 0.0
        return value if op.get("op") == "nl.copy" and scaled == value else None
    if op.name in ("tensor_scalar", "tensor_scalar_reduce"):
        if op.get("reverse0") or op.get("reverse1"):
            return None
        found: float | None = value
        for name, operand in (("op0", "operand0"), ("op1", "operand1")):
            if found is not None and op.get(name) is not None:
                found = _by_scalar(str(op.get(name)), found, op.get(operand))
        return found
    if op.name == "tensor_tensor":
        return 0.0 if op.get("op") == "nl.multiply" and value == 0 else None
    return None


def _by_scalar(how: str, value: float, operand: object) -> float | None:
    if how == "nl.multiply" and value == 0:
        return 0.0
    if how == "nl.multiply" and isinstance(operand, (int, float)):
        return value * operand
    # If a column such as the largest scores is added, masked scores stay far below the others.
    return value if how in ("nl.add", "nl.subtract") and value <= FAR else None


def _is_neutral(how: str, value: float) -> bool:
    """Whether a reduction is the same without a hidden value."""
    return (how == "nl.add" and value == 0) or (how == "nl.maximum" and value <= FAR)


def _reduction(columns: Columns, op: Op, spans: Mapping[str, Span]) -> Action | None:
    span, target = spans["data"], op.region("dst")
    if op.get("negate") or not _is_neutral(str(op.get("op")), span.value):
        return None
    if target.columns == 1:
        if span.empty:
            columns.hide(target, span.value)
        return span.action("data")
    if _count(target) != span.count or target.columns >= op.region("data").columns:
        return None
    columns.hide(target, span.value, (span.low, span.high))
    return span.action("data", "dst")


def _transpose(columns: Columns, op: Op, spans: Mapping[str, Span]) -> Action | None:
    span = spans["data"]
    if not span.empty:
        return None
    columns.hide(op.region("dst"), span.value)
    return DROPPED


def _product(columns: Columns, op: Op, spans: Mapping[str, Span]) -> Action | None:
    """A product with only zeros adds nothing."""
    if not any(span.empty and span.value == 0 for span in spans.values()):
        return None
    if op.accumulates:
        columns.skip_product(op.region("dst"))
    else:
        columns.hide(op.region("dst"), 0.0)
    return DROPPED


Rule: TypeAlias = Callable[[Columns, Op, Mapping[str, Span]], Action | None]
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("activation", "activation_reduce", "tensor_copy", "tensor_scalar",
                     "tensor_scalar_reduce", "tensor_tensor"), _by_element),
    "tensor_reduce": _reduction, "nc_transpose": _transpose, "nc_matmul": _product,
}  # fmt: skip
