"""Copies that reverse the order of the elements in each partition.

All steps of a kernel's regions are positive, so that rewrites need not consider others. A
`tensor_copy` whose source is read from its last element to its first one is represented by an
instruction with a different name, so that no rewrite treats it as an ordinary copy.
"""

from __future__ import annotations

from tilewright.proposers.nki.ir import Op, Region

REVERSED_COPY = "reversed_copy"
"""The name of the instruction in the loop IR; its regions have positive steps."""


def with_reversed_source(op: Op) -> Op | None:
    """The instruction with positive steps; None if it is not a copy that reverses its source."""
    falling = [key for key, region in op.regions if region.falls]
    if not falling:
        return op
    if op.name != "tensor_copy" or falling != ["src"]:
        return None
    return Op(REVERSED_COPY, op.having(src=turned(op.region("src"))).arguments)


def as_written(op: Op) -> Op:
    """The instruction of NKI for an instruction of the loop IR."""
    if op.name != REVERSED_COPY:
        return op
    return Op("tensor_copy", op.having(src=turned(op.region("src"))).arguments)


def turned(region: Region) -> Region:
    """The same elements with the opposite order in each partition."""
    first, *free = region.dims
    last = sum(step * (count - 1) for step, count in free)
    return Region(
        region.tensor, region.offset + last, (first, *((-step, count) for step, count in free))
    )
