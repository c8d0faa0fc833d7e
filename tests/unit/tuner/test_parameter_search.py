"""The search of a template's parameters: a pure function that finds good points soon."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from tilewright.core.factors import StepFactors
from tilewright.core.roles import ParameterSearch
from tilewright.core.templates import (
    MACROS,
    KernelTemplate,
    Parameter,
    Point,
    TriedPoint,
    parse_template,
)
from tilewright.tuner.parameters.gaussian_process import GaussianProcess
from tilewright.tuner.parameters.lattice import Lattice
from tilewright.tuner.parameters.searches import GuidedParameters, RandomParameters

SEARCHES = [GuidedParameters(), RandomParameters()]


def template(text: str = "") -> KernelTemplate:
    found = parse_template(
        text
        or """
TUNE(A, 1, 2, 4, 8, 16, 32, 64)
TUNE(B, 1, 2, 4, 8, 16, 32, 64)
TUNE(C, 1, 2, 4, 8, 16, 32, 64)
TUNE(D, 2, 0, 1)
TUNE_REQUIRE(A * B <= 1024)
""",
        MACROS,
    )
    assert found is not None
    return found


def latency(point: Point) -> float:
    """Best at (8, 16, 4, 1); blocks larger than a memory cost half as much again."""
    a, b, c, d = point
    off = abs(math.log2(a) - 3) + 0.5 * abs(math.log2(b * c) - 6)
    return 100 * (1 + 0.15 * off + (0.3, 0.0, 0.1)[d] + 0.5 * (a * b * c > 2048))


def tried_by(search: ParameterSearch, evaluations: int, seed: int) -> list[TriedPoint]:
    tried: list[TriedPoint] = []
    while len(tried) < evaluations:
        for point in search.next_points(template(), tried, 4, seed + len(tried)):
            tried.append(TriedPoint(point, latency(point)))
    return tried


@pytest.mark.parametrize("search", SEARCHES)
def test_points_are_new_distinct_and_satisfy_the_constraints(search: ParameterSearch) -> None:
    tried = tried_by(search, 24, seed=1)
    points = [found.point for found in tried]
    assert len(set(points)) == len(points)
    assert set(points) <= set(template().points())


@pytest.mark.parametrize("search", SEARCHES)
def test_the_same_measurements_lead_to_the_same_points(search: ParameterSearch) -> None:
    tried = tried_by(search, 16, seed=3)
    again = search.next_points(template(), list(tried), 6, 5)
    assert again == search.next_points(template(), tried, 6, 5)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_small_template_is_tried_whole_and_then_over(search: ParameterSearch) -> None:
    small = template("TUNE(A, 1, 2)\nTUNE(ONLY, 7)")
    found = search.next_points(small, [], 9, 0)
    assert sorted(found) == [(1, 7), (2, 7)]
    assert search.next_points(small, [TriedPoint(p, 1.0) for p in found], 9, 0) == []


def test_the_guided_search_is_near_the_best_long_before_a_random_one() -> None:
    best = min(map(latency, template().points()))

    def reached(search: ParameterSearch, seed: int) -> float:
        return min(t.latency or math.inf for t in tried_by(search, 32, seed)) / best

    guided = [reached(GuidedParameters(), seed) for seed in range(0, 300, 100)]
    at_random = [reached(RandomParameters(), seed) for seed in range(0, 300, 100)]
    assert np.mean(guided) < 1.03
    assert np.mean(guided) < np.mean(at_random)


def test_the_first_points_try_all_values_equally_often() -> None:
    text = template("TUNE(A, 1, 2, 4)\nTUNE(B, 1, 2, 4, 8, 16, 32)\nTUNE(C, 0, 1)")
    points = GuidedParameters().next_points(text, [], 6, 0)
    assert len(points) == 6
    assert [sorted(Counter(values).values()) for values in zip(*points, strict=True)] == [
        [2, 2, 2],
        [1] * 6,
        [3, 3],
    ]


def test_a_few_equal_measurements_in_a_corner_say_little_of_the_opposite_one() -> None:
    rows = np.array([[0.0, 0, 0, 0], [0.2, 0, 0.1, 0], [0, 0.2, 0, 0.1]])
    _, deviation = GaussianProcess(rows, np.ones(3)).predict(np.ones((1, 4)))
    assert deviation[0] > 0.7


def test_wrong_and_stopped_instances_keep_the_search_away() -> None:
    """All points with A = 1 are wrong, those with A = 2 stopped: few more of them are asked."""
    text = template("TUNE(A, 1, 2, 4)\nTUNE(B, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)")
    tried: list[TriedPoint] = []
    while len(tried) < 16:
        for point in GuidedParameters().next_points(text, tried, 2, len(tried)):
            slow = {1: (None, None), 2: (None, 900.0), 4: (100.0 + point[1] % 7, None)}[point[0]]
            tried.append(TriedPoint(point, *slow))
    later = [found.point[0] for found in tried[8:]]
    assert later.count(4) > len(later) // 2


def test_nothing_but_failures_is_no_error() -> None:
    tried = [TriedPoint(point) for point in template().points()[:3]]
    assert len(GuidedParameters().next_points(template(), tried, 4, 0)) == 4


def test_sizes_lie_by_their_ratios_and_switches_by_their_places() -> None:
    lattice = Lattice(template("TUNE(A, 64, 16, 32)\nTUNE(ONLY, 3)\nTUNE(S, 0, 5, 1)"))
    at = dict(zip(lattice.points, lattice.coordinates.tolist(), strict=True))
    assert at[(16, 3, 0)] == [0.0, 0.0]
    assert at[(32, 3, 1)] == [0.5, 0.5]
    assert at[(64, 3, 5)] == [1.0, 1.0]
    first, last = lattice.rows_of([(16, 3, 0), (64, 3, 1)])
    assert lattice.hops(int(first), np.array([last])).tolist() == [3]


def test_the_model_is_sure_where_it_measured_and_unsure_elsewhere() -> None:
    rows = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 1.0], [1.0, 0.5]])
    model = GaussianProcess(rows, np.array([1.0, 2.0, 3.0, 4.0]))
    mean, deviation = model.predict(np.array([[0.5, 0.0], [1.0, 1.0]]))
    assert mean[0] == pytest.approx(2.0, abs=0.2)
    assert deviation[0] < deviation[1]
    guessed = model.with_guess(np.array([1.0, 1.0]), 2.5)
    assert guessed.predict(np.array([[1.0, 1.0]]))[1][0] < deviation[1]
    assert model.predict(np.array([[1.0, 1.0]]))[1][0] == deviation[1]


def test_where_latencies_are_estimated_the_lowest_estimates_are_first_until_they_prove_wrong() -> (
    None
):
    points = [(a, b) for a in (1, 2, 4, 8) for b in (1, 2)]
    estimated = {(a, b): 100.0 + 40 * (b == 2) for a, b in points}  # b = 2 is faster, in fact
    axes = (Parameter("A", (1, 2, 4, 8)), Parameter("B", (1, 2)))
    space = StepFactors(axes, {}, (), estimated)
    search, own = GuidedParameters(), TriedPoint((1, 1), 100.0)
    assert all(b == 1 for _, b in search.next_points(space, [own], 3, 0))
    tried = [TriedPoint((a, b), 100.0 if b == 1 else 80.0) for a, b in points if a < 8]
    assert search.next_points(space, tried, 1, 0) == [(8, 2)]


def test_with_estimates_the_nearest_value_of_each_parameter_is_tried_first() -> None:
    points = [(a, 1, 1) for a in (8, 4, 2, 1)] + [(1, 8, 1), (1, 2, 1), (1, 1, 8), (1, 1, 2)]
    axes = tuple(Parameter(name, (1, 2, 4, 8)) for name in "ABC")
    space = StepFactors(axes, {}, (), dict.fromkeys(points, 100.0))
    found = GuidedParameters().next_points(space, [TriedPoint((1, 1, 1), 100.0)], 3, 0)
    assert sorted(found) == [(1, 1, 2), (1, 2, 1), (2, 1, 1)]
