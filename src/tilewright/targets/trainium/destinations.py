"""Destinations of results: fresh tiles and declared buffers, and the copies that NKI 1 inserts.

In NKI 1, an operation returns a fresh tile. Operations of NKI 2 write to the given destination.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.tiles.buffer import Result
from tilewright.targets.trainium.tiles.dtypes import DType, Values, as_float32
from tilewright.targets.trainium.tiles.fitting import fit_values
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.tiles.view import View, whole
from tilewright.targets.trainium.trace import Engine, Instruction, Memory

NOWHERE = Mask(1, False, lambda: np.zeros((1,), bool))
"""The mask that selects nothing."""
MEMORIES: dict[Engine, tuple[Memory, ...]] = {
    "pe": ("psum",),
    "dve": ("sbuf", "psum"),
    "act": ("sbuf", "psum"),
    "any": ("sbuf", "psum"),
    "pool": ("sbuf",),
    "dma": ("sbuf",),
}
"""The memories to which the instructions of each engine can write."""


def destination(
    run: Execution,
    dst: View | None,
    shape: Sequence[int],
    dtype: DType,
    engine: Engine,
    memory: Memory = "sbuf",
) -> View:
    """The destination of an operation: `dst` (NKI 2), or a fresh tile."""
    sizes = tuple(shape)
    if dst is None:
        buffer = run.new_buffer(sizes, dtype, memory, "temporary")
        buffer.result = Result(MEMORIES[engine], [], by_dma=engine == "dma")
        return whole(buffer)
    tile(run, dst, "dst", written=True)
    if dst.memory not in MEMORIES[engine]:
        raise KernelError(
            "unsupported_memory",
            f"{run.function}: dst lies in {dst.memory.upper()}, expected "
            f"{' or '.join(m.upper() for m in MEMORIES[engine])}",
        )
    if dst.partitions != sizes[0] or dst.columns != _columns(sizes):
        raise KernelError(
            "shape_mismatch",
            f"{run.function}: dst has the shape {dst.shape}, but the result has {sizes}",
        )
    return dst


def _columns(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape[1:]:
        total *= size
    return total


def tile(
    run: Execution, view: object, name: str, *, written: bool = False, by_dma: bool = False
) -> View:
    """An operand on the chip, checked against the rules for partitions.

    A transfer (`by_dma`) may start at any partition, because each of its descriptors addresses one
    partition.
    """
    if not isinstance(view, View):
        raise KernelError(
            "unsupported_operand",
            f"{run.function}: {name} must be a tile, not {type(view).__name__}",
        )
    if view.buffer.axis < 0:
        raise KernelError(
            "unsupported_memory",
            f"{run.function}: {name} lies in HBM: load it into SBUF first",
        )
    fresh = view.buffer.result is not None
    if not written or fresh or (not view.buffer.scope.alive and run.language == 1):
        run.use(view)
    _check_partitions(run, view, name, by_dma)
    return view


def _check_partitions(run: Execution, view: View, name: str, by_dma: bool) -> None:
    count = view.shape[0]
    place = (view.p0, count, view.psteps)
    if view.gather is not None:
        _check_start(run, name, _first_of_gather(run, view, name), count, by_dma)
        return
    if place in run.legal_partitions:
        return
    if any(view.psteps[1:]):
        if view.buffer.axis > 0 and len(view.shape) > 2:
            raise KernelError(
                "failed_to_infer_tile_from_local_tensor",
                f"{run.function}: {name} of shape {view.shape} has block axes before its partition "
                "axis: index them",
            )
        raise KernelError(
            "leading_dimension_of_tensor_must_be_partition",
            f"{run.function}: the first axis of {name} (shape {view.shape}) is not its partition "
            "axis",
        )
    if count > 1 and view.psteps[0] != 1:
        raise KernelError(
            "unsupported_partition_step",
            f"{run.function}: {name} selects partitions with a step of {view.psteps[0]}: only "
            "adjacent partitions can be used",
        )
    _check_start(run, name, view.p0, count, by_dma)
    if not by_dma:
        run.legal_partitions.add(place)


def _first_of_gather(run: Execution, view: View, name: str) -> int:
    assert view.gather is not None
    if any(size > 1 for size in view.gather.partition.shape[1:]):
        raise KernelError(
            "leading_dimension_of_tensor_must_be_partition",
            f"{run.function}: {name} varies the partition along a free axis: only its first axis "
            "can select partitions",
        )
    if view.gather.by is not None and not run.valued:
        return 0  # the indices are not known
    first = view.gather.first_partition(view.shape)
    if first is None:
        raise KernelError(
            "unsupported_partition_step",
            f"{run.function}: {name} selects partitions that are not adjacent, or different "
            "elements in different partitions: engines cannot move elements between partitions; "
            "transfers and transposes can",
        )
    return first


def _check_start(run: Execution, name: str, start: int, count: int, by_dma: bool) -> None:
    if count > run.machine.memory.partitions:
        raise KernelError(
            "num_partition_exceed_arch_limit",
            f"{run.function}: {name} has {count} partitions, the limit is "
            f"{run.machine.memory.partitions}",
        )
    aligned = (count <= 32 and start % 32 == 0) or (count <= 64 and start % 64 == 0)
    if count > 1 and start and not aligned and not by_dma:
        raise KernelError(
            "unsupported_partition_start",
            f"{run.function}: {name} uses {count} partitions from {start}: for an engine, up to 32 "
            "may start at 0, 32, 64 or 96, up to 64 at 0 or 64, more at 0; only transfers may "
            "start anywhere",
        )


def write(
    run: Execution,
    view: View,
    values: Values,
    mask: Mask | None = None,
    source: DType | None = None,
) -> None:
    """Set the values of a destination inside the mask, rounded to its type.

    Values of the type `source` are not rounded again to the same type.
    """
    buffer = view.buffer
    result = buffer.result
    if run.undefined is not None:
        run.undefined.written(run.line, run.function, view, values)
    if result is not None:
        result.values = fit_values(values, view.shape)
        result.mask = mask
        result.rounded = source is buffer.dtype
        return
    array = run.mask_array(joined(view.mask, mask), view.shape)
    run.check_bounds(view, array)
    kept = values if source is buffer.dtype else buffer.dtype.rounded(values)
    view.write(fit_values(kept, view.shape), array)


def joined(one: Mask | None, other: Mask | None) -> Mask | None:
    """The elements that both masks select."""
    if one is None or other is None:
        return one or other
    return one & other


def read(run: Execution, view: View, mask: Mask | None = None) -> Values:
    """The stored values of a settled region; undefined outside the mask."""
    both = joined(view.mask, mask)
    array = run.mask_array(both, view.shape) if both is not None else None
    if view.gather is not None:
        run.check_bounds(view, array)
    values = view.values()
    if array is not None and not array.all():
        values = np.where(array, values, view.dtype.undefined).astype(values.dtype)
    if run.undefined is not None:
        run.undefined.read(run.line, run.function, view, values)
    return values


def numbers(run: Execution, view: View, mask: Mask | None = None) -> Values:
    """The values as engines use them in computations: float32."""
    return as_float32(read(run, view, mask))


def record_result(run: Execution, out: View, instruction: Instruction | None) -> None:
    """Record which instruction computes a fresh tile, so that its destination can be changed."""
    result = out.buffer.result
    if result is None:
        return
    if instruction is not None:
        result.instructions.append(instruction)
    elif not run.valued:  # its mask selects nothing, so nothing has to be moved
        result.mask = NOWHERE


def check_writable(run: Execution, dst: View, *, by_dma: bool = False) -> None:
    """Inputs, and tiles of iterations that have ended, cannot be written."""
    buffer = dst.buffer
    if buffer.read_only:
        raise KernelError(
            "cannot_update_immutable_parameter",
            f"{buffer.record.name or 'an input'} is an input of the kernel: write to a separate "
            "tensor",
        )
    if buffer.axis >= 0:
        tile(run, dst, "the assigned tile", written=True, by_dma=by_dma)


def in_sbuf(run: Execution, view: View, why: str) -> View:
    """The operand in a memory that an engine can read. NKI 1 copies it out of PSUM, NKI 2
    refuses."""
    if view.memory != "psum":
        return view
    if run.language == 2:
        raise KernelError(
            "unsupported_memory",
            f"{run.function}: {why} must be in SBUF, not PSUM: copy it with nisa.tensor_copy first",
        )
    run.use(view)
    name = run.function
    out = destination(run, None, view.shape, view.dtype, "any")
    made = run.emit("tensor_copy", "any", (view,), (out,), implicit=f"{name} reads {why} from SBUF")
    record_result(run, out, made)
    if run.valued:
        write(run, out, read(run, view).copy(), None, view.dtype)
    run.use(out)
    return out
