"""The members of `nki.language` (nl)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.attributes import GridMaker, expand_dims, reshape
from tilewright.targets.trainium.language.python import (
    bounded_range,
    whole,
)
from tilewright.targets.trainium.language.values import Builtin, LoopRange, Namespace
from tilewright.targets.trainium.operations import (
    activations,
    composed,
    copies,
    creation,
    dma_sums,
    elementwise,
    gathers,
    matrix,
    reductions,
    selection,
    transfers,
)
from tilewright.targets.trainium.operations.binary import binary
from tilewright.targets.trainium.operations.creation import MemoryName, PartitionDim
from tilewright.targets.trainium.operations.functions import (
    ACTIVATION_NAMES,
    BITWISE,
    Operator,
)
from tilewright.targets.trainium.tiles.dtypes import DTYPES, UINT8, HostArray
from tilewright.targets.trainium.tiles.index import arange
from tilewright.targets.trainium.tiles.view import View
from tilewright.targets.trainium.trace import LoopKind


def _loop(kind: LoopKind) -> Callable[..., LoopRange]:
    def make(run: Execution, *args: Any) -> LoopRange:
        return LoopRange(kind, bounded_range(f"nl.{kind}_range", *args))

    return make


def _ds(run: Execution, start: Any, size: Any) -> slice:
    first = whole(start, "nl.ds")
    return slice(first, first + whole(size, "nl.ds"))


def _arange(run: Execution, *args: Any) -> Any:
    values = bounded_range("nl.arange", *args)
    if not len(values):
        raise KernelError("unsupported_indexing", "nl.arange is empty")
    return arange(values.start, values.stop, values.step)


def _par_dim(run: Execution, size: Any) -> PartitionDim:
    return PartitionDim(whole(size, "par_dim"))


def _unary(name: str) -> Callable[..., Any]:
    def compute(run: Execution, x: Any, *, dtype: Any = None, mask: Any = None) -> View:
        return activations.unary(run, name, x, dtype=dtype, mask=mask)

    return compute


def _activation(name: str) -> Callable[..., Any]:
    def compute(
        run: Execution, x: Any, *, bias: Any = None, scale: Any = 1.0, dtype: Any = None,
        mask: Any = None,
    ) -> View:  # fmt: skip
        return activations.unary(run, name, x, bias=bias, scale=scale, dtype=dtype, mask=mask)

    return compute


def _binary(name: str) -> Callable[..., Any]:
    def compute(run: Execution, x: Any, y: Any, *, dtype: Any = None, mask: Any = None) -> Any:
        return binary(
            run, Operator(name, f"nl.{name}"), x, y, dtype=dtype, mask=mask, across_partitions=True
        )

    return compute


def _reduction(name: str) -> Callable[..., Any]:
    def compute(
        run: Execution, x: Any, axis: Any, *, dtype: Any = None, mask: Any = None,
        keepdims: Any = False,
    ) -> View:  # fmt: skip
        return reductions.reduction(
            run, Operator(name, f"nl.{name}"), x, axis, dtype=dtype, mask=mask,
            keepdims=bool(keepdims),
        )  # fmt: skip

    return compute


def _broadcast_to(run: Execution, src: Any, *, shape: Any) -> View:
    if not isinstance(src, View):
        raise KernelError("unsupported_operand", "nl.broadcast_to takes a tile")
    return copies.broadcast_to(run, src, creation.sizes_of(run, shape))


def _identity(run: Execution, n: Any, dtype: Any = UINT8) -> View:
    size = whole(n, "n")
    if not 0 < size <= run.machine.memory.partitions:
        raise KernelError("unsupported_shape", f"{run.function}: {size} is not between 1 and 128")
    values = HostArray(np.eye(size, dtype=np.float32), f"np.eye({size}, dtype=np.float32)")
    return creation.constant(run, values, dtype)


def _of_one_tile(name: str) -> Callable[..., Any]:
    def compute(run: Execution, x: Any, *, dtype: Any = None, mask: Any = None) -> View:
        op = Operator(name, f"nl.{name}")
        kind = dtype or (DTYPES["bool"] if name == "logical_not" else None)
        return elementwise.tensor_scalar(run, x, op, 0, dtype=kind, mask=mask)

    return compute


def _dropout(run: Execution, x: Any, rate: Any, *, dtype: Any = None, mask: Any = None) -> View:
    return selection.dropout(run, x, rate, dtype=dtype, mask=mask)


def _program_id(run: Execution, axis: Any) -> int:
    at = whole(axis, "nl.program_id")
    return 0 if run.grid is None else _of_axis(run.grid.at, at)


def _num_programs(run: Execution, axes: Any = None) -> Any:
    sizes = () if run.grid is None else run.grid.sizes
    if axes is None or run.grid is None:
        return math.prod(sizes)
    if isinstance(axes, (tuple, list)):
        return tuple(_of_axis(sizes, whole(axis, "nl.num_programs")) for axis in axes)
    return _of_axis(sizes, whole(axes, "nl.num_programs"))


def _of_axis(values: tuple[int, ...], axis: int) -> int:
    if not 0 <= axis < len(values):
        raise KernelError(
            "unsupported_grid",
            f"the grid has no axis {axis}: its number of axes is {len(values)}",
        )
    return values[axis]


def _cores(run: Execution, cores: Any) -> int:
    """The programs of cores run one after another, as those of any axis of a grid."""
    return whole(cores, "nl.nc")


def _spmd_dim(run: Execution, *sizes: Any) -> int:
    return math.prod(whole(size, "nl.spmd_dim") for size in sizes)


def _nothing(run: Execution, *args: Any, mask: Any = None) -> None:
    """A print on the device, or a seed of random numbers. Both are ignored."""


def _reciprocal(run: Execution, x: Any, *, dtype: Any = None, mask: Any = None) -> View:
    return elementwise.reciprocal(run, x, dtype=dtype, mask=mask)


_ARITHMETIC = (
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip


def language_module(version: int) -> Namespace:
    """The members of `nl` in one version of NKI."""
    members: dict[str, object] = dict(DTYPES)
    members["bool_"] = DTYPES["bool"]
    members["fp32"] = Namespace("nl.fp32", {"min": -3.4028235e38, "max": 3.4028235e38})
    for name, memory in (
        ("sbuf", "sbuf"), ("psum", "psum"), ("hbm", "hbm"), ("private_hbm", "hbm"),
        ("shared_hbm", "hbm"),
    ):  # fmt: skip
        members[name] = MemoryName(f"nl.{name}", memory)  # type: ignore[arg-type]
    sizes = {
        "pmax": 128, "gemm_stationary_fmax": 128, "gemm_moving_fmax": 512, "psum_fmax": 512,
        "bn_stats_fmax": 512, "psum_min_align": 4, "sbuf_min_align": 1,
    }  # fmt: skip
    members["tile_size"] = Namespace("nl.tile_size", sizes)
    members["mgrid"] = GridMaker()
    members["NKIObject"] = Namespace("nl.NKIObject", {})

    def add(name: str, function: Callable[..., Any], operator: str = "") -> None:
        members[name] = Builtin(
            f"nl.{name}", function, operator=operator, ignored=("lazy_init", "lazy_initialization")
        )

    for kind in ("affine", "sequential", "static"):
        add(f"{kind}_range", _loop(kind))
    for name in sorted(ACTIVATION_NAMES - {"copy", "reciprocal"}):
        add(name, _activation(name), name)
    for name in ("copy", "negative"):
        add(name, _unary(name), name)
    for name in _ARITHMETIC:
        add(name, _binary(name), name)
    for name in sorted(BITWISE - {"invert"}):
        add(name, _binary(name), name)
    for name, operator in (
        ("sum", "add"), ("max", "maximum"), ("min", "minimum"), ("prod", "multiply"),
        ("all", "logical_and"),
    ):  # fmt: skip
        add(name, _reduction(operator), operator)
    add("reciprocal", _reciprocal, "reciprocal")
    for name, function in _PLAIN.items():
        add(name, function)
    for name in ("invert", "logical_not"):
        add(name, _of_one_tile(name), name)
    for name in ("floor", "ceil", "trunc"):
        add(name, _of_one_tile(name))
    for name in ("mod", "fmod"):
        add(name, _binary(name))
    return Namespace("nl", members)


_PLAIN: dict[str, Callable[..., Any]] = {
    "arange": _arange, "ds": _ds, "par_dim": _par_dim, "ndarray": creation.ndarray,
    "zeros": creation.zeros, "ones": creation.ones, "full": creation.full,
    "zeros_like": creation.zeros_like, "empty_like": creation.empty_like,
    "shared_identity_matrix": _identity, "load": transfers.load, "store": transfers.store,
    "load_transpose2d": transfers.load_transpose2d, "atomic_rmw": dma_sums.atomic_rmw,
    "gather_flattened": gathers.gather_flattened, "matmul": matrix.matmul,
    "transpose": matrix.transpose, "where": elementwise.where, "mean": reductions.mean,
    "var": reductions.variance, "softmax": composed.softmax, "rms_norm": composed.rms_norm,
    "tan": composed.tan,
    "broadcast_to": _broadcast_to, "expand_dims": expand_dims, "reshape": reshape,
    "rand": creation.rand, "shared_constant": creation.shared_constant, "dropout": _dropout,
    "loop_reduce": selection.loop_reduce, "program_id": _program_id,
    "num_programs": _num_programs, "nc": _cores, "spmd_dim": _spmd_dim,
    "program_ndim": lambda run: 0 if run.grid is None else len(run.grid.sizes),
    "device_print": _nothing, "random_seed": _nothing,
}  # fmt: skip
