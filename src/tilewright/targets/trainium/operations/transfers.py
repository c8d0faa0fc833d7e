"""DMA: loads, stores, copies, transposes and gathers between HBM and SBUF."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.targets.trainium.destinations import (
    check_writable,
    destination,
    in_sbuf,
    read,
    record_result,
    tile,
    write,
)
from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.functions import name_of
from tilewright.targets.trainium.tiles.dtypes import DType, Values, as_float32
from tilewright.targets.trainium.tiles.fitting import fits
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View
from tilewright.targets.trainium.trace import Instruction


@dataclass(frozen=True, slots=True)
class Mode:
    """A value of `nisa.oob_mode` or `nisa.dge_mode`."""

    name: str


def tensor(run: Execution, value: object, name: str) -> View:
    """An operand of DMA, which may be in any memory."""
    if not isinstance(value, View):
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: {name} must be a tensor, not {type(value).__name__}",
        )
    run.use(value)
    return value


def load(
    run: Execution, src: object, *, dtype: DType | None = None, mask: Mask | None = None
) -> View:
    """A region of HBM loaded into a new tile. Its first axis becomes the partitions."""
    view = tensor(run, src, "src")
    if view.on_chip:
        raise KernelError("unsupported_memory", f"{run.function}: src lies on chip, not in HBM")
    view = _two_axes(view)
    if view.partitions > run.machine.memory.partitions:
        raise KernelError(
            "num_partition_exceed_arch_limit",
            f"{run.function}: a region of shape {view.shape} has {view.partitions} partitions: the "
            f"limit is {run.machine.memory.partitions}",
        )
    out = destination(run, None, view.shape, dtype or view.dtype, "dma")
    record_result(run, out, emit(run, view, out, mask))
    if run.valued:
        values = read(run, view, mask)
        write(run, out, values if values.flags.owndata else values.copy(), mask, view.dtype)
    elif view.gather is not None:
        read_bounds(run, view, mask)
    return out


def read_bounds(run: Execution, view: View, mask: Mask | None) -> None:
    """The bounds check of a read in traced mode."""
    joined = mask if view.mask is None else (view.mask if mask is None else view.mask & mask)
    run.check_bounds(view, run.mask_array(joined, view.shape))


def _two_axes(view: View) -> View:
    """A row of HBM is loaded as a column."""
    if len(view.shape) != 1:
        return view
    gather = view.gather
    if gather is not None:
        gather = gather.mapped(lambda array: array[:, None])
    return View(
        view.buffer, (*view.shape, 1), (0, 0), (*view.fsteps, 0), view.p0, view.f0, gather,
        view.mask,
    )  # fmt: skip


def emit(
    run: Execution,
    src: View,
    dst: View,
    mask: Mask | None,
    opcode: str = "dma_copy",
    **attributes: object,
) -> Instruction | None:
    """Record a transfer in traced mode."""
    if run.trace is None:
        return None
    joined = mask if dst.mask is None else (dst.mask if mask is None else dst.mask & mask)
    return run.emit(opcode, "dma", (src,), (dst,), attributes, mask=joined)


def store(run: Execution, dst: object, value: object, *, mask: Mask | None = None) -> None:
    """Store a tile to a region of HBM."""
    place = tensor(run, dst, "dst")
    if place.on_chip:
        raise KernelError("unsupported_memory", f"{run.function}: dst lies on chip, not in HBM")
    check_writable(run, place, by_dma=True)
    if not isinstance(value, View):
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: value must be a tile, not {type(value).__name__}: fill one with "
            "nl.full",
        )
    if value.buffer.axis < 0:
        raise KernelError("unsupported_memory", f"{run.function}: value lies in HBM: load it first")
    exact = _unrounded(run, value)
    source = in_sbuf(run, moved_tile(run, value), "the stored value")
    transfer(run, place, source, mask, exact)


def moved_tile(run: Execution, value: object) -> View:
    """The tile that a store moves. An engine copies it first if it lies in PSUM."""
    by_dma = not (isinstance(value, View) and value.memory == "psum")
    return tile(run, value, "value", by_dma=by_dma)


def _unrounded(run: Execution, value: View) -> Values | None:
    """A fresh result's values before they were rounded to its own type, if casts may be omitted."""
    result = value.buffer.result
    if not run.elide_casts or result is None or result.values is None or result.mask is not None:
        return None
    return result.values if result.values.shape == value.shape else None


def transfer(
    run: Execution,
    dst: View,
    src: View,
    mask: Mask | None,
    exact: Values | None = None,
) -> None:
    """One DMA between equal shapes, except for axes of size 1."""
    if mask is None:  # an index out of range is reported before unequal shapes
        for view in (src, dst):
            if view.gather is not None:
                read_bounds(run, view, None)
    if not fits(src.shape, dst.shape) or math.prod(src.shape) != math.prod(dst.shape):
        if math.prod(src.shape) != math.prod(dst.shape):
            raise KernelError(
                "store_dst_shape_smaller_than_other_shape",
                f"{run.function}: a tensor of shape {src.shape} does not fit a region of shape "
                f"{dst.shape}",
            )
        raise KernelError(
            "shape_mismatch", f"{run.function}: shapes {src.shape} and {dst.shape} differ"
        )
    if dst.memory == "psum":
        raise KernelError("unsupported_memory", f"{run.function}: DMA cannot write PSUM")
    for view in (src, dst):
        if not run.valued and mask is not None and view.gather is not None:
            read_bounds(run, view, mask)
    if run.trace is not None:
        aligned_src, aligned_dst = _aligned(src, dst)
        emit(run, aligned_src, aligned_dst, mask)
        return
    if exact is not None:
        write(run, dst, exact.reshape(dst.shape), mask)
        return
    values = read(run, src, mask if src.shape == dst.shape else None)
    write(run, dst, values.reshape(dst.shape), mask, src.dtype)


def _aligned(src: View, dst: View) -> tuple[View, View]:
    """Both sides with the axes of the on-chip side, so that partitions correspond."""
    if src.shape == dst.shape or src.gather is not None or dst.gather is not None:
        return _two_axes(src), _two_axes(dst)
    try:
        if dst.on_chip:
            return src.reshaped(dst.shape), dst
        return src, dst.reshaped(src.shape)
    except KernelError:
        return _two_axes(src), _two_axes(dst)


def dma_copy(
    run: Execution,
    dst: object,
    src: object,
    *,
    mask: Mask | None = None,
    dst_rmw_op: object = None,
    oob_mode: object = None,
    dge_mode: object = None,
    engine: object = None,
    priority: object = None,
) -> None:
    """A copy between HBM and SBUF in any combination. `dst_rmw_op=nl.add` adds to the
    destination."""
    place, source = tensor(run, dst, "dst"), tensor(run, src, "src")
    check_writable(run, place, by_dma=True)
    if source.memory == "psum":
        source = in_sbuf(run, source, "src")
    if isinstance(oob_mode, Mode) and oob_mode.name == "skip":
        mask = _skipped(run, place, source, mask)
    if dst_rmw_op is None:
        transfer(run, place, source, mask)
        return
    if name_of(dst_rmw_op) != "add":
        raise KernelError("unsupported_operator", f"{run.function}: dst_rmw_op must be nl.add")
    added(run, place, source, mask)


def added(run: Execution, place: View, source: View, mask: Mask | None) -> None:
    """A transfer that adds to the destination."""
    if math.prod(place.shape) != math.prod(source.shape):
        raise KernelError(
            "shape_mismatch",
            f"{run.function}: src {source.shape} and dst {place.shape} must have the same number "
            "of elements",
        )
    emit(run, source, place, mask, accumulate=True)
    if run.valued:
        values = as_float32(read(run, source)).reshape(place.shape)
        write(run, place, as_float32(read(run, place)) + values, mask)


def _skipped(run: Execution, dst: View, src: View, mask: Mask | None) -> Mask | None:
    """oob_mode.skip: elements out of bounds on either side are not transferred."""
    for view in (dst, src):
        gather = view.gather
        if gather is not None and gather.inside is not None:
            inside = gather.inside
            found = Mask(inside.ndim, None, lambda inside=inside: inside)  # type: ignore[misc]
            mask = found if mask is None else mask & found
    return mask


def load_transpose2d(
    run: Execution, src: object, *, dtype: DType | None = None, mask: Mask | None = None
) -> View:
    """A region [a, b] of HBM as a tile [b, a], with one descriptor for each element."""
    view = tensor(run, src, "src")
    if view.on_chip or len(view.shape) != 2:
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: src {view.shape} must be a two-dimensional tensor in HBM",
        )
    return _dma_transposed(run, view, dtype, mask)


def _dma_transposed(run: Execution, view: View, dtype: DType | None, mask: Mask | None) -> View:
    rows, columns = view.shape
    if columns > run.machine.memory.partitions:
        raise KernelError(
            "num_partition_exceed_arch_limit",
            f"{run.function}: the transpose of {view.shape} has {columns} partitions: the limit is "
            f"{run.machine.memory.partitions}",
        )
    out = destination(run, None, (columns, rows), dtype or view.dtype, "dma")
    record_result(run, out, emit(run, transposed(view), out, None, "dma_transpose"))
    if run.valued:
        write(run, out, read(run, view, mask).T.copy(), None, view.dtype)
    elif view.gather is not None:
        read_bounds(run, view, mask)
    return out


def transposed(view: View) -> View:
    """A region of two axes, transposed."""
    gather = view.gather
    if gather is not None:
        gather = gather.mapped(lambda array: array.T)
    return View(
        view.buffer, view.shape[::-1], view.psteps[::-1], view.fsteps[::-1], view.p0, view.f0,
        gather,
    )  # fmt: skip


def dma_transpose(
    run: Execution,
    src: object,
    *,
    axes: object = None,
    dst: object = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View | None:
    """A transposing DMA of two axes, into a new tile (NKI 1) or dst (NKI 2)."""
    view = tensor(run, src, "src")
    if axes is not None and tuple(axes) != (1, 0):  # type: ignore[arg-type]
        raise not_supported(f"{run.function} with axes {axes}")
    if len(view.shape) != 2:
        raise not_supported(f"{run.function} of a tensor with {len(view.shape)} axes")
    if dst is None:
        return _dma_transposed(run, view, dtype, mask)
    place = tensor(run, dst, "dst")
    check_writable(run, place, by_dma=True)
    if place.shape != view.shape[::-1]:
        raise KernelError(
            "shape_mismatch",
            f"{run.function}: dst {place.shape} is not the transposed shape of src {view.shape}",
        )
    if "psum" in (place.memory, view.memory):
        raise KernelError("unsupported_memory", f"{run.function}: DMA cannot use PSUM")
    emit(run, transposed(view) if not view.on_chip else view, place, mask, "dma_transpose")
    if run.valued:
        write(run, place, read(run, view).T.copy(), mask)
    return None
