"""Converts any kernel to the naive loop nest of its computation."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.ir import Array, Kernel, Stmt, has_opaque
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.batched_columns import side_by_side, written_arrays
from tilewright.proposers.rewriter.raising.computation import Computation
from tilewright.proposers.rewriter.raising.data import Undecided
from tilewright.proposers.rewriter.raising.distribution import distributed
from tilewright.proposers.rewriter.raising.execute import NotRaised, Run, executed
from tilewright.proposers.rewriter.raising.flow import computation
from tilewright.proposers.rewriter.raising.generate import generated
from tilewright.proposers.rewriter.raising.isa import deepest
from tilewright.proposers.rewriter.raising.merged_axes import with_merged_axis
from tilewright.proposers.rewriter.raising.nests import nests
from tilewright.proposers.rewriter.raising.own_arrays import names_in, numbered
from tilewright.proposers.rewriter.raising.places import AxisEnds
from tilewright.proposers.rewriter.raising.product_depth import deepened
from tilewright.proposers.rewriter.raising.stretches import Stretch, parts


@lru_cache(maxsize=16)
def raised(source: str, machine: Machine, *, chained: bool = False) -> Kernel:
    """The naive loop nest that computes the same as a kernel; `NotRaised` gives the reason if there
    is none.

    With `chained`, products read results of the product before them in local memory, where this is
    possible; `NotRaised` if it is nowhere possible.

    Sums are added up in another order: the same result for integers, another rounding for floats.
    Products whose operands are contiguous are joined if this reduces the number of products. If not
    everything can be derived, code of the core is kept, outside of the loops of commands.
    """
    kernel = lift(source, machine)
    try:
        return _nested(kernel, _computed(source, machine), machine, chained=chained)
    except NotRaised as error:
        if chained or not has_opaque(kernel.body):
            raise
        with suppress(NotRaised):
            return _in_parts(kernel, machine)
        try:
            apart = distributed(kernel, machine)
            if apart.body != kernel.body:
                return _in_parts(apart, machine)
        except NotRaised:
            pass
        raise error from None


def _computed(source: str, machine: Machine) -> Computation:
    """What a kernel computes."""
    found = _outcome(source, machine)
    if isinstance(found, NotRaised):
        raise found.with_traceback(None)
    return found


@lru_cache(maxsize=1)
def _outcome(source: str, machine: Machine) -> Computation | NotRaised:
    """What a kernel computes, or why it is not known. The last outcome is cached, because runs also
    ask for the `chained` nest."""
    try:
        try:
            run = executed(source, machine)
        except NotRaised as error:
            if not error.data:
                raise
            run = executed(source, machine, data=True)
        return _followed(run, machine)
    except NotRaised as error:
        return error


def _in_parts(kernel: Kernel, machine: Machine) -> Kernel:
    """The kernel with each stretch of commands as its naive loop nest, and the core's code as it
    is."""
    body: list[Stmt] = []
    new: dict[str, Array] = {}
    known = {a.name: a for a in kernel.arrays}
    for part in parts(kernel, machine):
        if not isinstance(part, Stretch):
            body += part
            continue
        taken = replace(part.kernel, before=f"{names_in(kernel)} {list(new)}")
        numbers = {a.name: number for number, a in numbered(part.kernel).items()}
        limits = {numbers[name]: most for name, most in part.limits.items() if name in numbers}
        found = _nested(taken, _followed(part.run, machine, limits), machine)
        if found.signature != part.kernel.signature:
            raise NotRaised("two axes of an array that the core's code may use have to be merged")
        new |= {a.name: a for a in found.arrays if a.local}
        body += found.body
    arrays = tuple((known | new).values())
    return simplify(replace(kernel, arrays=arrays, body=tuple(body), names={}, words=None))


def _followed(run: Run, machine: Machine, limits: Mapping[int, int] | None = None) -> Computation:
    """What a run computes."""
    try:
        return computation(run, machine, limits)
    except Undecided as error:  # an operand of a command depends on the contents of an array
        raise NotRaised(str(error)) from error


def _nested(
    kernel: Kernel, found: Computation, machine: Machine, *, chained: bool = False
) -> Kernel:
    """The nest of what a kernel computes."""
    wide = side_by_side(found, deepest(found, machine), machine)
    if wide is not found:
        try:
            return _nest(kernel, wide, machine, chained=chained)
        except NotRaised:  # the same for its results
            pass
    deep = deepened(found, deepest(found, machine))
    if deep is not found:
        try:
            return _nest(kernel, deep, machine, chained=chained)
        except NotRaised:  # its addresses do not form loops: the products stay as they are
            pass
    return _nest(kernel, found, machine, chained=chained)


def _nest(kernel: Kernel, found: Computation, machine: Machine, *, chained: bool) -> Kernel:
    """The nest. Two axes of a parameter are merged if the addresses treat them as one axis."""
    own = found.own.arrays(names_in(kernel))
    arrays = numbered(kernel) | {n: array for n, array in own.items() if n not in found.unused}
    arrays |= written_arrays(found, machine, names_in(kernel) | {a.name for a in arrays.values()})
    loops = nests(found)
    while True:
        try:
            body, unused = generated(found, loops, arrays, machine, chained=chained)
            break
        except AxisEnds as end:
            merged = with_merged_axis(kernel, arrays[end.number], end.axis)
            if merged is None:
                raise
            kernel, arrays[end.number] = merged
    if chained and not unused:
        raise NotRaised("no product can read the results of the product before it in local memory")
    used = tuple(array for number, array in arrays.items() if number not in unused)
    return simplify(replace(kernel, arrays=used, body=body, names={}, words=None))
