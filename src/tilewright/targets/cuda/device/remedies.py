"""Options of the menus of `cuda` and `triton` that usually help against what a measurement shows.

Feedback names the options in backquotes, because every prompt with this feedback then offers them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.targets.cuda.device.counters import Counters

Remedies = Mapping[str, tuple[str, ...]]
"""Ids of options, by cause: `spills`, `idle` (few warps are resident), `memory` (the kernel is
bound by the memory), `products` (by multiply-adds), or a wait of `Counters`."""

_CAUSES = {
    "spills": "spilled registers",
    "idle": "few resident warps",
    "memory": "the limit of the memory's rate",
    "products": "the limit of the rate of multiply-adds",
    "long_scoreboard": "waits for data from global or local memory",
    "short_scoreboard": "waits for data from shared memory or for a slow function",
    "barrier": "waits at barriers",
    "lg_throttle": "waits for the queue of global and local memory accesses",
    "mio_throttle": "waits for the queue of shared memory accesses",
    "math_pipe_throttle": "waits for a busy arithmetic unit",
    "wait": "waits for the fixed latency of instructions",
    "no_instruction": "waits for instructions to be fetched",
}
_IDLE_PERCENT = 50.0
"""Share of the warps that a multiprocessor can hold, below which few are resident."""
_SHARE_OF_WAITS = 0.25
"""Share of all waits from which on a wait is a cause."""

CUDA: Remedies = {
    "spills": ("fewer-registers", "split-kernel"),
    "idle": ("block-size", "fewer-registers", "smaller-tile"),
    "memory": ("coalesce", "vector-loads", "fuse-kernels"),
    "products": ("thread-block-tiles", "tensor-cores"),
    "long_scoreboard": ("async-copies", "double-buffering", "multistage", "loads-first"),
    "short_scoreboard": ("padding", "register-fragments", "fast-functions"),
    "barrier": ("deeper-tile", "warp-shuffles", "one-warp-per-row"),
    "lg_throttle": ("vector-loads", "coalesce"),
    "mio_throttle": ("thread-block-tiles", "warp-tiles", "warp-shuffles"),
    "math_pipe_throttle": ("tensor-cores", "index-arithmetic"),
    "wait": ("instruction-parallelism", "unroll-terms"),
    "no_instruction": ("unroll-less",),
}
TRITON: Remedies = {
    "spills": ("registers", "split-kernel"),
    "idle": ("warps", "registers", "tile-shape"),
    "memory": ("contiguous-axis", "alignment-hints", "fuse-kernels"),
    "products": ("tile-shape", "tensor-core-products"),
    "long_scoreboard": ("stages", "loads-first"),
    "short_scoreboard": ("fast-functions",),
    "barrier": ("more-terms", "warps", "reduce-once"),
    "lg_throttle": ("alignment-hints", "contiguous-axis"),
    "mio_throttle": ("tile-shape", "reduce-once"),
    "math_pipe_throttle": ("tensor-core-products", "index-arithmetic"),
    "wait": ("work-per-program",),
}


def told_remedies(
    remedies: Remedies, bound: str, spilled_bytes: int, counters: Counters | None
) -> str:
    """A line with the options against each cause; empty if there is no cause.

    Args:
        bound: `memory` or `products`, or empty if the bound is not known. It is a cause only if
            there are no counters, which show what limits the kernel.
    """
    causes = ["spills"] * bool(spilled_bytes)
    causes += _counted(counters) if counters else [bound]
    told = [
        f"against {_CAUSES[cause]}: {', '.join(f'`{option}`' for option in remedies[cause])}"
        for cause in causes
        if cause in remedies
    ]
    return f"\nOptions that usually help, where the menu has them: {'; '.join(told)}." * bool(told)


def _counted(counters: Counters) -> Sequence[str]:
    """The causes that the counters show, the longest waits first."""
    total = sum(counters.waits.values())
    longest = sorted(counters.waits, key=lambda name: -counters.waits[name])
    waits = [n for n in longest if counters.waits[n] >= max(_SHARE_OF_WAITS * total, 1e-9)]
    idle = counters.shares.get("occupancy", 100.0) < _IDLE_PERCENT
    return [*["idle"] * idle, *waits]
