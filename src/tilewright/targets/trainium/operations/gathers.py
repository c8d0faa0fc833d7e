"""Gathers of elements within the partitions of a tile."""

from __future__ import annotations

import numpy as np

from tilewright.targets.trainium.destinations import destination, read, record_result, tile, write
from tilewright.targets.trainium.errors import KernelError, shown
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.tiles.dtypes import DType, Values
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View


def gather_flattened(
    run: Execution,
    data: object,
    indices: object,
    *,
    dst: View | None = None,
    dtype: DType | None = None,
    mask: Mask | None = None,
) -> View:
    """For each partition, the elements of its flattened row that the indices select."""
    source, chosen = tile(run, data, "data"), tile(run, indices, "indices")
    if source.partitions != chosen.partitions:
        raise KernelError(
            "num_partition_mismatch",
            f"{run.function}: data {source.shape} and indices {chosen.shape} must have the "
            "same number of partitions",
        )
    out = destination(run, dst, chosen.shape, dtype or source.dtype, "pool")
    record_result(run, out, run.emit("local_gather", "pool", (source, chosen), (out,), mask=mask))
    if run.valued:
        at = read(run, chosen).reshape(source.partitions, -1).astype(np.int64)
        write(run, out, _taken(run, source, at).reshape(out.shape), mask)
    return out


def local_gather(
    run: Execution, src_buffer: object, index: object, num_elem_per_idx: object = 1,
    num_valid_indices: object = None, *, dst: View | None = None, mask: Mask | None = None,
) -> View:  # fmt: skip
    """The elements of each partition that the indices of its 16 partitions select.

    The indices of 16 partitions are read column by column, partitions first, and select from each
    of these partitions `num_elem_per_idx` elements that begin at the index. The result is
    [P, columns of index, 16, num_elem_per_idx], or [P, num_valid_indices, num_elem_per_idx] if not
    all indices are valid.
    """
    source, chosen = tile(run, src_buffer, "src_buffer"), tile(run, index, "index")
    if source.partitions != chosen.partitions or source.partitions % _LANES:
        raise KernelError(
            "num_partition_mismatch",
            f"{run.function}: src_buffer {source.shape} and index {chosen.shape} must have the "
            f"same number of partitions, a multiple of {_LANES}",
        )
    if chosen.dtype.name != "uint16":
        raise KernelError(
            "unsupported_dtype", f"{run.function}: index is {chosen.dtype}, expected uint16"
        )
    if num_elem_per_idx not in _TOGETHER:
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: num_elem_per_idx is {shown(num_elem_per_idx)}, expected one of "
            f"{', '.join(map(str, _TOGETHER))}",
        )
    every = chosen.columns * _LANES
    valid = every if num_valid_indices is None else num_valid_indices
    if type(valid) is not int or not 0 < valid <= min(every, _MOST_INDICES):
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: {shown(valid)} valid indices for each {_LANES} partitions, expected "
            f"1 to {min(every, _MOST_INDICES):,}",
        )
    assert type(num_elem_per_idx) is int
    counts = (chosen.columns, _LANES) if valid == every else (valid,)
    shape = (source.partitions, *counts, num_elem_per_idx)
    out = destination(run, dst, shape, source.dtype, "pool")
    if out.dtype != source.dtype:
        raise KernelError(
            "unsupported_dtype",
            f"{run.function}: dst is {out.dtype}, but src_buffer is {source.dtype}, and the "
            "operation does not convert types",
        )
    settings = {"num_elem_per_idx": num_elem_per_idx, "num_valid_indices": valid}
    reads = (source, chosen)
    emitted = run.emit("local_gather", "pool", reads, (out,), mask=mask, settings=settings)
    record_result(run, out, emitted)
    if run.valued:
        groups = read(run, chosen).reshape(-1, _LANES, chosen.columns).astype(np.int64)
        begins = groups.transpose(0, 2, 1).reshape(len(groups), -1)[:, :valid]
        at = begins[:, :, None] + np.arange(num_elem_per_idx)
        rows = np.repeat(at.reshape(len(groups), -1), _LANES, axis=0)
        write(run, out, _taken(run, source, rows).reshape(out.shape), mask)
    return out


_LANES = 16
"""Partitions of one core of the Pool engine."""
_TOGETHER = (1, 2, 4, 8, 16, 32)
_MOST_INDICES = 4096


def _taken(run: Execution, source: View, at: Values) -> Values:
    """The elements of each partition's flattened row at its numbers [P, count]."""
    rows = read(run, source).reshape(source.partitions, -1)
    if ((at < 0) | (at >= rows.shape[1])).any():
        raise KernelError(
            "tensor_access_out_of_bound",
            f"{run.function}: the indices range from {int(at.min())} to {int(at.max())}, but there "
            f"are {rows.shape[1]} elements",
        )
    return np.take_along_axis(rows, at, 1)
