"""One allocation of an interpreted kernel, with its storage if values are computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.tiles.dtypes import DType, Values
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.trace import Instruction, Loop, Memory, Tensor


class Scope:
    """One iteration of a loop (or the whole kernel), which exists until it ends.

    `home` is the scope to which its tiles belong: its own, or the enclosing one for an unrolled
    loop.
    """

    __slots__ = ("alive", "home", "loop", "number", "parent", "serial", "value")

    def __init__(self, parent: Scope | None, loop: Loop | None, number: int, serial: int) -> None:
        self.parent = parent
        self.loop = loop
        self.number = number
        self.serial = serial
        self.value = 0
        """The loop variable; iterations may run in any order."""
        self.alive = True
        self.home = self


@dataclass(slots=True, eq=False)
class Result:
    """A fresh result of an NKI 1 operation, which nothing has read, so its destination can still
    change.

    In traced mode, its destination changes once without cost. Afterwards, it has to be copied from
    `place`.

    `values` are the values before rounding to the result's type; None if no values are computed.
    `memories` are those to which the instruction can write; `by_dma` says that it is a transfer.
    """

    memories: tuple[Memory, ...]
    instructions: list[Instruction]
    values: Values | None = None
    mask: Mask | None = None
    product: bool = False
    by_dma: bool = False
    rounded: bool = False
    """Whether its type can represent the values without rounding."""
    place: Any = None
    """Traced mode: the `View` to which its instructions write since its destination changed (that
    module imports this one)."""
    summed: bool = False
    """Traced mode: whether the PE array added it to a tile, so that it does not exist
    separately."""


class Buffer:
    """A tensor and its values.

    Storage is a matrix with one row for each partition (for HBM, one row in all). Each row is a
    row-major array of the other axes, with block axes outermost.
    """

    __slots__ = (
        "accumulated", "axis", "data", "dtype", "fsteps", "home", "memory", "psteps", "read_only",
        "record", "result", "rewritten", "row", "rows", "scope", "seen", "shape", "stamps",
        "stored", "written", "zeroed",
    )  # fmt: skip

    def __init__(self, record: Tensor, dtype: DType, scope: Scope) -> None:
        self.record = record
        self.dtype = dtype
        self.scope = scope
        self.memory: Memory = record.memory
        self.shape = record.shape
        self.axis = -1 if record.memory == "hbm" else record.partition_axis
        self.rows, self.row, self.psteps, self.fsteps = _layout(self.shape, self.axis)
        self.data: NDArray[Any] | None = None
        self.home: NDArray[Any] | None = None
        """Memory for the storage, if it is not to be allocated. Floats in it are NaN."""
        self.result: Result | None = None
        self.read_only = False
        self.written = False
        self.zeroed = False
        self.seen: NDArray[np.bool_] | None = None
        """NKI 2, PSUM: the addresses to which a product was written since the allocation."""
        self.accumulated: set[tuple[Any, ...]] = set()
        """Accesses of which all addresses are `seen`."""
        self.stored: dict[tuple[Any, ...], int] = {}
        """NKI 1, traced mode, HBM: the scope that last wrote each region."""
        self.rewritten: KernelError | None = None
        """The error if this is an output: iterations of an affine loop write one region."""
        self.stamps: NDArray[np.int32] | None = None
        """NKI 1, traced mode: the serial number of the scope that last wrote each place."""

    def storage(self) -> NDArray[Any]:
        """The matrix; elements that were not written are undefined."""
        if self.data is None:
            self.allocate()
        assert self.data is not None
        return self.data

    def allocate(self, fill: float | None = None) -> None:
        """Allocate storage, which is undefined unless `fill` is given."""
        value = self.dtype.undefined if fill is None else fill
        if self.home is None:
            self.data = np.full((self.rows, self.row), value, self.dtype.storage)
        else:
            self.data = self.home.reshape(self.rows, self.row)
            if fill is not None or not self.dtype.is_float:
                self.data[...] = value


@lru_cache(maxsize=4096)
def _layout(shape: tuple[int, ...], axis: int) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """Number of rows, elements of a row, and for each axis the steps in partitions and in
    elements."""
    rows = 1 if axis < 0 else shape[axis]
    free = [1 if a == axis else size for a, size in enumerate(shape)]
    steps = [math.prod(free[a + 1 :]) for a in range(len(free))]
    psteps = tuple(int(a == axis) for a in range(len(free)))
    return (
        rows,
        math.prod(free),
        psteps,
        tuple(0 if a == axis else step for a, step in enumerate(steps)),
    )
