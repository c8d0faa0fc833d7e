"""Checks the sizes of a registered workload. Every refusal is one sentence."""

from __future__ import annotations

from tilewright.core.errors import WorkloadError
from tilewright.targets.gemmini.instance import Instance

MAX_ARGUMENT_BYTES = 128 << 20
"""Maximum total size of all arrays, which must fit into the simulated memory together with code and
guard pages.
"""

MAX_ARGUMENTS = 8
"""Maximum number of arguments, which the RISC-V calling convention passes in registers."""

MAX_REDUCTION = 1 << 16
"""Maximum number of int8 products that one output may sum, which always fit the 32-bit
accumulator.
"""


def parse_size(spec: str, text: str, names: str, smallest: int = 1) -> int:
    """The whole number in `text`; `WorkloadError` if it is less than `smallest`.

    `names` are the sizes of the workload `spec` that the message mentions.
    """
    value = int(text) if len(text) <= 12 else 10**12
    if value < smallest:
        raise WorkloadError(
            f"workload {spec!r} has the size {text}: {names} must be {smallest} or more."
        )
    return value


def check_reduction(spec: str, products: int, formula: str, instance: Instance) -> None:
    """Raise `WorkloadError` unless a sum of this number of int8 products fits; `formula` is the
    number in the message (`K`, `RxSxC`).
    """
    if instance.is_integer and products > MAX_REDUCTION:
        raise WorkloadError(
            f"workload {spec!r} has {formula} = {products}: sums of more than {MAX_REDUCTION} int8 "
            f"products may overflow the 32-bit accumulator, so choose {formula} <= {MAX_REDUCTION}."
        )


def check_memory(spec: str, array_bytes: int) -> None:
    """Raise `WorkloadError` unless arrays of this total size fit the simulated memory."""
    if array_bytes > MAX_ARGUMENT_BYTES:
        raise WorkloadError(
            f"workload {spec!r} needs {array_bytes >> 20} MiB of arrays: the simulated memory "
            f"has only {MAX_ARGUMENT_BYTES >> 20} MiB, so choose smaller sizes."
        )
