"""Loops found in sequences: what they hold is the sequence, and a nest is found as one."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tilewright.proposers.rewriter.raising.repeats import Repeat, Single, Term, loops_of


def nest(rng: random.Random, depth: int) -> list[Single]:
    """What loops of random extents within one another and beside one another go through."""

    def part(level: int, at: tuple[int, ...]) -> Iterator[Single]:
        for number, (kind, count, steps) in enumerate(levels[level]):
            base = tuple(a + number * 1000 for a in at)
            for i in range(count):
                here = tuple(b + i * s for b, s in zip(base, steps, strict=True))
                yield Single((kind, level), here)
                if level + 1 < depth:
                    yield from part(level + 1, here)

    levels = [
        [(rng.choice("abc"), rng.randint(1, 5), (rng.randint(-9, 9), rng.randint(0, 64)))
         for _ in range(rng.randint(1, 2))]
        for _ in range(depth)
    ]  # fmt: skip
    return list(part(0, (0, 0)))


def unrolled(terms: list[Term]) -> Iterator[Single]:
    """What terms stand for, one element after the other."""
    for term in terms:
        if isinstance(term, Single):
            yield term
            continue
        for time in range(term.count):
            numbers = iter([n + time * s for n, s in zip(term.numbers, term.steps, strict=True)])
            yield from unrolled([moved(part, numbers) for part in term.part])


def moved(term: Term, numbers: Iterator[int]) -> Term:
    """A term that begins with other numbers."""
    own = tuple(next(numbers) for _ in term.numbers)
    if isinstance(term, Single):
        return Single(term.shape, own)
    given = iter(own)
    part = tuple(moved(t, given) for t in term.part)
    return Repeat(term.shape, own, term.count, part, term.steps)


@pytest.mark.parametrize("seed", range(40))
def test_the_loops_go_through_the_sequence(seed: int) -> None:
    rng = random.Random(seed)
    sequence = nest(rng, 1 + seed % 4)
    if seed % 3 == 0:
        sequence.insert(rng.randrange(len(sequence)), Single(("odd",), (7,)))
    assert list(unrolled(loops_of(sequence))) == sequence


def test_a_nest_is_one_loop_of_loops() -> None:
    sequence = [
        Single(("product",), (16 * i + k, 64 * k + j))
        for i in range(5)
        for j in range(3)
        for k in range(4)
    ]
    (outer,) = loops_of(sequence)
    depths = []
    term: Term = outer
    while isinstance(term, Repeat):
        depths.append(term.count)
        (term,) = term.part
    assert depths == [5, 3, 4]
