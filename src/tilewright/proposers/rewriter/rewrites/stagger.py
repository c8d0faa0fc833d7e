"""Issues loads in parts during the loop that uses them, instead of all before it."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, accesses
from tilewright.proposers.rewriter.analysis.polyhedra import meet
from tilewright.proposers.rewriter.analysis.ranges import at_value
from tilewright.proposers.rewriter.analysis.regions import touches
from tilewright.proposers.rewriter.expr import minimum, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Compare,
    Guard,
    Kernel,
    Loop,
    children,
    commands,
    fresh_name,
    has_opaque,
    rebuilt,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.dependence import check_constant, check_settings
from tilewright.proposers.rewriter.rewrites.ordering import check_fences, check_free_rows


def stagger(kernel: Kernel, machine: Machine, loads: Loop) -> Kernel:
    """Issue loads one iteration before the next loop needs them, instead of all before that loop.

    Before: `for (v = 0; v < 9; v++) load(A[v], SPAD(v));  for (y = 0; y < 8; y++) use(y, y + 1);`
    After:  `for (v = 0; v < 2; v++) load(A[v], SPAD(v));
             for (y = 0; y < 8; y++) { if (y + 2 < 9) load(A[y + 2], SPAD(y + 2)); use(y, y + 1); }`

    As few loads as possible stay before the loop. Legal if no iteration accesses rows that are
    loaded in it or later, the loop stores no elements that are loaded, and settings and fences stay
    in force.
    """
    body, using = _following(kernel.body, loads)
    if body is None or using is None:
        raise NotApplicable(f"no loop follows loop {loads.var}")
    _check_between(kernel, machine, body, loads, using)
    bounds = (loads.lower, loads.upper, using.lower, using.upper)
    if not all(b.is_const for b in bounds) or has_opaque((loads, using)):
        raise NotApplicable(f"loops {loads.var} and {using.var} are not counted by constants")
    pieces = -(-(loads.upper.const - loads.lower.const) // loads.step)
    rounds = -(-(using.upper.const - using.lower.const) // using.step)
    unit = using.step // gcd(loads.step, using.step)  # so that rounds begin at affine pieces
    fewest = max(1, pieces // rounds // unit) * unit
    each, least = next(
        (
            (each, least)
            for each in (fewest, fewest + unit)
            if (least := _least(kernel, machine, loads, using, each, pieces)) + each < pieces
            and least + each * rounds >= pieces
        ),
        (0, 0),
    )
    if not each:
        raise NotApplicable(f"loop {using.var} uses the loads in another order")
    fused = _fused(loads, using, fresh_name(kernel, loads.var), least, each, whole=False)
    first = (replace(loads, upper=loads.lower + least * loads.step),) if least else ()
    return kernel.with_body(
        rebuilt(kernel.body, lambda s: first if s is loads else (fused,) if s is using else None)
    )


def _following(body: Body, loads: Loop) -> tuple[Body | None, Loop | None]:
    """The block that contains a loop, and the next loop in it that does more than load."""
    if loads in body:
        rest = body[body.index(loads) + 1 :]
        return body, next((s for s in rest if isinstance(s, Loop) and _works(s)), None)
    for stmt in body:
        found = _following(children(stmt), loads)
        if found[0] is not None:
            return found
    return None, None


def _works(loop: Loop) -> bool:
    return len({c.name for c in commands(loop.body)}) > 1


def _check_between(kernel: Kernel, machine: Machine, body: Body, loads: Loop, using: Loop) -> None:
    """Raise `NotApplicable` unless there are only loads of other rows between the two loops."""
    if any(machine.unit(c.name) != "load" for c in commands((loads,))):
        raise NotApplicable(f"loop {loads.var} does more than load")
    between = set(commands(body[body.index(loads) + 1 : body.index(using)]))
    if any(machine.unit(c.name) != "load" for c in between):
        raise NotApplicable(f"there is other code between loops {loads.var} and {using.var}")
    found = list(accesses(kernel.body, machine))
    moved = [touches(a, kernel, machine) for a in found if loads in a.above]
    others = [a for a in found if a.command in between]
    spaces = {a.local.space for a in found if loads in a.above}
    for other in others:
        region = touches(other, kernel, machine)
        shared = [s for s in region.loops if all(s in m.loops for m in moved)]
        if other.local.space in spaces and any(meet(m, region, shared) for m in moved):
            raise NotApplicable(f"rows of loop {loads.var} are loaded again before {using.var}")


def _least(
    kernel: Kernel, machine: Machine, loads: Loop, using: Loop, each: int, pieces: int
) -> int:
    """The minimum number of pieces that have to stay before the loop."""
    least, most = 0, pieces
    while least < most:
        middle = (least + most) // 2
        if _fits(kernel, machine, loads, using, middle, each):
            most = middle
        else:
            least = middle + 1
    return least


def _fits(
    kernel: Kernel, machine: Machine, loads: Loop, using: Loop, first: int, each: int
) -> bool:
    """Whether no iteration accesses rows that it loads itself, or that later ones load."""
    probe = _fused(loads, using, fresh_name(kernel, loads.var), first, each, whole=True)
    changed = kernel.with_body(
        rebuilt(kernel.body, lambda s: () if s is loads else (probe,) if s is using else None)
    )
    moved = set(commands(probe.body[:1]))
    check_settings(changed, machine, moved, probe)
    check_constant(changed, machine, moved, probe)
    check_fences(changed, machine, moved, probe)
    try:
        check_free_rows(changed, machine, moved, probe)
    except NotApplicable:
        return False
    return True


def _fused(loads: Loop, using: Loop, name: str, first: int, each: int, *, whole: bool) -> Loop:
    """The using loop with the loads of a round at its beginning; with `whole`, all remaining loads.

    `name` is the variable of a loop over them.
    """
    step, end = loads.step, loads.upper
    start = loads.lower + first * step
    start = start + (var(using.var) - using.lower) * (each * step // using.step)
    body = at_value(loads.body, loads.var, var(name))
    if each == 1 and not whole:
        inner: Body = at_value(loads.body, loads.var, start)
    else:
        last = end if whole else minimum(start + each * step, end)
        inner = (replace(loads, var=name, lower=start, upper=last, body=body),)
    head = Guard((Compare("<", start, end),), inner)
    return replace(using, body=(head, *using.body))
