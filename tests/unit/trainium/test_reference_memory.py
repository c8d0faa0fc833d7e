"""References at full size: computed in parts that stay in a cache, or views that take no memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tilewright.core.records import Argument, Tolerance
from tilewright.parts.arithmetic import SINGLE
from tilewright.parts.differences import difference
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.inputs import Array
from tilewright.parts.memory import KeptMemory
from tilewright.parts.problem import FormulaProblem, Problem
from tilewright.targets.trainium.problems import parts
from tilewright.targets.trainium.problems.create import create_problem
from tilewright.targets.trainium.shapes import parse_shape


def drawn(name: str) -> tuple[Problem, dict[str, Array]]:
    """A problem, and inputs for it."""
    shape, rng = parse_shape(name), np.random.default_rng(3)
    given = [a for a in shape.arguments if a.is_given]
    return create_problem(shape), {
        a.name: rng.standard_normal(a.shape).astype(np.float32) for a in given
    }


@pytest.mark.parametrize(
    "name", ["conv1d-2x256x64-k3", "conv1d-3x384x100-k4", "layernorm-128x512", "cumsum-128x64"]
)
def test_parts_of_a_reference_are_those_of_the_whole_formula(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "IN_CACHE", 5000)  # several parts, the last one shorter
    problem, given = drawn(name)
    assert isinstance(problem, FormulaProblem)
    found = problem.reference(given)["out"]
    whole = FormulaProblem.followed(problem, given, problem.numbers)["out"]
    if name.startswith("cumsum"):  # products of other sizes add in another order
        np.testing.assert_allclose(found.exact, whole.exact, rtol=1e-14, atol=1e-13)
        return
    assert np.array_equal(found.exact, whole.exact)
    assert np.array_equal(found.deviation, whole.deviation.astype(np.float32))


def test_a_deviation_beyond_float32_does_not_allow_any_error() -> None:
    given = {"x": np.full((2, 4), 1e30, np.float32)}
    found = parts.followed_in_parts(
        lambda o: {"out": o["x"] * o["x"] * o["x"]},
        (2, 4),
        [(slice(2), given)],
        SINGLE,
        KeptMemory(),
    )["out"]
    assert (found.deviation == np.finfo(np.float32).max).all()


def test_a_convolution_needs_little_more_memory_than_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "IN_CACHE", 1 << 12)
    problem, given = drawn("conv1d-4x256x256-k3")
    tracemalloc.start()
    try:
        found = problem.reference(given)["out"]
        assert isinstance(found, TrackedArray)
        kept = found.exact.nbytes + found.deviation.nbytes
        # The result is in memory that is not traced. Parts take about 0.25 of it.
        assert tracemalloc.get_traced_memory()[1] < 0.6 * kept
    finally:
        tracemalloc.stop()


def test_a_transposed_reference_takes_no_memory() -> None:
    problem, given = drawn("transpose-2x128x256")
    found = problem.reference(given)["out"]
    assert isinstance(found, np.ndarray)
    assert np.shares_memory(found, given["x"])
    assert np.array_equal(found, given["x"].transpose(0, 2, 1))


@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(0.5)])
@pytest.mark.parametrize("wrong", [[], [(0, 0, 0)], [(1, 2, 3), (1, 2, 4), (2, 3, 6)]])
def test_outputs_are_compared_with_a_transposed_view_as_with_its_copy(
    wrong: list[tuple[int, int, int]], tolerance: Tolerance
) -> None:
    view = np.arange(84, dtype=np.float32).reshape(3, 7, 4).swapaxes(1, 2)
    got = view.copy()
    for place in wrong:
        got[place] += 1
    argument = Argument("out", got.shape, "float32", "output")
    text = difference(argument, got, view, tolerance)
    assert text == difference(argument, got, view.copy(), tolerance)
    if wrong:
        assert text is not None
        place = "".join(f"[{i}]" for i in wrong[0])
        assert f"{len(wrong)} of 84 elements of out differ, first at out{place}" in text
        assert f"expected {view[wrong[0]]}" in text
    else:
        assert text is None


@pytest.mark.parametrize("axes", [(0, 2, 1), (2, 0, 1), (1, 0, 2), (0, 3, 2, 1), (1, 0)])
def test_outputs_are_compared_with_any_view_as_with_its_copy(axes: tuple[int, ...]) -> None:
    sizes = {2: (6, 20), 3: (2, 3, 20), 4: (2, 3, 4, 5)}[len(axes)]
    values = np.arange(120, dtype=np.float32).reshape(sizes)
    view = values.transpose(axes)
    argument = Argument("out", view.shape, "float32", "output")
    assert difference(argument, view.copy(), view, Tolerance()) is None
    text = difference(argument, view.copy() + 1, view, Tolerance())
    assert text == difference(argument, view.copy() + 1, view.copy(), Tolerance())
