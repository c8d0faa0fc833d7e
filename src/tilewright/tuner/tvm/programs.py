"""Programs to tune: matrix products, convolutions, and functions from a user's file."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.core.errors import InputError, WorkloadError
from tilewright.tuner.benchmark_set import CONVOLUTIONS, MATMULS
from tilewright.tuner.tvm.loading import require_tvm


@dataclass(frozen=True)
class Program:
    """A function to tune, and the name under which its results are stored."""

    name: str
    function: Any
    """An unscheduled `tvm.tirx.PrimFunc` whose last buffer is the output."""


def matmul(m: int, n: int, k: int, name: str | None = None) -> Program:
    """`C[m, n] = A[m, k] @ B[k, n]` in fp32."""
    require_tvm()
    from tvm import te

    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return Program(name or f"matmul-{m}x{n}x{k}", te.create_prim_func([a, b, c]))


def conv2d(
    batch: int,
    in_channels: int,
    height: int,
    width: int,
    out_channels: int,
    kernel: int,
    stride: int = 1,
    padding: int = 0,
    name: str | None = None,
) -> Program:
    """A square-kernel NCHW convolution in fp32; `WorkloadError` if the kernel is larger than the
    input."""
    if min(height, width) + 2 * padding < kernel:
        raise WorkloadError(
            f"conv2d: a {kernel}x{kernel} kernel does not fit into {height}x{width} padded by "
            f"{padding}. Give a larger input, a smaller kernel or more padding."
        )
    require_tvm()
    from tvm import te, topi

    data = te.placeholder((batch, in_channels, height, width), name="data")
    weights = te.placeholder((out_channels, in_channels, kernel, kernel), name="kernel")
    result = topi.nn.conv2d_nchw(data, weights, stride, padding, dilation=1, out_dtype="float32")
    default = (
        f"conv2d-{batch}x{in_channels}x{height}x{width}-f{out_channels}k{kernel}s{stride}p{padding}"
    )
    return Program(name or default, te.create_prim_func([data, weights, result]))


def benchmark_program(identifier: str) -> Program:
    """The program of one of the paper's workloads, by its identifier in `benchmark_set`."""
    if identifier in MATMULS:
        return matmul(*MATMULS[identifier], name=identifier)
    out_channels, in_channels, size, kernel, stride = CONVOLUTIONS[identifier]
    return conv2d(
        1, in_channels, size, size, out_channels, kernel, stride, kernel // 2, name=identifier
    )


def program_from_file(file: Path, maker: str) -> Program:
    """The PrimFunc in a Python file: the result of its function `maker()`, or the value of that
    name.

    The file is the user's own code and runs in this process. Raises `InputError` if it cannot be
    read, does not define the name, fails, or returns something else.
    """
    require_tvm()
    from tvm.ir import IRModule
    from tvm.tirx import PrimFunc

    made = _load(file, maker)
    try:
        result = made() if callable(made) and not isinstance(made, PrimFunc) else made
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, which would end the command without a word
        raise InputError(
            f"{file}:{maker} failed with {type(error).__name__}: {_first_line(error)}."
        ) from error
    if isinstance(result, IRModule):
        functions = [f for f in result.functions.values() if isinstance(f, PrimFunc)]
        result = functions[0] if len(functions) == 1 else result
    if not isinstance(result, PrimFunc):
        raise InputError(
            f"{file}:{maker} gave a {type(result).__name__}: expected a function without arguments "
            "that returns one tvm.tirx.PrimFunc, such as te.create_prim_func([...])."
        )
    return Program(f"{file.stem}:{maker}", result)


def _load(file: Path, maker: str) -> object:
    if not file.is_file():
        raise InputError(f"{file} is not a file. Give a Python file, as in workload.py:{maker}.")
    spec = importlib.util.spec_from_file_location(f"tilewright_user_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise InputError(f"{file} is not a Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise InputError(
            f"{file} fails when it is read: {type(error).__name__}: {_first_line(error)}."
        ) from error
    if not hasattr(module, maker):
        known = [n for n in vars(module) if n.startswith("make") or n.endswith("func")]
        raise InputError(
            f"{file} defines no {maker!r}"
            + (f": it has {', '.join(known)}." if known else ": name a function of that file.")
        )
    return getattr(module, maker)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")
