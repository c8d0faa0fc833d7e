"""Assigns neighbouring rows to each partition, if windows of rows overlap from partition to
partition.

Before:                                   After (bands of 4 rows):

    for r in range(30):                       for g in range(7):
        w = rows r * 128 + p of x,                w = row (g * 128 + p) * 4 of x,
            and the next one                          and the next four
        out[r * 128 + p] = f(w)                   for r in range(4):
                                                      out[(g * 128 + p) * 4 + r]
                                                          = f(rows r and r + 1 of w)
                                              for r in range(2): as before, for what is left

Rows that two partitions loaded are now in one of them, and are loaded once. It does not matter
which partition processes which rows, because no instruction in the loop accesses another partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tilewright.proposers.nki.analysis.dependence import (
    KernelFacts,
    NotApplicableError,
    allocated,
    touches,
)
from tilewright.proposers.nki.ir import (
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    at,
    mapped_ops,
    mapped_regions,
    ops,
    spliced,
    substituted,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.renaming import copied
from tilewright.proposers.nki.rewrites.unroll_and_jam import is_parallel
from tilewright.proposers.nki.rewrites.uses import BY_PARTITION
from tilewright.proposers.nki.rewrites.window import window


def bands(kernel: Kernel, path: Path, height: int) -> Kernel:
    """The kernel with `height` iterations of a loop on neighbouring rows of each partition."""
    loop = at(kernel.body, path)
    if not isinstance(loop, Loop) or not 2 <= height <= loop.trips:
        raise NotApplicableError(f"the loop has fewer than {height} iterations")
    if not is_parallel(loop, KernelFacts.of(kernel)):
        raise NotApplicableError("the iterations of the loop depend on one another")
    rows, names = _rows(loop, kernel), Names(kernel)
    groups, left = divmod(loop.trips, height)
    group = names.fresh(loop.variable)
    inner: list[Loop] = []
    for number, part in enumerate(_parts(loop.body)):
        own = names.fresh(loop.variable) if number else loop.variable
        change = partial(_banded, loop=loop, own=own, rows=rows, height=height, group=group)
        body = mapped_ops(part, partial(mapped_regions, change=change))
        inner.append(Loop(own, height, loop.kind, body))
    made: Body = tuple(inner)
    if groups == 1:
        made = mapped_ops(made, lambda op: substituted(op, {group: Linear()}))
    else:
        made = (Loop(group, groups, loop.kind, made),)
    rest = _rest(loop, groups * height, left, names)
    found = replace(kernel, body=spliced(kernel.body, path, (*made, *rest)))
    return _loaded_once(found, {one.variable for one in inner})


def _rows(loop: Loop, kernel: Kernel) -> int:
    """Number of partitions that the loop uses, if each has one row of each tensor in HBM."""
    tensors, own, found = kernel.tensors(), allocated(loop.body), set[int]()
    for op in ops(loop.body):
        if op.name not in BY_PARTITION:
            raise NotApplicableError(f"{op.name} does not work partition by partition")
        if any(isinstance(v, Linear) and v.factor(loop.variable) for _, v in op.arguments):
            raise NotApplicableError("an operand is a number that depends on the iteration")
        for _, region in op.regions:
            step, count = region.dims[0]
            moves, tensor = region.offset.factor(loop.variable), tensors[region.tensor]
            if tensor.on_chip:
                partition, _ = region.offset.divided(tensor.row)
                fixed = partition == Linear() and step == tensor.row
                if tensor.name not in own or not fixed:
                    raise NotApplicableError(f"{tensor.name} is not used row by row")
            elif tensor.name in own or moves != step * count:
                raise NotApplicableError(f"the rows of {tensor.name} do not follow one another")
            found.add(count)
    if len(found) != 1:
        raise NotApplicableError("the instructions of the loop work on different numbers of rows")
    return found.pop()


def _banded(region: Region, *, loop: Loop, own: str, rows: int, height: int, group: str) -> Region:
    """The rows of a partition in iteration `own` of a group."""
    if not region.offset.factor(loop.variable):
        return region
    (step, count), *free = region.dims
    place = variable(own) * step + variable(group) * (step * rows * height)
    offset = region.offset.without(loop.variable) + place
    return Region(region.tensor, offset, ((step * height, count), *free))


def _parts(body: Body) -> Iterator[Body]:
    """Groups of statements that share no tile with the others, in order, each for a separate
    loop."""
    first = 0
    for number in range(1, len(body) + 1):
        before, later = body[first:number], body[number:]
        if not any(touches(s, tile) for tile in allocated(body[:number]) for s in later):
            yield before
            first = number


def _rest(loop: Loop, first: int, count: int, names: Names) -> Body:
    """The last `count` iterations, which fill no group, with separate tiles and loops."""
    if not count:
        return ()
    body = copied(loop.body, names)
    own = names.fresh(loop.variable)
    place = Linear(first) if count == 1 else variable(own) + first
    body = mapped_ops(body, lambda op: substituted(op, {loop.variable: place}))
    return body if count == 1 else (replace(loop, variable=own, trips=count, body=body),)


def _loaded_once(kernel: Kernel, loops: set[str]) -> Kernel:
    """The loops in which rows that several iterations load are loaded once, before the loop."""
    found, reason = False, "the loop loads no row more than once"
    waiting = True
    while waiting:
        waiting = False
        for path, op in kernel.statements():
            around = at(kernel.body, path[:-1]) if len(path) > 1 else None
            if not isinstance(around, Loop) or around.variable not in loops:
                continue
            if isinstance(op, Op) and _is_load(op, kernel):
                try:
                    kernel, found, waiting = window(kernel, path), True, True
                except NotApplicableError as error:
                    reason = str(error)
                    continue
                break
    if not found:
        raise NotApplicableError(reason)
    return kernel


def _is_load(op: Op, kernel: Kernel) -> bool:
    return op.name == "dma_copy" and kernel.tensors()[op.region("dst").tensor].on_chip
