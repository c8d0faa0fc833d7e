"""Issues loads in parts during the loop that uses them, instead of all before it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from math import gcd

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, accesses, find_buffers
from tilewright.proposers.rewriter.analysis.move_settings import settings_reaching
from tilewright.proposers.rewriter.analysis.polyhedra import meet
from tilewright.proposers.rewriter.analysis.ranges import at_value
from tilewright.proposers.rewriter.analysis.region import Region
from tilewright.proposers.rewriter.analysis.regions import array_regions, touches
from tilewright.proposers.rewriter.expr import minimum, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
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

SPARE = 2
"""Maximum number of pieces that are loaded before the loop although it could load them. Then each
iteration loads the same number of pieces."""


def stagger(kernel: Kernel, machine: Machine, loads: Loop) -> Kernel:
    """Issue loads one iteration before a later loop needs them, instead of all before that loop.

    Before: `for (v = 0; v < 9; v++) load(A[v], SPAD(v));  for (y = 0; y < 8; y++) use(y, y + 1);`
    After:  `for (v = 0; v < 2; v++) load(A[v], SPAD(v));
             for (y = 0; y < 8; y++) { if (y + 2 < 9) load(A[y + 2], SPAD(y + 2)); use(y, y + 1); }`

    Few loads stay before the loop. Legal if no iteration accesses rows that are
    loaded in it or later, the loop stores no elements that are loaded, and settings and fences stay
    in force. Code between the two loops must not access the loaded rows or store the loaded
    elements.
    """
    if any(machine.unit(c.name) != "load" for c in commands((loads,))):
        raise NotApplicable(f"loop {loads.var} does more than load")
    rest = _rest(kernel.body, loads)
    using = _using(kernel, machine, loads, rest)
    _check_between(kernel, machine, loads, rest[: rest.index(using)])
    bounds = (loads.lower, loads.upper, using.lower, using.upper)
    if not all(b.is_const for b in bounds) or has_opaque((loads, using)):
        raise NotApplicable(f"loops {loads.var} and {using.var} are not counted by constants")
    pieces = -(-(loads.upper.const - loads.lower.const) // loads.step)
    rounds = -(-(using.upper.const - using.lower.const) // using.step)
    unit = using.step // gcd(loads.step, using.step)  # so that rounds begin at affine pieces
    fewest = max(1, pieces // rounds // unit) * unit
    for each in (fewest, fewest + unit):
        least = _least(kernel, machine, loads, using, each, pieces)
        first = max(least, pieces - each * rounds)
        if first + each < pieces and first <= least + SPARE:
            break
    else:
        raise NotApplicable(f"loop {using.var} uses the loads in another order")
    fused = _fused(loads, using, fresh_name(kernel, loads.var), first, each, whole=False)
    before = (replace(loads, upper=loads.lower + first * loads.step),) if first else ()
    # Loads that are needed later must not delay the loads that the products between need.
    late = any(machine.unit(c.name) == "execute" for c in commands(rest[: rest.index(using)]))
    new = {loads: () if late else before, using: (*before, fused) if late else (fused,)}
    return kernel.with_body(
        rebuilt(kernel.body, lambda s: new.get(s) if isinstance(s, Loop) else None)
    )


def _rest(body: Body, loads: Loop) -> Body:
    """The statements after a loop in the block that contains it."""
    if loads in body:
        return body[body.index(loads) + 1 :]
    return next((rest for stmt in body if (rest := _rest(children(stmt), loads))), ())


def _using(kernel: Kernel, machine: Machine, loads: Loop, rest: Body) -> Loop:
    """The first of some loops that does more than load, and accesses a buffer that is loaded."""
    buffers = [b for b in find_buffers(kernel, machine) if any(loads in a.above for a in b.writers)]
    users = {
        stmt
        for buffer in buffers
        for access in buffer.accesses
        if machine.unit(access.command.name) != "load"
        for stmt in access.above
    }
    using = next((s for s in rest if isinstance(s, Loop) and s in users), None)
    if using is None:
        raise NotApplicable(f"no loop after loop {loads.var} uses its loads")
    return using


def _check_between(kernel: Kernel, machine: Machine, loads: Loop, between: Body) -> None:
    """Raise `NotApplicable` unless loads can be issued after the statements that follow them."""
    crossed = set(commands(between))
    if has_opaque(between) or any(machine.unit(c.name) == "sync" for c in crossed):
        raise NotApplicable(f"the core may order other code with loop {loads.var}")
    found = list(accesses(kernel.body, machine))
    moved = [touches(a, kernel, machine) for a in found if loads in a.above]
    spaces = {a.local.space for a in found if loads in a.above}
    for other in (a for a in found if a.command in crossed and a.local.space in spaces):
        if _may_meet(moved, touches(other, kernel, machine)):
            raise NotApplicable(
                f"rows of loop {loads.var} are accessed before the loop that uses them"
            )
    stored = list(array_regions(kernel, machine, "dram_write", only=crossed))
    for array, fetched in array_regions(kernel, machine, "dram_read", only=set(commands((loads,)))):
        for other_array, store in stored:
            if array == other_array and (
                fetched is None or store is None or _may_meet([fetched], store)
            ):
                raise NotApplicable(f"elements of {array} are stored after loop {loads.var}")


def _may_meet(moved: list[Region], other: Region) -> bool:
    """Whether some of the moved regions may share a point with another one, in the same iteration
    of the loops around both."""
    shared = [s for s in other.loops if all(s in m.loops for m in moved)]
    return any(meet(m, other, shared) for m in moved)


def _check_same_settings(
    kernel: Kernel, changed: Kernel, machine: Machine, loads: Body, moved: Set[Command]
) -> None:
    """Raise `NotApplicable` if other settings apply to loads after they were moved."""
    before = {s for c in commands(loads) for s in settings_reaching(kernel, machine, c)}
    if before != {s for c in moved for s in settings_reaching(changed, machine, c)}:
        raise NotApplicable("other settings apply to the loads where they are used")


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
    _check_same_settings(kernel, changed, machine, (loads,), moved)
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
