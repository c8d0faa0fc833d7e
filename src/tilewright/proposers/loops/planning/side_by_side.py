"""Chooses the loops whose iterations run side by side, for kernels that vectors of floats do not
serve."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilewright.proposers.loops.analysis.changes import NotApplicableError, coefficient
from tilewright.proposers.loops.ir import (
    Element,
    For,
    Kernel,
    Load,
    around,
    expressions,
    loops,
    path_to,
)
from tilewright.proposers.loops.planning.steps import Step

_NEAR = 4
"""Maximum distance of the elements of neighbouring iterations that share cache lines."""
_NEAR_COST, _FAR_COST = 0.25, 1.0
_ROWS = 4
"""Number of copies of a loop around lanes."""
_LEAST_READS = 2
"""How often the elements of a copy must be read on average."""


def in_lanes(kernel: Kernel, count: int, *, pack: bool) -> Iterator[tuple[Step, Kernel, Kernel]]:
    """Steps, each with the kernel before and after it, that run the best loop of each nest in
    `count` lanes.

    With `pack`, inputs that such a loop would read with large steps are copied first.
    """
    moved, limit = 0, len(loops(kernel))
    for leaf in reversed(_innermost(kernel)):
        number = leaf + moved
        used = expressions(loops(kernel)[number].body) if number < limit else ()
        if number >= limit or any(isinstance(e, Load) for e in used):
            continue
        found = _best(kernel, around(kernel, number), count, pack=pack)
        for step, before, after in found:
            yield step, before, after
            kernel = after
            if step.technique == "pack":
                moved += len(loops(after)) - len(loops(before))
            else:
                limit = step.loop


def jammed_lanes(kernel: Kernel) -> Iterator[tuple[Step, Kernel, Kernel]]:
    """Steps, as `in_lanes` yields them, that jam copies of a loop around each loop over lanes, so
    that a loaded value serves several of them."""
    limit = len(loops(kernel))
    for leaf in reversed([n for n, loop in enumerate(loops(kernel)) if _is_of_lanes(loop, kernel)]):
        path = around(kernel, leaf)
        for outer in reversed(path[:-2]) if leaf < limit else ():
            number = _number_of(outer, kernel)
            step = Step("jam", number, _ROWS)
            after = step.applied(kernel) if outer.step == 1 else None
            if after is not None:
                yield step, kernel, after
                kernel, limit = after, number
                break


def _is_of_lanes(loop: For, kernel: Kernel) -> bool:
    """Whether a loop runs over the lanes of a loop around it."""
    steps = {outer.step for outer in path_to(loop, kernel.body)[:-1]}
    return loop.first == 0 and loop.trips in steps and loop.step == 1


def _number_of(loop: For, kernel: Kernel) -> int:
    return next(n for n, other in enumerate(loops(kernel)) if other is loop)


def _innermost(kernel: Kernel) -> list[int]:
    """The numbers of the loops that contain no loop."""
    return [
        n for n, loop in enumerate(loops(kernel)) if not any(isinstance(s, For) for s in loop.body)
    ]


_Made = list[tuple[Step, Kernel, Kernel]]


def _best(kernel: Kernel, path: list[For], count: int, *, pack: bool) -> _Made:
    """The steps for the loop of a path whose lanes read the fewest elements with large steps."""
    ways: list[tuple[float, _Made]] = []
    for loop in reversed(path):
        number, before = _number_of(loop, kernel), kernel
        made: _Made = []
        packed = _packed(before, number) if pack and loop is not path[-1] else None
        while packed is not None:
            made.append((packed[0], before, packed[1]))
            number += len(loops(packed[1])) - len(loops(before))
            before = packed[1]
            packed = _packed(before, number)
        step = Step("lanes", number, count)
        after = step.applied(before)
        if after is not None:
            ways.append((_cost(loops(before)[number]), [*made, (step, before, after)]))
    if pack:  # the first of equals is the outermost, whose lanes need not be combined
        ways.reverse()
    return min(ways, key=lambda way: way[0])[1] if ways else []


def _packed(kernel: Kernel, number: int) -> tuple[Step, Kernel] | None:
    """A step that copies an input which a loop reads with large steps, if it is read often."""
    step = Step("pack", number)
    after = step.applied(kernel)
    if after is None:
        return None
    moved = len(loops(after)) - len(loops(kernel))
    loop = loops(kernel)[number]
    paths = [around(kernel, n) for n in range(number, len(loops(kernel)))]
    reads = max(math.prod(o.trips for o in path) for path in paths if loop in path)
    better = _cost(loops(after)[number + moved]) < _cost(loop)
    return (step, after) if better and are_read_often(reads, kernel, after) else None


def are_read_often(reads: int, kernel: Kernel, after: Kernel) -> bool:
    """Whether the new copies in `after` take little time compared with this number of reads."""
    copied = sum(math.prod(array.sizes) for array in after.scratch[len(kernel.scratch) :])
    return reads >= _LEAST_READS * copied


def _cost(loop: For) -> float:
    """How many elements neighbouring iterations access far from each other."""
    cost = 0.0
    for access in {e for e in expressions(loop.body) if isinstance(e, Element)}:
        try:
            *outer, last = (coefficient(s, loop.variable) for s in access.subscripts)
        except NotApplicableError:
            cost += _FAR_COST
            continue
        if any(outer) or abs(last) > _NEAR:
            cost += _FAR_COST
        elif last not in (0, 1):
            cost += _NEAR_COST
    return cost
