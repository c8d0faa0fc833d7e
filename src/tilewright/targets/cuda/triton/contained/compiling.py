"""Runs a launcher without a GPU. The kernels that it launches are compiled to PTX, and the launches
are recorded."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from arrays import (  # type: ignore[import-not-found]
    Array,
    LauncherError,
    NotCheckedError,
    extents,
)

_LARGEST_NUMBER = 1 << 64
_language: Any = importlib.import_module("triton.language")
_CONSTANTS = (int, float, str, type(None), _language.dtype, _language.constexpr)
_SCRATCH = ("global_scratch_size", "profile_scratch_size")


class Recorder:
    """Replaces the driver of a GPU: it records each launch instead of starting it."""

    def __init__(self, capability: int, shared_bytes: int, most_events: int) -> None:
        compiler: Any = importlib.import_module("triton.backends.compiler")
        self._target = compiler.GPUTarget("cuda", capability, 32)
        self._shared_bytes, self._most_events = shared_bytes, most_events
        self.codes: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.utils = self
        self.launcher_cls = self._launcher

    def get_current_target(self) -> Any:
        """The GPU for which kernels are compiled."""
        return self._target

    def get_current_device(self) -> int:
        """The first device."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The default stream."""
        return 0

    def get_device_properties(self, device: int) -> dict[str, int]:
        """The properties of a device that Triton reads before a launch."""
        return {"max_shared_mem": self._shared_bytes, "warpSize": 32}

    def load_binary(self, name: str, code: bytes, *rest: Any) -> tuple[Any, int, int, int, int]:
        """Keep the PTX of a kernel, and return its number in place of a driver's handle."""
        text = code.decode()
        if text not in self.codes:
            self.codes.append(text)
        return None, self.codes.index(text), 0, 0, 1024

    def zeroed(self, array: Array) -> None:
        """Record that an array is filled with zeros."""
        size = array.numel() * array.dtype.itemsize
        self._add({"zero": _place(array), "bytes": size})

    def _add(self, event: dict[str, Any]) -> None:
        if len(self.events) >= self._most_events:
            raise LauncherError(f"one call launches more than {self._most_events} kernels: let one "
                                "launch have more programs")  # fmt: skip
        self.events.append(event)

    def _launcher(self, source: Any, metadata: Any) -> Any:
        def launch(
            x: int, y: int, z: int, stream: int, code: int, packed: Any, of_launch: Any, enter: Any,
            leave: Any, *given: Any,
        ) -> None:  # fmt: skip
            if getattr(metadata, "num_ctas", 1) != 1:
                raise NotCheckedError("it launches clusters of blocks (num_ctas)")
            if getattr(metadata, "launch_cooperative_grid", False):
                raise NotCheckedError("its blocks wait for one another (launch_cooperative_grid)")
            if any(getattr(metadata, name, 0) for name in _SCRATCH):
                raise NotCheckedError("it needs memory from Triton's runtime (tensor descriptors, "
                    "profiling)")  # fmt: skip
            taken = list(zip(source.signature.items(), given, strict=True))
            for (name, kind), value in taken:
                if kind == "constexpr":
                    _require_constant(name, value)
            self._add({
                "launch": metadata.name, "code": code, "grid": [x, y, z],
                "threads": 32 * metadata.num_warps, "shared": metadata.shared,
                "line": line_of_caller(),
                "given": [_given(kind, v) for (_, kind), v in taken if kind != "constexpr"],
            })  # fmt: skip

        return launch


def _given(kind: Any, value: Any) -> dict[str, Any]:
    if isinstance(value, Array):
        return {"array": _place(value)}
    if isinstance(value, (bool, int)) and abs(value) < _LARGEST_NUMBER:
        return {"whole": int(value), "type": str(kind)}
    if isinstance(value, float):
        return {"real": value.hex(), "type": str(kind)}
    raise NotCheckedError(f"it passes {type(value).__name__} to a kernel: only arrays and numbers "
                          "are supported")  # fmt: skip


def _require_constant(name: str, value: Any) -> None:
    """Python functions that the compiler calls once would be called again by each interpreted
    program."""
    if isinstance(value, tuple):
        for part in value:
            _require_constant(name, part)
    elif not (isinstance(value, _CONSTANTS) or hasattr(value, "arg_names")):
        raise LauncherError(f"the constant {name} is a Python function or object: only numbers, "
                            "texts, types and functions with @triton.jit are allowed",
                            "compile_error")  # fmt: skip


def _place(array: Array) -> list[int]:
    """The number of the block of memory, and the offset in bytes."""
    return [array.room.number, array.data_ptr() - array.room.address]


def line_of_caller() -> int | None:
    """The line of kernel.py that is being run."""
    frame: Any = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.endswith("/kernel.py"):
        frame = frame.f_back
    return None if frame is None else int(frame.f_lineno)


def install(recorder: Recorder, ptx: int) -> None:
    """Make Triton launch through the recorder, and stop the compiler after PTX of a version (90 for
    9.0)."""
    backend: Any = importlib.import_module("triton.backends.nvidia.compiler")
    runtime: Any = importlib.import_module("triton.runtime.driver")
    backend.CUDABackend.make_cubin = lambda self, code, *rest: code.encode()
    backend.get_ptx_version_from_options = lambda options, arch: ptx
    runtime.driver.set_active(recorder)
    function: Any = importlib.import_module("triton.runtime.jit").JITFunction
    native = function.run

    def run(self: Any, *given: Any, grid: Any, **words: Any) -> None:
        def of(bound: Any) -> Any:
            return extents(grid(bound) if callable(grid) else grid)

        try:
            native(self, *given, grid=of, **words)  # the interpreter does not have its return value
        except TypeError as error:
            said = str(error)
            if not said.startswith("dynamic_func()"):  # binds arguments in an unknown way
                raise
            name = self.fn.__name__
            raise LauncherError(said.replace("dynamic_func", name, 1), "compile_error") from None

    function.run = run
