"""Declares two neighbouring axes of an array parameter as one axis: `x[230][3]` as `x[690]`."""

from __future__ import annotations

import re
from dataclasses import replace

from tilewright.proposers.rewriter.ir import Array, Kernel

_NAME = r"\bkernel\b"


def with_merged_axis(kernel: Kernel, array: Array, axis: int) -> tuple[Kernel, Array] | None:
    """The kernel and a parameter in which `axis` and the axis before it are one axis.

    None if this is impossible. The elements keep their addresses, and a caller passes the same
    pointer. The parameter has to be declared with all its sizes in brackets. Nothing else in the
    file may name the kernel, because another declaration of the kernel would contradict this one.
    The body is not changed.
    """
    if array.local or not 0 < axis < len(array.shape):
        return None
    if re.search(_NAME, kernel.before) or re.search(_NAME, kernel.after):
        return None
    declared = re.compile(rf"\b{re.escape(array.name)}\s*((?:\[[^][]*\]\s*)+)")
    found = list(declared.finditer(kernel.signature))
    if len(found) != 1 or found[0][1].count("[") != len(array.shape):
        return None
    before, outer, inner, after = (
        array.shape[: axis - 1], array.shape[axis - 1], array.shape[axis], array.shape[axis + 1 :],
    )  # fmt: skip
    shape = (*before, outer * inner, *after)
    sizes = "".join(f"[{size or ''}]" for size in shape)
    start, stop = found[0].span(1)
    spaced = kernel.signature[stop - 1].isspace()
    signature = kernel.signature[:start] + sizes + " " * spaced + kernel.signature[stop:]
    merged = replace(array, shape=shape)
    arrays = tuple(merged if a is array else a for a in kernel.arrays)
    return replace(kernel, signature=signature, arrays=arrays), merged
