"""The registered workloads: names, descriptions, and what a name stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from tilewright.core.errors import UnknownNameError
from tilewright.targets.gemmini import convolution, gemm, tinympc
from tilewright.targets.gemmini.convolution import Convolution, parse_convolution
from tilewright.targets.gemmini.gemm import Gemm, parse_gemm
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.tinympc import TinyMpc, parse_tinympc

Shape: TypeAlias = Gemm | Convolution | TinyMpc

PATTERNS = {
    gemm.PATTERN: "C[M][N] = A[M][K] * B[K][N] for any positive sizes; int8 results are saturated",
    convolution.PATTERN: "convolution with bias: kernel RxR, stride S, padding P; pP may be "
    "left out for (R-1)/2",
}

FLOAT_PATTERNS = {
    tinympc.PATTERN: "TinyMPC: PASS forward or backward over H steps of S states and I inputs",
}
"""Patterns of configurations that compute with floating point."""

REGISTERED = {
    "gemm-512x512x512": "square; A and B together are twice the scratchpad",
    "gemm-12544x64x256": "ResNet-50 at batch 4, 56x56 layer, 256 to 64 channels",
    "gemm-12544x256x64": "ResNet-50 at batch 4, 56x56 layer, 64 to 256 channels",
    "gemm-3136x128x512": "ResNet-50 at batch 4, 28x28 layer, 512 to 128 channels",
    "gemm-3136x512x128": "ResNet-50 at batch 4, 28x28 layer, 128 to 512 channels",
    "gemm-784x256x1024": "ResNet-50 at batch 4, 14x14 layer, 1024 to 256 channels",
    "gemm-1024x1024x1024": "schedule reuse: square, source of 512 and 256",
    "gemm-256x256x256": "schedule reuse: square, fits the scratchpad",
    "gemm-6272x256x64": "schedule reuse: half the rows of 12544x256x64",
    "gemm-12544x128x64": "schedule reuse: half the columns of 12544x256x64",
    "gemm-128x1024x1024": "schedule reuse: few rows, source of 64 and 32",
    "gemm-64x1024x1024": "schedule reuse: fewer rows, bound by loading B",
    "gemm-32x1024x1024": "schedule reuse: fewest rows, bound by loading B",
    "gemm-32x2048x2048": "schedule reuse: a large matrix times few rows",
    "conv-4x56x56x64x64-k3s1": "ResNet-50 at batch 4, 3x3 on 56x56, 64 channels",
    "conv-4x28x28x128x128-k3s1": "ResNet-50 at batch 4, 3x3 on 28x28, 128 channels",
    "conv-4x14x14x256x256-k3s1": "ResNet-50 at batch 4, 3x3 on 14x14, 256 channels",
    "conv-4x14x14x128x128-k3s1": "schedule reuse: 3x3 on 14x14, 128 channels",
}

FLOAT_REGISTERED = {
    "tinympc-forward": "TinyMPC forward pass: 12 states, 4 inputs, horizon 5",
    "tinympc-backward": "TinyMPC backward pass: 12 states, 4 inputs, horizon 10",
}
"""Names shown by `tilewright workloads`; any other sizes of the patterns work too."""


def registered(instance: Instance) -> Mapping[str, str]:
    """Patterns and names of this instance's workloads, with descriptions."""
    if instance.is_integer:
        return {**PATTERNS, **REGISTERED}
    return {**PATTERNS, **FLOAT_PATTERNS, **FLOAT_REGISTERED, **REGISTERED}


def parse_workload(spec: str, instance: Instance) -> Shape:
    """The workload with this name.

    Raises `UnknownNameError` if it does not begin like any pattern, and `WorkloadError` if its
    sizes are malformed, impossible or too large.
    """
    if re.match(r"gemm([-_x\d]|$)", spec):
        return parse_gemm(spec, instance)
    if re.match(r"conv([-_x\d]|$)", spec):
        return parse_convolution(spec, instance)
    if re.match(r"tinympc([-_]|$)", spec):
        return parse_tinympc(spec, instance)
    known = list(registered(instance))
    patterns = PATTERNS if instance.is_integer else {**PATTERNS, **FLOAT_PATTERNS}
    hint = f"Any positive sizes work: {', '.join(patterns)}."
    raise UnknownNameError("gemmini workload", spec, known, hint)
