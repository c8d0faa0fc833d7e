"""Changes the shape of loop nests: splits loops, fuses neighbours, and peels off single
iterations."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, accesses
from tilewright.proposers.rewriter.analysis.polyhedra import meet
from tilewright.proposers.rewriter.analysis.ranges import at_value, env_of, trips, with_notes
from tilewright.proposers.rewriter.analysis.regions import array_regions, touches
from tilewright.proposers.rewriter.expr import Expr, minimum, quotient, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Guard,
    Kernel,
    Loop,
    children,
    commands,
    fresh_name,
    has_opaque,
    rebuilt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine


def split(kernel: Kernel, machine: Machine, loop: Loop, factor: int) -> Kernel:
    """Split a loop into an outer loop over groups of iterations and an inner loop within a group.

    Before: `for (i = 0; i < 256; i += 16) use(i);`
    After:  `for (i = 0; i < 256; i += 64) for (ii = 0; ii < 64; ii += 16) use(i + ii);`

    Always legal, because the order of the iterations does not change.
    """
    if has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} contains unrecognised code")
    if factor < 2 or trips(loop, env_of(_above(kernel, loop)))[1] <= factor:
        raise NotApplicable(f"loop {loop.var} cannot be divided into groups of {factor} iterations")
    name, span = fresh_name(kernel, loop.var), loop.step * factor
    body = at_value(loop.body, loop.var, var(loop.var) + var(name))
    inner = Loop(name, Expr(), minimum(Expr(span), loop.upper - var(loop.var)), loop.step, body)
    return _replaced(kernel, loop, (replace(loop, step=span, body=(inner,)),))


def fuse(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Run the iterations of a loop together with those of the loop after it.

    Before: `for i load(A[i], SPAD(i));  for i use(SPAD(i));`
    After:  `for i { load(A[i], SPAD(i)); use(SPAD(i)); }`

    Legal for equal bounds if no iteration of the second loop accesses rows or elements that a later
    iteration of the first loop accesses, with one of them writing. Neither loop may contain
    settings or fences.
    """
    siblings = siblings_of(kernel, loop)
    position = siblings.index(loop)
    second = siblings[position + 1] if position + 1 < len(siblings) else None
    if not isinstance(second, Loop):
        raise NotApplicable(f"no loop follows loop {loop.var}")
    if (loop.lower, loop.upper, loop.step) != (second.lower, second.upper, second.step):
        raise NotApplicable(f"loop {loop.var} and the loop after it have different bounds")
    inside = [*commands(loop.body), *commands(second.body)]
    if has_opaque((loop, second)) or {machine.unit(c.name) for c in inside} & {"config", "sync"}:
        raise NotApplicable(f"loop {loop.var} contains more than moves and products")
    if any(machine.attribute(c.name, "keeps") for c in inside):
        raise NotApplicable("a product uses an operand that the previous one latched")
    _check_order(kernel, machine, loop, second)
    body = at_value(second.body, second.var, var(loop.var))
    fused = replace(loop, body=(*loop.body, *with_notes(body, second.notes)))
    return kernel.with_body(
        rebuilt(kernel.body, lambda s: (fused,) if s is loop else () if s is second else None)
    )


def peel(kernel: Kernel, machine: Machine, loop: Loop, which: str) -> Kernel:
    """Move the first or the last iteration out of a loop, so that tests for it are not needed.

    Before: `for i { if (i == 0) load(B); product(B, i); }`
    After:  `load(B); product(B, 0);  for (i = 16; ..) product(B, i);`

    Legal if the loop has at least two iterations. The last iteration requires constant bounds.
    """
    fewest, _ = trips(loop, env_of(_above(kernel, loop)))
    if fewest < 2 or has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} may run less than twice")
    if which == "first":
        once = with_notes(at_value(loop.body, loop.var, loop.lower), loop.notes)
        return _replaced(kernel, loop, (*once, replace(loop, lower=loop.lower + loop.step)))
    last = loop.lower + quotient(loop.upper - 1 - loop.lower, loop.step) * loop.step
    if not last.is_const:
        raise NotApplicable(f"the last iteration of loop {loop.var} is not known")
    return _replaced(
        kernel, loop, (replace(loop, upper=last), *at_value(loop.body, loop.var, last))
    )


def _check_order(kernel: Kernel, machine: Machine, first: Loop, second: Loop) -> None:
    """Refuse the rewrite if an iteration of `second` would run before an earlier use of its
    data."""
    mine, theirs = set(commands(first.body)), set(commands(second.body))
    local = list(accesses(kernel.body, machine))
    around = [s for s in _above(kernel, first) if isinstance(s, Loop)]
    for a, b in product(local, local):
        if (
            a.command in mine
            and b.command in theirs
            and a.local.space == b.local.space
            and (a.writes or b.writes)
            and meet(
                touches(a, kernel, machine),
                touches(b, kernel, machine),
                around,
                beyond=(first, second),
            )
        ):
            raise NotApplicable(f"loop {second.var} accesses rows of later iterations")
    for here, there in (("dram_write", "dram_read"), ("dram_read", "dram_write")):
        for (array, a_region), (other, b_region) in product(
            array_regions(kernel, machine, here, only=mine),
            array_regions(kernel, machine, there, only=theirs),
        ):
            if array == other and (
                a_region is None
                or b_region is None
                or meet(a_region, b_region, around, beyond=(first, second))
            ):
                raise NotApplicable(f"both loops access elements of {array}")


def _above(kernel: Kernel, loop: Loop) -> Body:
    return next(above for s, above in walk_paths(kernel.body) if s is loop)


def siblings_of(kernel: Kernel, loop: Loop) -> Body:
    """The statements of the list that contains a loop."""
    above = _above(kernel, loop)
    if not above:
        return kernel.body
    around = above[-1]
    if isinstance(around, Guard):
        return around.body if loop in around.body else around.orelse
    return children(around)


def _replaced(kernel: Kernel, loop: Loop, new: Body) -> Kernel:
    return kernel.with_body(rebuilt(kernel.body, lambda s: new if s is loop else None))
