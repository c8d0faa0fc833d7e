"""Removes what a mask hides: products, copies, reductions and transposes of hidden columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, has_hidden_state
from tilewright.proposers.nki.analysis.hidden import Follower
from tilewright.proposers.nki.analysis.hidden_columns import (
    KEPT,
    Action,
    TrackedArray,
    cut,
    mask_start,
)
from tilewright.proposers.nki.ir import (
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Statement,
    at,
    mapped_ops,
    spliced,
    substituted,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.renaming import copied
from tilewright.proposers.nki.rewrites.unused_columns import only_needed_columns
from tilewright.proposers.nki.rewrites.uses import body_of, op_at, with_body


def skip_masked(kernel: Kernel, path: Path, parts: int) -> Kernel:
    """The kernel without the columns that the mask of an `affine_select` hides.

    The outermost loop on which the mask depends is divided into this number of parts, one after the
    other. Columns that are hidden in all iterations of a part are removed from it. With 0 parts,
    the loop is divided where hidden columns begin or end.
    """
    select = op_at(kernel, path)
    around = [at(kernel.body, path[:depth]) for depth in range(1, len(path))]
    terms = mask_start(select).terms if select.name == "affine_select" else ()
    differs = {name for name, _ in terms}
    depths = [n for n, loop in enumerate(around, 1)
              if isinstance(loop, Loop) and loop.variable in differs]  # fmt: skip
    if not depths:
        raise NotApplicableError(
            "no loop around the instruction has a mask that differs between iterations"
        )
    place, names = path[: depths[0]], Names(kernel)
    loop = at(kernel.body, place)
    assert isinstance(loop, Loop)
    if has_hidden_state((loop,)):
        raise NotApplicableError("sums are kept in the accumulator of ACT")
    if not parts:
        body, changes = _without_hidden(kernel, body_of(kernel, place), names)
        made = with_body(kernel, place[:-1], body)
    else:
        body, changes = _in_parts(kernel, place, loop, parts, names)
        made = replace(kernel, body=spliced(kernel.body, place, body))
    if not changes:
        raise NotApplicableError("no instruction works only on elements that the mask hides")
    return only_needed_columns(made)


def _in_parts(
    kernel: Kernel, place: Path, loop: Loop, parts: int, names: Names
) -> tuple[Body, bool]:
    """The parts of a loop, each without the columns that are hidden in all of its iterations."""
    if parts < 2 or loop.trips % parts:
        raise NotApplicableError(
            f"the {loop.trips} iterations cannot be divided into {parts} equal parts"
        )
    made: list[Statement] = []
    any_changes, size = False, loop.trips // parts
    for number in range(parts):
        part = _range_of(loop, number * size, size, names)
        world = replace(kernel, body=spliced(kernel.body, place, part))
        inner = part[0]
        if size > 1 and isinstance(inner, Loop):
            body, changes = _without_hidden(world, inner.body, names)
            part = (replace(inner, body=body),)
        else:
            part, changes = _without_hidden(world, part, names)
        made.extend(part)
        any_changes = any_changes or changes
    return tuple(made), any_changes


def _range_of(loop: Loop, start: int, count: int, names: Names) -> Body:
    """Consecutive iterations of a loop, with separate tiles and loops."""
    first = Linear(start) if count == 1 else variable(loop.variable) + start
    body = mapped_ops(loop.body, partial(substituted, values={loop.variable: first}))
    return copied(body if count == 1 else (replace(loop, trips=count, body=body),), names)


def _without_hidden(kernel: Kernel, body: Body, names: Names) -> tuple[Body, bool]:
    """A body without columns that are always hidden, and whether there are any."""
    found = Follower(kernel.tensors(), kernel.trips()).followed(body)
    return tuple(_emitted(body, found, names)), _changes(found)


def _changes(followed: Sequence[TrackedArray]) -> bool:
    return any(
        any(_changes(run.inner) for run in found) if isinstance(found, tuple) else found != KEPT
        for found in followed
    )


def _emitted(body: Body, followed: Sequence[TrackedArray], names: Names) -> Iterator[Statement]:
    for statement, found in zip(body, followed, strict=True):
        if isinstance(statement, Loop):
            assert isinstance(found, tuple)
            for run in found:
                inner = tuple(_emitted(statement.body, run.inner, names))
                loop = replace(statement, body=inner)
                if len(found) == 1:
                    yield loop
                else:
                    yield from _range_of(loop, run.start, run.stop - run.start, names)
        elif isinstance(statement, Op):
            assert isinstance(found, Action)
            yield from _changed(statement, found)
        else:
            yield statement


def _changed(op: Op, action: Action) -> Iterator[Op]:
    """The instructions that replace an instruction: none, the same one, or ones with fewer columns.
    A selection is limited to masked columns.
    """
    if action.drops:
        return
    if action.live is None:
        yield op
    elif action.masked is None:
        yield _cut(op, action.keys, action.live)
    else:
        yield from _selected(op, action.keys, action.live, action.masked)


def _cut(op: Op, keys: Sequence[str], live: tuple[int, int]) -> Op:
    return op.having(**{key: cut(region, live) for key, region in op.regions if key in keys})


def _selected(
    op: Op, keys: Sequence[str], live: tuple[int, int], masked: tuple[int, int]
) -> Iterator[Op]:
    """A selection of columns that are masked in some partitions, and copies of those masked in
    none."""
    first = masked if masked[0] < masked[1] else (live[1], live[1])
    for low, high in ((live[0], first[0]), (first[1], live[1])):
        made = _cut(op, keys, (low, high))
        source, target = made.region("on_true_tile"), made.region("dst")
        if low < high and source != target:
            yield Op("tensor_copy", (("dst", target), ("src", source)))
    if masked[0] == masked[1]:
        return
    pattern, start = op.get("pattern"), mask_start(op)
    assert isinstance(pattern, tuple)
    assert isinstance(pattern[0], tuple)
    step = int(str(pattern[0][0]))
    size = masked[1] - masked[0]
    yield _cut(op, keys, masked).having(pattern=((step, size),), offset=start + step * masked[0])
