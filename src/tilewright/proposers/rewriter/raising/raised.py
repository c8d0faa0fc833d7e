"""Converts any kernel to the naive loop nest of its computation."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.batched_columns import copied_arrays, side_by_side
from tilewright.proposers.rewriter.raising.computation import Computation
from tilewright.proposers.rewriter.raising.execute import NotRaised, executed
from tilewright.proposers.rewriter.raising.flow import computation
from tilewright.proposers.rewriter.raising.generate import generated
from tilewright.proposers.rewriter.raising.isa import deepest
from tilewright.proposers.rewriter.raising.merged_axes import with_merged_axis
from tilewright.proposers.rewriter.raising.nests import nests
from tilewright.proposers.rewriter.raising.own_arrays import names_in, numbered
from tilewright.proposers.rewriter.raising.places import AxisEnds
from tilewright.proposers.rewriter.raising.product_depth import deepened


@lru_cache(maxsize=16)
def raised(source: str, machine: Machine) -> Kernel:
    """The naive loop nest that computes the same as a kernel; `NotRaised` gives the reason if there
    is none.

    Sums are added up in another order: the same result for integers, another rounding for floats.
    Products whose operands are contiguous are joined if this reduces the number of products.
    """
    kernel = lift(source, machine)
    try:
        run = executed(source, machine)
    except NotRaised as error:
        if not error.data:
            raise
        run = executed(source, machine, data=True)
    found = computation(run, machine)
    wide = side_by_side(found, deepest(found, machine), machine)
    if wide is not found:
        try:
            return _nest(kernel, wide, machine)
        except NotRaised:  # the same for its results
            pass
    deep = deepened(found, deepest(found, machine))
    if deep is not found:
        try:
            return _nest(kernel, deep, machine)
        except NotRaised:  # its addresses do not form loops: the products stay as they are
            pass
    return _nest(kernel, found, machine)


def _nest(kernel: Kernel, found: Computation, machine: Machine) -> Kernel:
    """The nest. Two axes of a parameter are merged if the addresses treat them as one axis."""
    own = found.own.arrays(names_in(kernel))
    arrays = numbered(kernel) | {n: array for n, array in own.items() if n not in found.unused}
    arrays |= copied_arrays(found, machine, names_in(kernel) | {a.name for a in arrays.values()})
    loops = nests(found)
    while True:
        try:
            body = generated(found, loops, arrays, machine)
            break
        except AxisEnds as end:
            merged = with_merged_axis(kernel, arrays[end.number], end.axis)
            if merged is None:
                raise
            kernel, arrays[end.number] = merged
    return simplify(replace(kernel, arrays=tuple(arrays.values()), body=body, names={}, words=None))
