"""Creation of tensors: ndarray, zeros, full and similar functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.targets.trainium.errors import KernelError, shown
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.copies import fill
from tilewright.targets.trainium.tiles.dtypes import FLOAT32, INT32, DType, HostArray
from tilewright.targets.trainium.tiles.view import View, whole
from tilewright.targets.trainium.trace import Memory

MOST_BYTES = 4 << 30
"""Maximum size of a tensor in HBM."""
MOST_AXES = 8
MOST_BYTES_PER_PARTITION = 4 << 20
"""Maximum size of an on-chip tensor with its blocks. NKI 1 spills what does not fit, but not
without limit."""


class PartitionDim(int):
    """`par_dim(n)`: the size of the partition axis."""


class MemoryName:
    """A value such as `nl.sbuf`, which is passed as `buffer=`. It can also be called."""

    def __init__(self, name: str, memory: Memory) -> None:
        self.name = name
        self.memory = memory


def sizes_of(run: Execution, shape: object) -> tuple[int, ...]:
    """A shape in the form in which a kernel writes it."""
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    if len(items) > MOST_AXES:
        raise KernelError(
            "unsupported_shape",
            f"{run.function}: {len(items)} axes: at most {MOST_AXES} are possible",
        )
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int) or item < 1:
            raise KernelError(
                "unsupported_shape",
                f"{run.function}: {shown(item)} in the shape {shown(items)} is not a positive "
                "number",
            )
    return tuple(items)


def ndarray(
    run: Execution,
    shape: object,
    dtype: DType = FLOAT32,
    buffer: object = None,
    name: str = "",
    *,
    address: object = None,
) -> View:
    """A tensor without defined contents."""
    return declared(run, shape, dtype, buffer, name)


def declared(run: Execution, shape: object, dtype: object, buffer: object, name: str = "") -> View:
    """Create a tensor and its storage. `KernelError` if its shape, type or memory is not valid."""
    sizes = sizes_of(run, shape)
    if not isinstance(dtype, DType):
        raise KernelError("unsupported_dtype", f"{run.function}: {shown(dtype)} is not a type")
    if buffer is not None and not isinstance(buffer, MemoryName):
        raise KernelError(
            "unsupported_memory", f"{run.function}: buffer must be a memory, such as nl.sbuf"
        )
    memory: Memory = "sbuf" if buffer is None else buffer.memory
    marked = [axis for axis, size in enumerate(sizes) if isinstance(size, PartitionDim)]
    if len(marked) > 1:
        raise KernelError(
            "unsupported_shape", f"{run.function}: only one axis can be par_dim, not {len(marked)}"
        )
    axis = marked[0] if marked and memory != "hbm" else 0
    if axis and run.language == 2:
        raise KernelError(
            "leading_dimension_of_tensor_must_be_partition",
            f"{run.function}: NKI 2 has no block axes: declare a list of tiles",
        )
    if memory == "hbm" and math.prod(sizes) * dtype.itemsize > MOST_BYTES:
        raise KernelError("too_large", f"{run.function}: the shape {sizes} takes more than 4 GiB")
    plain = tuple(int(size) for size in sizes)
    per_partition = math.prod(plain) // plain[axis] * dtype.itemsize
    if memory != "hbm" and per_partition > MOST_BYTES_PER_PARTITION:
        raise KernelError(
            "too_large",
            f"{run.function}: {plain} takes more than {MOST_BYTES_PER_PARTITION >> 20} MiB in each "
            "partition",
        )
    if run.grid is not None and buffer is not None and buffer.name == "nl.shared_hbm":
        return whole(
            run.grid.shared(
                plain, dtype, lambda: run.new_buffer(plain, dtype, memory, "local", name, axis)
            )
        )
    return whole(run.new_buffer(plain, dtype, memory, "local", name, axis))


def full(
    run: Execution,
    shape: object,
    fill_value: object,
    dtype: DType = FLOAT32,
    buffer: object = None,
    name: str = "",
) -> View:
    """A tensor filled with one number. Zeros in PSUM cost nothing, because the first product
    overwrites them."""
    found = declared(run, shape, dtype, buffer, name)
    if isinstance(fill_value, bool) or not isinstance(fill_value, (int, float)):
        raise KernelError(
            "unsupported_operand", f"{run.function}: {shown(fill_value)} is not a number"
        )
    if found.on_chip and not (found.memory == "psum" and fill_value == 0):
        if found.buffer.axis == 0:
            fill(run, found, fill_value)
        else:
            _fill_blocks(run, found, fill_value)
    elif not found.on_chip and fill_value == 0:
        _fill_values(run, found, fill_value)
    elif not found.on_chip:
        raise KernelError(
            "unsupported_memory", f"{run.function}: a tensor in HBM can only be filled with 0"
        )
    if found.memory == "psum" and fill_value == 0:
        found.buffer.zeroed = True
        _fill_values(run, found, fill_value)
    return found


def _fill_values(run: Execution, found: View, value: float) -> None:
    if run.valued:
        found.buffer.allocate(value)


def _fill_blocks(run: Execution, found: View, value: float) -> None:
    """One memset for all blocks, which are adjacent in each partition."""
    buffer = found.buffer
    flat = View(buffer, (buffer.rows, buffer.row), (1, 0), (0, 1))
    fill(run, flat, value)


def zeros(
    run: Execution,
    shape: object,
    dtype: DType = FLOAT32,
    buffer: object = None,
    name: str = "",
) -> View:
    """A tensor of zeros."""
    return full(run, shape, 0, dtype, buffer=buffer, name=name)


def ones(
    run: Execution,
    shape: object,
    dtype: DType = FLOAT32,
    buffer: object = None,
    name: str = "",
) -> View:
    """A tensor of ones."""
    return full(run, shape, 1, dtype, buffer=buffer, name=name)


_MEMORIES = {
    "sbuf": MemoryName("sbuf", "sbuf"),
    "psum": MemoryName("psum", "psum"),
    "hbm": MemoryName("hbm", "hbm"),
}


def zeros_like(
    run: Execution,
    a: View,
    dtype: DType | None = None,
    buffer: object = None,
    name: str = "",
) -> View:
    """Zeros with the shape and, if not given, the type and memory of a tensor."""
    where = _MEMORIES[a.memory] if buffer is None else buffer
    return full(run, a.shape, 0, dtype or a.dtype, buffer=where, name=name)


def empty_like(
    run: Execution,
    a: View,
    dtype: DType | None = None,
    buffer: object = None,
    name: str = "",
) -> View:
    """A tensor with the shape and, if not given, the type and memory of another one."""
    where = _MEMORIES[a.memory] if buffer is None else buffer
    return declared(run, a.shape, dtype or a.dtype, where, name)


def rand(run: Execution, shape: object, dtype: DType = FLOAT32) -> View:
    """nl.rand: uniform numbers below 1 in a new tile."""
    found = declared(run, shape, dtype, None)
    run.emit("dropout", "dve", (), (found,))
    if run.valued:
        values = run.chance.random((found.buffer.rows, found.buffer.row), np.float32)
        found.buffer.data = dtype.rounded(values)
    return found


def shared_constant(run: Execution, constant_array: object, dtype: DType | None = None) -> View:
    """nl.shared_constant: a numpy array in HBM."""
    if not isinstance(constant_array, HostArray):
        raise KernelError(
            "unsupported_operand", f"{run.function} takes a NumPy array, such as np.eye(128)"
        )
    return constant(run, constant_array, dtype or _machine_type(constant_array))


def _machine_type(array: HostArray) -> DType:
    """The machine's type for the elements of an array."""
    found = array.dtype
    if isinstance(found, DType):
        return found
    return FLOAT32 if array.values.dtype.kind == "f" else INT32


def constant(run: Execution, array: HostArray, dtype: DType) -> View:
    """Known values in HBM, as a shared constant."""
    values = array.values
    shape: Sequence[int] = values.shape
    found = run.new_buffer(shape, dtype, "hbm", "constant")
    found.record.text = "" if run.arrays_changed else array.text
    found.read_only = True
    if run.valued:
        found.data = np.array(dtype.rounded(values), order="C").reshape(1, -1)
    return whole(found)
