"""Converts names of GEMM workloads to arrays and operations."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.core.errors import WorkloadError
from tilewright.core.records import Argument, Workload
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.sizes import check_memory, check_reduction, parse_size

PATTERN = "gemm-MxNxK"


@dataclass(frozen=True, slots=True)
class Gemm:
    """Sizes of C[m][n] = A[m][k] * B[k][n]; int8 results are saturated."""

    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        """Canonical workload name, without the target."""
        return f"gemm-{self.m}x{self.n}x{self.k}"

    def workload(self, instance: Instance) -> Workload:
        """The workload record of these sizes, in the instance's element type."""
        dtype = instance.element.dtype
        return Workload(
            name=f"{instance.name}:{self.name}",
            target=instance.name,
            arguments=(
                Argument("A", (self.m, self.k), dtype, "input"),
                Argument("B", (self.k, self.n), dtype, "input"),
                Argument("C", (self.m, self.n), dtype, "output"),
            ),
            operations=self.m * self.n * self.k,
            source=self.name,
        )


def parse_gemm(spec: str, instance: Instance) -> Gemm:
    """Sizes from a name like `gemm-512x512x512`, for this instance.

    Raises `WorkloadError` if the name is malformed, or its sizes are not positive or too large.
    """
    match = re.fullmatch(r"gemm-(-?\d+)x(-?\d+)x(-?\d+)", spec, re.ASCII)
    if match is None:
        raise WorkloadError(
            f"workload {spec!r} is malformed. Write {PATTERN} with three positive whole "
            "numbers, for example gemm-512x512x512."
        )
    gemm = Gemm(*(parse_size(spec, text, "M, N and K") for text in match.groups()))
    check_reduction(spec, gemm.k, "K", instance)
    elements = gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n
    check_memory(spec, elements * instance.config.element_bytes)
    return gemm
