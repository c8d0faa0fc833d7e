"""The members of `nki.isa` (nisa): one function for each instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.values import Builtin, Namespace
from tilewright.targets.trainium.operations import (
    activations,
    copies,
    dma_sums,
    elementwise,
    gathers,
    largest,
    matrix,
    reductions,
    scans,
    selection,
    special,
    transfers,
)
from tilewright.targets.trainium.operations.activations import ReduceCommand
from tilewright.targets.trainium.operations.engines import EngineName
from tilewright.targets.trainium.operations.functions import (
    Operator,
)
from tilewright.targets.trainium.operations.transfers import Mode
from tilewright.targets.trainium.tiles.view import View

_HIDDEN = ("dst", "copies_psum", "carried", "any_axes", "across_partitions", "accumulate")
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
    "tensor_tensor_scan": scans.tensor_tensor_scan,
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
                    raise KernelError(
                        "unexpected_keyword", f"{self.name} got two values for {name!r}"
                    )
                kwargs[name] = value
        run.function = self.name
        self.check(rest, kwargs)
        self._function(run, *rest, dst=dst, **kwargs)


def isa_module(version: int) -> Namespace:
    """The members of `nisa` in one version of NKI."""
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
        add("local_gather", gathers.local_gather)
    else:
        add("memset", copies.memset_into, ())
        add("iota", special.iota_into, ())
        add("affine_select", _affine_select2, ())
        members["nc_stream_shuffle"] = Builtin(
            "nisa.nc_stream_shuffle", _nc_stream_shuffle, masked=False
        )
        add("dma_transpose", _dma_transpose2, ())
        members["local_gather"] = _WithDestination("local_gather", gathers.local_gather)
        members["nc_n_gather"] = _WithDestination("nc_n_gather", gathers.gather_flattened)
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
