"""Loop order, unrolling, and partial last iterations."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import at_value, env_of, trips
from tilewright.proposers.rewriter.expr import Expr, Minimum, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Kernel,
    Loop,
    Stmt,
    commands,
    expressions,
    has_opaque,
    is_core_loop,
    rebuilt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import (
    check_independent,
    check_settings_stay,
    check_swappable,
)
from tilewright.proposers.rewriter.rewrites.kept_operands import check_nothing_kept
from tilewright.proposers.rewriter.rewrites.ordering import check_fences

MAX_UNROLLED = 96
"""Maximum number of commands in an unrolled body, because longer code does not fit into the
instruction cache."""


def interchange(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Swap a loop with the one loop inside it.

    Before: `for i { load(A[i]); for j { .. } }`
    After:  `for j { for i { load(A[i]); .. } }`

    Loads between the two loops are moved into the inner body and repeated in each of its
    iterations. Legal if iterations of both loops are independent, neither bound uses the other
    variable, no product keeps an operand that another iteration latched, and no setting applies to
    another iteration. Without such loads, sums over the outer loop are also allowed, because the
    order of their terms stays the same.
    """
    only_loads = _loads_only(loop.body, machine)
    inner = [
        s
        for s in loop.body
        if isinstance(s, Loop) and (only_loads or not _loads_only((s,), machine))
    ]
    if len(inner) != 1 or has_opaque(loop.body):
        raise NotApplicable(f"loop {loop.var} does not contain exactly one loop")
    position = loop.body.index(inner[0])
    before, following = loop.body[:position], loop.body[position + 1 :]
    if following or not _loads_only(before, machine):
        raise NotApplicable(f"loop {loop.var} contains more than loads outside its inner loop")
    if loop.var in inner[0].lower.names() | inner[0].upper.names():
        raise NotApplicable(f"the bounds of loop {inner[0].var} depend on {loop.var}")
    if before:
        check_independent(kernel, machine, loop)
        check_independent(kernel, machine, inner[0])
    else:
        check_swappable(kernel, machine, loop, inner[0])
    check_nothing_kept(loop, machine)
    check_nothing_kept(inner[0], machine)
    check_fences(kernel, machine, set(commands(loop.body)), loop)
    check_settings_stay(kernel, machine, loop, (*before, *inner[0].body))
    swapped = replace(
        inner[0],
        notes=loop.notes,
        body=(replace(loop, notes=inner[0].notes, body=(*before, *inner[0].body)),),
    )
    return kernel.with_body(rebuilt(kernel.body, lambda s: (swapped,) if s is loop else None))


def unroll(kernel: Kernel, machine: Machine, loop: Loop, factor: int) -> Kernel:
    """Repeat a loop's body. The factor 0 unrolls it completely.

    Before: `for (jj = 0; jj < 64; jj += 16) product(SPAD(jj));`
    After:  `product(SPAD(0)); product(SPAD(16)); product(SPAD(32)); product(SPAD(48));`

    Legal for a known number of iterations that `factor` divides. For a loop of the core's code, the
    compiler is asked to do this: `#pragma GCC unroll 4`.
    """
    if factor and is_core_loop(loop):
        hinted = replace(loop, hint=factor)
        return kernel.with_body(rebuilt(kernel.body, lambda s: (hinted,) if s is loop else None))
    above = next(a for s, a in walk_paths(kernel.body) if s is loop)
    fewest, most = trips(loop, env_of(above))
    if fewest != most or (factor and not loop.lower.is_const) or has_opaque(loop.body):
        raise NotApplicable(f"the number of iterations of loop {loop.var} varies")
    count = int(most) if factor == 0 else factor
    if count < 2 or most % count or (factor and count == most):
        raise NotApplicable(f"{count} does not divide the {int(most)} iterations of {loop.var}")
    if count * sum(1 for _ in commands(loop.body)) > MAX_UNROLLED:
        raise NotApplicable(f"loop {loop.var} is too long to be unrolled {count} times")
    start = loop.lower if factor == 0 else var(loop.var)
    copies: list[Stmt] = []
    for turn in range(count):
        copies.extend(at_value(loop.body, loop.var, start + turn * loop.step))
    new: Body = tuple(copies)
    if factor:
        new = (replace(loop, step=loop.step * count, body=new),)
    elif loop.notes:
        new = (replace(new[0], notes=(*loop.notes, *new[0].notes)), *new[1:])
    return kernel.with_body(rebuilt(kernel.body, lambda s: new if s is loop else None))


def tail_first(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Split off the partial last iteration and run it before the others.

    Before: `for (i = 0; i < 56; i += 16) { rows = min(16, 56 - i); product(.., rows); }`
    After:  the body for i = 48 with 8 rows, then `for (i = 0; i < 48; i += 16) { .. 16 .. }`

    A short product that is not the last one to use a latched operand takes only the time of its own
    rows, because it need not hide the latching of the next operand. Legal if iterations can run in
    any order.
    """
    split = _split(kernel, loop, first=True)
    check_independent(kernel, machine, loop)
    check_nothing_kept(loop, machine)
    check_fences(kernel, machine, set(commands(loop.body)), loop)
    return split


def split_tail(kernel: Kernel, machine: Machine, loop: Loop) -> Kernel:
    """Split off the partial last iteration, so that the others work on whole tiles.

    Before: `for (i = 0; i < 200; i += 16) { rows = min(16, 200 - i); .. }`
    After:  `for (i = 0; i < 192; i += 16) { .. 16 .. }` and the body once more for i = 192.

    Legal for constant bounds that the step does not divide.
    """
    return _split(kernel, loop, first=False)


def _split(kernel: Kernel, loop: Loop, *, first: bool) -> Kernel:
    if not (loop.lower.is_const and loop.upper.is_const) or has_opaque(loop.body):
        raise NotApplicable(f"the bounds of loop {loop.var} are not constant")
    whole = (loop.upper.const - loop.lower.const) // loop.step * loop.step + loop.lower.const
    ragged = any(
        isinstance(a, Minimum) and loop.var in Expr(0, ((a, 1),)).names()
        for c in commands(loop.body)
        for o in c.operands
        for e in expressions(o)
        for a in e.atoms()
    )
    if whole == loop.upper.const or whole == loop.lower.const or not ragged:
        raise NotApplicable(f"loop {loop.var} has no partial last iteration")
    tail = at_value(loop.body, loop.var, Expr(whole))
    main = replace(loop, upper=Expr(whole))
    new = (*tail, main) if first else (main, *tail)
    return kernel.with_body(rebuilt(kernel.body, lambda s: new if s is loop else None))


def _loads_only(body: Body, machine: Machine) -> bool:
    return all(machine.unit(c.name) == "load" for c in commands(body))
