"""`value.name`: the attributes and methods of kernels' values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.targets.trainium.errors import KernelError, not_supported, shown
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.host_arrays import attribute_of_array
from tilewright.targets.trainium.language.methods import METHODS
from tilewright.targets.trainium.language.ordering import sort_in_place
from tilewright.targets.trainium.language.tile_indices import tile_index
from tilewright.targets.trainium.language.values import Builtin, Decorator, Deque, Namespace
from tilewright.targets.trainium.operations.copies import broadcast_to, tensor_copy
from tilewright.targets.trainium.operations.creation import MemoryName
from tilewright.targets.trainium.operations.special import pattern_pairs
from tilewright.targets.trainium.tiles.dtypes import DType, HostArray
from tilewright.targets.trainium.tiles.index import Index
from tilewright.targets.trainium.tiles.view import Gather, View

_MEMORIES = {name: MemoryName(name, name) for name in ("hbm", "sbuf", "psum")}


def attribute(run: Execution, value: Any, name: str) -> Any:
    """The attribute, or a `KernelError` that says there is none."""
    if isinstance(value, Namespace):
        found = value.members.get(name, value)
        if found is value:
            raise not_supported(f"{value.name}.{name}")
        return found
    if isinstance(value, View):
        return _of_tile(run, value, name)
    if isinstance(value, Grids):
        return _of_grids(value, name)
    if isinstance(value, HostArray):
        return attribute_of_array(value, name)
    if isinstance(value, DType) and name in ("itemsize", "name"):
        return getattr(value, name)
    if isinstance(value, Builtin) and name in value.members:
        return value.members[name]
    if isinstance(value, Deque) and name == "maxlen":
        return value.most
    if isinstance(value, list) and name == "sort":
        return Builtin(
            "list.sort",
            lambda run, *, key=None, reverse=False: sort_in_place(run, value, key, reverse),
        )
    methods = METHODS.get(type(value), {})
    method = methods.get(name)
    if method is not None:
        return Builtin(
            f"{type(value).__name__}.{name}",
            lambda run, *args, **options: method(value, *args, **options),
        )
    if isinstance(value, Index) and name == "shape":
        return value.counts
    if isinstance(value, (slice, range)) and name in ("start", "stop", "step"):
        return getattr(value, name)
    if isinstance(value, Decorator):
        raise not_supported(f"{value.name}.{name}")
    raise not_supported(f"attribute {name!r} of a value of type {_kind(value)}")


def _kind(value: Any) -> str:
    return "tile" if isinstance(value, View) else type(value).__name__


def _of_tile(run: Execution, view: View, name: str) -> Any:
    if name == "shape":
        return view.shape
    if name == "dtype":
        return view.dtype
    if name == "ndim":
        return len(view.shape)
    if name == "buffer":
        return _MEMORIES[view.memory]
    method = _TILE_METHODS.get(name)
    if method is None:
        raise not_supported(f"attribute {name!r} of a tile")
    return Builtin(f"tile.{name}", lambda run, *args, **kwargs: method(run, view, *args, **kwargs),
                   ignored=("dtype_override",)) if name != "ap" else _BoundAp(view)  # fmt: skip


class _BoundAp(Builtin):
    """`tile.ap(pattern=..., offset=...)`."""

    def __init__(self, view: View) -> None:
        def ap(
            run: Execution,
            pattern: object,
            offset: int = 0,
            *,
            scalar_offset: object = None,
            vector_offset: object = None,
            indirect_dim: int = 0,
            dtype: object = None,
        ) -> View:
            if scalar_offset is not None or dtype is not None:
                raise not_supported("ap with scalar_offset or dtype")
            if vector_offset is not None:
                return pattern_by_rows(run, view, pattern, offset, vector_offset, indirect_dim)
            return access_pattern(run, view, pattern, offset)

        super().__init__("tile.ap", ap)


def pattern_by_rows(
    run: Execution, view: View, pattern: object, offset: object, rows: object, axis: object
) -> View:
    """A region of HBM in which each partition begins at a number of a tile [P, 1], counted along
    an axis of the tensor. The pattern's first step is not used."""
    pairs = pattern_pairs(run, pattern)
    shape = view.buffer.shape
    if type(axis) is not int or not 0 <= axis < len(shape):
        raise KernelError("unsupported_operand", f"ap: indirect_dim must be 0..{len(shape) - 1}")
    if not isinstance(rows, View) or view.on_chip:
        raise not_supported(
            "ap of a tile on chip with vector_offset, or with a vector_offset that is not a tile,"
        )
    chosen = tile_index(run, rows)
    if chosen.counts != (pairs[0][1], 1):
        raise KernelError(
            "shape_mismatch",
            f"ap: vector_offset has the shape {list(chosen.counts)}, but the pattern needs "
            f"[{pairs[0][1]}, 1]",
        )
    whole = access_pattern(run, view, [[0, pairs[0][1]], *map(list, pairs[1:])], offset)
    numbers = chosen.array.reshape(-1, *[1] * (len(pairs) - 1))
    stride, total = math.prod(shape[axis + 1 :]), math.prod(shape)
    free: Any = np.asarray(whole.f0)
    for place, (step, count) in enumerate(pairs[1:], 1):
        steps = np.arange(count, dtype=np.int64) * step
        free = free + steps.reshape(-1, *[1] * (len(pairs) - 1 - place))
    size = (total - 1 - int(free.max())) // stride + 1
    inside = (numbers >= 0) & (numbers < size)
    leaving = () if inside.all() else [(axis, size, numbers)]
    free = np.clip(numbers, 0, size - 1) * stride + free
    gather = Gather(
        np.zeros_like(numbers), free, None if inside.all() else inside, leaving, rows, stride
    )
    zeros = (0,) * len(pairs)
    return View(view.buffer, whole.shape, zeros, zeros, 0, 0, gather)


def access_pattern(run: Execution, view: View, pattern: object, offset: object) -> View:
    """A region of NKI 2: [[step, count], ...] in elements of the flattened tensor, partitions
    first."""
    pairs = pattern_pairs(run, pattern)
    if not isinstance(offset, int):
        raise KernelError("unsupported_operand", "ap: offset must be a number")
    buffer = view.buffer
    if view.gather is not None or len(view.shape) != len(buffer.shape):
        raise not_supported("ap of an indexed tensor")
    reach = offset + sum(max(0, step * (count - 1)) for step, count in pairs)
    low = offset + sum(min(0, step * (count - 1)) for step, count in pairs)
    if low < 0 or reach >= buffer.rows * buffer.row:
        raise KernelError(
            "tensor_access_out_of_bound",
            f"ap accesses elements {low}..{reach} of a tensor of {buffer.rows * buffer.row} "
            "elements",
        )
    shape = tuple(count for _, count in pairs)
    if buffer.axis < 0:
        return View(buffer, shape, (0,) * len(pairs), tuple(s for s, _ in pairs), 0, offset)
    step, count = pairs[0]
    if step % buffer.row and count > 1:
        raise KernelError(
            "unsupported_partition_step",
            f"ap: the first step is {step}, not a multiple of {buffer.row}, the number of elements "
            "in a partition",
        )
    free = tuple(s for s, _ in pairs[1:])
    zeros = (0,) * len(free)
    psteps = (step // buffer.row if count > 1 else 0, *zeros)
    f0 = offset % buffer.row
    reaches = [s * (c - 1) for s, c in pairs[1:]]
    first = f0 + sum(min(0, r) for r in reaches)
    last = f0 + sum(max(0, r) for r in reaches)
    if first < 0 or last >= buffer.row:
        raise KernelError(
            "tensor_access_out_of_bound",
            "ap: the steps along the free axes go past the end of the partition",
        )
    return View(buffer, shape, psteps, (0, *free), offset // buffer.row, f0)


def _sizes(args: tuple[Any, ...]) -> tuple[int, ...]:
    shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    if not shape or not all(isinstance(n, int) and n > 0 for n in shape):
        raise KernelError("unsupported_shape", f"{shown(shape)} is not a shape")
    return tuple(int(n) for n in shape)


def reshape(run: Execution, view: View, *args: Any, shape: object = None) -> View:
    """The same elements in another shape."""
    if view.buffer.result is not None:
        run.use(view)
    return view.reshaped(_sizes((shape,) if shape is not None else args))


def _broadcast(run: Execution, view: View, *args: Any, shape: object = None) -> View:
    return broadcast_to(run, view, _sizes((shape,) if shape is not None else args))


def _astype(run: Execution, view: View, dtype: Any) -> View:
    return tensor_copy(run, view, dtype=dtype)


def expand_dims(run: Execution, data: View, axis: int) -> View:
    """nl.expand_dims: one more axis of size 1."""
    if not isinstance(axis, int):  # % would use a text as a format
        raise KernelError("unsupported_axis", f"an axis must be an integer, not {shown(axis)}")
    rank = len(data.shape) + 1
    at = axis % rank
    if at == 0 and data.on_chip:
        raise KernelError(
            "unsupported_axis", "expand_dims cannot add an axis before the partition axis"
        )
    return data.reshaped((*data.shape[:at], 1, *data.shape[at:]))


_TILE_METHODS: dict[str, Callable[..., Any]] = {
    "reshape": reshape,
    "broadcast_to": _broadcast,
    "astype": _astype,
    "expand_dims": expand_dims,
    "ap": reshape,
}


class Grids(tuple[Index, ...]):
    """The value of `nl.mgrid[...]`: one grid for each axis."""


class GridMaker:
    """`nl.mgrid`."""


def _of_grids(grids: Grids, name: str) -> Index:
    names = {"p": 0, "x": 1, "y": 2, "z": 3, "w": 4}
    at = names.get(name)
    if at is None or at >= len(grids):
        raise not_supported(f"attribute {name!r} of a grid")
    return grids[at]
