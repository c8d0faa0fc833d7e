"""Converts iterations back to loops: iterations whose numbers grow evenly become one loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.targets.trainium.translation.lines import Affine, Line


@dataclass(frozen=True, slots=True)
class Made:
    """The creation of a tensor; `form` is its shape, type and memory."""

    tensor: int
    form: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Rolled:
    """A loop from 0 to `trips` - 1; `depth` determines the name of its variable."""

    kind: str
    depth: int
    trips: int
    body: tuple[Item, ...]


Item: TypeAlias = Made | Line | Rolled
Key: TypeAlias = tuple[object, ...]


class UnevenError(Exception):
    """The iterations of a sampled loop do not grow evenly."""


def spanned(
    kind: str, depth: int, iterations: Sequence[Sequence[Item]], walked: Sequence[int]
) -> list[Item]:
    """The loop of which these iterations, including the last one, were processed.

    Raises `UnevenError` if they do not differ by even steps.
    """
    known = [_flat(body) for body in iterations]
    (shape, first), steps = known[0], list[int]()
    for number, (other, numbers) in zip(walked[1:], known[1:], strict=True):
        if other != shape or any(a[1] != b[1] for a, b in zip(first, numbers, strict=True)):
            raise UnevenError
        here = [b[0] - a[0] for a, b in zip(first, numbers, strict=True)]
        steps = steps or here
        if here != [step * number for step in steps]:
            raise UnevenError
    following = iter(steps)
    body = tuple(_stepped(item, depth, following) for item in iterations[0])
    return [Rolled(kind, depth, walked[-1] + 1, body)]


def rolled(kind: str, depth: int, iterations: Sequence[Sequence[Item]]) -> list[Item]:
    """Iterations as few loops as possible. An iteration that differs from all others stays
    separate."""
    known = [_flat(body) for body in iterations]
    found: list[Item] = []
    at = 0
    while at < len(iterations):
        stop, steps = _run(known, at)
        if stop - at < 2:
            found.extend(iterations[at])
        else:
            numbers = iter(steps)
            body = tuple(_stepped(item, depth, numbers) for item in iterations[at])
            found.append(Rolled(kind, depth, stop - at, body))
        at = stop
    return found


def _run(known: Sequence[tuple[Key, list[Affine]]], at: int) -> tuple[int, list[int]]:
    """The end of the iterations that differ from the one at `at` by even steps, and the steps."""
    shape, first = known[at]
    steps: list[int] = []
    stop = at + 1
    while stop < len(known):
        other, numbers = known[stop]
        if other != shape:
            break
        here = [b[0] - a[0] for a, b in zip(first, numbers, strict=True)]
        if any(a[1] != b[1] for a, b in zip(first, numbers, strict=True)):
            break
        if stop == at + 1:
            steps = here
        elif any(total != step * (stop - at) for total, step in zip(here, steps, strict=True)):
            break
        stop += 1
    return stop, steps


def _flat(body: Sequence[Item]) -> tuple[Key, list[Affine]]:
    """The parts of an iteration that must be equal in all iterations, and its numbers.

    Tensors that are created in it are identified by their order.
    """
    own: dict[int, int] = {}
    numbers: list[Affine] = []
    key: list[object] = []
    _collect(body, own, numbers, key)
    return tuple(key), numbers


def _collect(
    body: Sequence[Item], own: dict[int, int], numbers: list[Affine], key: list[object]
) -> None:
    for item in body:
        if isinstance(item, Made):
            own[item.tensor] = len(own)
            key.append(item.form)
        elif isinstance(item, Line):
            tensors = tuple([("own", own[t]) if t in own else t for t in item.tensors])
            key.append((item.name, item.arguments, tensors))
            numbers.extend(item.numbers)
        else:
            key.append((item.kind, item.trips, len(item.body)))
            _collect(item.body, own, numbers, key)


def _stepped(item: Item, depth: int, steps: Iterator[int]) -> Item:
    """The item of the first iteration, with numbers that grow with the loop's variable."""
    if isinstance(item, Made):
        return item
    if isinstance(item, Line):
        return Line(
            item.name, item.arguments, item.tensors,
            tuple([_growing(number, depth, next(steps)) for number in item.numbers]),
        )  # fmt: skip
    body = tuple([_stepped(inner, depth, steps) for inner in item.body])
    return Rolled(item.kind, item.depth, item.trips, body)


def _growing(number: Affine, depth: int, step: int) -> Affine:
    constant, factors = number
    return (constant, (*factors, (depth, step))) if step else number
