"""The process that compiles candidates. `builder` starts it; `answering` defines the protocol.

Every candidate is compiled in a child process, because LLVM ends its process when it finds an
internal error, and a compilation cannot be stopped from within.
"""

from __future__ import annotations

import importlib
import resource
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.sandbox.child import Channel
from tilewright.tuner.tvm.contained import Answer, contained

_GRACE_S = 5
_LATE = ("tvm.contrib.tvmjs", "tvm.support.cc", "tvm.support.tar")
"""Modules that TVM imports when it writes a library, and that otherwise every child process would
import again.
"""


class Compiler:
    """A TVM target and, for a GPU, the device on which kernels must fit."""

    def __init__(self, request: dict[str, Any]) -> None:
        from tvm.ir import load_json

        from tilewright.tuner.device import GpuDevice
        from tilewright.tuner.tvm.loading import require_tvm

        require_tvm()
        for module in _LATE:
            importlib.import_module(module)
        self.target = load_json(request["target"])
        self.device = GpuDevice(**request["device"]) if request["device"] else None

    def build(self, request: dict[str, Any]) -> Answer:
        """The path of the library, or the compiler's error message."""
        from tvm.ir import load_json

        from tilewright.tuner.tvm.builder import compile_module

        # If the process that started this compiler was killed, nothing else stops it.
        limit = int(request["timeout_s"]) + _GRACE_S
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        built = compile_module(
            load_json(request["module"]), self.target, Path(request["library"]), self.device
        )
        return {"failure": built.failure, "log": built.log}


def main(arguments: Sequence[str]) -> None:
    """Answer requests until there are no more. The argument is the descriptor of the channel."""
    out, compiler = Channel(int(arguments[0])), None
    for request in out.each_json():
        if compiler is None:
            compiler = Compiler(request)
            out.send_json({"ready": True})
        else:
            contained(partial(compiler.build, request), out, "the compiler")


if __name__ == "__main__":
    main(sys.argv[1:])
