"""Registered GEMM workloads: names to arrays, operations and the starting kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.core.records import Argument, Workload

PATTERN = "gemm-MxNxK"

REGISTERED = {
    "gemm-512x512x512": "square; A and B together are twice the scratchpad",
    "gemm-12544x64x256": "ResNet-50 at batch 4, 56x56 layer, 256 to 64 channels",
    "gemm-12544x256x64": "ResNet-50 at batch 4, 56x56 layer, 64 to 256 channels",
    "gemm-3136x128x512": "ResNet-50 at batch 4, 28x28 layer, 512 to 128 channels",
    "gemm-3136x512x128": "ResNet-50 at batch 4, 28x28 layer, 128 to 512 channels",
    "gemm-784x256x1024": "ResNet-50 at batch 4, 14x14 layer, 1024 to 256 channels",
}
"""Names shown by `tilewright workloads`; any other positive sizes work too."""

MAX_ARGUMENT_BYTES = 128 << 20
"""All arrays together; the simulated memory holds them beside code and guard pages."""

MAX_REDUCTION = 1 << 16
"""Largest K for which a sum of int8 products always fits the 32-bit accumulator."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """Sizes of C[m][n] = sat8(A[m][k] * B[k][n])."""

    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        """Canonical workload name, without the target."""
        return f"gemm-{self.m}x{self.n}x{self.k}"

    def workload(self, target: str) -> Workload:
        """The workload record of these sizes."""
        return Workload(
            name=f"{target}:{self.name}",
            target=target,
            arguments=(
                Argument("A", (self.m, self.k), "int8", "input"),
                Argument("B", (self.k, self.n), "int8", "input"),
                Argument("C", (self.m, self.n), "int8", "output"),
            ),
            operations=self.m * self.n * self.k,
            source=self.name,
        )


def parse_gemm(spec: str) -> Gemm:
    """Sizes from a name like `gemm-512x512x512`.

    Raises `UnknownNameError` when it is not a GEMM's name and `WorkloadError` when its sizes are
    malformed, not positive or too large.
    """
    if not re.match(r"gemm([-_x\d]|$)", spec):
        raise UnknownNameError(
            "gemmini workload", spec, [*REGISTERED, PATTERN], f"Any positive sizes work: {PATTERN}."
        )
    match = re.fullmatch(r"gemm-(-?\d+)x(-?\d+)x(-?\d+)", spec)
    if match is None:
        raise WorkloadError(
            f"workload {spec!r} is malformed: expected {PATTERN} with three positive whole "
            "numbers, for example gemm-512x512x512."
        )
    m, n, k = (_size(spec, text) for text in match.groups())
    _check_limits(spec, Gemm(m, n, k))
    return Gemm(m, n, k)


def _size(spec: str, text: str) -> int:
    value = int(text) if len(text) <= 12 else 10**12
    if value <= 0:
        raise WorkloadError(f"workload {spec!r} has the size {text}: M, N and K must be 1 or more.")
    return value


def _check_limits(spec: str, gemm: Gemm) -> None:
    if gemm.k > MAX_REDUCTION:
        raise WorkloadError(
            f"workload {spec!r} has K = {gemm.k}: sums of more than {MAX_REDUCTION} int8 products "
            f"may overflow the 32-bit accumulator, so choose K <= {MAX_REDUCTION}."
        )
    size = gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n
    if size > MAX_ARGUMENT_BYTES:
        raise WorkloadError(
            f"workload {spec!r} needs {size >> 20} MiB of arrays: the simulated memory holds "
            f"{MAX_ARGUMENT_BYTES >> 20} MiB, so choose smaller sizes."
        )
