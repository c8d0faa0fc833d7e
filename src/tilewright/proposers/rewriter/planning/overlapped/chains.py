"""Sequences for products that read the results of earlier products in local memory."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice

from tilewright.proposers.rewriter.analysis.buffers import find_buffers
from tilewright.proposers.rewriter.analysis.move_settings import block_stride
from tilewright.proposers.rewriter.analysis.ranges import env_of, labelled_loops, trip_count
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Body, Kernel, Loop, Stmt, commands
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.extending import (
    Made,
    all_places,
    first_place,
    first_way,
    with_steps,
)
from tilewright.proposers.rewriter.planning.overlapped.loads import keep_resident
from tilewright.proposers.rewriter.planning.overlapped.moves import (
    alternate_results,
    complete_tiles,
)
from tilewright.proposers.rewriter.planning.overlapped.queries import (
    has_unit,
    loaded_buffers,
    loops_around,
)
from tilewright.proposers.rewriter.planning.steps import Step, steps_for

TECHNIQUES = frozenset(
    (
        *("overwrite", "retile", "resident", "block-load", "reorder", "coalesce", "pipeline"),
        *("interleave", "peel", "stagger", "pack"),
    )
)
"""The techniques that must be offered for these sequences. They also contain `alternate-banks`,
`load-midway` and `finish-tiles` where these apply."""
FACTORS = 2
"""Numbers of tiles with which a sequence is tried, the largest ones that fit."""


def chained_sequences(kernel: Kernel, machine: Machine, offered: Set[str]) -> Iterator[Made]:
    """One sequence for a loop in which products read the results of others; none for other kernels.

    Each iteration computes as many tiles as fit, because the array is empty between two products.
    Operands that all iterations use are loaded in the first one, each part shortly before its use.
    """
    strips = _loop_of_chain(kernel, machine)
    if strips is None or not offered >= TECHNIQUES:
        return
    begun = all_places(((), kernel), machine, "overwrite")
    tiled = (
        with_steps((Step("retile", (strips, str(factor))),), begun, machine)
        for factor in _factors(begun[1], strips)
    )
    enlarged = list(islice((made for made in tiled if made is not begun), FACTORS))
    found = [_scheduled(made, machine) for made in enlarged or [begun]]
    yield from sorted(found, key=lambda made: estimate(made[1], machine).total)


def _scheduled(made: Made, machine: Machine) -> Made:
    """The kernel whose strips have their final size, with loads and stores beside the products."""
    made = keep_resident(made, machine)
    in_strips = _loaded_in_strips(made, machine)
    resident = [n for n in loaded_buffers(made[1], machine) if n not in in_strips]
    for name in in_strips:
        made = _loaded_at_once(made, machine, name)
    made = _merged_with_loads(_in_order_of_loads(made, machine), machine)
    for name in in_strips:
        label = _loop_of_chain(made[1], machine) or ""
        steps = (Step("pipeline", (name, label, "2")), Step("interleave", (label,)))
        made = first_way((steps, steps[:1]), made, machine)
    for name in resident:
        places = steps_for(made[1], machine, "alternate-banks")
        made = first_way([(s,) for s in places if s.arguments[0] == name], made, machine)
    made = alternate_results(made, machine)
    label = _loop_of_chain(made[1], machine) or ""
    made = with_steps((Step("peel", (label, "first")),), made, machine)
    made = all_places(all_places(made, machine, "stagger"), machine, "load-midway")
    return first_place(complete_tiles(made, machine), machine, "pack")


def _loop_of_chain(kernel: Kernel, machine: Machine) -> str | None:
    """The label of the only outermost loop with products, if some of them read others' results."""
    outermost = [
        (label, loop)
        for label, loop, above in labelled_loops(kernel.body)
        if not above and has_unit(loop, machine, "execute")
    ]
    if len(outermost) != 1 or not has_unit(outermost[0][1], machine, "store"):
        return None
    for buffer in find_buffers(kernel, machine):
        units = [
            {machine.unit(a.command.name) for a in found}
            for found in (buffer.writers, buffer.readers)
        ]
        if all("execute" in found for found in units):
            return outermost[0][0]
    return None


def _factors(kernel: Kernel, strips: str) -> list[int]:
    """The numbers of tiles that divide their number, the largest first."""
    counts = (
        trip_count(loop, env_of(above))
        for label, loop, above in labelled_loops(kernel.body)
        if label == strips
    )
    count = next(counts, None) or 1
    return [f for f in range(count // 2, 1, -1) if count % f == 0]


def _loaded_in_strips(made: Made, machine: Machine) -> list[str]:
    """The loaded buffers that each strip loads."""
    label = _loop_of_chain(made[1], machine)
    return [
        n for n in loaded_buffers(made[1], machine) if label in loops_around(made[1], machine, n)
    ]


def _loaded_at_once(made: Made, machine: Machine, name: str) -> Made:
    """A buffer whose data are loaded for the largest possible part of a strip at once."""
    inside = loops_around(made[1], machine, name)[:-1]
    ways = [(Step("block-load", (name, label)),) for label in reversed(inside)]
    return first_way(ways, made, machine)


def _in_order_of_loads(made: Made, machine: Machine) -> Made:
    """The loops of products in the order in which loads deliver their operands: a loop over the
    columns of one load is inside a loop over loads."""
    for label, loop, _ in labelled_loops(made[1].body):
        inner = loop.body[0]
        alone = len(loop.body) == 1 and isinstance(inner, Loop)
        if not alone or not has_unit(loop, machine, "execute"):
            continue
        if _along_columns(made[1], machine, loop) > _along_columns(made[1], machine, inner):
            after = with_steps((Step("reorder", (label,)),), made, machine)
            if after is not made:
                return _in_order_of_loads(after, machine)
    return made


def _along_columns(kernel: Kernel, machine: Machine, loop: Stmt) -> bool:
    """Whether iterations of a loop use neighbouring blocks of loads."""
    inside = set(commands((loop,)))
    for buffer in find_buffers(kernel, machine):
        apart = [
            (block_stride(kernel, machine, a.command), a.rows)
            for a in buffer.writers
            if machine.unit(a.command.name) == "load"
        ]
        wide = {stride for stride, rows in apart if rows > stride}
        if isinstance(loop, Loop) and any(
            a.command in inside and a.local.row.coefficient(loop.var) * loop.step in wide
            for a in buffer.readers
        ):
            return True
    return False


def _merged_with_loads(made: Made, machine: Machine) -> Made:
    """Two loops of loads before the products as one, and the same two loops of products."""
    for label, loop, above in labelled_loops(made[1].body):
        if above or has_unit(loop, machine, "execute"):
            continue
        pair = _pair(loop.body, loop)
        same = [
            found
            for found, other, _ in labelled_loops(made[1].body)
            if other is not loop and pair is not None and _pair(other.body, other) == pair
        ]
        if len(same) == 1:
            steps = tuple(Step("coalesce", (found,)) for found in (same[0], label))
            after = with_steps(steps, made, machine)
            if after is not made:
                return _merged_with_loads(after, machine)
    return made


def _pair(body: Body, loop: Loop) -> tuple[object, ...] | None:
    """The variables and bounds of a loop and the only loop inside it."""
    inner = body[0]
    if len(body) != 1 or not isinstance(inner, Loop):
        return None
    return tuple((s.var, s.lower, s.upper, s.step) for s in (loop, inner))
