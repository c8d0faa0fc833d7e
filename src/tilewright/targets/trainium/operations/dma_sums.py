"""Sums that the DMA engines compute while they move data."""

from __future__ import annotations

import numpy as np

from tilewright.targets.trainium.destinations import check_writable, in_sbuf, read, write
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.functions import name_of
from tilewright.targets.trainium.operations.transfers import added, moved_tile, tensor
from tilewright.targets.trainium.tiles.dtypes import as_float32
from tilewright.targets.trainium.tiles.index import Mask


def atomic_rmw(
    run: Execution, dst: object, value: object, op: object, *, mask: Mask | None = None
) -> None:
    """nl.atomic_rmw: add a tile to a region of HBM."""
    place = tensor(run, dst, "dst")
    check_writable(run, place, by_dma=True)
    if place.on_chip:
        raise KernelError("unsupported_memory", f"{run.function}: dst must lie in HBM")
    if name_of(op) != "add":
        raise KernelError("unsupported_operator", f"{run.function}: op must be nl.add")
    source = in_sbuf(run, moved_tile(run, value), "the added value")
    added(run, place, source, mask)


def dma_compute(
    run: Execution,
    dst: object,
    srcs: object,
    reduce_op: object,
    scales: object = None,
    *,
    unique_indices: object = True,
    oob_mode: object = None,
) -> None:
    """NKI 2: the sum of tensors of one shape, in HBM or SBUF, added in float32 during the transfer.

    Releases before 0.3 have `scales` before `reduce_op`; all of them must be 1.
    """
    if isinstance(reduce_op, (list, tuple)):
        reduce_op, scales = scales, reduce_op
    if not isinstance(srcs, (list, tuple)) or len(srcs) < 2:
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: srcs must be two or more tensors; to add to dst, include dst in srcs",
        )
    if name_of(reduce_op, "reduce_op") != "add":
        raise KernelError("unsupported_operator", f"{run.function}: reduce_op must be nl.add")
    ones = [1.0] * len(srcs)
    if scales is not None and (not isinstance(scales, (list, tuple)) or list(scales) != ones):
        raise KernelError(
            "unsupported_operand", f"{run.function}: scales must be 1.0 for each tensor in srcs"
        )
    place = tensor(run, dst, "dst")
    check_writable(run, place, by_dma=True)
    sources = [tensor(run, src, f"srcs[{i}]") for i, src in enumerate(srcs)]
    for view in (place, *sources):
        if view.memory == "psum":
            raise KernelError("unsupported_memory", f"{run.function}: DMA cannot use PSUM")
        if view.shape != place.shape:
            raise KernelError(
                "shape_mismatch",
                f"{run.function}: a source has the shape {view.shape}, dst {place.shape}",
            )
    run.emit("dma_compute", "dma", sources, (place,), {"sources": len(sources)})
    if run.valued:
        total = as_float32(read(run, sources[0]))
        for view in sources[1:]:
            total = total + as_float32(read(run, view))
        write(run, place, np.asarray(total).reshape(place.shape))
