"""What cuBLAS and cuDNN take for a workload, through torch, in fp32 without TF32."""

from __future__ import annotations

import importlib
import importlib.util
from statistics import median

from tilewright.tuner.benchmark_set import CONVOLUTIONS, MATMULS


def library_seconds(identifier: str, samples: int = 9, calls: int = 20) -> float | None:
    """Median seconds per call; None where torch or a GPU is missing.

    Timed with CUDA events after warm-up; cuDNN may choose its fastest algorithm first.
    """
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    if identifier in MATMULS:
        m, n, k = MATMULS[identifier]
        a, b = torch.rand(m, k, device="cuda"), torch.rand(k, n, device="cuda")

        def call() -> object:
            return torch.matmul(a, b)
    else:
        out_channels, in_channels, size, kernel, stride = CONVOLUTIONS[identifier]
        image = torch.rand(1, in_channels, size, size, device="cuda")
        weights = torch.rand(out_channels, in_channels, kernel, kernel, device="cuda")

        def call() -> object:
            return torch.nn.functional.conv2d(image, weights, stride=stride, padding=kernel // 2)

    for _ in range(10):
        call()
    times = []
    for _ in range(samples):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / calls / 1e3)
    return float(median(times))
