"""Finds the largest values: eight of each partition, or any number of each group of partitions."""

from __future__ import annotations

import numpy as np

from tilewright.targets.trainium.destinations import (
    check_writable,
    destination,
    joined,
    numbers,
    record_result,
    tile,
    write,
)
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.reductions import by_rows
from tilewright.targets.trainium.operations.selection import newer_chip
from tilewright.targets.trainium.tiles.dtypes import BFLOAT16, UINT32, DType, Values
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View

GROUP = 16
"""Number of partitions whose elements `topk` compares with one another."""
_MOST_COMPARED, _MOST_CHOSEN = 1 << 16, 1 << 15


def max8(
    run: Execution, src: object, *, dst: View | None = None, dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:  # fmt: skip
    """The eight largest values of each partition, the largest first."""
    view = _at_least_eight(run, tile(run, src, "src"))
    out = destination(run, dst, (view.partitions, 8), dtype or view.dtype, "dve")
    view, rows = by_rows(view, mask)
    record_result(run, out, run.emit("max8", "dve", (view,), (out,), mask=rows))
    if run.valued:
        values = _selected(run, view).reshape(view.partitions, -1)
        write(run, out, -np.sort(-values, axis=1)[:, :8], rows)
    return out


def _selected(run: Execution, view: View, mask: Mask | None = None) -> Values:
    """The values as new float32 numbers, with NaN outside of the masks, also for integers. NaN is
    the last in order and equals nothing."""
    inside = run.mask_array(joined(view.mask, mask), view.shape)
    values = numbers(run, view, mask)
    return values.copy() if inside is None else np.where(inside, values, np.float32(np.nan))


def _at_least_eight(run: Execution, view: View) -> View:
    if not 8 <= view.columns <= 16384:
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: {view.columns} elements in each partition: 8 to 16384 are possible",
        )
    return view


def nc_find_index8(
    run: Execution, data: object, vals: object, *, dst: View | None = None,
    dtype: DType | None = None, mask: Mask | None = None,
) -> View:  # fmt: skip
    """The position in each partition at which each of the eight values first occurs."""
    view, wanted = _at_least_eight(run, tile(run, data, "data")), _eight(run, vals)
    out = destination(run, dst, (view.partitions, 8), dtype or UINT32, "dve")
    view, rows = by_rows(view, mask)
    record_result(run, out, run.emit("nc_find_index8", "dve", (view, wanted), (out,), mask=rows))
    if run.valued:
        values = _selected(run, view).reshape(view.partitions, 1, -1)
        equal = values == numbers(run, wanted).reshape(view.partitions, 8, 1)
        write(run, out, equal.argmax(axis=2).astype(np.int64), rows)
    return out


def _eight(run: Execution, vals: object) -> View:
    view = tile(run, vals, "vals")
    if view.columns != 8:
        raise KernelError("unsupported_operand", f"{run.function}: vals {view.shape} is not [P, 8]")
    return view


def nc_match_replace8(
    run: Execution, *, data: object, vals: object, imm: float, dst: View | None = None,
    dtype: DType | None = None, mask: Mask | None = None,
) -> View:  # fmt: skip
    """The first occurrence of each of eight values is replaced by `imm`."""
    view, wanted = _at_least_eight(run, tile(run, data, "data")), _eight(run, vals)
    out = destination(run, dst, view.shape, dtype or view.dtype, "dve")
    made = run.emit(
        "nc_match_replace8", "dve", (view, wanted), (out,), mask=mask, settings={"imm": imm}
    )
    record_result(run, out, made)
    if run.valued:
        values = _selected(run, view, mask).reshape(view.partitions, -1)
        for row, targets in zip(values, numbers(run, wanted).reshape(-1, 8), strict=True):
            for target in targets:
                found = np.flatnonzero(row == target)
                if len(found):
                    row[found[0]] = imm
        write(run, out, values.reshape(out.shape), mask)
    return out


def topk(run: Execution, val_dst: object, idx_dst: object, src: object, n: object) -> None:
    """NKI 2, since NeuronCore-v3: the largest `n`-th part of each group of 16 partitions.

    Element i of a group is in partition i % 16 and column i // 16, and so is result i. Results are
    in ascending order. The number of chosen elements is the number of columns of `val_dst`. Other
    columns of the destinations are undefined.
    """
    newer_chip(run)
    values, places = tile(run, val_dst, "val_dst", written=True), tile(run, idx_dst, "idx_dst",
                                                                       written=True)  # fmt: skip
    view = tile(run, src, "src")
    chosen = values.columns
    _check_topk(run, values, places, view, n)
    assert isinstance(n, int)
    for out in (values, places):
        check_writable(run, out)
    run.emit("topk", "pool", (view,), (values, places), {"n": n, "k": chosen})
    if not run.valued:
        return
    groups = view.partitions // GROUP
    lines = numbers(run, view).reshape(groups, GROUP, -1).transpose(0, 2, 1).reshape(groups, -1)
    order = np.argsort(lines[:, :n], axis=1, kind="stable")[:, n - chosen :]
    for out, found in ((values, np.take_along_axis(lines, order, 1)), (places, order)):
        filled = np.full((groups, chosen * GROUP), out.dtype.undefined, out.dtype.storage)
        filled[:, :chosen] = found
        laid = filled.reshape(groups, chosen, GROUP).transpose(0, 2, 1)
        write(run, out, laid.reshape(out.shape), None, out.dtype)


def _check_topk(run: Execution, values: View, places: View, view: View, n: object) -> None:
    name = run.function
    for found, what, wanted in (
        (values, "val_dst", BFLOAT16), (places, "idx_dst", UINT32), (view, "src", BFLOAT16),
    ):  # fmt: skip
        if found.memory != "sbuf":
            raise KernelError("unsupported_memory", f"{name}: {what} must lie in SBUF")
        if found.dtype is not wanted:
            raise KernelError(
                "unsupported_dtype", f"{name}: {what} is {found.dtype}, expected {wanted}"
            )
    if values.shape != places.shape or values.partitions != view.partitions:
        raise KernelError(
            "shape_mismatch",
            f"{name}: val_dst {values.shape} and idx_dst {places.shape} must be equal, with as "
            f"many partitions as src {view.shape}",
        )
    if view.partitions % GROUP:
        raise KernelError(
            "unsupported_shape", f"{name}: {view.partitions} partitions: not a multiple of {GROUP}"
        )
    if type(n) is not int or not 8 <= n < _MOST_COMPARED or n > view.columns * GROUP:
        raise KernelError(
            "unsupported_operand",
            f"{name}: n must be 8 to {min(_MOST_COMPARED - 1, view.columns * GROUP)} for src "
            f"{view.shape}",
        )
    if not values.columns <= min(n, _MOST_CHOSEN - 1):
        raise KernelError(
            "unsupported_operand",
            f"{name}: {values.columns} of {n} elements cannot be chosen: at most "
            f"{min(n, _MOST_CHOSEN - 1)}",
        )
