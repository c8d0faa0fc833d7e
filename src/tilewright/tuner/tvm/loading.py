"""Imports TVM quietly and without its tensor intrinsics, or says how to install it."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError

INSTALL = "install it with: pip install 'tilewright[tune]'"
_INTRINSICS = "tvm.s_tir.tensor_intrin"


def require_tvm() -> None:
    """Import TVM; `ToolchainMissingError` where it, or the cost model, is not installed."""
    for module in ("tvm", "xgboost"):
        if importlib.util.find_spec(module) is None:
            raise ToolchainMissingError(
                f"`tilewright tune` needs {module}, which is not installed: {INSTALL}."
            )
    # TVM's own worker processes and thread pools are not used; its log is noise for a user.
    os.environ.setdefault("TVM_LOG_DEBUG", "")
    # CUDA sources are compiled with NVRTC unless told otherwise, which needs one more package.
    if importlib.util.find_spec("cuda") is None:
        os.environ.setdefault("TVM_CUDA_COMPILE_MODE", "nvcc")
    try:
        importlib.import_module("tvm")
    except (ImportError, OSError, RuntimeError) as error:
        raise ToolchainMissingError(
            f"TVM is installed but does not load ({str(error).splitlines()[0]}): re{INSTALL}."
        ) from error
    logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.ERROR)


def load_device_runtime(device: str) -> None:
    """Load the part of TVM's runtime that drives "cuda"; "cpu" needs none. Idempotent.

    TVM does so by itself only together with its compiler, which a measuring process leaves out.
    `ToolchainMissingError` names the library that is missing.
    """
    if device != "cuda":
        return
    from tvm.base import _LOADED_LIBS
    from tvm_ffi.libinfo import load_lib_ctypes

    if "tvm_runtime_cuda" in _LOADED_LIBS:
        return
    folder = Path(_LOADED_LIBS["tvm_runtime"]._name).resolve().parent
    try:
        _LOADED_LIBS["tvm_runtime_cuda"] = load_lib_ctypes(
            package="tvm",
            target_name="tvm_runtime_cuda",
            extra_lib_paths=[folder],
            mode="RTLD_LOCAL",
        )
    except (OSError, RuntimeError) as error:
        raise ToolchainMissingError(
            f"TVM's CUDA runtime does not load ({error}). Put the folders of the driver's and the "
            "toolkit's libraries on LD_LIBRARY_PATH."
        ) from error


def tvm_version() -> str:
    """Version of the installed TVM."""
    from importlib.metadata import version

    return version("apache-tvm")


@contextmanager
def without_intrinsics() -> Iterator[None]:
    """Keeps TVM from parsing its tensor intrinsics, which takes longer than a short search.

    A tune context imports them whatever its rules are; the rules used here name none.
    """
    present = _INTRINSICS in sys.modules
    if not present:
        sys.modules[_INTRINSICS] = types.ModuleType(_INTRINSICS)
    try:
        yield
    finally:
        if not present:
            del sys.modules[_INTRINSICS]
