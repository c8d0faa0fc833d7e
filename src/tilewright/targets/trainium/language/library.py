"""`nki`, `nki.language` (nl) and `nki.isa` (nisa) of both versions, as kernels see them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.attributes import GridMaker, expand_dims, reshape
from tilewright.targets.trainium.language.python import (
    bounded_range,
    builtins,
    math_module,
    numpy_module,
    whole,
)
from tilewright.targets.trainium.language.standard import standard_modules
from tilewright.targets.trainium.language.values import Builtin, Decorator, LoopRange, Namespace
from tilewright.targets.trainium.operations import (
    activations,
    copies,
    creation,
    dma_sums,
    elementwise,
    largest,
    matrix,
    reductions,
    selection,
    special,
    transfers,
)
from tilewright.targets.trainium.operations.activations import ReduceCommand
from tilewright.targets.trainium.operations.creation import MemoryName, PartitionDim
from tilewright.targets.trainium.operations.engines import EngineName
from tilewright.targets.trainium.operations.functions import (
    ACTIVATION_NAMES,
    BITWISE,
    Operator,
)
from tilewright.targets.trainium.operations.transfers import Mode
from tilewright.targets.trainium.tiles.dtypes import DTYPES, UINT8, HostArray
from tilewright.targets.trainium.tiles.index import arange
from tilewright.targets.trainium.tiles.view import View
from tilewright.targets.trainium.trace import LoopKind

_HIDDEN = ("dst", "copies_psum", "carried", "any_axes", "across_partitions", "accumulate")


@cache
def module(path: str, language: int) -> Namespace:
    """A module by its path; `KeyError` if kernels have no such module."""
    found = _modules(language)
    return found[path]


@cache
def _modules(language: int) -> dict[str, Namespace]:
    nl, nisa = _language(language), _isa(language)
    typing = Namespace("nki.typing", {"tensor": Namespace("nki.typing.tensor", {})})
    members: dict[str, object] = {
        name: Decorator(f"nki.{name}")
        for name in ("jit", "baremetal", "benchmark", "profile", "trace", "simulate_kernel")
    }
    members |= {"language": nl, "isa": nisa, "typing": typing, "tensor": typing}
    nki = Namespace("nki", members)
    members["compiler"] = allocation = _compiler()
    found = {
        "neuronxcc": Namespace("neuronxcc", {"nki": nki}),
        "numpy": numpy_module(),
        "math": math_module(),
        **standard_modules(),
    }
    for prefix in ("nki", "neuronxcc.nki"):
        found |= {
            prefix: nki,
            f"{prefix}.language": nl,
            f"{prefix}.isa": nisa,
            f"{prefix}.isa.constants": nisa,
            f"{prefix}.typing": typing,
            f"{prefix}.compiler": allocation,
        }
    return found


def _compiler() -> Namespace:
    """`nki.compiler`: how NKI 1 kernels place their tiles by hand. It does not affect values."""
    members: dict[str, object] = {
        name: Decorator(f"nki.compiler.{name}")
        for name in (
            "skip_middle_end_transformations", "enable_stack_allocator", "force_auto_alloc",
        )
    }  # fmt: skip
    for name in ("sbuf", "psum"):
        places = {
            how: Builtin(f"nki.compiler.{name}.{how}", _placed(name))
            for how in ("alloc", "mod_alloc", "auto_alloc")
        }
        members[name] = Namespace(f"nki.compiler.{name}", places)
    return Namespace("nki.compiler", members)


def _placed(memory: str) -> Callable[..., MemoryName]:
    def place(run: Execution, *args: Any, **options: Any) -> MemoryName:
        return MemoryName(f"nl.{memory}", memory)  # type: ignore[arg-type]

    return place


@cache
def presets(language: int) -> dict[str, object]:
    """The names that a kernel has without imports."""
    found = _modules(language)
    nl = found["nki.language"]
    return {
        **builtins(),
        "nki": found["nki"], "nl": nl, "nisa": found["nki.isa"], "nt": found["nki.typing"],
        "np": found["numpy"], "math": found["math"], "par_dim": nl.members["par_dim"],
        **{name: Builtin(name, function) for name, function in HELPERS.items()},
    }  # fmt: skip


def _div_ceil(run: Execution, n: Any, d: Any) -> int:
    if whole(d, "div_ceil") == 0:
        raise KernelError("arithmetic", "div_ceil by zero")
    return -(-whole(n, "div_ceil") // whole(d, "div_ceil"))


def _n_elts(run: Execution, shape: Any) -> int:
    return math.prod(creation.sizes_of(run, shape))


def _normalize_dim(run: Execution, i: Any, rank: Any) -> int:
    return whole(i, "normalize_dim") % max(1, whole(rank, "normalize_dim"))


HELPERS: Mapping[str, Callable[..., Any]] = {
    "div_ceil": _div_ceil, "n_elts": _n_elts, "normalize_dim": _normalize_dim
}  # fmt: skip
"""Names that public harnesses provide in addition to the kernel."""


# ---- nki.language


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
        raise KernelError("unsupported_indexing", "nl.arange of no elements")
    return arange(values.start, values.stop, values.step)


def _par_dim(run: Execution, size: Any) -> PartitionDim:
    return PartitionDim(whole(size, "par_dim"))


def _unary(name: str) -> Callable[..., Any]:
    def compute(run: Execution, x: Any, *, dtype: Any = None, mask: Any = None) -> View:
        return activations.unary(run, name, x, dtype=dtype, mask=mask)

    return compute


def _binary(name: str) -> Callable[..., Any]:
    def compute(run: Execution, x: Any, y: Any, *, dtype: Any = None, mask: Any = None) -> Any:
        return elementwise.binary(
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
        raise KernelError("unsupported_shape", f"{run.function}: {size} is not 1 to 128")
    values = HostArray(np.eye(size, dtype=np.float32), f"np.eye({size}, dtype=np.float32)")
    return creation.constant(run, values, dtype)


def _inverse(name: str) -> Callable[..., Any]:
    def compute(run: Execution, x: Any, *, dtype: Any = None, mask: Any = None) -> View:
        op = Operator(name, f"nl.{name}")
        kind = dtype or (DTYPES["bool"] if name == "logical_not" else None)
        return elementwise.tensor_scalar(run, x, op, 0, dtype=kind, mask=mask)

    return compute


def _dropout(run: Execution, x: Any, rate: Any, *, dtype: Any = None, mask: Any = None) -> View:
    return selection.dropout(run, x, rate, dtype=dtype, mask=mask)


def _cos(run: Execution, x: Any, *, dtype: Any = None, mask: Any = None) -> View:
    """cos x = sin (x + pi / 2)."""
    return activations.unary(run, "cos", x, dtype=dtype, mask=mask)


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
        raise KernelError("unsupported_grid", f"axis {axis} of a grid with {len(values)} axes")
    return values[axis]


def _nothing(run: Execution, *args: Any, mask: Any = None) -> None:
    """A print on the device, which is ignored."""


def _reciprocal(run: Execution, x: Any, *, dtype: Any = None, mask: Any = None) -> View:
    return elementwise.reciprocal(run, x, dtype=dtype, mask=mask)


_ARITHMETIC = (
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip


def _language(version: int) -> Namespace:
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
    for name in sorted(ACTIVATION_NAMES - {"copy", "abs", "rsqrt", "reciprocal"}):
        add(name, _unary(name), name)
    for name in ("copy", "abs", "rsqrt", "negative"):
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
    add("cos", _cos, "cos")
    for name, function in _PLAIN.items():
        add(name, function)
    for name in ("invert", "logical_not"):
        add(name, _inverse(name), name)
    return Namespace("nl", members)


_PLAIN: dict[str, Callable[..., Any]] = {
    "arange": _arange, "ds": _ds, "par_dim": _par_dim, "ndarray": creation.ndarray,
    "zeros": creation.zeros, "ones": creation.ones, "full": creation.full,
    "zeros_like": creation.zeros_like, "empty_like": creation.empty_like,
    "shared_identity_matrix": _identity, "load": transfers.load, "store": transfers.store,
    "load_transpose2d": transfers.load_transpose2d, "atomic_rmw": dma_sums.atomic_rmw,
    "gather_flattened": selection.gather_flattened, "matmul": matrix.matmul,
    "transpose": matrix.transpose, "where": copies.where, "mean": reductions.mean,
    "var": reductions.variance, "softmax": reductions.softmax, "rms_norm": reductions.rms_norm,
    "broadcast_to": _broadcast_to, "expand_dims": expand_dims, "reshape": reshape,
    "rand": creation.rand, "shared_constant": creation.shared_constant, "dropout": _dropout,
    "loop_reduce": selection.loop_reduce, "program_id": _program_id,
    "num_programs": _num_programs,
    "program_ndim": lambda run: 0 if run.grid is None else len(run.grid.sizes),
    "device_print": _nothing,
}  # fmt: skip


# ---- nki.isa

_ENGINES = {
    "vector_engine": "dve", "scalar_engine": "act", "gpsimd_engine": "pool",
    "tensor_engine": "pe", "unknown_engine": "any",
}  # fmt: skip


def _constants() -> dict[str, object]:
    engines: dict[str, object] = {n: EngineName(e) for n, e in _ENGINES.items()}  # type: ignore[arg-type]
    short = {name.removesuffix("_engine"): value for name, value in engines.items()}
    return {
        **engines,
        "engine": Namespace("nisa.engine", short),
        "reduce_cmd": Namespace(
            "nisa.reduce_cmd",
            {n: ReduceCommand(n) for n in ("idle", "reset", "reduce", "reset_reduce")},
        ),
        "oob_mode": Namespace("nisa.oob_mode", {n: Mode(n) for n in ("error", "skip")}),
        "dge_mode": Namespace(
            "nisa.dge_mode", {n: Mode(n) for n in ("unknown", "none", "swdge", "hwdge")}
        ),
    }


_RETURNING: dict[str, Callable[..., Any]] = {
    "nc_matmul": matrix.nc_matmul, "nc_transpose": matrix.nc_transpose,
    "tensor_tensor": elementwise.tensor_tensor, "tensor_scalar": elementwise.tensor_scalar,
    "scalar_tensor_tensor": elementwise.scalar_tensor_tensor,
    "tensor_tensor_scan": reductions.tensor_tensor_scan,
    "tensor_reduce": reductions.tensor_reduce,
    "tensor_scalar_reduce": reductions.tensor_scalar_reduce,
    "tensor_partition_reduce": reductions.tensor_partition_reduce,
    "activation": activations.activation, "activation_reduce": activations.activation_reduce,
    "reciprocal": elementwise.reciprocal, "tensor_copy": copies.tensor_copy,
    "bn_stats": special.bn_stats, "bn_aggr": special.bn_aggr, "max8": largest.max8,
    "nc_find_index8": largest.nc_find_index8, "nc_match_replace8": largest.nc_match_replace8,
    "dropout": selection.dropout, "range_select": selection.range_select,
    "tensor_copy_dynamic_src": selection.tensor_copy_dynamic_src,
}  # fmt: skip
"""Operations that return a tile in NKI 1 and take `dst` in NKI 2."""

_SAME_IN_BOTH: dict[str, Callable[..., Any]] = {
    "dma_copy": transfers.dma_copy,
    "tensor_copy_dynamic_dst": selection.tensor_copy_dynamic_dst,
}
_WRITING: dict[str, Callable[..., Any]] = {
    "tensor_copy_predicated": copies.tensor_copy_predicated,
    "select_reduce": selection.select_reduce,
}
"""Operations that take `dst` in both versions; in NKI 2 it comes first."""


def _nc_stream_shuffle(
    run: Execution, dst: Any, src: Any, shuffle_mask: Any = None, *, mask: Any = None
) -> None:
    """NKI 2: dst is first, and the order is called mask."""
    special.nc_stream_shuffle(run, src, dst, mask if shuffle_mask is None else shuffle_mask)


def _affine_select2(
    run: Execution, dst: Any, pattern: Any, channel_multiplier: Any, on_true_tile: Any,
    on_false_value: Any, cmp_op: Any = Operator("equal", "nl.equal"), offset: Any = 0,  # noqa: B008
) -> None:  # fmt: skip
    special.affine_select_into(
        run, dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op=cmp_op,
        offset=offset,
    )  # fmt: skip


def _nc_n_gather(run: Execution, data: Any, indices: Any, *, dst: Any) -> None:
    """Any elements of each partition's flattened row, available since NeuronCore-v3."""
    selection.newer_chip(run)
    selection.gather_flattened(run, data, indices, dst=dst)


def _dma_transpose2(run: Execution, dst: Any, src: Any, axes: Any = None) -> None:
    transfers.dma_transpose(run, src, axes=axes, dst=dst)


def _tensor_reduce2(
    run: Execution, dst: Any, op: Any, data: Any, axis: Any, negate: Any = False,
    keepdims: Any = False,
) -> None:  # fmt: skip
    reductions.tensor_reduce(
        run, op, data, axis, dst=dst, negate=bool(negate), keepdims=bool(keepdims)
    )


_IN_ORDER: dict[str, tuple[str, ...]] = {
    "activation": ("bias", "scale", "reduce_op", "reduce_res", "reduce_cmd"),
    "nc_matmul": (
        "is_stationary_onezero", "is_moving_onezero", "is_transpose", "accumulate", "tile_position",
        "tile_size",
    ),
    "nc_transpose": ("engine",), "tensor_copy": ("engine",), "tensor_tensor": ("engine",),
    "tensor_scalar": ("engine",),
}  # fmt: skip
"""NKI 2: parameters that may also be given by position, after the required ones."""


class _WithDestination(Builtin):
    """An operation of NKI 2, whose first parameter is its destination. It returns nothing."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        super().__init__(f"nisa.{name}", function, hidden=("dst", "mask", "copies_psum", "carried",
                         "any_axes"), ignored=("name", "priority", "perf_mode"))  # fmt: skip
        self._more = _IN_ORDER.get(name, ())

    def call(self, run: Execution, args: Any, kwargs: dict[str, Any]) -> Any:
        """Take `dst` from the first argument or by name."""
        rest = list(args)
        dst = kwargs.pop("dst", None) if "dst" in kwargs else (rest.pop(0) if rest else None)
        if not isinstance(dst, View):
            raise KernelError(
                "missing_argument",
                f"{self.name} of NKI 2 needs dst, the tile it writes, as its first argument",
            )
        kwargs.pop("dtype", None)  # a parameter of the beta version: the type of dst is used
        further = rest[len(self.positional) :]
        if len(further) <= len(self._more):
            del rest[len(self.positional) :]
            for name, value in zip(self._more, further, strict=False):
                if name in kwargs:
                    raise KernelError("unexpected_keyword", f"{self.name} is given {name!r} twice")
                kwargs[name] = value
        run.function = self.name
        self.check(rest, kwargs)
        self._function(run, *rest, dst=dst, **kwargs)


def _isa(version: int) -> Namespace:
    members = _constants()

    def add(name: str, function: Callable[..., Any], hidden: tuple[str, ...] = _HIDDEN) -> None:
        members[name] = Builtin(
            f"nisa.{name}", function, hidden=hidden, ignored=("name", "priority")
        )

    for name, function in _SAME_IN_BOTH.items():
        add(name, function, () if version == 1 else ("mask", "dst_rmw_op", "dtype"))
    for name, function in _WRITING.items():
        if version == 1:
            add(name, function, ())
        else:
            members[name] = _WithDestination(name, function)
    generation = Namespace("nisa.nc_version", {f"gen{n}": n for n in (2, 3, 4)})
    members["nc_version"] = generation
    members["get_nc_version"] = Builtin(
        "nisa.get_nc_version", lambda run: 2 if run.machine.name == "trn1" else 3
    )
    for name, function in _RETURNING.items():
        if version == 1:
            add(name, function)
        else:
            members[name] = _WithDestination(name, function)
    if version == 1:
        add("memset", copies.memset)
        add("iota", special.iota)
        add("affine_select", special.affine_select)
        add("nc_stream_shuffle", special.nc_stream_shuffle, ())
        add("dma_transpose", transfers.dma_transpose)
        add("local_gather", selection.gather_flattened)
    else:
        add("memset", copies.memset_into, ())
        add("iota", special.iota_into, ())
        add("affine_select", _affine_select2, ())
        members["nc_stream_shuffle"] = Builtin(
            "nisa.nc_stream_shuffle", _nc_stream_shuffle, masked=False
        )
        add("dma_transpose", _dma_transpose2, ())
        members["local_gather"] = _WithDestination("local_gather", selection.gather_flattened)
        members["nc_n_gather"] = _WithDestination("nc_n_gather", _nc_n_gather)
        add("tensor_reduce", _tensor_reduce2, ())
        add("dma_compute", dma_sums.dma_compute, ())
        add("topk", largest.topk, ())
    for name in (*_LACKING, *(_ONLY_NKI_2 if version == 1 else ())):
        members[name] = _Lacking(name)
    return Namespace("nisa", members)


_LACKING = ("nc_matmul_mx", "exponential")
"""Operations that exist but that this interpreter does not have."""
_ONLY_NKI_2 = ("nc_n_gather", "topk", "dma_compute")


class _Lacking(Builtin):
    def __init__(self, name: str) -> None:
        super().__init__(f"nisa.{name}", lambda run: None)

    def call(self, run: Execution, args: Any, kwargs: dict[str, Any]) -> Any:
        raise not_supported(self.name)
