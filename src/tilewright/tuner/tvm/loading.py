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
    try:
        importlib.import_module("tvm")
    except (ImportError, OSError, RuntimeError) as error:
        raise ToolchainMissingError(
            f"TVM is installed but does not load ({str(error).splitlines()[0]}): re{INSTALL}."
        ) from error
    logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.ERROR)


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
