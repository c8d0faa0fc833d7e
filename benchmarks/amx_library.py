"""Measures the median CPU time of a workload in PyTorch (oneDNN) on one thread, for each call.

    python benchmarks/amx_library.py amx-int8|amx-bf16 WORKLOAD   (prints JSON: ns by call)

`benchmarks/amx.py` starts this script, pinned to the measuring core. If the weights of a workload
are packed, oneDNN may arrange its weights in advance, too. Calls that this build of PyTorch lacks,
or whose results are wrong, are left out. Each call gets new inputs, as for kernels. Packed int8
operations return float32 and bfloat16 operations return bfloat16, which is half of what a kernel
writes; this is an advantage of the library.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""What the environment must hold before the library is loaded."""
CALLS, FEWEST, SECONDS = 60, 3, 3.0
"""Calls at most; an operation that takes long is called less often. The first sixth warms up."""

Calls = Mapping[str, tuple[Callable[[], object], Callable[[], object]]]
"""What draws new inputs, and the call."""
Offers = Mapping[str, tuple[Callable[[], object], Callable[[], Any], Callable[[Any], bool]]]
"""What draws new inputs, what prepares the call, and whether a result of it is right."""


def main() -> int:
    target, workload = sys.argv[1:]
    try:
        import torch
    except ImportError:
        print("{}")
        return 0
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    calls = usable(offers(torch, target, workload))
    print(json.dumps({name: median_ns(*call) for name, call in calls.items()}))
    return 0


def offers(torch: Any, target: str, workload: str) -> Offers:
    """The calls that do the same as a kernel; `workload` is a name of the target's."""
    kind, sizes, *rest = workload.split("-")
    int8 = target == "amx-int8"
    if kind == "conv":
        return (int8_conv if int8 else bf16_conv)(torch, *map(int, sizes.split("x")))
    found = (int8_gemm if int8 else bf16_gemm)(torch, *map(int, sizes.split("x")))
    return found if "packed" in rest else {"plain": found["plain"]}


def usable(offered: Offers) -> Calls:
    """Those that this build of PyTorch has and that compute what they should."""
    found = {}
    for name, (draw, prepare, is_right) in offered.items():
        draw()
        try:
            call = prepare()
            if is_right(call()):
                found[name] = (draw, call)
        except (AttributeError, RuntimeError):
            continue
    return found


def median_ns(draw: Callable[[], object], call: Callable[[], object]) -> float:
    samples: list[float] = []
    while len(samples) < CALLS and (sum(samples) < SECONDS * 1e9 or len(samples) < FEWEST):
        draw()
        started = time.process_time_ns()
        call()
        samples.append(time.process_time_ns() - started)
    return statistics.median(samples[len(samples) // 6 :])


def int8_gemm(torch: Any, m: int, n: int, k: int) -> Offers:
    a = torch.empty((m, k), dtype=torch.int8)
    unsigned = torch.empty((m, k), dtype=torch.uint8)
    b = torch.randint(-128, 127, (k, n), dtype=torch.int8)
    scales, zeros = torch.ones(n), torch.zeros(n, dtype=torch.int64)

    def packed(given: Any) -> Callable[[], Any]:
        weights = torch.ops.onednn.qlinear_prepack(b.t().contiguous(), [m, k])
        return lambda: torch.ops.onednn.qlinear_pointwise(
            given, 1.0, 0, weights, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )

    def is_right(given: Any) -> Callable[[Any], bool]:
        return lambda c: torch.equal(c[:ROWS].float(), product(given, b).float())

    def draw() -> object:
        return a.random_(-128, 127)

    return {
        "plain": (draw, lambda: lambda: torch._int_mm(a, b), is_right(a)),
        "packed": (draw, lambda: packed(a), is_right(a)),
        "packed, A unsigned": (
            lambda: unsigned.random_(0, 255),
            lambda: packed(unsigned),
            is_right(unsigned),
        ),
    }


def bf16_gemm(torch: Any, m: int, n: int, k: int) -> Offers:
    a = torch.empty((m, k), dtype=torch.bfloat16)
    transposed = torch.randn(n, k).bfloat16()
    b = transposed.t().contiguous()

    def packed() -> Callable[[], Any]:
        weights = torch.ops.mkldnn._reorder_linear_weight(transposed, m)
        return lambda: torch.ops.mkldnn._linear_pointwise(a, weights, None, "none", [], "")

    def is_right(c: Any) -> bool:
        return is_close(torch, c[:ROWS], product(a, b), k)

    return {
        "plain": (a.normal_, lambda: lambda: a @ b, is_right),
        "packed": (a.normal_, packed, is_right),
    }


def int8_conv(torch: Any, n: int, h: int, w: int, c: int, k: int) -> Offers:
    """oneDNN's own call takes unsigned pixels: as they are, or as signed ones with 128 added."""
    given = pixels(torch, n, h, w, c, torch.uint8)
    taps = torch.randint(-128, 127, (k, c, 3, 3), dtype=torch.int8)
    scales, zeros = torch.ones(k), torch.zeros(k, dtype=torch.int64)
    steps: tuple[Any, ...] = ([1, 1], [0, 0], [1, 1], 1)  # stride, padding, dilation, groups

    def packed(zero: int) -> Callable[[], Any]:
        weights = torch.ops.onednn.qconv_prepack(taps, scales, 1.0, zero, *steps, list(given.shape))
        return lambda: torch.ops.onednn.qconv_pointwise(
            given, 1.0, zero, weights, scales, zeros, None, *steps,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip

    def offer(zero: int) -> Any:
        def is_right(output: Any) -> bool:
            expected = convolved(torch, given, taps, zero).float()
            return bool(torch.equal(corner(output), expected))

        return lambda: given.random_(0, 255), lambda: packed(zero), is_right

    return {"packed": offer(128), "packed, input unsigned": offer(0)}


def bf16_conv(torch: Any, n: int, h: int, w: int, c: int, k: int) -> Offers:
    given = pixels(torch, n, h, w, c, torch.bfloat16)
    taps = torch.randn(k, c, 3, 3).bfloat16().to(memory_format=torch.channels_last)

    def packed() -> Callable[[], Any]:
        weights = torch.ops.mkldnn._reorder_convolution_weight(
            taps, [0, 0], [1, 1], [1, 1], 1, list(given.shape)
        )
        return lambda: torch.ops.mkldnn._convolution_pointwise(
            given, weights, None, [0, 0], [1, 1], [1, 1], 1, "none", [], ""
        )

    def is_right(output: Any) -> bool:
        return is_close(torch, corner(output), convolved(torch, given, taps), 9 * c)

    return {
        "plain": (
            given.normal_,
            lambda: lambda: torch.nn.functional.conv2d(given, taps),
            is_right,
        ),
        "packed": (given.normal_, packed, is_right),
    }


ROWS = 4
"""Rows of an output that are compared with a direct computation in float64."""


def product(a: Any, b: Any) -> Any:
    """The first rows."""
    return a[:ROWS].double() @ b.double()


def pixels(torch: Any, n: int, h: int, w: int, c: int, dtype: Any) -> Any:
    """An input with its border, channels last in memory."""
    shape = (n, c, h + 2, w + 2)
    return torch.empty(shape, dtype=dtype, memory_format=torch.channels_last)


def corner(output: Any) -> Any:
    """The first rows of the last image."""
    return output[-1:, :, :ROWS].float()


def convolved(torch: Any, given: Any, taps: Any, zero: int = 0) -> Any:
    """The corner, computed directly."""
    rows = given[-1:, :, : ROWS + 2].double().contiguous() - zero
    return torch.nn.functional.conv2d(rows, taps.double().contiguous())


def is_close(torch: Any, got: Any, expected: Any, sums: int) -> bool:
    """Whether bfloat16 results are right: a sum of so many normal products spreads by its root."""
    return bool(torch.allclose(got.double(), expected.double(), rtol=0.01, atol=0.01 * sums**0.5))


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    sys.exit(main())
