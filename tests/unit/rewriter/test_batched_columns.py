"""Sums of one column become products of several columns, if every sum stays the same."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.planner import passes_through_memory
from tilewright.proposers.rewriter.raising.batched_columns import side_by_side, written_arrays
from tilewright.proposers.rewriter.raising.computation import Computation, Kind, Store, Stored
from tilewright.proposers.rewriter.raising.own_arrays import Fillings
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.raising.translation.parts import SPACING
from tilewright.targets.gemmini import create_fp32_target

FOLDERS = Path(__file__).parents[2] / "fixtures" / "foreign_folders"
IMAGE, FILTER, BIAS, OUT = (n * SPACING for n in (1, 2, 3, 4))
HOW = Store((1.0, 0), False, 1)


def of(stored: list[Stored], kinds: list[Kind]) -> Computation:
    return Computation(stored, kinds, "fence", ("SPAD", "ACC"), Fillings({}))


def kind(depth: int, apart: int = 1, stride: int = 1) -> Kind:
    return Kind((), (1.0, 1.0), depth, 1, apart, stride, 1, (False, False))


def line(width: int, taps: int, step: int = 1, rows: int = 8) -> Computation:
    """Rows of `width` results, each the sum of the `taps` elements from `step` times its place."""
    return of(
        [
            Stored(
                OUT + y * width, 1, width, 0, HOW,
                ((IMAGE + 100 * y, step, FILTER, 0),), ((BIAS, 0, 1.0),),
            )
            for y in range(rows)
        ],
        [kind(taps)],
    )  # fmt: skip


def drawn(rng: random.Random) -> Computation:
    """Sums of up to three products with random steps, depths and added rows."""
    depth, step = rng.randint(1, 5), rng.choice([0, 1, 1, 2])
    form = kind(depth, rng.randint(1, 3), rng.choice([1, 7]))
    taps, width, beside = rng.randint(1, 3), rng.randint(2, 40), rng.choice([0, 0, 1])
    bias = rng.choice([0, 4])
    stored = []
    for y in range(40):
        products = tuple((IMAGE + 500 * y + 90 * t, step, FILTER + 300 * t, 0) for t in range(taps))
        rows = ((BIAS, bias, 1.0),) if rng.random() < 0.5 or bias else ()
        if not beside:
            stored.append(Stored(OUT + 64 * y, 1, width, 0, HOW, products, rows))
            continue
        for x in range(width):
            moved = tuple((a + x * step, 0, b + x, k) for a, _, b, k in products)
            stored.append(Stored(OUT + 64 * y + x, 1, 1, 0, HOW, moved, ()))
    return of(stored, [form])


def element(address: int) -> int:
    """A value that hardly any other element has."""
    return (address % SPACING * 7919 + address // SPACING * 104729) % 10007


def sums(found: Computation) -> dict[int, int]:
    """The value of every result, for distinct values of the elements at all addresses."""
    memory: dict[int, int] = defaultdict(int)
    written = {c.number for c in found.copied}
    for copied in found.copied:
        for target, source in copied.blocks:
            places = [(target, source)]
            for (down, across), count in copied.inside:
                places = [(t + n * down, s + n * across) for t, s in places for n in range(count)]
            assert len({t for t, _ in places}) == len(places)
            memory |= {t: element(s) for t, s in places}

    def value(address: int) -> int:
        return memory[address] if address // SPACING in written else element(address)

    result: dict[int, int] = {}
    for one in found.stored:
        for r in range(one.count):
            for n in range(one.how.columns):
                total = sum(value(a + r * s + 4 * n) for a, s, _ in one.rows)
                for a, s, b, k in one.products:
                    form = found.kinds[k]
                    total += sum(
                        value(a + r * s + t * form.apart)
                        * value(b + t * form.stride + n * form.across)
                        for t in range(form.depth)
                    )
                result[one.address + r * one.stride + n] = total
    return result


@pytest.mark.parametrize("seed", range(60))
def test_every_sum_stays_the_same(machine: Machine, seed: int) -> None:
    before = drawn(random.Random(seed))
    after = side_by_side(before, 16, machine)
    assert sums(after) == sums(before)
    for form in after.kinds if after is not before else ():
        assert form.depth <= 16
        assert form.columns <= 16


def test_most_random_sums_are_put_side_by_side(machine: Machine) -> None:
    found = [drawn(random.Random(seed)) for seed in range(60)]
    assert sum(side_by_side(f, 16, machine) is not f for f in found) > 20


def test_neighbours_share_one_row_of_pixels(machine: Machine) -> None:
    after = side_by_side(line(32, 3), 16, machine)
    assert {
        (s.how.columns, after.kinds[k].depth) for s in after.stored for *_, k in s.products
    } == {(8, 10)}
    names = {a.name: a.shape for a in written_arrays(after, machine, {"matrices"}).values()}
    assert names == {"matrices2": (1, 10, 8), "vectors": (1, 16)}


def test_strided_results_use_fewer_columns(machine: Machine) -> None:
    after = side_by_side(line(12, 4, step=2, rows=200), 16, machine)
    assert {s.how.columns for s in after.stored} == {6}
    assert {k.depth for k in after.kinds} == {14}


def storing(found: Computation, array: int) -> Computation:
    """The computation with results in another array."""
    moved = [replace(s, address=array + 9000 + 64 * n) for n, s in enumerate(found.stored)]
    return replace(found, stored=moved)


@pytest.mark.parametrize(
    "broken",
    [
        lambda c: storing(c, IMAGE),
        lambda c: storing(c, FILTER),
        lambda c: storing(c, BIAS),
        lambda c: replace(c, kinds=[replace(c.kinds[0], transposed=(False, True))]),
        lambda c: replace(line(32, 3, rows=200), kinds=[replace(c.kinds[0], apart=0)]),
        lambda c: replace(c, kinds=[replace(c.kinds[0], depth=17)]),
        lambda c: replace(c, stored=c.stored[:1]),
    ],
    ids=["the image is stored", "the filter is stored", "the bias is stored", "transposed",
         "one element", "too deep", "the core would take longer"],
)  # fmt: skip
def test_other_sums_stay_as_they_are(machine: Machine, broken: object) -> None:
    found = broken(line(32, 3))  # type: ignore[operator]
    assert side_by_side(found, 16, machine) is found


def test_floats_stay_as_they_are() -> None:
    floats = Machine.of(create_fp32_target().brief())
    found = of(
        [
            Stored(OUT + 512 * y, 4, 128, 0, HOW, ((IMAGE + 1024 * y, 4, FILTER, 0),), ())
            for y in range(500)
        ],
        [kind(1, 4, 4)],
    )
    assert side_by_side(found, 16, floats) is found


@pytest.mark.parametrize("name", ["depthwise_planes", "depthwise_naive", "depthwise_channels"])
def test_depthwise_convolutions_multiply_by_matrices(machine: Machine, name: str) -> None:
    nest = raised((FOLDERS / name / "kernel.c").read_text(), machine)
    text = emit(nest)
    assert "static int8_t matrices[" in text
    assert not passes_through_memory(nest, machine)
    assert emit(lift(text, machine)) == text
