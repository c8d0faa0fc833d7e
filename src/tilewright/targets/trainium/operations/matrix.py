"""The PE array: products and transposes."""

from __future__ import annotations

import numpy as np

from tilewright.parts.memory import to_transpose
from tilewright.targets.trainium.destinations import (
    destination,
    in_sbuf,
    numbers,
    read,
    record_result,
    tile,
    write,
)
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.engines import chosen
from tilewright.targets.trainium.tiles.dtypes import (
    BFLOAT16,
    FLOAT32,
    MATMUL_FULL,
    DType,
    Values,
)
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View

MOST_STATIONARY, MOST_MOVING, VECTOR_SQUARE = 128, 512, 32


def nc_matmul(
    run: Execution,
    stationary: object,
    moving: object,
    *,
    dst: View | None = None,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: tuple[int, ...] = (),
    tile_size: tuple[int, ...] = (),
    mask: Mask | None = None,
) -> View:
    """stationary[K, M].T @ moving[K, N], float32, in PSUM."""
    left = in_sbuf(run, tile(run, stationary, "stationary"), "stationary")
    right = in_sbuf(run, tile(run, moving, "moving"), "moving")
    _check_product(run, left, right, tile_position, tile_size)
    shape = (left.columns, *right.shape[1:])
    out = destination(run, dst, shape, FLOAT32, "pe", "psum")
    if dst is None and out.buffer.result is not None:
        out.buffer.result.product = True
    elif out.dtype not in (FLOAT32, BFLOAT16):
        raise KernelError(
            "unsupported_operand", f"{run.function}: dst must be float32, not {out.dtype}"
        )
    adds, overwrites = _accumulates(run, out, accumulate) if dst is not None else (False, None)
    attributes = {"k": left.partitions, "m": left.columns, "n": right.columns}
    if adds:
        attributes["accumulate"] = True
    if is_transpose:
        attributes["is_transpose"] = True
    if is_stationary_onezero or is_moving_onezero:
        attributes["onezero"] = True
    made = run.emit("nc_matmul", "pe", (left, right), (out,), attributes, mask=mask)
    record_result(run, out, made)
    if run.valued:
        _check_onezero(run, left, "stationary", is_stationary_onezero)
        _check_onezero(run, right, "moving", is_moving_onezero)
        found = product(run, left, right, is_transpose, mask)
        if adds:
            kept: Values = numbers(run, out)
            if overwrites is not None:
                kept = np.where(overwrites, np.float32(0), kept)
            found = kept + found.reshape(out.shape)
        write(run, out, found.reshape(out.shape), mask)
    return out


def _check_onezero(run: Execution, view: View, name: str, promised: bool) -> None:
    """An operand that is declared to contain only 0 and 1 is multiplied in half of the time."""
    if not promised:
        return
    values = numbers(run, view)
    if not ((values == 0) | (values == 1)).all():
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: is_{name}_onezero=True, but {name} contains numbers other than 0 and "
            f"1: omit is_{name}_onezero",
        )


def _check_product(
    run: Execution, left: View, right: View, position: tuple[int, ...], size: tuple[int, ...]
) -> None:
    if left.partitions != right.partitions:
        raise KernelError(
            "num_partition_mismatch",
            f"{run.function}: stationary {left.shape} and moving {right.shape} must have the "
            "same number of partitions (the axis that is summed)",
        )
    for view, name, most in (
        (left, "stationary", MOST_STATIONARY),
        (right, "moving", MOST_MOVING),
    ):
        if view.columns > most:
            raise KernelError(
                "size_of_dimension_exceed_arch_limit",
                f"{run.function}: {name} {view.shape} has {view.columns} columns, the limit is "
                f"{most}",
            )
        if not view.dtype.is_float:
            raise KernelError(
                "unsupported_operand", f"{run.function}: {name} is {view.dtype}, not a float"
            )
    if (left.dtype in MATMUL_FULL) != (right.dtype in MATMUL_FULL):
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: stationary is {left.dtype} and moving is {right.dtype}: if one is "
            "float32, both must be",
        )
    if any(n % 32 for n in (*position, *size)) or any(n > 128 for n in size):
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: tile_position and tile_size must be multiples of 32 up to 128",
        )
    if run.machine.name == "trn1" and tuple(size) == (32, 32):
        raise KernelError(
            "unsupported_operand", f"{run.function}: tiles of 32x32 do not exist on trn1"
        )


def product(
    run: Execution,
    left: View,
    right: View,
    is_transpose: bool = False,
    mask: Mask | None = None,
) -> Values:
    """The float32 product. With `is_transpose`, float32 operands lose their last digits."""
    one = numbers(run, left, _of_bounds(left, mask)).reshape(left.partitions, -1)
    other = numbers(run, right, _of_bounds(right, mask)).reshape(right.partitions, -1)
    if is_transpose and left.dtype in MATMUL_FULL:
        # Measured on trn1: errors near 1e-3, where a full product has 1e-6, which corresponds to
        # tfloat32.
        from tilewright.targets.trainium.tiles.dtypes import TFLOAT32

        one, other = TFLOAT32.rounded(one), TFLOAT32.rounded(other)
    with np.errstate(all="ignore"):
        found: Values = one.T @ other
    return found


def _of_bounds(view: View, mask: Mask | None) -> Mask | None:
    """The mask of an operand: that of the result, if it keeps the indices within bounds."""
    return None if view.gather is None or view.gather.inside is None else mask


def _accumulates(
    run: Execution, out: View, wanted: bool | None
) -> tuple[bool, np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None]:
    """NKI 2: whether a product adds to the contents of PSUM, and where it overwrites nevertheless.

    The first write to an address after its allocation overwrites; later ones add.
    """
    buffer = out.buffer
    key = (out.p0, out.f0, out.shape, out.fsteps)
    known = key in buffer.accumulated
    if not known:
        buffer.accumulated.add(key)
    if wanted is not None:
        _mark_seen(out)
        return bool(wanted), None
    if known:
        return True, None
    if buffer.seen is None:
        _mark_seen(out)
        return False, None
    before = _seen(out)
    some, every = bool(before.any()), bool(before.all())
    overwrites = ~before if some and not every else None
    if not every:
        _mark_seen(out)
    return some, overwrites


def _mark_seen(out: View) -> None:
    """Mark the addresses of a region."""
    if out.gather is None:
        _seen(out)[...] = True
    else:
        _marks(out)[out.gather.partition, out.gather.free] = True


def _seen(out: View) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which addresses of a region are marked."""
    buffer, marks = out.buffer, _marks(out)
    if out.gather is not None:
        return np.broadcast_to(marks[out.gather.partition, out.gather.free], out.shape)
    strides = [p * buffer.row + f for p, f in zip(out.psteps, out.fsteps, strict=True)]
    flags: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = np.ndarray(
        out.shape, bool, marks, out.p0 * buffer.row + out.f0, strides
    )
    return flags


def _marks(out: View) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """The marks of all addresses of a buffer."""
    buffer = out.buffer
    if buffer.seen is None:
        buffer.seen = np.zeros((buffer.rows, buffer.row), bool)
    return buffer.seen


def nc_transpose(
    run: Execution,
    data: object,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    engine: object = None,
    mask: Mask | None = None,
) -> View:
    """The transpose of a 2-D tile with flattened free axes: on PE into PSUM, or on DVE."""
    view = tile(run, data, "data")
    rows, columns = view.partitions, view.columns
    chosen_engine = chosen(run, engine, "pe", ("pe", "dve"), view)
    if chosen_engine == "dve":
        if max(rows, columns) > VECTOR_SQUARE:
            raise KernelError(
                "size_of_dimension_exceed_arch_limit",
                f"{run.function}: the vector engine transposes up to 32x32, not {rows}x{columns}",
            )
    else:
        if columns > MOST_STATIONARY:
            raise KernelError(
                "size_of_dimension_exceed_arch_limit",
                f"{run.function}: data {view.shape} has {columns} columns, the limit is "
                f"{MOST_STATIONARY}",
            )
        view = in_sbuf(run, view, "data")
    memory = view.memory if chosen_engine == "dve" else "psum"
    kind = dtype or view.dtype
    out = destination(run, dst, (columns, rows), kind, chosen_engine, memory)
    sizes: dict[str, object] = {"partitions": rows, "columns": columns}
    made = run.emit("nc_transpose", chosen_engine, (view,), (out,), sizes, mask=mask)
    record_result(run, out, made)
    if dst is not None and dst.memory == "psum":
        _mark_seen(dst)
    if run.valued:
        # A copy, which does not change with the source.
        values = to_transpose(read(run, view, _of_bounds(view, mask)).reshape(rows, columns))
        if chosen_engine == "pe" and view.dtype.is_float and run.machine.name == "trn1":
            values = _spread(values)
        write(run, out, values.T.reshape(out.shape), mask)
    return out


def _spread(values: Values) -> Values:
    """On NeuronCore-v2, a transpose multiplies by ones and zeros, so NaN and Inf fill their row.

    A row of the input is a column of the result: its other elements are 0 * NaN.
    """
    finite = np.isfinite(values)
    if finite.all():
        return values
    return np.where(finite.all(axis=0, keepdims=True), values, np.where(finite, np.nan, values))


def matmul(
    run: Execution, x: object, y: object, *, transpose_x: bool = False, mask: Mask | None = None
) -> View:
    """nl.matmul: x @ y. x[M, K] is transposed on PE; with `transpose_x`, it already is [K, M]."""
    left = tile(run, x, "x")
    if not transpose_x:
        name = run.function
        left = nc_transpose(run, left)
        run.function = name
        left = in_sbuf(run, left, "the transposed x")
    return nc_matmul(run, left, y, mask=mask)


def transpose(
    run: Execution, x: object, *, dtype: DType | None = None, mask: Mask | None = None
) -> View:
    """nl.transpose."""
    return nc_transpose(run, x, dtype=dtype, mask=mask)
