"""Replaces PyTorch in the process of a Triton kernel, with arrays that have no arithmetic.

A launcher reads their sizes, creates further arrays and passes them to kernels. Any other function
of PyTorch would compute without a kernel of the candidate, so a launcher that uses one is not
checked.
"""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SIZES = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int8": 1, "uint8": 1, "int16": 2,
    "int32": 4, "int64": 8, "bool": 1,
}  # fmt: skip
"""Number of bytes of an element, by PyTorch's name of its type."""


_GRID = (2**31 - 1, 65535, 65535)


class NotCheckedError(Exception):
    """An operation that only PyTorch or a GPU can do."""


class LauncherError(Exception):
    """An error that a launcher would also cause on a GPU; `kind` is the kind of failure."""

    def __init__(self, message: str, kind: str = "launch_failure") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Dtype:
    """A type of elements, which Triton recognises by its name."""

    name: str

    def __str__(self) -> str:
        return f"torch.{self.name}"

    __repr__ = __str__

    @property
    def itemsize(self) -> int:
        """Number of bytes of an element."""
        return SIZES[self.name]


@dataclass(frozen=True)
class Room:
    """A block of device memory: its address here, and its number in the record."""

    number: int
    address: int
    size: int


class Array:
    """A tensor as a launcher sees it. Strides and the offset in its block are numbers of
    elements."""

    def __init__(
        self, room: Room, dtype: Dtype, shape: Sequence[int], stride: Sequence[int] | None = None,
        offset: int = 0,
    ) -> None:  # fmt: skip
        self.room, self.dtype, self.shape = room, dtype, tuple(shape)
        self._stride, self._offset = tuple(stride or dense(shape)), offset
        self.device = "cuda"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def dim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def size(self, axis: int | None = None) -> Any:
        """All extents, or one of them."""
        return self.shape if axis is None else self.shape[axis]

    def stride(self, axis: int | None = None) -> Any:
        """All strides, or one of them."""
        return self._stride if axis is None else self._stride[axis]

    def element_size(self) -> int:
        """Number of bytes of an element."""
        return self.dtype.itemsize

    def is_contiguous(self) -> bool:
        """Whether the elements are in the order of C."""
        return self._stride == dense(self.shape)

    def contiguous(self) -> Array:
        """The array itself, if its elements are in the order of C."""
        if not self.is_contiguous():
            raise NotCheckedError("contiguous() of an array whose rows are not dense copies it")
        return self

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.room.address + self._offset * self.dtype.itemsize

    def view(self, *shape: Any) -> Array:
        """The same elements with another shape, in which one extent may be -1."""
        found = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
        if found.count(-1) == 1:
            known = math.prod(size for size in found if size != -1)
            found[found.index(-1)] = self.numel() // max(known, 1)
        if math.prod(found) != self.numel() or not self.is_contiguous():
            raise ValueError(f"view({found}) of an array of shape {list(self.shape)}")
        return Array(self.room, self.dtype, found, offset=self._offset)

    reshape = view

    def transpose(self, first: int, second: int) -> Array:
        """The array with two axes exchanged."""
        shape, stride = list(self.shape), list(self._stride)
        shape[first], shape[second] = shape[second], shape[first]
        stride[first], stride[second] = stride[second], stride[first]
        return Array(self.room, self.dtype, shape, stride, self._offset)

    def t(self) -> Array:
        """A matrix with its axes exchanged."""
        return self.transpose(0, 1)

    @property
    def T(self) -> Array:
        """A matrix with its axes exchanged."""
        return self.transpose(0, 1)

    def zero_(self) -> Array:
        """An array of zeros on the device."""
        if not self.is_contiguous():
            raise NotCheckedError("zero_() of an array whose rows are not dense")
        on_zero(self)
        return self

    def __getattr__(self, name: str) -> Any:
        raise NotCheckedError(f"it uses .{name} of an array, which is not supported")


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements in the order of C."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def extents(grid: Any) -> tuple[int, int, int]:
    """Number of programs of a launch along each axis. Raises `LauncherError`."""
    if not isinstance(grid, (tuple, list)) or not 1 <= len(grid) <= 3:
        raise LauncherError(f"a grid is a tuple of one to three integers, not {grid!r:.80}")
    found = (*grid, 1, 1)[:3]
    for size, most in zip(found, _GRID):  # noqa: B905 -- older versions of Python may run this
        if not isinstance(size, int):
            raise LauncherError(f"the grid {grid!r:.80} holds {size!r:.40}, which is not an "
                                "integer: use triton.cdiv or //")  # fmt: skip
        if not 0 <= size <= most:
            raise LauncherError(f"the grid {grid!r:.80} is not possible: a GPU takes 0 to "
                                f"{_GRID[0]} programs along the first axis, and 0 to {_GRID[1]} "
                                "along the others")  # fmt: skip
    return found[0], found[1], found[2]


def on_zero(array: Array) -> None:
    """Fills with zeros here; `install` replaces this function."""
    raise NotImplementedError


def install(room: Callable[[int, int], Room], zero: Callable[[Array], None]) -> None:
    """Make `import torch` import the replacement. `room` allocates memory. Its arguments are
    the size of the memory and the size of an element, both in bytes."""
    globals()["on_zero"] = zero
    dtypes = {name: Dtype(name) for name in SIZES}

    def empty(*shape: Any, dtype: Dtype = dtypes["float32"], device: object = None) -> Array:
        if not str(device).startswith("cuda"):
            raise NotCheckedError(
                "it creates an array that is not on the GPU: use device='cuda' or A.device"
            )
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if not all(isinstance(size, int) and size > 0 for size in extents):
            raise ValueError(f"torch.empty({', '.join(map(str, extents))})")
        made = room(math.prod(extents) * dtype.itemsize, dtype.itemsize)
        return Array(made, dtype, extents)

    def zeros(*shape: Any, **words: Any) -> Array:
        return empty(*shape, **words).zero_()

    def empty_like(other: Array, dtype: Dtype | None = None, device: object = None) -> Array:
        return empty(*other.shape, dtype=dtype or other.dtype, device=device or other.device)

    def zeros_like(other: Array, **words: Any) -> Array:
        return empty_like(other, **words).zero_()

    def missing(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotCheckedError(f"it uses torch.{name}, which none of its kernels computes")

    torch: Any = types.ModuleType("torch")
    functions = {"empty": empty, "zeros": zeros, "empty_like": empty_like, "zeros_like": zeros_like}
    torch.__dict__.update(functions, **dtypes, Tensor=Array, __getattr__=missing)
    sys.modules["torch"] = torch
