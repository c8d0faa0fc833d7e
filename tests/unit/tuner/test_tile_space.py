"""The tile space: products, hops, distances and draws, over random workloads and structures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.core.errors import WorkloadError
from tilewright.tuner.benchmark_set import benchmark_workload
from tilewright.tuner.candidates import Booleans, Candidates
from tilewright.tuner.space import TileSpace, divisors
from tilewright.tuner.structure import Knob, Structure, cpu_structure, gpu_structure
from tilewright.tuner.workload import conv2d, matmul

EXTENTS = st.integers(1, 60)


@st.composite
def spaces(draw: st.DrawFn) -> TileSpace:
    workload = (
        matmul(draw(EXTENTS), draw(EXTENTS), draw(EXTENTS))
        if draw(st.booleans())
        else conv2d(1, draw(EXTENTS), 8, 9, draw(EXTENTS), 3, draw(st.integers(1, 2)), 1)
    )
    restricted = draw(st.booleans())
    make = draw(st.sampled_from([gpu_structure, cpu_structure]))
    return TileSpace(workload, make(workload, restricted=restricted))


def assert_in_space(space: TileSpace, points: Candidates) -> None:
    assert (points.tiles.prod(axis=2) == np.array(space.workload.extents)).all()
    for loop in range(len(space.workload.loops)):
        levels = space.levels_of(loop)
        assert (points.tiles[:, loop, levels:] == 1).all()
        assert (points.tiles[:, loop, levels - 1] <= space.structure.max_innermost).all()
        if loop < space.workload.spatial:
            assert (points.tiles[:, loop, sorted(space.structure.frozen)] == 1).all()
    for knob, column in zip(space.structure.knobs, points.knobs.T, strict=True):
        assert ((column >= 0) & (column < len(knob.choices))).all()


@given(spaces(), st.integers(0, 2**32))
@settings(max_examples=30)
def test_random_points_are_distinct_and_in_the_space(space: TileSpace, seed: int) -> None:
    points = space.random(20, np.random.default_rng(seed))
    assert_in_space(space, points)
    assert len(set(points.row_keys())) == len(points)
    assert len(points) == min(20, space.size) or space.size > 20


@given(spaces(), st.integers(0, 2**32), st.integers(1, 3))
@settings(max_examples=30)
def test_every_neighbour_is_exactly_that_many_hops_away(
    space: TileSpace, seed: int, hops: int
) -> None:
    point = space.random(1, np.random.default_rng(seed))
    near = space.neighbours(point, hops)
    assert_in_space(space, near)
    assert len(set(near.row_keys())) == len(near)
    assert (space.distance(near, point) == hops).all()
    assert (space.distance(point, near) == hops).all()


@given(spaces(), st.integers(0, 2**32))
@settings(max_examples=20)
def test_hops_go_both_ways(space: TileSpace, seed: int) -> None:
    point = space.random(1, np.random.default_rng(seed))
    near = space.neighbours(point, 1)
    for row in range(len(near)):
        assert point.row_keys()[0] in space.neighbours(near[[row]], 1).row_keys()


def test_one_hop_of_a_small_loop_by_hand() -> None:
    space = TileSpace(matmul(6, 1, 1), Structure("SSRSRS", knobs=(Knob("unroll", (0, 16)),)))
    point = Candidates(np.array([[[2, 3, 1, 1], [1] * 4, [1] * 4]]), np.array([[0]]))
    near = space.neighbours(point, 1)
    tiles = {tuple(row[0]) for row, knob in zip(near.tiles, near.knobs, strict=True) if knob == 0}
    # Level 1: down to 2, up to 6. Levels 2 and 3: up to 2. Never below 1, never beyond the extent.
    assert tiles == {(3, 2, 1, 1), (1, 6, 1, 1), (1, 3, 2, 1), (1, 3, 1, 2)}
    assert [int(k) for k in near.knobs[:, 0]].count(1) == 1
    assert len(near) == 5


def test_all_points_of_a_small_space_are_found_and_counted() -> None:
    space = TileSpace(matmul(4, 2, 3), Structure("SSRS"))
    # 4 = 2^2 in three places: 6 ways; 2: 3 ways; 3 in one place: 1 way.
    assert space.size == 18
    assert len(space.random(100, np.random.default_rng(0))) == 18


def test_random_leaves_out_what_is_excluded() -> None:
    space = TileSpace(matmul(4, 2, 3), Structure("SSRS"))
    first = space.random(10, np.random.default_rng(1))
    rest = space.random(100, np.random.default_rng(2), frozenset(first.row_keys()))
    assert len(rest) == 8
    assert not set(rest.row_keys()) & set(first.row_keys())


def test_draws_are_uniform_over_the_valid_points() -> None:
    def few(points: Candidates) -> Booleans:
        return points.tiles[:, 0, 1] == 2

    space = TileSpace(matmul(8, 1, 1), Structure("SSRS"), few)
    counts = dict.fromkeys(space.random(9, np.random.default_rng(0)).row_keys(), 0)
    assert len(counts) == 3  # (4,2,1), (2,2,2), (1,2,4)
    rng = np.random.default_rng(3)
    for _ in range(300):
        counts[space.random(1, rng).row_keys()[0]] += 1
    assert min(counts.values()) > 60


def test_a_space_without_valid_points_says_so() -> None:
    workload = matmul(1, 1, 1)
    space = TileSpace(
        workload, gpu_structure(workload), lambda points: np.zeros(len(points), dtype=bool)
    )
    with pytest.raises(WorkloadError, match="random tilings of workload"):
        space.random(1, np.random.default_rng(0))


def test_tiles_of_a_similar_workload_become_the_nearest_tilings_here() -> None:
    small, large = benchmark_workload("M0"), benchmark_workload("M5")
    structure = cpu_structure(small)
    known = TileSpace(small, structure).random(8, np.random.default_rng(0))
    space = TileSpace(large, cpu_structure(large))
    starts = space.nearest(known.tiles, known.knobs)
    assert_in_space(space, starts)
    assert len(starts) == 8
    again = TileSpace(small, structure).nearest(known.tiles, known.knobs)
    assert again.row_keys() == known.row_keys()


@given(st.integers(1, 5000))
@settings(max_examples=50)
def test_divisors_are_all_divisors_in_order(number: int) -> None:
    assert divisors(number) == [d for d in range(1, number + 1) if number % d == 0]
