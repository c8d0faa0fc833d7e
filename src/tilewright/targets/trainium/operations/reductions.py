"""Sums, maxima and running results along free axes, and over partitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.targets.trainium.destinations import (
    destination,
    in_sbuf,
    numbers,
    record_result,
    tile,
    write,
)
from tilewright.targets.trainium.errors import KernelError, shown
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.elementwise import (
    _applied,
    named,
    tensor_scalar,
)
from tilewright.targets.trainium.operations.functions import name_of, neutral, reduced
from tilewright.targets.trainium.operations.operands import (
    column,
)
from tilewright.targets.trainium.tiles.dtypes import FLOAT32, DType, Values
from tilewright.targets.trainium.tiles.fitting import fit_mask
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View


def _axes(run: Execution, view: View, axis: object, contiguous: bool) -> tuple[int, ...]:
    given = axis if isinstance(axis, (list, tuple)) else [axis]
    rank = len(view.shape)
    axes = []
    for item in given:
        if isinstance(item, bool) or not isinstance(item, int) or not -rank <= item < rank:
            raise KernelError(
                "unsupported_axis",
                f"{run.function}: {shown(item)} is not an axis of a tile {view.shape}",
            )
        axes.append(item % rank)
    if 0 in axes:
        raise KernelError(
            "unsupported_axis",
            f"{run.function}: axis 0 is the partition axis: use nisa.tensor_partition_reduce or a "
            "product with ones",
        )
    if contiguous and sorted(axes) != list(range(rank - len(axes), rank)):
        raise KernelError(
            "unsupported_axis",
            f"{run.function}: axes {sorted(axes)} of a tile {view.shape} must be the last ones",
        )
    return tuple(sorted(set(axes)))


def _shape(shape: Sequence[int], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if i in axes else size for i, size in enumerate(shape))
    left = tuple(size for i, size in enumerate(shape) if i not in axes)
    return left if len(left) > 1 else (shape[0], 1)


def without_masked(run: Execution, values: Values, mask: Mask | None, name: str) -> Values:
    """Values in which masked elements are replaced by the neutral number."""
    array = run.mask_array(mask, values.shape)
    if array is None:
        return values
    return np.where(array, values, np.float32(neutral(name)))


def tensor_reduce(
    run: Execution,
    op: object,
    data: object,
    axis: object,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
    negate: bool = False,
    keepdims: bool = False,
    any_axes: bool = False,
) -> View:
    """Reduce along the last free axes, or along any free axes with `any_axes`, by a permuted
    access."""
    name = name_of(op)
    view = tile(run, data, "data")
    if name == "subtract":
        raise KernelError("unsupported_operator", f"{run.function}: op cannot be subtract")
    neutral(name)
    axes = _axes(run, view, axis, not any_axes)
    shape = _shape(view.shape, axes, keepdims)
    out = destination(run, dst, shape, dtype or view.dtype, "dve")
    settings = {"axes": axes, "negate": negate}
    made = run.emit(
        "tensor_reduce", "dve", (view,), (out,), {"op": name}, mask=mask, settings=settings
    )
    if made is not None and mask is not None:
        made.active = 1.0
    record_result(run, out, made)
    if run.valued:
        values = without_masked(run, numbers(run, view, mask), mask, name)
        with np.errstate(all="ignore"):
            found = reduced(name, values, axes).reshape(shape)
        result_mask = _mask_of_result(mask, view.shape, axes, shape)
        write(run, out, -found if negate else found, result_mask)
    return out


def _mask_of_result(
    mask: Mask | None, shape: tuple[int, ...], axes: tuple[int, ...], wanted: tuple[int, ...]
) -> Mask | None:
    """The mask along the remaining axes: an element is unmasked if any reduced element is."""
    if mask is None or mask.always:
        return None
    found: NDArray[np.bool_] = np.any(fit_mask(mask.array, shape), axis=axes, keepdims=True)
    found = found.reshape(wanted)
    return Mask(len(wanted), bool(found.all()) or None, lambda: found)


def by_rows(view: View, mask: Mask | None) -> tuple[View, Mask | None]:
    """An operand under a mask, and the mask of a result that has the same partitions but other
    columns: the partitions in which the mask selects any element."""
    if mask is None or mask.always is not None:
        return view, mask
    free = tuple(range(1, len(view.shape)))
    return view.masked(mask), _mask_of_result(mask, view.shape, free, (view.partitions, 1))


def reduction(
    run: Execution,
    op: object,
    x: object,
    axis: object,
    *,
    dtype: DType | None = None,
    mask: Mask | None = None,
    keepdims: bool = False,
) -> View:
    """nl.sum, nl.max and similar functions."""
    return tensor_reduce(run, op, x, axis, dtype=dtype, mask=mask, keepdims=keepdims, any_axes=True)


def mean(
    run: Execution,
    x: object,
    axis: object,
    *,
    dtype: DType | None = None,
    mask: Mask | None = None,
    keepdims: bool = False,
) -> View:
    """nl.mean: a float32 sum, followed by a product."""
    view = tile(run, x, "x")
    total = reduction(run, named("add"), view, axis, dtype=FLOAT32, mask=mask, keepdims=keepdims)
    count = 1
    for one in _axes(run, view, axis, False):
        count *= view.shape[one]
    return tensor_scalar(
        run, total, named("multiply"), 1.0 / count, dtype=dtype or view.dtype, mask=None
    )


def variance(
    run: Execution,
    x: object,
    axis: object,
    *,
    dtype: DType | None = None,
    mask: Mask | None = None,
    keepdims: bool = False,
) -> View:
    """nl.var: the mean of the squared deviations from the mean."""
    from tilewright.targets.trainium.operations.binary import binary

    view = tile(run, x, "x")
    middle = mean(run, view, axis, dtype=FLOAT32, mask=mask, keepdims=True)
    distance = binary(run, named("subtract"), view, middle, dtype=FLOAT32, mask=mask)
    square = binary(run, named("multiply"), distance, distance, dtype=FLOAT32, mask=mask)
    return mean(run, square, axis, dtype=dtype or view.dtype, mask=mask, keepdims=keepdims)


def tensor_scalar_reduce(
    run: Execution,
    data: object,
    op0: object,
    operand0: object,
    reduce_op: object,
    reduce_res: object,
    *,
    reverse0: bool = False,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """`data op0 operand0`, and its reduction over all free axes into reduce_res [P, 1]."""
    view = tile(run, data, "data")
    name, reducing = name_of(op0, "op0"), name_of(reduce_op, "reduce_op")
    scalar = column(run, operand0, view, "operand0")
    neutral(reducing)
    total = reduced_column(run, view, reduce_res)
    out = destination(run, dst, view.shape, dtype or view.dtype, "dve")
    reads = (view, scalar) if isinstance(scalar, View) else (view,)
    attributes = {"op0": name, "reduce_op": reducing}
    settings = {"operands": (scalar,), "reverse": (bool(reverse0),)}
    made = run.emit(
        "tensor_scalar_reduce", "dve", reads, (out, total), attributes, mask=mask, settings=settings
    )
    record_result(run, out, made)
    if run.valued:
        found = _applied(run, name, numbers(run, view, mask), scalar, bool(reverse0), False)
        values = without_masked(run, found, mask, reducing)
        axes = tuple(range(1, values.ndim))
        write(run, total, reduced(reducing, values, axes).reshape(total.shape))
        write(run, out, found, mask)
    return out


def reduced_column(run: Execution, view: View, reduce_res: object) -> View:
    """The column to which a reduction of the rows of `view` is written."""
    total = tile(run, reduce_res, "reduce_res", written=True)
    if total.columns != 1 or total.partitions != view.partitions:
        raise KernelError(
            "shape_mismatch",
            f"{run.function}: reduce_res has the shape {total.shape}, expected "
            f"[{view.partitions}, 1]",
        )
    return total


def tensor_partition_reduce(
    run: Execution,
    op: object,
    data: object,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """Reduce over partitions, on Pool: [1, F]."""
    name = name_of(op)
    view = tile(run, data, "data")
    if run.language == 1:
        view = in_sbuf(run, view, "data")
    elif view.memory == "psum":
        raise KernelError(
            "unsupported_memory", f"{run.function}: the Pool engine cannot access PSUM"
        )
    neutral(name)
    out = destination(run, dst, (1, *view.shape[1:]), dtype or view.dtype, "pool")
    made = run.emit("tensor_partition_reduce", "pool", (view,), (out,), {"op": name})
    record_result(run, out, made)
    if run.valued:
        with np.errstate(all="ignore"):
            write(
                run, out, reduced(name, without_masked(run, numbers(run, view), mask, name), (0,))
            )
    return out
