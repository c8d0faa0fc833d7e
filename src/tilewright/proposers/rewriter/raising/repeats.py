"""Loops in a sequence: parts that repeat with numbers that grow evenly, and repeats of those.

Each element is taken in once: it extends the loop before it, completes the third of three parts
that make a new one, or stays. (Nested loop recognition after A. Ketterlin and P. Clauss,
"Prediction and trace compression of data access addresses through nested loop recognition", 2008.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

Shape: TypeAlias = tuple[object, ...]
"""What elements have in common that may repeat one another; equal ones have as many numbers."""
LONGEST = 96
"""Elements and loops in a part."""
TIMES = 3
"""Parts that make a new loop: two are always evenly apart."""


@dataclass(frozen=True, slots=True)
class Single:
    """An element, and its numbers."""

    shape: Shape
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part, `count` times: its numbers are those of the first time, one after the other.

    Each grows by its `steps` from one time to the next.
    """

    shape: Shape
    numbers: tuple[int, ...]
    count: int
    part: tuple[Term, ...]
    steps: tuple[int, ...]


Term: TypeAlias = Single | Repeat


def repeated(count: int, part: tuple[Term, ...], steps: tuple[int, ...]) -> Repeat:
    """A part so many times."""
    numbers = tuple(chain.from_iterable(term.numbers for term in part))
    return Repeat((count, steps, *(t.shape for t in part)), numbers, count, part, steps)


def loops_of(elements: Iterable[Single]) -> list[Term]:
    """The sequence as few terms."""
    terms: list[Term] = []
    shapes: list[Shape] = []
    lengths: list[int] = []  # of a loop's part; 0 for a single element
    for element in elements:
        terms.append(element)
        shapes.append(element.shape)
        lengths.append(0)
        while (found := _shorter(terms, shapes, lengths)) is not None:
            taken, loop = found
            for of_each in (terms, shapes, lengths):
                del of_each[-taken:]
            terms.append(loop)
            shapes.append(loop.shape)
            lengths.append(len(loop.part))
    return terms


def _shorter(
    terms: list[Term], shapes: list[Shape], lengths: list[int]
) -> tuple[int, Repeat] | None:
    """How many of the last terms are one loop, and it."""
    last, total = shapes[-1], len(terms)
    for length in range(1, min(LONGEST, total - 1) + 1):
        if lengths[-length - 1] == length:
            loop = terms[-length - 1]
            assert isinstance(loop, Repeat)
            if loop.part[-1].shape == last and _is_next(loop, terms[-length:]):
                return length + 1, repeated(loop.count + 1, loop.part, loop.steps)
        if (
            total >= TIMES * length
            and shapes[-1 - length] == last
            and shapes[-1 - 2 * length] == last
        ):
            steps = _steps(terms, shapes, length)
            if steps is not None:
                part = tuple(terms[-TIMES * length : -2 * length])
                return TIMES * length, repeated(TIMES, part, steps)
    return None


def _is_next(loop: Repeat, part: list[Term]) -> bool:
    """Whether terms are what a loop does the next time."""
    if any(a.shape != b.shape for a, b in zip(loop.part, part, strict=True)):
        return False
    numbers = chain.from_iterable(term.numbers for term in part)
    count = loop.count
    return all(
        first + count * step == now
        for first, step, now in zip(loop.numbers, loop.steps, numbers, strict=True)
    )


def _steps(terms: list[Term], shapes: list[Shape], length: int) -> tuple[int, ...] | None:
    """By how much the numbers grow over the last three parts; None if unevenly or none repeat."""
    third, second = shapes[-length:], shapes[-2 * length : -length]
    if third != second or third != shapes[-3 * length : -2 * length]:
        return None
    steps: list[int] = []
    for at in range(-length, 0):
        before, middle = terms[at - 2 * length].numbers, terms[at - length].numbers
        for a, b, c in zip(before, middle, terms[at].numbers, strict=True):
            if b - a != c - b:
                return None
            steps.append(b - a)
    return tuple(steps)
