"""Copies, fills, and repetition over partitions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.targets.trainium.destinations import (
    check_writable,
    destination,
    in_sbuf,
    read,
    record_result,
    tile,
    write,
)
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.engines import chosen
from tilewright.targets.trainium.tiles.dtypes import FLOAT32, DType
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View, whole

_WIDEST_PRODUCT = 512


def tensor_copy(
    run: Execution,
    src: object,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
    engine: object = None,
) -> View:
    """A copy on the chip, with a cast."""
    view = tile(run, src, "src")
    chosen_engine = chosen(run, engine, "any", ("dve", "act", "pool"), view)
    if chosen_engine == "act" and run.language == 2 and run.machine.name == "trn1":
        raise KernelError(
            "unsupported_engine",
            f"{run.function} does not run on the scalar engine of trn1: use "
            "nisa.activation(op=nl.copy) instead",
        )
    out = destination(run, dst, view.shape, dtype or view.dtype, chosen_engine)
    made = run.emit("tensor_copy", chosen_engine, (view,), (out,), mask=mask)
    record_result(run, out, made)
    if run.valued:
        values = read(run, view, mask)
        values = values if out.buffer.result is None else values.copy()
        write(run, out, values.reshape(out.shape), mask, view.dtype)
    return out


def fill(run: Execution, dst: View, value: object, engine: object = None) -> None:
    """`dst[...] = number`, and memset."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise KernelError(
            "unsupported_operand",
            f"{type(value).__name__} cannot be assigned to a tile: expected a tile or a number",
        )
    if dst.buffer.axis < 0:
        raise KernelError(
            "unsupported_memory", "a number cannot be written to HBM: fill a tile and store it"
        )
    check_writable(run, dst)
    chosen_engine = chosen(run, engine, "any", ("dve", "pool"), dst)
    run.emit("memset", chosen_engine, (), (dst,), {"value": float(value)})
    if run.valued:
        write(run, dst, np.full((1,) * len(dst.shape), value, _kind(value)))


def _kind(value: float) -> type:
    return np.int64 if isinstance(value, int) else np.float32


def memset(
    run: Execution,
    shape: Sequence[int],
    value: object,
    dtype: DType,
    *,
    mask: Mask | None = None,
    engine: object = None,
) -> View:
    """NKI 1: a new tile filled with one number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise KernelError("unsupported_operand", f"{run.function}: value must be a number")
    chosen_engine = chosen(run, engine, "any", ("dve", "pool"))
    out = destination(run, None, shape, dtype, chosen_engine)
    made = run.emit("memset", chosen_engine, (), (out,), {"value": float(value)}, mask=mask)
    record_result(run, out, made)
    if run.valued:
        write(run, out, np.full(out.shape, value, _kind(value)), mask)
    return out


def memset_into(run: Execution, dst: object, value: object, engine: object = None) -> None:
    """NKI 2: fill a tile; the number must match its type."""
    view = tile(run, dst, "dst", written=True)
    if isinstance(value, float) and not view.dtype.is_float and value != int(value):
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: the value {value} does not match the type {view.dtype} of dst",
        )
    fill(run, view, value, engine)


def broadcast_to(run: Execution, view: View, shape: Sequence[int]) -> View:
    """Repeat a tile: without cost along free axes, and with a product with ones on PE along
    partitions."""
    sizes = tuple(shape)
    if view.buffer.axis < 0:
        return view.broadcast(sizes)
    run.use(view)
    if len(sizes) != len(view.shape):
        raise KernelError(
            "shape_mismatch",
            f"{view.shape} cannot be broadcast to {sizes}: the number of axes differs",
        )
    if view.shape[0] == sizes[0]:
        return view.broadcast(sizes)
    if view.shape[0] != 1:
        raise KernelError(
            "num_partition_mismatch",
            f"{view.shape} cannot be broadcast to {sizes}: only one partition can be repeated",
        )
    if sizes[0] > run.machine.memory.partitions:
        raise KernelError(
            "num_partition_exceed_arch_limit",
            f"{view.shape} cannot be broadcast to {sizes}: the limit is "
            f"{run.machine.memory.partitions} partitions",
        )
    why = "broadcast over partitions"
    source = in_sbuf(run, view, "the row to broadcast")
    narrow = (sizes[0], *view.shape[1:])
    buffer = run.new_buffer(narrow, view.dtype, "sbuf", "temporary")
    out = whole(buffer)
    columns = math.prod(view.shape[1:])
    for start in range(0, columns, _WIDEST_PRODUCT):
        width = min(_WIDEST_PRODUCT, columns - start)
        _broadcast_part(run, source, out, start, width, why)
    if run.valued:
        values = read(run, view)
        buffer.data = np.ascontiguousarray(np.broadcast_to(values, narrow)).reshape(
            buffer.rows, buffer.row
        )
    return out.broadcast(sizes)


def _broadcast_part(
    run: Execution, source: View, out: View, start: int, width: int, why: str
) -> None:
    if run.trace is None:
        return
    row = View(source.buffer, (1, width), (0, 0), (0, 1), source.p0, source.f0 + start)
    if not out.dtype.is_float:  # PE multiplies floating-point numbers only
        integers, row = row, whole(run.new_buffer((1, width), FLOAT32, "sbuf", "temporary"))
        run.emit("tensor_copy", "any", (integers,), (row,), implicit=why)
    product = run.new_buffer((out.shape[0], width), row.dtype, "psum", "temporary")
    part = View(out.buffer, (out.shape[0], width), (1, 0), (0, 1), 0, start)
    sizes = {"k": 1, "m": out.shape[0], "n": width}
    run.emit("nc_matmul", "pe", (row,), (whole(product),), sizes, implicit=why)
    run.emit("tensor_copy", "any", (whole(product),), (part,), implicit=why)


def tensor_copy_predicated(
    run: Execution,
    src: object,
    predicate: object,
    *,
    dst: object,
    reverse_pred: bool = False,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> None:
    """Copy the elements of src whose predicate is not zero; dst keeps the others."""
    out = tile(run, dst, "dst")
    chooser = tile(run, predicate, "predicate")
    if chooser.dtype.is_float or chooser.dtype.itemsize not in (1, 2, 4):
        raise KernelError(
            "unsupported_operand", f"{run.function}: the predicate must be uint8, uint16 or uint32"
        )
    source = tile(run, src, "src") if isinstance(src, View) else None
    if source is None and not isinstance(src, (int, float)):
        raise KernelError("unsupported_operand", f"{run.function}: src must be a tile or a number")
    if source is not None and source.memory == chooser.memory == "psum":
        raise KernelError("unsupported_memory", f"{run.function}: src and predicate lie in PSUM")
    check_writable(run, out)
    reads = (chooser, out) if source is None else (source, chooser, out)
    settings = {"src": None if source is not None else src, "reverse_pred": reverse_pred}
    run.emit("tensor_copy_predicated", "dve", reads, (out,), mask=mask, settings=settings)
    if run.valued:
        chosen_here = (read(run, chooser) != 0) ^ bool(reverse_pred)
        new = np.float32(src) if source is None else read(run, source)  # type: ignore[arg-type]
        found = np.where(chosen_here.reshape(out.shape), new, read(run, out))
        write(run, out, found, mask)
