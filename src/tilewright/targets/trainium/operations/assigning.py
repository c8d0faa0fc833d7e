"""Assignments of NKI 1 to tiles and regions, and `+=`.

An operation returns a fresh tile. If it is assigned to a buffer before it is read, the instruction
writes directly to the buffer; `+=` of a fresh product to a tile in PSUM accumulates inside the PE
array.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.trainium.destinations import (
    check_writable,
    joined,
    read,
    write,
)
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution, copy_landed
from tilewright.targets.trainium.operations import copies, transfers
from tilewright.targets.trainium.operations.binary import binary
from tilewright.targets.trainium.operations.elementwise import named, tensor_tensor
from tilewright.targets.trainium.tiles.buffer import Result
from tilewright.targets.trainium.tiles.dtypes import (
    as_float32,
)
from tilewright.targets.trainium.tiles.fitting import fit_values, fits
from tilewright.targets.trainium.tiles.view import View
from tilewright.targets.trainium.trace import Instruction


def assign(run: Execution, dst: View, value: object) -> None:
    """Execute `dst[...] = value` in NKI 1."""
    check_writable(run, dst, by_dma=_arrives_by_dma(value))
    if dst.mask is not None and dst.mask.always is False:
        return
    if not isinstance(value, View):
        copies.fill(run, dst, value)
        return
    if not fits(value.shape, dst.shape):
        raise KernelError(
            "store_dst_shape_smaller_than_other_shape",
            f"values of shape {value.shape} do not fit a region of shape {dst.shape}",
        )
    if dst.buffer.axis < 0:
        transfers.store(run, dst, value)
    elif value.buffer.axis < 0:
        transfers.transfer(run, dst, value, None)
    elif not _land(run, dst, value):
        result = value.buffer.result
        mask = result.mask if result is not None else None
        run.function = "tensor_copy"
        copies.tensor_copy(run, value, dst=dst, mask=mask)


def accumulate(run: Execution, dst: View, value: object) -> None:
    """Execute `dst += value` in NKI 1, in place."""
    check_writable(run, dst)
    if dst.mask is not None and dst.mask.always is False:
        return
    if dst.buffer.axis < 0:
        raise KernelError(
            "unsupported_memory", "+= on a tensor in HBM: use nl.atomic_rmw, or add on chip"
        )
    if isinstance(value, View) and value.buffer.result is not None and _is_whole(value):
        result = value.buffer.result
        adds = result.product and dst.memory == "psum"
        first = run.trace is not None and dst.buffer.zeroed and run.untouched(dst)
        lands = dst.memory in result.memories and (adds or run.valued or first)
        if lands and _accumulated(run, dst, value, result, adds):
            return
    add_in_place(run, dst, value)


def add_in_place(run: Execution, dst: View, value: object) -> None:
    """`dst += value`, if the accumulation is not free."""
    run.function = "+="
    add = named("add")
    if isinstance(value, View) and value.shape == dst.shape:
        tensor_tensor(run, dst, value, add, dst=dst, copies_psum=True, carried=dst)
        return

    assign(run, dst, binary(run, add, dst, value))


def _arrives_by_dma(value: object) -> bool:
    """Whether a transfer writes the value to where it is assigned."""
    if not isinstance(value, View):
        return False
    result = value.buffer.result
    return value.buffer.axis < 0 or (result is not None and result.by_dma)


def _land(run: Execution, dst: View, value: View) -> bool:
    """Move a fresh result into a buffer without cost; False if it has to be copied."""
    result = value.buffer.result
    if result is None or dst.memory not in result.memories or not _is_whole(value):
        return False
    if result.mask is not None and result.mask.always is False:
        return True
    if run.trace is not None:
        copy_landed(run, value.buffer, result)
        if not result.instructions:
            return False
        run.check_bounds(dst, run.mask_array(joined(dst.mask, result.mask), dst.shape))
        _redirect(run, result.instructions, value, dst)
        result.place = dst
        run.stamp(dst)
    elif result.values is not None:
        if run.elide_casts:
            write(run, dst, result.values.reshape(value.shape), result.mask)
        else:
            known = result.values if result.rounded else value.dtype.rounded(result.values)
            write(run, dst, known.reshape(value.shape), result.mask, value.dtype)
    return True


def _is_whole(value: View) -> bool:
    buffer = value.buffer
    return (
        value.gather is None
        and value.mask is None
        and value.partitions * value.columns == buffer.rows * buffer.row
    )


def _redirect(run: Execution, made: Sequence[Instruction], value: View, dst: View) -> None:
    """Change the destination of instructions."""
    assert run.trace is not None
    number = len(run.trace.instructions) - 1
    access = run.recorded(dst, number)
    record = value.buffer.record
    if not any(found.tensor is record for instruction in made for found in instruction.writes):
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: the assigned result was already moved to another tile: copy it "
            "to a separate tile with nl.copy",
        )
    for instruction in made:
        instruction.writes = tuple(
            [access if found.tensor is record else found for found in instruction.writes]
        )
    if run.recorder is not None:
        run.recorder.redirect(made, value.buffer, dst)


def _accumulated(run: Execution, dst: View, value: View, result: Result, adds: bool) -> bool:
    """Add a fresh result: inside the PE array, or as the first write to a region of zeros."""
    if result.mask is not None and result.mask.always is False:
        return True
    if run.trace is not None:
        if result.place is not None or result.summed or not result.instructions:
            return False
        run.check_bounds(dst, run.mask_array(joined(dst.mask, result.mask), dst.shape))
        _redirect(run, result.instructions, value, dst)
        if adds:
            made = result.instructions[-1]
            made.attributes = {**made.attributes, "accumulate": True}
            result.summed = True
        else:
            result.place = dst
        run.stamp(dst)
        return True
    if result.values is None:
        return True
    mask = joined(dst.mask, result.mask)
    run.use(dst)
    array = run.mask_array(mask, dst.shape)
    values = fit_values(result.values, dst.shape)
    if not adds:
        values = fit_values(value.dtype.rounded(result.values).reshape(value.shape), dst.shape)
    plain = array is None and dst.gather is None and dst.dtype.name == "float32"
    if plain and run.undefined is None:
        place = dst.values()
        place += values
        return True
    if run.undefined is not None:
        run.undefined.read(run.line, run.function, value, values)
    write(run, dst, as_float32(read(run, dst)) + values, result.mask)
    return True
