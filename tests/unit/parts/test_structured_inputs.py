"""Structure in random inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilewright.core.records import Argument
from tilewright.parts import inputs
from tilewright.parts.cases import Cases
from tilewright.targets.host_c.problems import MatrixProblem
from tilewright.targets.host_c.shapes import parse_shape

DRAWS = 200


def last_row_is_zero(values: np.ndarray) -> bool:
    return not values[-1].any()


def a_column_is_zero(values: np.ndarray) -> bool:
    return not values[:, 0].any()


def neighbours_are_equal(values: np.ndarray) -> bool:
    moved = (values[1:] == values[:-1]).all(axis=1) & values[1:].any(axis=1)
    return bool(moved.any())


def a_block_is_constant(values: np.ndarray) -> bool:
    squares = np.lib.stride_tricks.sliding_window_view(values, (2, 2)).reshape(-1, 4)
    return bool(((squares == squares[:, :1]).all(axis=1) & (squares[:, 0] != 0)).any())


def numbers_are_halfway_between_integers(values: np.ndarray) -> bool:
    return bool((np.abs(values * 16 % 1.0) == 0.5).any())


def has_one_sign(values: np.ndarray) -> bool:
    return bool((values >= 0).all() or (values <= 0).all())


def is_a_diagonal(values: np.ndarray) -> bool:
    return bool(values.any()) and np.count_nonzero(values) == np.count_nonzero(np.diag(values))


@pytest.mark.parametrize(
    ("dtype", "found", "least"),
    [
        ("float32", last_row_is_zero, 0.8),
        ("float32", a_column_is_zero, 0.8),
        ("float32", neighbours_are_equal, 0.5),
        ("float32", a_block_is_constant, 0.3),
        ("int8", last_row_is_zero, 0.8),
        ("int8", a_column_is_zero, 0.8),
        ("int8", neighbours_are_equal, 0.5),
        ("float32", numbers_are_halfway_between_integers, 0.9),
        ("int8", has_one_sign, 0.6),
        ("int8", is_a_diagonal, 0.01),
    ],
)
def test_structure_occurs(dtype: str, found: Callable[[np.ndarray], bool], least: float) -> None:
    rng = np.random.default_rng(3)
    argument = Argument("A", (24, 32), dtype, "input")
    drawn = [inputs.draw(argument, "structured", 32, rng) for _ in range(DRAWS)]
    assert np.mean([found(values) for values in drawn]) >= least
    assert all(values.dtype == np.dtype(dtype) and values.shape == (24, 32) for values in drawn)


def test_floats_are_rarely_zero_so_that_errors_can_be_sampled() -> None:
    rng = np.random.default_rng(3)
    argument = Argument("A", (64, 64), "float32", "input")
    shares = [np.mean(inputs.draw(argument, "structured", 64, rng) != 0) for _ in range(DRAWS)]
    assert np.min(shares) > 0.6


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (5,), (1, 1, 7), (4, 1, 4)])
def test_small_arrays_can_be_drawn(shape: tuple[int, ...]) -> None:
    for dtype in ("float32", "int8", "uint8", "int32"):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            values = inputs.draw(Argument("A", shape, dtype, "input"), "structured", 4, rng)
            assert values.shape == shape


def test_a_few_elements_of_every_input_are_changed() -> None:
    shape = parse_shape("gemm-64x64x64")
    cases = Cases(shape.workload("host-c"), MatrixProblem(shape), 5)
    case, changed = cases[0], cases.changed(0)
    for name in "AB":
        different = np.count_nonzero(case.initial[name] != changed.initial[name])
        assert 1 <= different <= 8
    assert cases.changed(0) is changed
    assert not np.array_equal(case.expected["C"].exact, changed.expected["C"].exact)


def test_one_element_of_one_input_is_changed() -> None:
    shape = parse_shape("gemm-64x64x64")
    cases = Cases(shape.workload("host-c"), MatrixProblem(shape), 5)
    first, changed = cases[0], cases.alone_changed(0)
    places = set()
    for case in changed:
        different = [n for n in "AB" if (case.initial[n] != first.initial[n]).any()]
        assert len(different) == 1
        name = different[0]
        (place,) = np.flatnonzero(case.initial[name] != first.initial[name])
        places.add((name, int(place)))
        assert not np.array_equal(case.expected["C"].exact, first.expected["C"].exact)
    assert len(changed) == len(places) == 4
    assert cases.alone_changed(0) is changed


def test_each_kind_of_old_contents_occurs_in_as_many_cases_as_there_are_kinds() -> None:
    shape = parse_shape("gemm-16x16x16")
    cases = Cases(shape.workload("host-c"), MatrixProblem(shape), 1234567)
    olds = [cases[n].initial["C"] for n in range(len(inputs.FILLS))]
    numbers = [old for old in olds if np.isfinite(old).all()]
    assert sum(bool(np.isnan(old).all()) for old in olds) == 1
    assert sum(bool(np.isnan(old).any()) for old in olds) == 2
    assert sum(bool((old > 0).all()) for old in numbers) >= 1
    assert sum(bool((old < 0).all()) for old in numbers) >= 1
    assert sum(not old.any() for old in numbers) == 1
    assert sum(len(np.unique(old)) == 1 for old in numbers) == 2


@pytest.mark.parametrize("fill", inputs.FILLS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float16", "float32", "bfloat16"])
def test_every_type_can_be_filled(dtype: str, fill: str) -> None:
    argument = Argument("C", (6, 7), dtype, "output")
    old = inputs.poison(argument, np.random.default_rng(1), fill)
    assert old.shape == (6, 7)
    assert old.dtype.itemsize == np.dtype(dtype).itemsize
