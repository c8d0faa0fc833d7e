"""The places at which a technique may be tried, as arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeAlias

from tilewright.proposers.rewriter.analysis.buffers import Buffer, NotApplicable, find_buffers
from tilewright.proposers.rewriter.analysis.ranges import env_of, labelled_loops, trips
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Body, Guard, Kernel, Loop, commands, is_core_loop, walk
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.parameters import (
    slot_counts,
    tile_factors,
    unroll_factors,
)
from tilewright.proposers.rewriter.rewrites.finish_tiles import stores_after
from tilewright.proposers.rewriter.rewrites.promote import depends_on
from tilewright.proposers.rewriter.rewrites.straight_line import block_loops
from tilewright.proposers.rewriter.rewrites.strength_reduction import divided_by

Arguments: TypeAlias = tuple[str, ...]


class SameBody:
    """A kernel that is identified by the statements of its body, which are compared by identity.

    It is also identified by how it is printed.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __hash__(self) -> int:
        return hash(self.kernel.body)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SameBody)
            and self.kernel.body == other.kernel.body
            and self.kernel.words is other.kernel.words
        )


def loads(varying: bool) -> Callable[[Kernel, Machine], Iterator[Arguments]]:
    """Loaded buffers with each loop around their loads on which they depend (or do not depend)."""

    def sites(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
        for buffer, label, depends in _dependences(SameBody(kernel), machine):
            if depends == varying:
                yield buffer, label

    return sites


@lru_cache(maxsize=256)
def _dependences(body: SameBody, machine: Machine) -> tuple[tuple[str, str, bool], ...]:
    """Loaded buffers, the loops around their loads, and whether the loads depend on them."""
    found: list[tuple[str, str, bool]] = []
    for buffer in find_buffers(body.kernel, machine):
        inside = {s for a in buffer.accesses for s in a.above}
        for label, loop, _ in labelled_loops(body.kernel.body):
            if loop not in inside:
                continue
            try:
                depends = depends_on(body.kernel, machine, buffer.name, loop)
            except NotApplicable:
                continue
            found.append((buffer.name, label, depends))
    return tuple(found)


def resident_sites(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loaded buffers with the loops on which they do not depend, for each way to load them."""
    for buffer, label in loads(varying=False)(kernel, machine):
        for how in ("before", "at-first-use", "inside"):
            yield buffer, label, how


def sums_in_array(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """The whole kernel, if a setting may keep sums in the array."""
    if any(machine.attribute(c.name, "sums_in_array") for c in commands(kernel.body)):
        yield ()


def once(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """The whole kernel."""
    yield ()


def each_buffer(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Every buffer."""
    for buffer in find_buffers(kernel, machine):
        yield (buffer.name,)


def each_loop(*variants: str) -> Callable[[Kernel, Machine], Iterator[Arguments]]:
    """Every loop, once for each variant if there are variants."""

    def sites(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
        for label, _, _ in labelled_loops(kernel.body):
            if not variants:
                yield (label,)
            for variant in variants:
                yield label, variant

    return sites


def product_loops(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops that contain only products or code of the core, in which the core's instructions
    matter."""
    for label, loop, above in labelled_loops(kernel.body):
        units = {machine.unit(c.name) for c in commands(loop.body)}
        if units == {"execute"} or is_core_loop(loop):
            for factor in unroll_factors(loop, above):
                yield label, str(factor)


def tiled_loops(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops, with the possible numbers of tiles."""
    for label, loop, above in labelled_loops(kernel.body):
        for factor in tile_factors(kernel, machine, loop, above):
            yield label, str(factor)


def blocks(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops whose iterations are straight-line code of a suitable size."""
    for label in block_loops(kernel, machine):
        yield (label,)


def _filled_in_loops(
    kernel: Kernel, machine: Machine, unit: str
) -> Iterator[tuple[Buffer, str, Loop, Body]]:
    """Buffers that this unit fills, with each loop around all their uses."""
    for buffer in find_buffers(kernel, machine):
        if {machine.unit(a.command.name) for a in buffer.writers} >= {unit}:
            for label, loop, above in labelled_loops(kernel.body):
                if all(loop in a.above for a in buffer.accesses):
                    yield buffer, label, loop, above


def loaded_in_loops(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loaded buffers with each loop around all their uses, and numbers of slots."""
    cost = estimate(kernel, machine)
    for buffer, label, loop, above in _filled_in_loops(kernel, machine, "load"):
        for slots in slot_counts(buffer, loop, above, cost):
            yield buffer.name, label, str(slots)


def loaded_in_inner_loops(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """The arguments of `loaded_in_loops` whose loop is inside another loop."""
    inner = {label for label, _, above in labelled_loops(kernel.body) if above}
    yield from (found for found in loaded_in_loops(kernel, machine) if found[1] in inner)


def accumulator_sites(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Buffers of results with each loop around all their uses, slots and ways to store."""
    for buffer, label, _, _ in _filled_in_loops(kernel, machine, "execute"):
        for slots in sorted({2, max(2, machine.spaces[buffer.space].banks)}):
            for how in ("in-place", "delayed"):
                yield buffer.name, label, str(slots), how


def split_sites(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops whose variable is divided by a multiple of their step, with the group size."""
    for label, loop, _ in labelled_loops(kernel.body):
        divisors = {d // loop.step for d in divided_by(loop) if d % loop.step == 0}
        for factor in sorted(divisors - {1}):
            yield label, str(factor)


def nowhere(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """No place: only complete sequences and steps by hand use the technique."""
    yield from ()


def loops_of_loads(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops that contain only loads."""
    for label, loop, _ in labelled_loops(kernel.body):
        if all(machine.unit(c.name) == "load" for c in commands(loop.body)):
            yield (label,)


def summing_loops(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops of products directly before a loop of stores, with the numbers of iterations in which
    tiles may be completed."""
    for label, loop, above in labelled_loops(kernel.body):
        following = stores_after(kernel, machine, loop)
        fewest, most = trips(loop, env_of(above))
        if following is not None and fewest == most:
            for count in sorted({n for n in (1, 2, 3, int(most)) if n <= most}):
                yield label, str(count)


def products_alone(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops that contain only products."""
    for label, loop, _ in labelled_loops(kernel.body):
        if all(machine.unit(c.name) == "execute" for c in commands(loop.body)):
            yield (label,)


def tested_loops(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops whose variable is tested inside, with the end that the test selects."""
    for label, loop, _ in labelled_loops(kernel.body):
        tests = [c for s in walk(loop.body) if isinstance(s, Guard) for c in s.condition]
        found = {c.op for c in tests if loop.var in c.left.names() | c.right.names()}
        if found & {"==", "!=", ">", ">="}:
            yield label, "first"
        if found & {"<", "<="}:
            yield label, "last"
