"""Finds dependences: which iterations access the same elements, and which instructions use a
tile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.proposers.nki.analysis.places import Extent, extents
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Statement,
    Tensor,
    ops,
    walk,
)
from tilewright.proposers.nki.linear import Linear


class NotApplicableError(Exception):
    """A rewrite would be illegal here, or changes nothing."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """Facts about the whole kernel: its tensors, and how often each loop runs."""

    tensors: Mapping[str, Tensor]
    trips: Mapping[str, int]

    @classmethod
    def of(cls, kernel: Kernel) -> KernelFacts:
        """The facts about a kernel."""
        return cls(kernel.tensors(), kernel.trips())


def may_meet(
    one: Region,
    other: Region,
    world: KernelFacts,
    loop: str | None,
    inner: frozenset[str],
    later: bool | None = None,
) -> bool:
    """Whether two regions of one tensor may have a common element in two iterations of a loop.

    If `loop` is None, both regions belong to the same iteration. Variables in `inner` may have
    different values for the two regions, and all others have equal values. With `later`, `one` is
    in a later iteration than `other`.
    """
    boxes = _boxes(one, world), _boxes(other, world)
    if boxes[0] is None or boxes[1] is None or len(boxes[0]) != len(boxes[1]):
        first, second = [_line(one)], [_line(other)]
    else:
        first, second = boxes[0], boxes[1]
    return not any(
        _apart(a, b, world, loop, inner, later) for a, b in zip(first, second, strict=True)
    )


def _boxes(region: Region, world: KernelFacts) -> list[Extent] | None:
    return extents(region, world.tensors[region.tensor], world.trips)


def _line(region: Region) -> Extent:
    return Extent(region.offset, region.extent)


def _apart(
    one: Extent, other: Extent, world: KernelFacts, loop: str | None, inner: frozenset[str],
    later: bool | None,
) -> bool:  # fmt: skip
    """Whether the indices of one axis never overlap."""
    a = one.start.factor(loop) if loop else 0
    b = other.start.factor(loop) if loop else 0
    first, second = one.start, other.start
    if loop:
        first, second = first.without(loop), second.without(loop)
    low, high = _difference(first, second, world, inner)
    if loop is None:
        return low >= other.size or high <= -one.size
    trips = world.trips[loop]
    if a == b:
        deltas: Sequence[int] = (1, -1) if later is None else (1,)
        # The distance grows with the number of iterations in between, so the nearest and the
        # farthest one decide.
        return all(
            all(
                a * d + low >= other.size or a * d + high <= -one.size
                for d in (delta, delta * (trips - 1))
            )
            and (a != 0 or low >= other.size or high <= -one.size)
            and _same_side(a * delta, low, high, other.size, one.size, trips)
            for delta in deltas
        )
    pairs = (
        (i, j) for i in range(trips) for j in range(trips) if i != j and (later is None or i > j)
    )
    return trips <= 64 and all(
        a * i - b * j + low >= other.size or a * i - b * j + high <= -one.size for i, j in pairs
    )


def _same_side(step: int, low: int, high: int, after: int, before: int, trips: int) -> bool:
    """Whether no multiple of a step, from the nearest to the farthest iteration, makes them
    overlap."""
    return all(
        step * d + low >= after or step * d + high <= -before for d in range(1, min(trips, 4096))
    )


def _difference(
    one: Linear, other: Linear, world: KernelFacts, inner: frozenset[str]
) -> tuple[int, int]:
    """Bounds of the difference, where `inner` variables are independent on each side."""
    low = high = one.constant - other.constant
    outer: dict[str, int] = {}
    for value, sign in ((one, 1), (other, -1)):
        for name, factor in value.terms:
            if name in inner:
                reach = sign * factor * (world.trips[name] - 1)
                low, high = low + min(0, reach), high + max(0, reach)
            else:
                outer[name] = outer.get(name, 0) + sign * factor
    for name, factor in outer.items():
        reach = factor * (world.trips[name] - 1)
        low, high = low + min(0, reach), high + max(0, reach)
    return low, high


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two instructions whose order must not change between iterations; `first` comes first in the
    text."""

    first: Path
    second: Path
    forward: bool
    """Whether the second one is in a later iteration, so that the order of the text preserves the
    dependence."""


def conflicts(body: Body, loop: Loop, world: KernelFacts) -> Iterator[Conflict]:
    """Dependences between different iterations of a loop with this body.

    Sums of products into the same place can be computed in any order.
    """
    private = {s.tensor.name for _, s in walk(body) if isinstance(s, Alloc)}
    inner = frozenset(s.variable for _, s in walk(body) if isinstance(s, Loop))
    found = [(p, s) for p, s in walk(body) if isinstance(s, Op)]
    for number, (place, first) in enumerate(found):
        for other_place, second in found[number:]:
            for one, other in meeting(first, second):
                if one.tensor in private or (first.accumulates and second.accumulates
                                             and one == first.region("dst")
                                             and other == second.region("dst")):  # fmt: skip
                    continue
                if may_meet(one, other, world, loop.variable, inner, later=True):
                    yield Conflict(place, other_place, False)
                if may_meet(other, one, world, loop.variable, inner, later=True):
                    yield Conflict(place, other_place, True)


def meeting(first: Op, second: Op) -> Iterator[tuple[Region, Region]]:
    """Pairs of regions of one tensor, of which one is written."""
    for one in first.writes:
        for other in (*second.writes, *second.reads):
            if one.tensor == other.tensor:
                yield one, other
    for one in first.reads:
        for other in second.writes:
            if one.tensor == other.tensor:
                yield one, other


def touches(statement: Statement, tensor: str) -> bool:
    """Whether a statement uses a tensor."""
    body = statement.body if isinstance(statement, Loop) else (statement,)
    return any(region.tensor == tensor for op in ops(body) for _, region in op.regions)


def written(body: Body) -> set[str]:
    """Tensors that are written."""
    return {region.tensor for op in ops(body) for region in op.writes}


def read(body: Body) -> set[str]:
    """Tensors that are read."""
    return {region.tensor for op in ops(body) for region in op.reads}


def allocated(body: Body) -> dict[str, Tensor]:
    """Tensors that are created in a body, at any depth."""
    return {s.tensor.name: s.tensor for _, s in walk(body) if isinstance(s, Alloc)}


def has_hidden_state(body: Body) -> bool:
    """Whether an instruction depends on another through the accumulator of ACT."""
    return any(
        op.get("reduce_cmd") not in (None, "nisa.reduce_cmd.reset_reduce")
        or (op.name == "activation" and op.get("reduce_cmd") and op.get("reduce_res") is None)
        for op in ops(body)
    )
