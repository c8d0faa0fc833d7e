"""Libraries that answer the same task, timed beside the tuner's kernels.

numpy's matrix product is OpenBLAS (or what numpy was built with); convolutions with larger kernels
need torch, which is used where it is installed.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.tuner.workload import TensorWorkload

Arrays = list[np.ndarray[Any, Any]]


def reference_kind(workload: TensorWorkload) -> str | None:
    """Which library call computes this workload, as text for `reference_call`; None if none does.

    Recognised by the reduction's accesses, not by name: a matrix product over the last two loops, a
    pointwise or a general NCHW convolution. Other stages are not looked at: whether the call gives
    the task's result is seen when it is measured.
    """
    if len(workload.inputs) != 2 or workload.spatial not in (2, 4):
        return None
    first, second = (access.dims for access in workload.inputs)
    if first == (((0, 1),), ((2, 1),)) and second == (((2, 1),), ((1, 1),)):
        return json.dumps({"call": "matmul"})
    if workload.spatial != 4 or len(workload.loops) != 7 or len(first) != 4:
        return None
    if second != (((1, 1),), ((4, 1),), ((5, 1),), ((6, 1),)) or len(first[2]) != 2:
        return None
    if first[:2] != (((0, 1),), ((4, 1),)) or first[2][0][0] != 2 or first[3][0][0] != 3:
        return None
    stride, kernel = first[2][0][1], workload.extents[5]
    if stride == 1 and kernel == 1 and not workload.padded:
        return json.dumps({"call": "pointwise"})
    if importlib.util.find_spec("torch") is None:
        return None
    return json.dumps({"call": "torch", "stride": stride, "rows": workload.extents[2]})


def reference_name(kind: str) -> str:
    """What a reference is called in tables."""
    call = json.loads(kind)["call"]
    return "torch" if call == "torch" else "numpy (BLAS)"


def reference_call(kind: str, arrays: Arrays) -> Callable[[], Any]:
    """A call without arguments that computes the result from `arrays`, the function's buffers."""
    settings, (first, second, *_) = json.loads(kind), arrays
    if settings["call"] == "matmul":
        out = np.empty((first.shape[0], second.shape[1]), first.dtype)
        return lambda: np.matmul(first, second, out=out)
    if settings["call"] == "pointwise":
        channels, size = first.shape[1], first.shape[2] * first.shape[3]
        image = first.reshape(first.shape[0], channels, size)
        weights = second.reshape(second.shape[0], channels)
        result = np.empty((first.shape[0], second.shape[0], size), first.dtype)
        return lambda: np.matmul(weights, image, out=result)
    import torch

    image, weights = torch.from_numpy(first), torch.from_numpy(second)
    stride, height, kernel = settings["stride"], first.shape[2], second.shape[2]
    padding = ((settings["rows"] - 1) * stride + kernel - height + 1) // 2
    return lambda: torch.nn.functional.conv2d(image, weights, stride=stride, padding=padding)
