"""Finds consecutive statements that repeat with evenly growing places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Loop,
    Region,
    Statement,
    Tensor,
    walk,
)
from tilewright.proposers.nki.linear import Linear, variable

MOST_PERIOD = 200
"""Maximum number of statements of an iteration."""
MOST_REPETITIONS = 60

Slot: TypeAlias = tuple[str | None, Linear]
"""What may change in a statement: a tensor and an offset in it, or another number."""


@dataclass(frozen=True, slots=True)
class Flat:
    """The statements of a body without creations of tiles."""

    numbers: Sequence[int]
    """Their numbers in the body."""
    keys: Sequence[int]
    """Equal for statements that differ only in their slots."""
    slots: Sequence[Sequence[Slot]]
    begins: Sequence[int]
    """The number of statements, including those in loops, before each of them, and of all."""

    @classmethod
    def of(cls, body: Body, tensors: Mapping[str, Tensor]) -> Flat:
        """The statements of a body."""
        known: dict[object, int] = {}
        numbers, keys, slots, begins = list[int](), list[int](), list[Sequence[Slot]](), [0]
        for number, statement in enumerate(body):
            if not isinstance(statement, Alloc):
                key, own = _described(statement, tensors, {})
                numbers.append(number)
                keys.append(known.setdefault(key, len(known)))
                slots.append(own)
                begins.append(begins[-1] + len(list(walk((statement,)))))
        return cls(numbers, keys, slots, begins)


def _described(
    statement: Statement, tensors: Mapping[str, Tensor], inner: dict[str, Linear]
) -> tuple[object, list[Slot]]:
    """What iterations must have in common, and what may change.

    `inner` are the variables of loops in the statement, which get the same names in all iterations.
    """
    if isinstance(statement, Alloc):
        return ("alloc", _form(statement.tensor)), [(statement.tensor.name, Linear())]
    keys: list[object] = []
    slots: list[Slot] = []
    if isinstance(statement, Loop):
        inner = {**inner, statement.variable: variable(f"*{len(inner)}*")}
        for part in statement.body:
            key, more = _described(part, tensors, inner)
            keys.append(key)
            slots += more
        return (statement.trips, statement.kind, *keys), slots
    for name, value in statement.arguments:
        if isinstance(value, Region):
            place = value.offset.replaced(inner)
            keys.append((name, _form(tensors[value.tensor]), value.dims, place.terms))
            slots.append((value.tensor, place))
        elif (number := number_of(name, value)) is not None:
            place = number.replaced(inner)
            keys.append((name, "number", place.terms))
            slots.append((None, place))
        else:
            keys.append((name, type(value), value))
    return (statement.name, *keys), slots


def _form(tensor: Tensor) -> object:
    """Equal for tiles that can be parts of one tile."""
    return (tensor.shape, tensor.dtype, tensor.memory) if tensor.on_chip else tensor.name


def number_of(name: str, value: object) -> Linear | None:
    """The value of an argument that may depend on loops and is not a region."""
    if isinstance(value, Linear):
        return value
    return Linear(value) if name == "offset" and isinstance(value, int) else None


@dataclass(frozen=True, slots=True)
class Repetition:
    """`count` iterations of `period` statements each, from the statement `start` of a body."""

    flat: Flat
    start: int
    period: int
    count: int

    def statements(self, number: int) -> list[int]:
        """The places in the body of the statements of an iteration."""
        return [self.flat.numbers[n] for n in self._iteration(number)]

    def slots(self, number: int) -> list[Slot]:
        """The slots of an iteration."""
        return [slot for n in self._iteration(number) for slot in self.flat.slots[n]]

    def columns(self) -> list[tuple[Slot, ...]]:
        """Each slot in all iterations."""
        return [*zip(*map(self.slots, range(self.count)), strict=True)]

    @property
    def saved(self) -> int:
        """The number of statements that a loop replaces."""
        begins = self.flat.begins
        return (begins[self.start + self.period] - begins[self.start]) * (self.count - 1)

    def _iteration(self, number: int) -> range:
        begin = self.start + number * self.period
        return range(begin, begin + self.period)


def repetitions(flat: Flat) -> list[Repetition]:
    """Repetitions whose numbers grow evenly, those that save most statements first."""
    found: list[Repetition] = []
    for period in range(1, min(MOST_PERIOD, len(flat.keys) // 2) + 1):
        start, same_from = 0, _same(flat.keys, period)
        while start + 2 * period <= len(flat.keys):
            same = same_from[start]
            if same < period:
                start += same + 1
                continue
            count = _even(Repetition(flat, start, period, same // period + 1))
            if count > 1:
                found.append(Repetition(flat, start, period, count))
            start += max(1, period * (count - 2) + 1)
    found.sort(key=lambda one: (-one.saved, one.period))
    return found[:MOST_REPETITIONS]


def _same(keys: Sequence[int], period: int) -> list[int]:
    """The number of statements from each one on that repeat after a period."""
    same = [0] * len(keys)
    for start in range(len(keys) - period - 1, -1, -1):
        if keys[start] == keys[start + period]:
            same[start] = same[start + 1] + 1
    return same


def _even(run: Repetition) -> int:
    """The number of iterations whose numbers grow evenly, and whose tensors are the same, or
    different, in each slot."""
    slots, period = run.flat.slots, run.period
    for number in range(2, run.count):
        for n in range(run.start, run.start + period):
            later = slots[n + period], slots[n + number * period]
            for a, b, c in zip(slots[n], *later, strict=True):
                step = b[1].constant - a[1].constant
                if c[1].constant - a[1].constant != step * number or (a[0] == b[0]) != (
                    a[0] == c[0]
                ):
                    return number
    return run.count
