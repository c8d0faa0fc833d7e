"""Decides dependence with intervals only, which takes far less time than integer sets (isl).

A result of True is certain. If the result is False, only integer sets can decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from tilewright.proposers.rewriter.analysis.ranges import env_of, trips
from tilewright.proposers.rewriter.analysis.region import Region
from tilewright.proposers.rewriter.expr import Expr, Var, bounds
from tilewright.proposers.rewriter.ir import Guard, Loop


def covered(read: Region, writes: Iterable[Region], loop: Loop) -> bool:
    """Whether a single write before the read in the same iteration covers all rows that it reads.

    `for k { for b { load(SPAD(64 * k + 16 * b)); } for b { use(SPAD(64 * k + 16 * b)); } }`: with
    `k` fixed, the loads fill rows 0..63 after `64 * k` without a gap, and the uses stay inside.
    """
    return any(_covers(write, read, loop) for write in writes)


def _covers(write: Region, read: Region, loop: Loop) -> bool:
    if write.when or len(write.dims) != 1 or len(read.dims) != 1:
        return False
    first = _first_iteration(write, loop)
    if first is None or (write.position >= read.position and read.when != write.unless):
        return False
    if any(isinstance(s, Guard) and (s.orelse or s not in read.above) for s in write.above):
        return False
    shared = {s.var for s in write.loops if s in read.above} - first.keys()
    if loop not in write.above or loop not in read.above:
        return False
    if first:
        start, extent = write.dims[0]
        write = replace(write, dims=((start.substituted(first), extent),))
    filled = _spread(write, shared, dense=True)
    used = _spread(read, shared, dense=False)
    if filled is None or used is None:
        return False
    distance = used[0] - filled[0]
    return distance.is_const and distance.const >= 0 and distance.const + used[1] <= filled[1]


def _first_iteration(write: Region, loop: Loop) -> Mapping[str, Expr] | None:
    """The loops in whose first iteration a conditional write happens, and their first values.

    Empty for a write that always happens; None if the condition has another form. A write under the
    negation of `k > 0` happens in the first iteration of `k`, which comes before all others.
    """
    if write.unless is None:
        return {}
    if len(write.unless) != 1 or loop not in write.above:
        return None
    inner = {s.var: s.lower for s in write.loops[write.loops.index(loop) + 1 :]}
    test = write.unless[0]
    names = [a.name for a, c in test.left.terms if isinstance(a, Var) and c > 0]
    if len(names) != len(test.left.terms) or not inner.keys() >= set(names):
        return None
    first = {name: inner[name] for name in names}
    at_first = test.left.substituted(first) == test.right
    return first if first and test.op in (">", "!=") and at_first else None


def _spread(region: Region, fixed: Set[str], *, dense: bool) -> tuple[Expr, int] | None:
    """First point and extent of a region for fixed values of some loops; None if it is not a known
    interval.

    With `dense`, the result is also None if the points have gaps, or if a loop may have fewer
    iterations.
    """
    start, extent = region.dims[0]
    low, high = bounds(extent, env_of(region.above))
    if not 0 < (low if dense else high) < float("inf"):
        return None
    size = int(low if dense else high)
    steps: list[tuple[int, int]] = []
    inner = {s.var: s for s in region.loops if s.var not in fixed}
    spans = {name: (lower, upper) for name, lower, upper in region.more}
    rest = Expr(start.const)
    for atom, coefficient in start.terms:
        name = atom.name if isinstance(atom, Var) else None
        if name in inner and isinstance(atom, Var):
            loop = inner[name]
            least, most = trips(loop, env_of(region.above[: region.above.index(loop)]))
            lower, distance = loop.lower, coefficient * loop.step
        elif name in spans and isinstance(atom, Var):
            lower, upper = spans[name]
            least, most = bounds(upper - lower, env_of(region.above))
            distance = coefficient
        elif Expr(0, ((atom, 1),)).names() <= fixed:
            rest = rest + Expr(0, ((atom, coefficient),))
            continue
        else:
            return None
        if not lower.names() <= fixed or distance <= 0 or not 0 < most < float("inf"):
            return None
        rest = rest + lower * coefficient
        steps.append((distance, int(least if dense else most)))
    for distance, count in sorted(steps):
        if dense and (count < 1 or distance > size):
            return None
        size += distance * (count - 1)
    if dense and any(trips(s, env_of(region.above))[0] < 1 for s in inner.values()):
        return None
    return rest, size


def apart(first: Region, second: Region) -> bool:
    """Whether the regions are in ranges that never overlap, in any iterations."""
    for (low, size), (other, other_size) in zip(first.dims, second.dims, strict=True):
        mine, theirs = _range(first, low, size), _range(second, other, other_size)
        if mine[1] <= theirs[0] or theirs[1] <= mine[0]:
            return True
    return False


def _range(region: Region, start: Expr, extent: Expr) -> tuple[float, float]:
    env = dict(env_of(region.above))
    for name, lower, upper in region.more:
        env[name] = bounds(lower, env)[0], bounds(upper, env)[1] - 1
    return bounds(start, env)[0], bounds(start, env)[1] + bounds(extent, env)[1]


def never_in_turn(write: Region, read: Region, same: Sequence[Loop]) -> bool:
    """Whether the read happens only in iterations in which the conditional write does not.

    This is the case if the write happens unless a test holds, and the read only if it holds. The
    test may contain only the variables of `same`, the loops that both have in common.
    """
    if not read.when or read.when != write.unless:
        return False
    names = {n for c in read.when for e in (c.left, c.right) for n in e.names()}
    return names <= {s.var for s in same}


def certain(region: Region) -> bool:
    """Whether a region always has points: there are only loops around it, and all have
    iterations."""
    if region.when or region.unless is not None:
        return False
    env = env_of(region.above)
    spans = [(high - low) for _, low, high in region.more]
    extents = [extent for _, extent in region.dims]
    return (
        all(isinstance(s, Loop) for s in region.above)
        and all(trips(s, env)[0] >= 1 for s in region.loops)
        and all(bounds(e, env)[0] >= 1 for e in (*spans, *extents))
    )


def meet_at_once(first: Region, second: Region) -> bool:
    """Whether the first iterations of two statements touch the same point."""
    mine, theirs = _at_first(first), _at_first(second)
    if mine is None or theirs is None:
        return False
    return all(
        low < other_end and other < end
        for (low, end), (other, other_end) in zip(mine, theirs, strict=True)
    )


def _at_first(region: Region) -> list[tuple[int, int]] | None:
    """The points in the first iteration of all enclosing loops; None if there may be none."""
    if not certain(region):
        return None
    values: dict[str, Expr] = {}
    for loop in region.loops:
        values[loop.var] = loop.lower.substituted(values)
    for name, low, _ in region.more:
        values[name] = low.substituted(values)
    result = []
    for start, extent in region.dims:
        low, size = start.substituted(values), extent.substituted(values)
        if not (low.is_const and size.is_const):
            return None
        result.append((low.const, low.const + size.const))
    return result


def same_points(first: Region, second: Region, same: Sequence[Loop], different: Loop) -> bool:
    """Whether two iterations of a loop certainly touch the same points.

    The regions contain only the `same` loops.
    """
    if first.dims != second.dims or first.more != second.more:
        return False
    known = {s.var for s in same} | {name for name, _, _ in first.more}
    if any(not e.names() <= known for dim in first.dims for e in dim):
        return False
    return certain(first) and certain(second) and trips(different, env_of(first.above))[0] > 1
