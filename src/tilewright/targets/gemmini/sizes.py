"""What sizes a registered workload may have; every refusal is one sentence."""

from __future__ import annotations

from tilewright.core.errors import WorkloadError
from tilewright.targets.gemmini.instance import Instance

MAX_ARGUMENT_BYTES = 128 << 20
"""All arrays together; the simulated memory holds them beside code and guard pages."""

MAX_ARGUMENTS = 8
"""Those that the RISC-V calling convention passes in registers."""

MAX_REDUCTION = 1 << 16
"""Most int8 products one output may sum: so many always fit the 32-bit accumulator."""


def parse_size(spec: str, text: str, names: str, smallest: int = 1) -> int:
    """The whole number in `text`; `WorkloadError` when it is less than `smallest`.

    `names` says which sizes of the workload `spec` the sentence is about.
    """
    value = int(text) if len(text) <= 12 else 10**12
    if value < smallest:
        raise WorkloadError(
            f"workload {spec!r} has the size {text}: {names} must be {smallest} or more."
        )
    return value


def check_reduction(spec: str, products: int, formula: str, instance: Instance) -> None:
    """Raise unless a sum of so many int8 products fits; `formula` names them (`K`, `RxSxC`)."""
    if instance.is_integer and products > MAX_REDUCTION:
        raise WorkloadError(
            f"workload {spec!r} has {formula} = {products}: sums of more than {MAX_REDUCTION} int8 "
            f"products may overflow the 32-bit accumulator, so choose {formula} <= {MAX_REDUCTION}."
        )


def check_memory(spec: str, array_bytes: int) -> None:
    """Raise unless arrays of this many bytes fit the simulated memory."""
    if array_bytes > MAX_ARGUMENT_BYTES:
        raise WorkloadError(
            f"workload {spec!r} needs {array_bytes >> 20} MiB of arrays: the simulated memory "
            f"has only {MAX_ARGUMENT_BYTES >> 20} MiB, so choose smaller sizes."
        )
