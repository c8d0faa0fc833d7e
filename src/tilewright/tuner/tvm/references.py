"""Libraries for the same task, which are timed in the same rounds as the tuner's kernels.

On a CPU, these are numpy's matrix product, which uses OpenBLAS (or the library with which numpy was
built), and torch for convolutions with larger kernels. On a GPU, they are cuBLAS and cuDNN through
torch, in fp32 without TF32.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.tuner.workload import TensorWorkload

Arrays = list[np.ndarray[Any, Any]]


def reference_kind(workload: TensorWorkload, gpu: bool = False) -> str | None:
    """The library call for this workload, as text for `reference_call`; None if there is none.

    The result is also None if torch is needed and not installed; `missing_library` reports this.
    """
    call = _library_call(workload, gpu)
    if call is None or (_needs_torch(call) and importlib.util.find_spec("torch") is None):
        return None
    return json.dumps(call)


def missing_library(workload: TensorWorkload, gpu: bool = False) -> str | None:
    """A sentence that names the library that could be compared on this workload if it were
    installed."""
    call = _library_call(workload, gpu)
    if call is None or reference_kind(workload, gpu) is not None:
        return None
    library = _NAMES[call["call"], gpu]
    return (
        f"{library} is not timed for comparison, because torch is not installed: pip install torch"
    )


def reference_name(kind: str) -> str:
    """The name of a reference in tables."""
    call = json.loads(kind)
    return _NAMES[call["call"], call["gpu"]]


_NAMES = {
    ("matmul", False): "numpy (BLAS)",
    ("pointwise", False): "numpy (BLAS)",
    ("conv2d", False): "torch",
    ("matmul", True): "torch (cuBLAS)",
    ("pointwise", True): "torch (cuDNN)",
    ("conv2d", True): "torch (cuDNN)",
}


def _needs_torch(call: dict[str, Any]) -> bool:
    return bool(call["gpu"]) or call["call"] == "conv2d"


def _library_call(workload: TensorWorkload, gpu: bool) -> dict[str, Any] | None:
    """The call and its settings, whether its library is installed or not.

    It is recognised by the accesses of the reduction and not by name: a matrix product over the
    last two loops, a pointwise convolution, or a general NCHW convolution. Other stages are not
    examined; whether the call gives the task's result is found when it is measured.
    """
    if len(workload.inputs) != 2 or workload.spatial not in (2, 4):
        return None
    first, second = (access.dims for access in workload.inputs)
    if first == (((0, 1),), ((2, 1),)) and second == (((2, 1),), ((1, 1),)):
        return {"call": "matmul", "gpu": gpu}
    if workload.spatial != 4 or len(workload.loops) != 7 or len(first) != 4:
        return None
    if second != (((1, 1),), ((4, 1),), ((5, 1),), ((6, 1),)) or len(first[2]) != 2:
        return None
    if first[:2] != (((0, 1),), ((4, 1),)) or first[2][0][0] != 2 or first[3][0][0] != 3:
        return None
    stride, kernel = first[2][0][1], workload.extents[5]
    pointwise = stride == 1 and kernel == 1 and not workload.padded
    return {
        "call": "pointwise" if pointwise else "conv2d",
        "gpu": gpu,
        "stride": stride,
        "rows": workload.extents[2],
    }


def reference_call(kind: str, arrays: Arrays) -> Callable[[], Any]:
    """A call without arguments that computes the result from `arrays`, the function's buffers."""
    settings, (first, second, *_) = json.loads(kind), arrays
    if _needs_torch(settings):
        return _torch_call(settings, first, second)
    if settings["call"] == "matmul":
        out = np.empty((first.shape[0], second.shape[1]), first.dtype)
        return lambda: np.matmul(first, second, out=out)
    channels, size = first.shape[1], first.shape[2] * first.shape[3]
    image = first.reshape(first.shape[0], channels, size)
    weights = second.reshape(second.shape[0], channels)
    result = np.empty((first.shape[0], second.shape[0], size), first.dtype)
    return lambda: np.matmul(weights, image, out=result)


def _torch_call(settings: dict[str, Any], first: Any, second: Any) -> Callable[[], Any]:
    import torch

    a, b = torch.from_numpy(first), torch.from_numpy(second)
    if settings["gpu"]:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        a, b = a.cuda(), b.cuda()
    if settings["call"] == "matmul":
        return lambda: torch.matmul(a, b)
    stride, height, kernel = settings["stride"], first.shape[2], second.shape[2]
    padding = ((settings["rows"] - 1) * stride + kernel - height + 1) // 2
    return lambda: torch.nn.functional.conv2d(a, b, stride=stride, padding=padding)


def wait_for_gpu(kind: str) -> None:
    """Wait until the work that a call started is finished. Returns at once for a call on a CPU."""
    if json.loads(kind)["gpu"]:
        import torch

        torch.cuda.synchronize()
