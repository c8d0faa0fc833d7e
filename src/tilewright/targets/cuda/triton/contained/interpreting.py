"""Runs kernels by Triton's interpreter, one program after the other in a chosen order.

What the interpreter leaves out is added: bounds of arrays, races between programs, bfloat16, and
tensor cores' rounding to TF32.
"""

from __future__ import annotations

import importlib
import inspect
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from arrays import Array, NotCheckedError, Room  # type: ignore[import-not-found]

interpreter: Any = importlib.import_module("triton.runtime.interpreter")
tl: Any = importlib.import_module("triton.language")
_ir: Any = importlib.import_module("triton._C.libtriton").ir
_MOST_PROGRAMS = 1 << 20
_SEVERAL = -1
_FLOAT8 = ("fp8e5", "fp8e5b16", "fp8e4nv", "fp8e4b8", "fp8e4b15")


class MemoryFaultError(Exception):
    """An access that is not allowed; `kind` is the failure's."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Memory:
    """All arrays, and which programs of the running launch touched each element."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self.rooms: list[tuple[Room, str, int, bool]] = []
        self.program = 0
        self._written: list[Any] = []
        self._read: list[Any] = []
        self._atomic: list[Any] = []
        self._met: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def add(self, room: Room, name: str, itemsize: int, writable: bool) -> None:
        """An array that kernels may touch, in the order of their addresses."""
        self.rooms.append((room, name, itemsize, writable))
        self.rooms.sort(key=lambda known: known[0].address)
        self.begin()

    def begin(self) -> None:
        """A launch begins: whatever was written before can be read by all of it."""
        counts = [-(-room.size // item) for room, _, item, _ in self.rooms]
        self._written = [np.zeros(count, np.int32) for count in counts]
        self._read = [np.zeros(count, np.int32) for count in counts]
        self._atomic = [np.zeros(count, bool) for count in counts]
        self._met = set()

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        """As the interpreter's own, of elements that no other program writes."""
        for number, at, _ in self._places(pointers, mask, np.dtype(dtype).itemsize):
            before = self._written[number][at]
            foreign = (before != 0) & (before != self.program)
            if np.any(foreign) and not self._follows(before[foreign]):
                self._race(number, at[foreign][0], before[foreign][0], "reads", "writes")
            seen = self._read[number][at]
            mine = (seen == 0) | (seen == self.program)
            self._read[number][at] = np.where(mine, self.program, _SEVERAL)
        return self._native.load(pointers, mask, other, dtype)

    def store(self, pointers: Any, values: Any, mask: Any) -> Any:
        """As the interpreter's own, of elements that no other program reads or writes."""
        values = np.broadcast_to(values, np.shape(pointers))
        for number, at, where in self._places(pointers, mask, values.dtype.itemsize, True):
            before, seen = self._written[number][at], self._read[number][at]
            foreign = (before != 0) & (before != self.program)
            late = (seen != 0) & (seen != self.program)
            if np.any(foreign | late):
                kept = np.ascontiguousarray(pointers)[where]
                empty = np.zeros(kept.shape, values.dtype)
                old = self._native.load(kept, np.ones_like(kept, bool), empty, values.dtype)
                differs = _bits(old) != _bits(values[where])
                if np.any(foreign & differs) and not self._follows(before[foreign & differs]):
                    first = np.argmax(foreign & differs)
                    self._race(number, at[first], before[first], "writes", "writes")
                if np.any(late & differs) and not self._met:
                    first = np.argmax(late & differs)
                    self._race(number, at[first], seen[first], "writes", "reads")
            self._written[number][at] = self.program
        return self._native.store(pointers, np.ascontiguousarray(values), mask)

    def atomic_rmw(self, operation: Any, pointers: Any, values: Any, mask: Any, order: Any) -> Any:
        """As the interpreter's own."""
        self._meet(pointers, mask, values.dtype.itemsize)
        return self._native.atomic_rmw(operation, pointers, values, mask, order)

    def atomic_cas(self, pointers: Any, compared: Any, values: Any, order: Any) -> Any:
        """As the interpreter's own."""
        self._meet(pointers, np.ones(np.shape(pointers), bool), values.dtype.itemsize)
        return self._native.atomic_cas(pointers, compared, values, order)

    def _meet(self, pointers: Any, mask: Any, itemsize: int) -> None:
        """An atomic operation orders what its program wrote before those that come later."""
        for number, at, _ in self._places(pointers, mask, itemsize, True):
            before = self._written[number][at]
            foreign = (before != 0) & (before != self.program) & ~self._atomic[number][at]
            if np.any(foreign) and not self._follows(before[foreign]):
                first = np.argmax(foreign)
                self._race(number, at[first], before[first], "changes", "writes")
            self._atomic[number][at] = True
        self._met.add(self.program)

    def _follows(self, programs: Any) -> bool:
        """Whether this program waited for those: all of them used atomic operations."""
        return self.program in self._met and all(int(p) in self._met for p in np.unique(programs))

    def _race(self, number: int, at: int, other: int, does: str, did: str) -> None:
        name = self.rooms[number][1]
        by = f"program {other - 1}" if other > 0 else "another program"
        raise MemoryFaultError("race", f"program {self.program - 1} {does} element {int(at)} of "
                               f"{name}, which {by} of the same launch {did}")  # fmt: skip

    def _places(self, pointers: Any, mask: Any, itemsize: int, writes: bool = False) -> list[Any]:
        """By array: its number, the elements that are touched, and where in the tile they stand."""
        pointers = np.asarray(pointers)
        where = np.broadcast_to(np.asarray(mask, bool), pointers.shape)
        addresses = pointers[where].astype(np.int64)
        if addresses.size == 0:
            return []
        bases = np.array([room.address for room, *_ in self.rooms], np.int64)
        ends = np.array([room.address + room.size for room, *_ in self.rooms], np.int64)
        which = np.searchsorted(bases, addresses, "right") - 1
        outside = (which < 0) | (addresses + itemsize > ends[np.maximum(which, 0)])
        if np.any(outside):
            self._outside(int(addresses[np.argmax(outside)]), writes)
        if np.any(addresses % itemsize):
            raise MemoryFaultError("misaligned", "an address is not a multiple of the element's "
                                   f"{itemsize} bytes")  # fmt: skip
        found = []
        for number in np.unique(which):
            room, name, item, writable = self.rooms[number]
            if writes and not writable:
                raise MemoryFaultError("input_modified", f"the kernel writes to an input ({name})")
            here = which == number
            inner = where.copy()
            inner[where] = here
            found.append((int(number), (addresses[here] - room.address) // item, inner))
        return found

    def _outside(self, address: int, writes: bool) -> None:
        def away(known: tuple[Room, str, int, bool]) -> int:
            begin = known[0].address
            return min(abs(address - begin), abs(address - begin - known[0].size))

        room, name, item, _ = min(self.rooms, key=away)
        element = (address - room.address) // item
        raise MemoryFaultError("out_of_bounds", f"program {self.program - 1} "
                               f"{'writes' if writes else 'reads'} element {element} of {name}, "
                               f"which has {room.size // item}")  # fmt: skip


def _bits(values: Any) -> Any:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def _from_bfloat16(bits: Any) -> Any:
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def _to_bfloat16(values: Any) -> Any:
    """Rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def _is_bfloat16(handle: Any) -> bool:
    return bool(handle.dtype.scalar == tl.bfloat16)


def _widened(handle: Any) -> Any:
    if str(handle.dtype.scalar) in _FLOAT8:
        raise NotCheckedError("Triton's interpreter does not compute with 8-bit floats as a GPU")
    if not _is_bfloat16(handle):
        return handle
    return interpreter.TensorHandle(_from_bfloat16(handle.data), tl.float32)


def _narrowed(handle: Any) -> Any:
    if handle.data.dtype != np.float32:
        return handle
    return interpreter.TensorHandle(_to_bfloat16(handle.data), tl.bfloat16)


def _in_float32(method: Any, arguments: int) -> Any:
    """Operations on bfloat16, which the interpreter does on bit patterns, as hardware does them."""

    def computed(self: Any, *given: Any) -> Any:
        if not any(_is_bfloat16(handle) for handle in given[:arguments]):
            return method(self, *given)
        wide = [_widened(handle) for handle in given[:arguments]]
        found = method(self, *wide, *given[arguments:])
        if found.data.dtype == np.bool_:
            return interpreter.TensorHandle(found.data, tl.bfloat16)
        return _narrowed(found)

    return computed


def _cast(method: Any) -> Any:
    def cast(self: Any, source: Any, to: Any, *rest: Any) -> Any:
        if str(source.dtype.scalar) in _FLOAT8 or str(to.scalar) in _FLOAT8:
            raise NotCheckedError("Triton's interpreter does not round to 8-bit floats as a GPU")
        wide = _widened(source)
        if to.scalar == tl.bfloat16:
            values = wide.data.astype(np.float32)
            return interpreter.TensorHandle(_to_bfloat16(values), tl.bfloat16)
        if wide is source:
            return method(self, source, to, *rest)
        return wide if to.scalar == tl.float32 else method(self, wide, to, *rest)

    return cast


def _dot(method: Any) -> Any:
    """Products of tensor cores: of float32, TF32 keeps 11 binary digits of each factor."""

    def dot(self: Any, left: Any, right: Any, total: Any, precision: Any, *rest: Any) -> Any:
        left, right = _widened(left), _widened(right)
        if precision == _ir.INPUT_PRECISION.TF32:
            left, right = _in_tf32(left), _in_tf32(right)
        elif precision not in (_ir.INPUT_PRECISION.IEEE, _ir.INPUT_PRECISION.TF32x3):
            raise NotCheckedError(f"products in {precision} are not interpreted")
        return method(self, left, right, total, precision, *rest)

    return dot


def _in_tf32(handle: Any) -> Any:
    if handle.data.dtype != np.float32:
        return handle
    bits = np.ascontiguousarray(handle.data).view(np.uint32) & np.uint32(0xFFFFE000)
    return interpreter.TensorHandle(bits.view(np.float32), handle.dtype)


def _only_of_known(method: Any) -> Any:
    def applied(self: Any, given: Any) -> Any:
        for tensor in given if isinstance(given, (tuple, list)) else [given]:
            if _is_bfloat16(tensor.handle):
                raise NotCheckedError("Triton's interpreter does not reduce bfloat16 as a GPU: "
                                      "widen it by .to(tl.float32)")  # fmt: skip
        return method(self, given)

    return applied


def install() -> Memory:
    """Complete the interpreter; the memory that it uses from now on."""
    builder = interpreter.InterpreterBuilder
    for name, arguments in {
        "binary_op": 2,
        "unary_op": 1,
        "create_clampf": 3,
        "create_fma": 3,
    }.items():
        setattr(builder, name, _in_float32(getattr(builder, name), arguments))
    builder.cast_impl = _cast(builder.cast_impl)
    builder.create_fp_to_fp = _cast(builder.create_fp_to_fp)
    builder.create_dot = _dot(builder.create_dot)
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply_impl = _only_of_known(kind.apply_impl)
    memory = Memory(interpreter._interpreter)
    interpreter._interpreter = memory
    return memory


class Launcher:
    """Stands for the interpreter's way to run all programs of a launch."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.order, self.seed = "forward", 0
        found = interpreter.InterpretedFunction
        found.run = lambda function, *given, grid, warmup=False, **words: self._launch(
            function, grid, given, words
        )

    def _launch(
        self, function: Any, grid: Any, given: Sequence[Any], words: Mapping[str, Any]
    ) -> None:
        rewritten = function.rewrite()
        known = inspect.signature(rewritten).parameters
        bound = inspect.getcallargs(
            rewritten, *given, **{n: w for n, w in words.items() if n in known}
        )
        constant = {n for n, p in known.items() if "constexpr" in str(p.annotation)}
        extents = tuple(grid(bound)) if callable(grid) else tuple(grid)
        extents = tuple(int(size) for size in extents) + (1,) * (3 - len(extents))
        count = extents[0] * extents[1] * extents[2]
        if count > _MOST_PROGRAMS:
            raise NotCheckedError(f"it launches {count} programs, and {_MOST_PROGRAMS} at most are "
                                  "interpreted")  # fmt: skip
        self._memory.begin()
        scope = interpreter._patch_lang(function.fn)
        try:
            values = {
                n: v if n in constant else interpreter._implicit_cvt(v) for n, v in bound.items()
            }
            interpreter.interpreter_builder.set_grid_dim(*extents)
            for number in self._turns(count):
                x, rest = number % extents[0], number // extents[0]
                y, z = rest % extents[1], rest // extents[1]
                self._memory.program = number + 1
                interpreter.interpreter_builder.set_grid_idx(x, y, z)
                rewritten(**values)
        finally:
            scope.restore()

    def _turns(self, count: int) -> Sequence[int]:
        numbers = list(range(count))
        if self.order == "reversed":
            numbers.reverse()
        elif self.order == "shuffled":
            random.Random(self.seed).shuffle(numbers)
        return numbers


def as_bytes(room: Room) -> Any:
    """The memory of a room as numbers."""
    import ctypes

    return np.ctypeslib.as_array((ctypes.c_uint8 * room.size).from_address(room.address))


def zeroed(array: Array) -> None:
    """Fill an array with zeros."""
    begin = array.data_ptr() - array.room.address
    as_bytes(array.room)[begin : begin + array.numel() * array.dtype.itemsize] = 0
