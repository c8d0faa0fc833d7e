"""Imports TVM without its log output and its tensor intrinsics, or explains how to install it."""

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
    """Import TVM; `ToolchainMissingError` if TVM or xgboost is not installed."""
    for module in ("tvm", "xgboost"):
        if importlib.util.find_spec(module) is None:
            raise ToolchainMissingError(
                f"`tilewright tune` needs {module}, which is not installed: {INSTALL}."
            )
    # TVM's own worker processes and thread pools are not used, and its log does not help users.
    os.environ.setdefault("TVM_LOG_DEBUG", "")
    # By default, CUDA sources are compiled with NVRTC, which needs one more package.
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
    """Load the part of TVM's runtime that controls "cuda" devices; "cpu" needs none. Idempotent.

    TVM loads it only together with its compiler, which a measuring process does not load.
    `ToolchainMissingError` names the missing library.
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
    """The version of the installed TVM."""
    from importlib.metadata import version

    return version("apache-tvm")


@contextmanager
def without_intrinsics() -> Iterator[None]:
    """Prevent TVM from parsing its tensor intrinsics, which takes longer than a short search.

    A tune context imports them regardless of its rules; the rules used here need none of them.
    """
    present = _INTRINSICS in sys.modules
    if not present:
        sys.modules[_INTRINSICS] = types.ModuleType(_INTRINSICS)
    try:
        yield
    finally:
        if not present:
            del sys.modules[_INTRINSICS]
