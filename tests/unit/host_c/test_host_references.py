"""References of this machine's workloads: right float32 results are within them, others not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.parts import inputs
from tilewright.parts.float_error import Bounded
from tilewright.parts.problem import DrawsInputs
from tilewright.targets.host_c.problems import create_problem
from tilewright.targets.host_c.shapes import EPSILON, parse_shape

Arrays = dict[str, Any]
NAMES = (
    "softmax-12x40",
    "layernorm-12x48",
    "rmsnorm-12x48",
    "attention-24x16",
    "gemm-9x20x33",
    "conv-2x5x4x3x7-k3s1",
)


def float32(name: str, given: Arrays) -> np.ndarray:
    """The definition in float32, with numpy's order of sums."""
    kind = name.partition("-")[0]
    if kind == "gemm":
        return given["A"] @ given["B"]
    if kind == "conv":
        return convolution(given["input"], given["weights"])
    if kind == "attention":
        scores = given["Q"] @ given["K"].T * np.float32(given["Q"].shape[1] ** -0.5)
        return softmax(scores) @ given["V"]
    x = given["X"]
    if kind == "softmax":
        return softmax(x)
    if kind == "layernorm":
        x = x - x.mean(1, keepdims=True)
    spread = np.sqrt((x * x).mean(1, keepdims=True) + np.float32(EPSILON))
    return x / spread * given["gain"] + given.get("bias", np.float32(0))


def convolution(given: np.ndarray, weights: np.ndarray) -> np.ndarray:
    height, width = given.shape[1] - 2, given.shape[2] - 2
    found = np.zeros((*given.shape[:1], height, width, weights.shape[3]), np.float32)
    for y in range(3):
        for x in range(3):
            found += given[:, y : y + height, x : x + width] @ weights[y, x]
    return found


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def drawn(name: str) -> list[tuple[str, Arrays, Bounded]]:
    """For each distribution: its name, inputs and what is expected."""
    shape = parse_shape(name)
    problem = create_problem(shape)
    rng = np.random.default_rng(7)
    found = []
    known = problem.distributions if isinstance(problem, DrawsInputs) else inputs.DISTRIBUTIONS
    for distribution in known:
        given = {
            a.name: problem.draw(a, distribution, rng)
            if isinstance(problem, DrawsInputs)
            else inputs.draw(a, distribution, problem.reduction, rng)
            for a in shape.arguments
            if a.is_given
        }
        (expected,) = problem.reference(given).values()
        assert isinstance(expected, Bounded)
        found.append((distribution, given, expected))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_right_results_are_within_the_bound(name: str) -> None:
    for distribution, given, expected in drawn(name):
        got = float32(name, given)
        assert got.dtype == np.float32
        off = np.abs(got - expected.value)
        assert (off <= expected.error).all(), distribution


@pytest.mark.parametrize("name", NAMES)
def test_results_that_are_wrong_by_a_part_in_a_thousand_are_not(name: str) -> None:
    """In the distribution that tests values: there the bound is tight for most elements."""
    _, _, expected = drawn(name)[0]
    telling = expected.error < 1e-3 * np.abs(expected.value)
    assert telling.mean() > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_no_bound_allows_everything(name: str) -> None:
    for distribution, _, expected in drawn(name):
        assert np.isfinite(expected.value).all(), distribution
        assert np.isfinite(expected.error).all(), distribution
