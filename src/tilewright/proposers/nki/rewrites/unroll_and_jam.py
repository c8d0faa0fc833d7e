"""Runs adjacent iterations of a loop together, statement by statement.

Work that is the same in all of them is done once, loads become wider, instructions process more
columns, and tiles contain the separate tiles of several iterations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import (
    KernelFacts,
    NotApplicableError,
    allocated,
    conflicts,
    has_hidden_state,
)
from tilewright.proposers.nki.analysis.widening import leaf
from tilewright.proposers.nki.ir import (
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Statement,
    Tensor,
    at,
    ops,
    spliced,
    substituted,
    variables,
)
from tilewright.proposers.nki.linear import variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.expansion import expanded, require_room, widened_tiles


def jam(kernel: Kernel, path: Path, factor: int) -> Kernel:
    """The kernel with `factor` iterations of a loop run together; 0 means all."""
    loop, world = at(kernel.body, path), KernelFacts.of(kernel)
    if not isinstance(loop, Loop):
        raise NotApplicableError("there is no such loop")
    factor = factor or loop.trips
    if factor < 2 or loop.trips % factor:
        raise NotApplicableError(
            f"the {loop.trips} iterations of the loop are not a multiple of {factor}"
        )
    together = _Together(loop, factor, world, Names(kernel))
    return replace(kernel, body=spliced(kernel.body, path, together.made()))


class _Together:
    def __init__(self, loop: Loop, factor: int, world: KernelFacts, names: Names) -> None:
        self._loop, self._factor, self._names = loop, factor, names
        self._serial = _in_text_order(loop, world)
        self._varying = _varying(loop)
        tensors = allocated(loop.body)
        self._tensors = {**world.tensors}
        self._copies = {}
        placeholder = variable("*copy*")
        for name in sorted(self._varying):
            if not tensors[name].on_chip:
                raise NotApplicableError(f"each iteration creates {name} in HBM")
            self._copies[name] = (factor, placeholder)
            self._tensors[name] = expanded(tensors[name], factor)
            require_room(self._tensors[name])

    def made(self) -> Body:
        """The statements that replace the loop."""
        body = widened_tiles(self._loop.body, self._copies)
        count = self._loop.trips // self._factor
        if count == 1:
            return tuple(self._distributed(body, (), None))
        outer = self._names.fresh(self._loop.variable)
        inner = tuple(self._distributed(body, (), outer))
        return (replace(self._loop, variable=outer, trips=count, body=inner),)

    def _distributed(self, body: Body, path: Path, outer: str | None) -> Iterator[Statement]:
        for number, statement in enumerate(body):
            place = (*path, number)
            if isinstance(statement, Loop):
                inner = tuple(self._distributed(statement.body, place, outer))
                yield replace(statement, body=inner)
            elif isinstance(statement, Op) and self._varies(statement):
                own = self._names.fresh(self._loop.variable)
                position = variable(own)
                if outer is not None:
                    position = position + variable(outer) * self._factor
                values = {self._loop.variable: position, "*copy*": variable(own)}
                op = substituted(statement, values)
                loop = Loop(own, self._factor, self._loop.kind, (op,))
                yield loop if place in self._serial else leaf(loop, self._tensors)
            else:
                yield statement

    def _varies(self, op: Op) -> bool:
        return varies(op, self._loop.variable, self._varying, allocated(self._loop.body))


def varies(op: Op, name: str, varying: set[str], private: dict[str, Tensor]) -> bool:
    """Whether an instruction differs between iterations, or has an effect in each of them."""
    return (
        name in variables(op)
        or any(region.tensor in varying for _, region in op.regions)
        or any(region.tensor not in private for region in op.writes)
    )


def _varying(loop: Loop) -> set[str]:
    """Tiles of an iteration whose values differ between iterations."""
    private, found = allocated(loop.body), set[str]()
    while True:
        before = len(found)
        for op in ops(loop.body):
            if varies(op, loop.variable, found, private):
                found.update(region.tensor for region in op.writes if region.tensor in private)
        if len(found) == before:
            return found


def _in_text_order(loop: Loop, world: KernelFacts) -> set[Path]:
    """Instructions whose iterations must stay in order. Refused if the order of statements breaks
    this."""
    if has_hidden_state(loop.body):
        raise NotApplicableError("sums are kept in the accumulator of ACT")
    serial: set[Path] = set()
    for conflict in conflicts(loop.body, loop, world):
        first, second = conflict.first, conflict.second
        if first == second and len(first) == 1:
            serial.add(first)
        elif first[0] == second[0] or not conflict.forward:
            raise NotApplicableError("the iterations of the loop depend on one another")
    return serial


def is_parallel(loop: Loop, world: KernelFacts) -> bool:
    """Whether the iterations of a loop can run in any order."""
    return not has_hidden_state(loop.body) and not any(conflicts(loop.body, loop, world))
