"""Median CPU time of one product by PyTorch (oneDNN) on one thread, with packed and plain weights.

    python benchmarks/amx_library.py amx-int8|amx-bf16 MxNxK     (prints JSON: nanoseconds by call)

`benchmarks/amx.py` starts it pinned on the measuring core. Packed weights are those that oneDNN
lays out beforehand, as it likes them best; calls that this build of PyTorch lacks are left out.
Inputs are drawn anew before every call, as for kernels. Packed int8 products end in float32 and
packed bfloat16 ones in bfloat16, which is half of what a kernel writes: the library's advantage.
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
CALLS, FEWEST, SECONDS = 60, 6, 3.0
"""Calls at most; a product that takes long is called less often. The first sixth warms up."""


def main() -> int:
    target, sizes = sys.argv[1:]
    m, n, k = (int(size) for size in sizes.split("x"))
    try:
        import torch
    except ImportError:
        print("{}")
        return 0
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    calls = int8_calls(torch, m, n, k) if target == "amx-int8" else bf16_calls(torch, m, n, k)
    print(json.dumps({name: median_ns(*call) for name, call in calls.items()}))
    return 0


def median_ns(draw: Callable[[], object], call: Callable[[], object]) -> float:
    samples: list[float] = []
    while len(samples) < CALLS and (sum(samples) < SECONDS * 1e9 or len(samples) < FEWEST):
        draw()
        started = time.process_time_ns()
        call()
        samples.append(time.process_time_ns() - started)
    return statistics.median(samples[len(samples) // 6 :])


Calls = Mapping[str, tuple[Callable[[], object], Callable[[], object]]]
"""What draws new inputs, and the call."""


def int8_calls(torch: Any, m: int, n: int, k: int) -> Calls:
    a = torch.empty((m, k), dtype=torch.int8)
    unsigned = torch.empty((m, k), dtype=torch.uint8)
    b = torch.randint(-128, 127, (k, n), dtype=torch.int8)
    scales, zeros = torch.ones(n), torch.zeros(n, dtype=torch.int64)

    def packed(given: Any) -> Any:
        return torch.ops.onednn.qlinear_pointwise(
            given, 1.0, 0, weights, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )

    found = {"plain": (lambda: a.random_(-128, 127), lambda: torch._int_mm(a, b))}
    a.random_(-128, 127)
    unsigned.random_(0, 255)
    try:
        weights = torch.ops.onednn.qlinear_prepack(b.t().contiguous(), [m, k])
        right = torch.equal(packed(a)[:16], torch._int_mm(a, b)[:16].float())
        packed(unsigned)
    except (AttributeError, RuntimeError):
        return found
    if right:
        found["packed"] = (lambda: a.random_(-128, 127), lambda: packed(a))
        found["packed, A unsigned"] = (lambda: unsigned.random_(0, 255), lambda: packed(unsigned))
    return found


def bf16_calls(torch: Any, m: int, n: int, k: int) -> Calls:
    a = torch.empty((m, k), dtype=torch.bfloat16)
    b = torch.randn(n, k).bfloat16()
    plain = b.t().contiguous()

    def draw() -> None:
        a.normal_()

    def packed(weights: Any) -> Any:
        return torch.ops.mkldnn._linear_pointwise(a, weights, None, "none", [], "")

    found = {"plain": (draw, lambda: a @ plain)}
    draw()
    try:
        weights = torch.ops.mkldnn._reorder_linear_weight(b, m)
        right = torch.allclose(packed(weights).float(), (a @ plain).float(), rtol=0.05, atol=1.0)
    except (AttributeError, RuntimeError):
        return found
    return {**found, "packed": (draw, lambda: packed(weights))} if right else found


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    sys.exit(main())
