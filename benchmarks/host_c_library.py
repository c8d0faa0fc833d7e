"""Measures the median CPU time of one operation in PyTorch (oneDNN) and numpy (OpenBLAS).

    python benchmarks/host_c_library.py WORKLOAD          (prints JSON: nanoseconds by library)

`benchmarks/host_c.py` starts this script on one thread, pinned to the measuring core. Each call
gets new inputs, as for kernels, and weights have the layout that the library prefers. The process
keeps freed memory, so that no call has to get memory from the system. A call includes 2 to 5
microseconds of Python.
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
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""What the environment must hold before the libraries are loaded."""
CALLS, WARM = 60, 10

Made = tuple[Callable[[], object], Callable[[], object]]
"""What draws new inputs, and the call."""


def main() -> int:
    kind, _, text = sys.argv[1].partition("-")
    sizes = [int(size) for size in text.partition("-")[0].split("x")]
    found = {}
    for library, operations in (("torch", torch_operations()), ("numpy", numpy_operations())):
        if kind in operations:
            found[library] = median_ns(*operations[kind](*sizes))
    print(json.dumps(found))
    return 0


def median_ns(draw: Callable[[], object], call: Callable[[], object]) -> float:
    samples = []
    for _ in range(CALLS):
        draw()
        started = time.process_time_ns()
        call()
        samples.append(time.process_time_ns() - started)
    return statistics.median(samples[WARM:])


def numpy_operations() -> Mapping[str, Callable[..., Made]]:
    """A product of matrices is all that numpy leaves to a library."""
    import numpy as np

    rng = np.random.default_rng(1)

    def gemm(m: int, n: int, k: int) -> Made:
        a, b, c = (np.empty(shape, np.float32) for shape in ((m, k), (k, n), (m, n)))

        def draw() -> None:
            for array in (a, b):
                rng.standard_normal(array.shape, np.float32, out=array)

        return draw, lambda: np.matmul(a, b, out=c)

    return {"gemm": gemm}


def torch_operations() -> Mapping[str, Callable[..., Made]]:
    """Empty without PyTorch."""
    try:
        import torch
        from torch.nn import functional
    except ImportError:
        return {}
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)

    def made(call: Callable[..., object], *inputs: Any) -> Made:
        return lambda: [array.normal_() for array in inputs], lambda: call(*inputs)

    def gemm(m: int, n: int, k: int) -> Made:
        c = torch.empty(m, n)
        return made(lambda a, b: torch.mm(a, b, out=c), torch.empty(m, k), torch.empty(k, n))

    def conv(n: int, h: int, w: int, c: int, k: int) -> Made:
        last = torch.channels_last
        given = torch.empty(n, c, h + 2, w + 2).to(memory_format=last)
        return made(functional.conv2d, given, torch.empty(k, c, 3, 3).to(memory_format=last))

    def attention(rows: int, columns: int) -> Made:
        q, k, v = (torch.empty(1, 1, rows, columns) for _ in range(3))
        return made(functional.scaled_dot_product_attention, q, k, v)

    def layernorm(rows: int, columns: int) -> Made:
        x, gain, bias = torch.empty(rows, columns), torch.empty(columns), torch.empty(columns)
        return made(lambda x, g, b: functional.layer_norm(x, (columns,), g, b), x, gain, bias)

    def rmsnorm(rows: int, columns: int) -> Made:
        x, gain = torch.empty(rows, columns), torch.empty(columns)
        return made(lambda x, g: functional.rms_norm(x, (columns,), g), x, gain)

    def softmax(rows: int, columns: int) -> Made:
        y = torch.empty(rows, columns)
        return made(lambda x: torch.softmax(x, 1, out=y), torch.empty(rows, columns))

    return {
        "attention": attention,
        "conv": conv,
        "gemm": gemm,
        "layernorm": layernorm,
        "rmsnorm": rmsnorm,
        "softmax": softmax,
    }


if __name__ == "__main__":
    for name, value in ONE_THREAD.items():
        if os.environ.get(name) != value:
            os.environ.update(ONE_THREAD)
            os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.exit(main())
