"""Index values, affine selection, statistics, and the exchange of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.targets.trainium.destinations import (
    check_writable,
    destination,
    in_sbuf,
    numbers,
    read,
    record_result,
    tile,
    write,
)
from tilewright.targets.trainium.errors import KernelError, shown
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.functions import alu, name_of
from tilewright.targets.trainium.operations.reductions import by_rows
from tilewright.targets.trainium.tiles.dtypes import FLOAT32, DType, Values
from tilewright.targets.trainium.tiles.fitting import fit_mask
from tilewright.targets.trainium.tiles.index import Index, Mask
from tilewright.targets.trainium.tiles.view import View

MOST_STATISTICS = 512
_KEEP_PARTITION = 255


def iota(run: Execution, expr: object, dtype: DType, *, mask: Mask | None = None) -> View:
    """NKI 1: the values of an index expression."""
    if not isinstance(expr, Index) or len(expr.counts) < 2:
        raise KernelError(
            "unsupported_operand", f"{run.function}: expr must be an index expression with two axes"
        )
    out = destination(run, None, expr.counts, dtype, "pool")
    settings = {"index": expr}
    record_result(run, out, run.emit("iota", "pool", (), (out,), mask=mask, settings=settings))
    if run.valued:
        write(run, out, np.broadcast_to(expr.array, expr.counts), mask)
    return out


def iota_into(
    run: Execution,
    dst: object,
    pattern: object,
    offset: int = 0,
    channel_multiplier: int = 0,
) -> None:
    """NKI 2: offset + partition * channel_multiplier + index of the pattern."""
    out = tile(run, dst, "dst", written=True)
    if out.memory == "psum":
        raise KernelError(
            "unsupported_memory", f"{run.function}: the Pool engine cannot access PSUM"
        )
    values = _pattern_values(run, pattern, offset, channel_multiplier, out)
    settings = {"pattern": pattern, "offset": offset, "multiplier": channel_multiplier}
    run.emit("iota", "pool", (), (out,), settings=settings)
    if run.valued:
        write(run, out, values)


def _pattern_values(
    run: Execution, pattern: object, offset: object, multiplier: object, out: View
) -> Values:
    if not isinstance(offset, int) or not isinstance(multiplier, int):
        raise KernelError(
            "unsupported_operand", f"{run.function}: offset and channel_multiplier must be numbers"
        )
    pairs = pattern_pairs(run, pattern)
    total: Any = np.zeros((1,) * len(pairs), np.int64)
    for axis, (step, count) in enumerate(pairs):
        shape = [1] * len(pairs)
        shape[axis] = count
        total = total + (np.arange(count) * step).reshape(shape)
    columns = total.reshape(1, -1)
    if columns.shape[1] != out.columns:
        raise KernelError(
            "shape_mismatch",
            f"{run.function}: the pattern has {columns.shape[1]} elements, but a partition of "
            f"dst has {out.columns}",
        )
    rows = offset + np.arange(out.partitions).reshape(-1, 1) * multiplier
    found: Values = (rows + columns).reshape(out.shape)
    return found


def pattern_pairs(run: Execution, pattern: object) -> list[tuple[int, int]]:
    """[[step, count], ...] in the form in which a kernel writes it."""
    if not isinstance(pattern, (list, tuple)) or not pattern:
        raise KernelError("unsupported_operand", f"{run.function}: pattern must be a list of pairs")
    pairs = []
    for pair in pattern:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise KernelError(
                "unsupported_operand", f"{run.function}: {shown(pair)} is not [step, count]"
            )
        step, count = pair
        if not isinstance(step, int) or not isinstance(count, int) or not 0 < count <= 1 << 20:
            raise KernelError(
                "unsupported_operand", f"{run.function}: {shown(pair)} is not [step, count]"
            )
        pairs.append((step, count))
    return pairs


def affine_select(
    run: Execution,
    pred: object,
    on_true_tile: object,
    on_false_value: object,
    *,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """NKI 1: the tile where an affine comparison of arange is true, otherwise a number."""
    if isinstance(pred, bool):
        chosen_always = pred
        pred = Mask(2, pred, lambda: np.full((1, 1), chosen_always))
    if not isinstance(pred, Mask):
        raise KernelError(
            "unsupported_operand", f"{run.function}: pred must compare index expressions"
        )
    view = in_sbuf(run, tile(run, on_true_tile, "on_true_tile"), "on_true_tile")
    if isinstance(on_false_value, bool) or not isinstance(on_false_value, (int, float)):
        raise KernelError("unsupported_operand", f"{run.function}: on_false_value must be a number")
    out = destination(run, None, view.shape, dtype or view.dtype, "pool")
    settings = {"holds": pred, "otherwise": on_false_value}
    made = run.emit("affine_select", "pool", (view,), (out,), mask=mask, settings=settings)
    record_result(run, out, made)
    if run.valued:
        holds = fit_mask(pred.array, view.shape)
        values = numbers(run, view, mask)
        write(run, out, np.where(holds, values, np.float32(on_false_value)), mask)
    return out


def affine_select_into(
    run: Execution,
    dst: object,
    pattern: object,
    channel_multiplier: int,
    on_true_tile: object,
    on_false_value: float,
    *,
    cmp_op: object,
    offset: int = 0,
) -> None:
    """NKI 2: the tile where `offset + partition * channel_multiplier + index  cmp  0` is true."""
    view, out = tile(run, on_true_tile, "on_true_tile"), tile(run, dst, "dst", written=True)
    if "psum" in (view.memory, out.memory):
        raise KernelError(
            "unsupported_memory", f"{run.function}: the Pool engine cannot access PSUM"
        )
    if view.partitions != out.partitions or view.columns != out.columns:
        raise KernelError(
            "shape_mismatch",
            f"{run.function}: the shapes of dst {out.shape} and tile {view.shape} differ",
        )
    compare = alu(name_of(cmp_op, "cmp_op"))
    places = _pattern_values(run, pattern, offset, channel_multiplier, out)
    settings = {
        "pattern": pattern, "offset": offset, "multiplier": channel_multiplier,
        "otherwise": on_false_value, "compare": name_of(cmp_op, "cmp_op"),
    }  # fmt: skip
    run.emit("affine_select", "pool", (view,), (out,), settings=settings)
    if run.valued:
        values = numbers(run, view).reshape(out.shape)
        write(run, out, np.where(compare(places, 0), values, np.float32(on_false_value)))


def bn_stats(
    run: Execution,
    data: object,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """(count, mean, count * variance) of the even and of the odd elements of each partition."""
    view = tile(run, data, "data")
    if view.columns > MOST_STATISTICS:
        raise KernelError(
            "size_of_dimension_exceed_arch_limit",
            f"{run.function}: {view.shape} has {view.columns} elements in each partition, the "
            f"limit is {MOST_STATISTICS}",
        )
    view, rows = _complete_rows(run, view, mask)
    out = destination(run, dst, (view.partitions, 6), dtype or FLOAT32, "dve")
    record_result(run, out, run.emit("bn_stats", "dve", (view,), (out,), mask=rows))
    if run.valued:
        values = numbers(run, view).reshape(view.partitions, -1)
        write(run, out, np.hstack([_moments(values[:, i::2]) for i in (0, 1)]), rows)
    return out


def _complete_rows(run: Execution, view: View, mask: Mask | None) -> tuple[View, Mask | None]:
    """The operand and the rows that a mask selects; `KernelError` if it selects a part of a row."""
    masked, rows = by_rows(view, mask)
    if rows is not None and masked.mask is not None:
        selected = fit_mask(masked.mask.array, view.shape).reshape(view.partitions, -1)
        if not np.array_equal(selected, np.broadcast_to(rows.array, selected.shape)):
            raise KernelError(
                "unsupported_expression_in_mask",
                f"{run.function}: the mask excludes elements of a row, but statistics are those of "
                "complete rows: index a smaller region",
            )
    return masked, rows


def _moments(values: Values) -> Values:
    count = values.shape[1]
    if count == 0:
        return np.zeros((len(values), 3), np.float32)
    middle = values.mean(axis=1, keepdims=True, dtype=np.float32)
    spread = ((values - middle) ** 2).sum(axis=1, keepdims=True, dtype=np.float32)
    return np.hstack([np.full_like(middle, count), middle, spread])


def bn_aggr(
    run: Execution,
    data: object,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """Mean and variance [P, 2] from triples of `bn_stats`."""
    view = tile(run, data, "data")
    if view.columns % 3:
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: a partition has {view.columns} elements, but bn_stats writes groups "
            "of 3",
        )
    view, rows = _complete_rows(run, view, mask)
    out = destination(run, dst, (view.partitions, 2), dtype or FLOAT32, "dve")
    record_result(run, out, run.emit("bn_aggr", "dve", (view,), (out,), mask=rows))
    if run.valued:
        triples = numbers(run, view).reshape(view.partitions, -1, 3)
        count, middle, spread = (triples[..., i] for i in range(3))
        total = count.sum(1, keepdims=True)
        with np.errstate(all="ignore"):
            mean = (count * middle).sum(1, keepdims=True) / total
            squares = spread + count * (middle - mean) ** 2
            variance = squares.sum(1, keepdims=True) / total
        write(run, out, np.hstack([mean, variance]).reshape(out.shape), rows)
    return out


def nc_stream_shuffle(
    run: Execution,
    src: object,
    dst: object,
    shuffle_mask: object,
    *,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> None:
    """Partition p of each group of 32 gets the data of partition shuffle_mask[p] of the group."""
    view, out = tile(run, src, "src"), tile(run, dst, "dst", written=True)
    check_writable(run, out)
    order = _order(run, shuffle_mask)
    if view.shape != out.shape or view.partitions % 32:
        raise KernelError(
            "shape_mismatch",
            f"{run.function}: src {view.shape} and dst {out.shape} must be equal, with partitions "
            "in groups of 32",
        )
    settings = {"order": list(order)}
    run.emit("nc_stream_shuffle", "dve", (view,), (out,), mask=mask, settings=settings)
    if run.valued:
        new, old = read(run, view).copy(), read(run, out).copy()
        found = old
        for group in range(0, view.partitions, 32):
            for partition, chosen in enumerate(order):
                if chosen != _KEEP_PARTITION:
                    found[group + partition] = new[group + chosen]
        write(run, out, found, mask)


def _order(run: Execution, shuffle_mask: object) -> Sequence[int]:
    if not isinstance(shuffle_mask, (list, tuple)) or len(shuffle_mask) != 32:
        raise KernelError("unsupported_operand", f"{run.function}: shuffle_mask needs 32 numbers")
    for item in shuffle_mask:
        if not isinstance(item, int) or not (0 <= item < 32 or item == _KEEP_PARTITION):
            raise KernelError(
                "unsupported_operand", f"{run.function}: {shown(item)} is not in 0..31"
            )
    return shuffle_mask
