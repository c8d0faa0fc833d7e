"""Records the results of conditions on loaded values, and checks what a kernel promises the
compiler.

A condition that has the same result in all runs guards code that no run has tested. A
floating-point number that is computed from loaded values, and is the same wherever it is computed,
stands for such a condition, as the minimum of 1 and a large distance does. Zeros and infinities do
not count: the first factor that corrects a running sum is 0.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from typing import Any

import numpy as np

interpreter: Any = importlib.import_module("triton.runtime.interpreter")
_LOADS = (
    "create_load", "create_masked_load", "create_descriptor_load", "create_descriptor_gather",
    "create_atomic_rmw", "create_atomic_cas", "create_atomic_poll",
)  # fmt: skip


class Conditions:
    """By place in the kernel's file, its line and whether a condition was ever false and true."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.results: dict[tuple[int, int, str], list[Any]] = {}
        self._firsts: dict[tuple[int, int, str], Any] = {}

    def report(self) -> list[Any]:
        """For each condition, its place as a text, its line, and whether it was false and true."""
        return [
            [f"{line} {at} {name}", line, *both] for (line, at, name), both in self.results.items()
        ]

    def install(self) -> None:
        """Let the interpreter mark loaded values and all that is computed from them. To be called
        after all other changes of the interpreter."""
        builder = interpreter.InterpreterBuilder
        for name, method in list(inspect.getmembers(builder, inspect.isfunction)):
            if name.startswith("create_") or name == "cast_impl":
                setattr(builder, name, self._marking(name, method))
        for kind in (interpreter.ReduceOps, interpreter.ScanOps):
            kind.apply_impl = self._marking_tensors(kind.apply_impl)
        patch = interpreter._patch_lang_tensor

        def patched(tensor: Any, scope: Any) -> None:
            patch(tensor, scope)
            as_bool, transposed = tensor.__bool__, tensor.T

            def decided(self: Any) -> Any:
                if _is_loaded(self.handle):
                    self_record("if", self.handle.data)
                return as_bool(self)

            def turned(self: Any) -> Any:
                found = transposed.fget(self)
                found.handle.is_loaded = _is_loaded(self.handle)
                return found

            scope.set_attr(tensor, "__bool__", decided)
            scope.set_attr(tensor, "T", property(turned))

        self_record, interpreter._patch_lang_tensor = self._record, patched
        interpreter.TensorHandle.set_attr = _promised(interpreter.TensorHandle.set_attr)

    def _marking(self, name: str, method: Any) -> Any:
        is_condition, loads = "cmp" in name, name in _LOADS

        def marked(builder: Any, *given: Any, **words: Any) -> Any:
            found = method(builder, *given, **words)
            if loads or any(_is_loaded(value) for value in (*given, *words.values())):
                _mark(found)
                if is_condition:
                    self._record(name, found.data)
                elif not loads:
                    self._record_number(name, found)
            if name == "create_select" and _is_loaded(given[0]):
                self._record(name, given[0].data)
            elif name == "create_atomic_cas":
                self._record(name, _bits(found) == _bits(given[1]))
            return found

        return marked

    def _marking_tensors(self, method: Any) -> Any:
        """Reductions and scans take the arguments of their function from arrays without marks."""

        def applied(reduction: Any, given: Any) -> Any:
            tensors = given if isinstance(given, (list, tuple)) else [given]
            marks = [_is_loaded(tensor.handle) for tensor in tensors]
            combine = reduction.combine_fn

            def combined(*values: Any) -> Any:
                for value, is_loaded in zip(values, marks * 2, strict=True):
                    value.handle.is_loaded = is_loaded
                made = combine.fn(*values)
                for at, one in enumerate(made if isinstance(made, tuple) else [made]):
                    marks[at] = marks[at] or _is_loaded(getattr(one, "handle", None))
                return made

            if combine.fn.__code__.co_filename == self._file:
                reduction.combine_fn = types.SimpleNamespace(fn=combined)
            found = method(reduction, given)
            if any(marks):
                for one in found if isinstance(found, (list, tuple)) else [found]:
                    _mark(one.handle)
            return found

        return applied

    def _record_number(self, name: str, made: Any) -> None:
        """Record whether a floating-point number is the first one of its place, or another one."""
        values = np.ravel(np.asarray(getattr(made, "data", None)))
        place = self._place() if values.dtype.kind == "f" and values.size else None
        if place is None:
            return
        key = (*place, f"{name} number")  # `_record` keeps a selection's condition under its name
        first = self._firsts.setdefault(key, values[0])
        counts = np.isfinite(first) and first != 0
        known = self.results.setdefault(key, [not counts, True])
        known[0] = known[0] or not bool(np.all(values == first))

    def _record(self, name: str, values: Any) -> None:
        place = self._place()
        if place is None:
            return
        known = self.results.setdefault((*place, name), [False, False])
        known[0] = known[0] or not bool(np.all(values))
        known[1] = known[1] or bool(np.any(values))

    def _place(self) -> tuple[int, int] | None:
        """The place in the kernel's file that is executed; None within a function of Triton, such
        as a sort."""
        frame = sys._getframe(3)
        while frame is not None and frame.f_code.co_filename != self._file:
            if frame.f_code.co_filename.endswith("standard.py"):
                return None
            frame = frame.f_back  # type: ignore[assignment]
        return (frame.f_lineno, frame.f_lasti) if frame is not None else None


def _is_loaded(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_is_loaded(one) for one in value)
    return bool(getattr(value, "is_loaded", False))


def _mark(made: Any) -> None:
    if isinstance(made, (list, tuple)):
        for one in made:
            _mark(one)
    elif isinstance(made, interpreter.TensorHandle):
        made.is_loaded = True


def _bits(handle: Any) -> Any:
    """Elements as integers, as atomic operations compare them."""
    data = np.asarray(handle.data)
    return data.view(f"u{data.itemsize}")


def _promised(method: Any) -> Any:
    """Check what a kernel promises about numbers. The compiler relies on it when it combines memory
    accesses."""

    def promised(handle: Any, key: str, values: Any) -> None:
        data = np.asarray(handle.data)
        name, holds = _PROMISES.get(key, ("", None))
        if holds is not None and data.dtype.kind in "iu":
            step = 1
            if hasattr(handle.dtype, "element_ty"):
                step = max(handle.get_element_ty().primitive_bitwidth // 8, 1)
            for axis, value in enumerate(values):
                size = int(getattr(value, "value", value))
                if not holds(data.astype(np.int64), axis, size, step):
                    raise AssertionError(f"{name}({size}) is false for its argument")
        method(handle, key, values)

    return promised


def _groups(data: Any, axis: int, size: int) -> Any:
    """The elements along an axis in groups, of which the last axis has `size` elements."""
    along = np.moveaxis(data, axis, -1)
    kept = along[..., : along.shape[-1] // size * size]
    return kept.reshape(*along.shape[:-1], -1, size)


def _multiple(data: Any, axis: int, size: int, step: int) -> bool:
    """The first element of each run of neighbours is a multiple."""
    along = np.moveaxis(data, axis, -1) if data.ndim else data.reshape(1)
    begins = np.ones(along.shape, bool)
    begins[..., 1:] = np.diff(along, axis=-1) != step
    return size <= 0 or not np.any(along[begins] % size)


def _contiguous(data: Any, axis: int, size: int, step: int) -> bool:
    if size < 2 or not data.ndim:
        return True
    return bool(np.all(np.diff(_groups(data, axis, size), axis=-1) == step))


def _constant(data: Any, axis: int, size: int, step: int) -> bool:
    del step
    return size < 2 or not data.ndim or not np.any(np.diff(_groups(data, axis, size), axis=-1))


_PROMISES = {
    "tt.divisibility": ("tl.multiple_of", _multiple),
    "tt.contiguity": ("tl.max_contiguous", _contiguous),
    "tt.constancy": ("tl.max_constancy", _constant),
}
