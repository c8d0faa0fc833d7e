"""Kernels of the tuner as baselines, timed like a kernel of the search.

A kernel of the tuner is CUDA C++ for one shape. It is built and called like any kernel, except that
its host function takes no sizes. It is therefore compared only on the GPU, at the full sizes, as
PyTorch is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tilewright.core.records import Failed
from tilewright.core.tuning_records import TunableWorkload, TunedKernel
from tilewright.targets.cuda.device.evaluator import DeviceEvaluation
from tilewright.targets.cuda.device.gpus import Gpu
from tilewright.targets.cuda.launcher import call
from tilewright.targets.cuda.nvcc import Compiled
from tilewright.targets.cuda.shapes import Shape
from tilewright.targets.cuda.source import refused

NAMED = "tune, "
"""The beginning of the names of these baselines. No proposer has such a name."""
_FIELD = "tuned"


def tunable(shape: Shape, gpu: Gpu) -> TunableWorkload | None:
    """What `tilewright tune` calls a workload, and the command; None if it has no such workload."""
    s = shape.values
    if shape.kind in ("gemm", "matmul3d"):
        sizes: tuple[int, ...] = (s.get("B", 1) * s["M"], s["N"], s["K"])
        name, words = "matmul-" + "x".join(map(str, sizes)), ["matmul", *map(str, sizes)]
    elif shape.kind == "conv2d" and s["R"] == s["S"]:
        sizes = tuple(s[letter] for letter in "NCHWKRTP")
        name = "conv2d-{}x{}x{}x{}-f{}k{}s{}p{}".format(*sizes)
        words = ["conv2d", *map(str, sizes)]
    else:
        return None
    command = ("tilewright", "tune", *words, "--target", "cuda")
    return TunableWorkload(name, gpu.name, command)


def text_of(kernel: TunedKernel) -> str:
    """The text of the baseline. As it is not CUDA C++, no candidate can have the same text and be a
    kernel."""
    return json.dumps({_FIELD: kernel.source})


def source_in(text: str, proposer: str) -> str | None:
    """The kernel in the text of such a baseline; None for any other candidate."""
    if not proposer.startswith(NAMED):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    source = found.get(_FIELD) if isinstance(found, dict) else None
    return source if isinstance(source, str) else None


@dataclass(frozen=True)
class TunedEvaluation(DeviceEvaluation):
    """The evaluation of such a baseline. `of_kernels` is the evaluation of other kernels."""

    of_kernels: DeviceEvaluation | None = None
    _tuned: dict[str, tuple[bytes, Compiled] | Failed] = field(default_factory=dict)

    def built(self, source: str) -> tuple[bytes, Compiled] | Failed:
        """The program of the starting kernel, or of a kernel that takes no sizes."""
        if source == self.start and self.of_kernels is not None:
            return self.of_kernels.built(source)
        if source not in self._tuned:
            timeout_s = self.settings.compile_timeout_s * 3  # nvcc starts a dozen programs
            without_sizes = call(self.workload.arguments, ())
            self._tuned[source] = refused(source) or self.compiler.build(
                source, without_sizes, timeout_s
            )
        return self._tuned[source]
