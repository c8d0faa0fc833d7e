"""Quick answers agree with integer sets: whatever intervals decide, isl decides alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from tilewright.proposers.rewriter.analysis import polyhedra
from tilewright.proposers.rewriter.analysis.region import Region
from tilewright.proposers.rewriter.expr import Expr, remainder, var
from tilewright.proposers.rewriter.ir import Command, Compare, Condition, Guard, Loop, Stmt

QUICK = ("covered", "never_in_turn", "certain", "same_points", "meet_at_once", "lie_apart")


def drawn(rng: random.Random) -> tuple[Region, Region, Loop, Loop]:
    """Two regions in a nest: a common outer loop, loops of their own, and sometimes a guard."""
    first, second = Command("w", ()), Command("r", ())
    test: Condition = (Compare(">", var("k"), Expr()),)
    inner: list[Stmt] = []
    above: list[tuple[Stmt, ...]] = []
    for stmt, name in ((first, "a"), (second, "b")):
        own: Stmt = Loop(name, Expr(), Expr(16 * rng.randint(0, 3)), 16, (stmt,))
        if rng.random() < 0.2:
            guard = Guard((Compare("<", var("k"), Expr(32)),), (own,))
            above.append((guard, own))
            own = guard
        else:
            above.append((own,))
        inner.append(own)
    k = Loop("k", Expr(), Expr(64), 16, tuple(inner))
    i = Loop("i", Expr(), Expr(48), 16, (k,))
    regions = []
    for place, (stmt, name) in enumerate(((first, "a"), (second, "b"))):
        row = var(name) * rng.choice((0, 1, 1, 2)) + rng.choice((0, 0, 16, -16, 64))
        row = row + rng.choice((Expr(), var("k"), var("k") * 4, var("i"), remainder(var("i"), 32)))
        regions.append(
            Region(
                stmt,
                (i, k, *above[place]),
                place,
                ((row, Expr(rng.choice((8, 16, 32)))),),
                when=test if place and rng.random() < 0.3 else (),
                unless=test if not place and rng.random() < 0.3 else None,
            )
        )
    return regions[0], regions[1], i, k


@pytest.fixture
def intervals(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Forgets answers when entered and left; `setattr` it to switch intervals off."""
    caches = (polyhedra._meet, polyhedra._uncovered, polyhedra._exceeds, polyhedra._is_empty)
    yield monkeypatch
    for cache in caches:
        cache.cache_clear()


def answers(cases: list[tuple[Region, Region, Loop, Loop]]) -> list[tuple[bool, ...]]:
    polyhedra._meet.cache_clear()
    polyhedra._uncovered.cache_clear()
    return [
        (
            polyhedra.uncovered(second, [first], i),
            polyhedra.uncovered(second, [first], k),
            polyhedra.meet(first, second),
            polyhedra.meet(first, second, (), i),
            polyhedra.meet(first, second, (i,), k),
            polyhedra.meet(second, second, (i,), k),
        )
        for first, second, i, k in cases
    ]


def noting(name: str, question: Callable[..., bool], said_yes: set[str]) -> Callable[..., bool]:
    def asked(*arguments: object) -> bool:
        answer = question(*arguments)
        said_yes.update({name} if answer else set())
        return answer

    return asked


def test_intervals_and_integer_sets_agree(intervals: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    cases = [drawn(rng) for _ in range(60)]
    said_yes: set[str] = set()
    for name in QUICK:
        intervals.setattr(polyhedra, name, noting(name, getattr(polyhedra, name), said_yes))
    quick = answers(cases)
    for name in QUICK:
        intervals.setattr(polyhedra, name, lambda *_: False)
    exact = answers(cases)
    assert quick == exact
    assert said_yes == set(QUICK)
    assert len({answer for row in exact for answer in row}) == 2
