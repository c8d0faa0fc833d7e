"""Records the results of conditions on loaded values, and checks what a kernel promises the
compiler.

A condition that has the same result in all runs guards code that no run has tested.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any

import numpy as np

interpreter: Any = importlib.import_module("triton.runtime.interpreter")
_LOADS = ("create_load", "create_masked_load", "create_descriptor_load", "create_descriptor_gather")


class Conditions:
    """By place in the kernel's file, its line and whether a condition was ever false and true."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.results: dict[tuple[int, str], list[Any]] = {}

    def report(self) -> list[Any]:
        """For each condition, its place as a text, its line, and whether it was false and true."""
        return [
            [f"{at} {name}", line, no, yes] for (at, name), (line, no, yes) in self.results.items()
        ]

    def install(self) -> None:
        """Let the interpreter mark loaded values and all that is computed from them. To be called
        after all other changes of the interpreter."""
        builder = interpreter.InterpreterBuilder
        for name, method in list(inspect.getmembers(builder, inspect.isfunction)):
            if name.startswith("create_") or name == "cast_impl":
                setattr(builder, name, self._marking(name, method))
        for kind in (interpreter.ReduceOps, interpreter.ScanOps):
            kind.apply_impl = _marking_tensors(kind.apply_impl)
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
            if not isinstance(found, interpreter.TensorHandle):
                return found
            if loads or any(_is_loaded(value) for value in given):
                found.is_loaded = True
                if is_condition:
                    self._record(name, found.data)
            if name == "create_select" and _is_loaded(given[0]):
                self._record(name, given[0].data)
            return found

        return marked

    def _record(self, name: str, values: Any) -> None:
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename != self._file:
            if frame.f_code.co_filename.endswith("standard.py"):
                return  # a comparison within a function of Triton, such as a sort
            frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return
        known = self.results.setdefault((frame.f_lasti, name), [frame.f_lineno, False, False])
        some, every = bool(np.any(values)), bool(np.all(values))
        known[1], known[2] = known[1] or not every, known[2] or some


def _is_loaded(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_is_loaded(one) for one in value)
    return bool(getattr(value, "is_loaded", False))


def _marking_tensors(method: Any) -> Any:
    def applied(self: Any, given: Any) -> Any:
        found = method(self, given)
        tensors = given if isinstance(given, (list, tuple)) else [given]
        if any(_is_loaded(tensor.handle) for tensor in tensors):
            for one in found if isinstance(found, (list, tuple)) else [found]:
                one.handle.is_loaded = True
        return found

    return applied


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
