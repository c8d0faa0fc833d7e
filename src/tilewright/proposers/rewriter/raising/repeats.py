"""Finds loops in a sequence: parts that repeat with evenly growing numbers, and repetitions of such
parts.

Each element is processed once. It extends the loop before it, completes the third of three parts
that form a new loop, or stays separate. (Nested loop recognition after A. Ketterlin and P. Clauss,
"Prediction and trace compression of data access addresses through nested loop recognition", 2008.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

Shape: TypeAlias = tuple[object, ...]
"""The common properties of elements that can repeat one another. Equal shapes have the same number
of numbers."""
LONGEST = 96
"""Maximum number of elements and loops in a part."""
TIMES = 3
"""Number of parts that form a new loop; two parts are always evenly spaced."""


@dataclass(frozen=True, slots=True)
class Single:
    """An element and its numbers."""

    shape: Shape
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part that is repeated `count` times. Its numbers are those of the first repetition, in
    order.

    Each number grows by its entry in `steps` from one repetition to the next.
    """

    shape: Shape
    numbers: tuple[int, ...]
    count: int
    part: tuple[Term, ...]
    steps: tuple[int, ...]


Term: TypeAlias = Single | Repeat


def repeated(count: int, part: tuple[Term, ...], steps: tuple[int, ...]) -> Repeat:
    """A part repeated a number of times."""
    numbers = tuple(chain.from_iterable(term.numbers for term in part))
    return Repeat((count, steps, *(t.shape for t in part)), numbers, count, part, steps)


def loops_of(elements: Iterable[Single]) -> list[Term]:
    """The sequence with as few terms as possible."""
    sequence = _Sequence()
    for element in elements:
        sequence.append(element)
    return sequence.terms


class _Sequence:
    """The terms so far. Repetitions are found by hashes of shapes, because comparing hashes takes
    far less time than comparing shapes."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self._hashes: list[int] = []
        self._places: defaultdict[int, list[int]] = defaultdict(list)
        """The positions of each hash, in increasing order."""
        self._due: dict[int, set[int]] = {}
        """For each position, the positions of present or former loops that a part which ends at
        this position would extend.
        """

    def append(self, term: Term) -> None:
        """Add the next element."""
        self._add(term)
        while (found := self._shorter()) is not None:
            taken, loop = found
            for own in self._hashes[-taken:]:
                self._places[own].pop()
            del self.terms[-taken:], self._hashes[-taken:]
            place = len(self.terms)
            self._due.setdefault(place + len(loop.part), set()).add(place)
            self._add(loop)

    def _add(self, term: Term) -> None:
        own = hash(term.shape)
        self._places[own].append(len(self.terms))
        self.terms.append(term)
        self._hashes.append(own)

    def _shorter(self) -> tuple[int, Repeat] | None:
        """The number of last terms that form a loop, and this loop; None if they form no loop.
        Short bodies of a loop are tried before long ones."""
        total = len(self._hashes)
        due = self._due.get(total - 1)
        lengths = self._lengths(total)
        for place in sorted(due, reverse=True) if due else ():
            length = total - 1 - place
            loop = self.terms[place]
            if isinstance(loop, Single) or len(loop.part) != length:
                continue  # the element is now part of another loop
            # A new loop of shorter parts comes first.
            while lengths and lengths[0] < length:
                if (found := self._three_times(lengths.pop(0))) is not None:
                    return found
            if _is_next(loop, self.terms[-length:]):
                return length + 1, repeated(loop.count + 1, loop.part, loop.steps)
        for length in lengths:
            if (found := self._three_times(length)) is not None:
                return found
        return None

    def _lengths(self, total: int) -> list[int]:
        """The lengths, in increasing order, for which the last three parts of this length end with
        equal hashes."""
        hashes, found = self._hashes, []
        last = hashes[-1]
        places = self._places[last]
        for n in range(len(places) - 2, -1, -1):
            length = total - 1 - places[n]
            if length > LONGEST or TIMES * length > total:
                break
            if hashes[-1 - 2 * length] == last:
                found.append(length)
        return found

    def _three_times(self, length: int) -> tuple[int, Repeat] | None:
        """The last terms as three repetitions of a new loop, if possible."""
        hashes = self._hashes
        third = hashes[-length:]
        if third != hashes[-2 * length : -length] or third != hashes[-TIMES * length : -2 * length]:
            return None
        terms = self.terms[-TIMES * length :]
        steps = _steps(terms, length)
        if steps is None:
            return None
        return TIMES * length, repeated(TIMES, tuple(terms[:length]), steps)


def _is_next(loop: Repeat, part: list[Term]) -> bool:
    """Whether terms are the next repetition of a loop."""
    for a, b in zip(loop.part, part, strict=True):
        if a.shape != b.shape:
            return False
    numbers = chain.from_iterable(term.numbers for term in part)
    count = loop.count
    for first, step, now in zip(loop.numbers, loop.steps, numbers, strict=True):
        if first + count * step != now:
            return False
    return True


def _steps(terms: list[Term], length: int) -> tuple[int, ...] | None:
    """The growth of the numbers over three parts; None if it is uneven or the parts do not
    repeat."""
    steps: list[int] = []
    parts = (terms[:length], terms[length : 2 * length], terms[2 * length :])
    for first, second, third in zip(*parts, strict=True):
        if not first.shape == second.shape == third.shape:
            return None
        for a, b, c in zip(first.numbers, second.numbers, third.numbers, strict=True):
            if b - a != c - b:
                return None
            steps.append(b - a)
    return tuple(steps)
