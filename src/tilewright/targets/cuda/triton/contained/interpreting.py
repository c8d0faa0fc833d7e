"""Runs kernels with Triton's interpreter, one program after the other in a chosen order.

It adds checks and rules that the interpreter lacks: bounds of arrays, races between programs,
bfloat16, and the rounding of tensor cores to TF32.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from arrays import Array, NotCheckedError, Room, extents  # type: ignore[import-not-found]
from memory import Memory  # type: ignore[import-not-found]

interpreter: Any = importlib.import_module("triton.runtime.interpreter")
tl: Any = importlib.import_module("triton.language")
_ir: Any = importlib.import_module("triton._C.libtriton").ir
_MOST_PROGRAMS = 1 << 20
_SPLIT = (_ir.INPUT_PRECISION.BF16x3, _ir.INPUT_PRECISION.BF16x6)
_WIDE_INTEGERS = ("int32", "uint32", "int64", "uint64")
_FLOAT8 = ("fp8e5", "fp8e5b16", "fp8e4nv", "fp8e4b8", "fp8e4b15")


def _from_bfloat16(bits: Any) -> Any:
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def _to_bfloat16(values: Any) -> Any:
    """Round to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def _is_bfloat16(handle: Any) -> bool:
    return bool(handle.dtype.scalar == tl.bfloat16)


def _widened(handle: Any) -> Any:
    if str(handle.dtype.scalar) in _FLOAT8:
        raise NotCheckedError(
            "Triton's interpreter does not compute with 8-bit floats as a GPU does"
        )
    if not _is_bfloat16(handle):
        return handle
    return interpreter.TensorHandle(_from_bfloat16(handle.data), tl.float32)


def _narrowed(handle: Any) -> Any:
    if handle.data.dtype != np.float32:
        return handle
    return interpreter.TensorHandle(_to_bfloat16(handle.data), tl.bfloat16)


def _in_float32(method: Any, arguments: int) -> Any:
    """Operations on bfloat16 with the results of hardware. The interpreter would compute with the
    bit patterns."""

    def computed(self: Any, *given: Any) -> Any:
        narrow = any(_is_bfloat16(handle) for handle in given[:arguments])
        wide = [_widened(handle) if narrow else handle for handle in given[:arguments]]
        found = method(self, *wide, *given[arguments:])
        if found.data.dtype == np.bool_:  # with the operands' type, it could not be used as a mask
            return interpreter.TensorHandle(found.data, tl.int1)
        return _narrowed(found) if narrow else found

    return computed


def _to_whole_numbers(values: Any, kind: Any) -> Any:
    """As a GPU converts them: numbers beyond the range become its nearest end, and NaN 0."""
    ends = np.iinfo(kind)
    low, high = values <= float(ends.min), values >= float(ends.max)
    inside = np.where(low | high | np.isnan(values), 0, values).astype(kind)
    return np.where(high, kind(ends.max), np.where(low, kind(ends.min), inside)).astype(kind)


def _cast(method: Any) -> Any:
    def cast(self: Any, source: Any, to: Any, *rest: Any) -> Any:
        if str(source.dtype.scalar) in _FLOAT8 or str(to.scalar) in _FLOAT8:
            raise NotCheckedError(
                "Triton's interpreter does not round to 8-bit floats as a GPU does"
            )
        wide = _widened(source)
        if wide.data.dtype.kind == "f" and str(to.scalar) in _WIDE_INTEGERS:
            kind = interpreter._get_np_dtype(to.scalar)
            found = _to_whole_numbers(wide.data, np.dtype(kind).type)
            return interpreter.TensorHandle(found, to.scalar)
        if to.scalar == tl.bfloat16:
            values = wide.data.astype(np.float32)
            return interpreter.TensorHandle(_to_bfloat16(values), tl.bfloat16)
        if wide is source:
            return method(self, source, to, *rest)
        return wide if to.scalar == tl.float32 else method(self, wide, to, *rest)

    return cast


def _dot(method: Any) -> Any:
    """Products as tensor cores compute them: for float32, TF32 keeps 11 binary digits of each
    factor."""

    def dot(self: Any, left: Any, right: Any, total: Any, precision: Any, *more: Any) -> Any:
        left, right = _widened(left), _widened(right)
        if precision in _SPLIT:
            raise NotCheckedError("Triton's interpreter has no products of split bfloat16")
        if precision == _ir.INPUT_PRECISION.TF32x3:
            (upper, lower), (across, rest) = _split(left), _split(right)
            for one, other in ((upper, rest), (lower, across)):
                total = method(self, one, other, total, precision, *more)
            left, right = upper, across
        elif precision == _ir.INPUT_PRECISION.TF32:
            left, right = _in_tf32(left), _in_tf32(right)
        elif precision != _ir.INPUT_PRECISION.IEEE:
            raise NotCheckedError(f"products in {precision} are not interpreted")
        return method(self, left, right, total, precision, *more)

    return dot


def _split(handle: Any) -> tuple[Any, Any]:
    """The part of each element that TF32 keeps, and the part that it keeps of the rest
    (`tf32x3`)."""
    upper = _in_tf32(handle)
    rest = interpreter.TensorHandle(handle.data - upper.data, handle.dtype)
    return upper, _in_tf32(rest)


def _in_tf32(handle: Any) -> Any:
    if handle.data.dtype != np.float32:
        return handle
    bits = np.ascontiguousarray(handle.data).view(np.uint32) & np.uint32(0xFFFFE000)
    return interpreter.TensorHandle(bits.view(np.float32), handle.dtype)


def _only_of_known(method: Any) -> Any:
    def applied(self: Any, given: Any) -> Any:
        for tensor in given if isinstance(given, (tuple, list)) else [given]:
            if _is_bfloat16(tensor.handle):
                raise NotCheckedError("Triton's interpreter does not reduce bfloat16 as a GPU "
                    "does: "
                                      "widen it by .to(tl.float32)")  # fmt: skip
        return method(self, given)

    return applied


def _masked_load(method: Any) -> Any:
    """The result of a masked load without `other` is undefined. Here it is NaN, -1 or True."""

    def load(self: Any, pointers: Any, mask: Any, other: Any, *rest: Any) -> Any:
        if other is None:
            kind = pointers.get_element_ty()
            size = np.dtype(interpreter._get_np_dtype(kind))
            fill = np.ones(1, bool) if size == np.bool_ else np.full(size.itemsize, 255, np.uint8)
            held = np.broadcast_to(fill.view(size), np.shape(pointers.data)).copy()
            other = interpreter.TensorHandle(held, kind)
        return method(self, pointers, mask, other, *rest)

    return load


class _Divided:
    """Integers divided by zero, which Triton does not define: 0 in one call, and as on a GPU
    -1 in the next."""

    by_zero = 0

    @classmethod
    def whole(cls, method: Any) -> Any:
        """Division or remainder of integers."""

        def divided(self: Any, left: Any, right: Any) -> Any:
            found = method(self, left, right)
            zero = np.broadcast_to(right.data == 0, found.data.shape)
            if not np.any(zero):
                return found
            undefined = np.array(cls.by_zero).astype(found.data.dtype)
            return interpreter.TensorHandle(np.where(zero, undefined, found.data), found.dtype)

        return divided


def _device_range(*bounds: Any, **words: Any) -> Iterator[Any]:
    """A loop counter is a number of the device, which can overflow, unlike Python's."""
    bounds = tuple(getattr(bound, "value", bound) for bound in bounds)
    wide = any(str(getattr(bound, "dtype", "")) in ("int64", "uint64") for bound in bounds)
    kind, held = (tl.int64, np.int64) if wide else (tl.int32, np.int32)
    for number in range(*(int(bound.__index__()) for bound in bounds)):
        yield tl.tensor(interpreter.TensorHandle(np.array([number], held), kind), kind)


def install() -> Memory:
    """Complete the interpreter, and return the memory that it uses from now on."""
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
    for name in ("create_sdiv", "create_udiv", "create_srem", "create_urem"):
        setattr(builder, name, _Divided.whole(getattr(builder, name)))
    builder.create_dot = _dot(builder.create_dot)
    builder.create_masked_load = _masked_load(builder.create_masked_load)
    options = dataclasses.replace(
        interpreter.interpreter_builder.options,
        allowed_dot_input_precisions=("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"),
    )
    interpreter.interpreter_builder.options = options
    patch = interpreter._patch_lang

    def patched(function: Any) -> Any:
        scope = patch(function)
        tl.range = _device_range
        if function.__module__ == "kernel":
            function.__globals__["range"] = _device_range
        return scope

    interpreter._patch_lang = patched
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply_impl = _only_of_known(kind.apply_impl)
    memory = Memory(interpreter._interpreter)
    interpreter._interpreter = memory
    return memory


class Launcher:
    """Replaces the interpreter's function that runs all programs of a launch."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.order, self.seed = "forward", 0
        found = interpreter.InterpretedFunction
        found.__repr__ = lambda function: (
            f"JITFunction({function.fn.__module__}:{function.__name__})"
        )
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
        x_extent, y_extent, z_extent = extents(grid(bound) if callable(grid) else grid)
        count = x_extent * y_extent * z_extent
        if count > _MOST_PROGRAMS:
            raise NotCheckedError(f"it launches {count} programs, and {_MOST_PROGRAMS} at most can "
                "be interpreted")  # fmt: skip
        self._memory.begin()
        scope = interpreter._patch_lang(function.fn)
        try:
            values = {
                n: v if n in constant else interpreter._implicit_cvt(v) for n, v in bound.items()
            }
            interpreter.interpreter_builder.set_grid_dim(x_extent, y_extent, z_extent)
            for number in self._turns(count):
                x, rest = number % x_extent, number // x_extent
                y, z = rest % y_extent, rest // y_extent
                self._memory.program = number + 1
                interpreter.interpreter_builder.set_grid_idx(x, y, z)
                rewritten(**values)
        finally:
            scope.restore()
            function.fn.__globals__.pop("range", None)

    def begin(self, number: int, order: str, seed: int) -> None:
        """Begin a call."""
        self.order, self.seed, _Divided.by_zero = order, seed, -(number % 2)

    def zeroed(self, array: Array) -> None:
        """Fill an array with zeros."""
        begin, size = array.data_ptr() - array.room.address, array.numel() * array.dtype.itemsize
        as_bytes(array.room)[begin : begin + size] = 0
        self._memory.filled(array.room, begin, size)

    def _turns(self, count: int) -> Sequence[int]:
        numbers = list(range(count))
        if self.order == "reversed":
            numbers.reverse()
        elif self.order == "shuffled":
            random.Random(self.seed).shuffle(numbers)
        return numbers


def as_bytes(room: Room) -> Any:
    """The contents of a block of memory as numbers."""
    import ctypes

    return np.ctypeslib.as_array((ctypes.c_uint8 * room.size).from_address(room.address))
