"""Changes the order of loops: exchanges two nested loops, or fuses two consecutive ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tilewright.proposers.nki.analysis.dependence import (
    KernelFacts,
    NotApplicableError,
    has_hidden_state,
    may_meet,
    meeting,
)
from tilewright.proposers.nki.ir import (
    Alloc,
    Kernel,
    Loop,
    Path,
    at,
    mapped_ops,
    ops,
    spliced,
    substituted,
    trips_of,
)
from tilewright.proposers.nki.linear import variable
from tilewright.proposers.nki.rewrites.unroll_and_jam import is_parallel


def exchange(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which a loop and its only inner loop are exchanged."""
    outer = at(kernel.body, path)
    if not isinstance(outer, Loop) or len(outer.body) != 1 or not isinstance(outer.body[0], Loop):
        raise NotApplicableError("the body of the loop is not a single loop")
    inner, world = outer.body[0], KernelFacts.of(kernel)
    swapped = replace(inner, body=(replace(outer, body=inner.body),))
    if not is_parallel(outer, world) and not is_parallel(swapped, world):
        raise NotApplicableError("the iterations of the loops depend on one another")
    return replace(kernel, body=spliced(kernel.body, path, (swapped,)))


def fuse(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which a loop and the next loop after it are fused."""
    first = at(kernel.body, path)
    body = kernel.body
    if len(path) > 1:
        around = at(kernel.body, path[:-1])
        assert isinstance(around, Loop)
        body = around.body
    number = path[-1] + 1
    while number < len(body) and isinstance(body[number], Alloc):
        number += 1
    second = body[number] if number < len(body) else None
    if not isinstance(first, Loop) or not isinstance(second, Loop) or first.trips != second.trips:
        raise NotApplicableError("no loop with the same number of iterations follows")
    if has_hidden_state((first, second)):
        raise NotApplicableError("sums are kept in the accumulator of ACT")
    same = {second.variable: variable(first.variable)}
    moved = mapped_ops(second.body, partial(substituted, values=same))
    world = KernelFacts.of(kernel)
    inner = frozenset({*trips_of(first.body), *trips_of(moved)})
    for one in ops(first.body):
        for other in ops(moved):
            for a, b in meeting(one, other):
                if may_meet(a, b, world, first.variable, inner, later=True):
                    raise NotApplicableError(
                        "the second loop needs later results of the first loop"
                    )
    together = (*body[path[-1] + 1 : number], replace(first, body=(*first.body, *moved)))
    made = kernel.body
    for place in range(number, path[-1], -1):
        made = spliced(made, (*path[:-1], place), ())
    return replace(kernel, body=spliced(made, path, together))
