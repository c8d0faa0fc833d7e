"""References of this machine's workloads: right float32 results are allowed, wrong ones are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilewright.parts.arithmetic import CARELESS
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.parts.float_error import MARGIN, follow
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


def cases(name: str, seed: int = 7) -> Iterator[Case]:
    shape = parse_shape(name)
    made = Cases(shape.workload("host-c"), create_problem(shape), seed)
    return (made[number] for number in made.compared(3))


def outputs(case: Case, result: np.ndarray) -> dict[str, bytes]:
    return {case.workload.arguments[-1].name: result.tobytes()}


@pytest.mark.parametrize("name", NAMES)
def test_right_results_are_allowed_on_every_distribution(name: str) -> None:
    for seed in range(3):
        for case in cases(name, seed):
            got = float32(name, case.given)
            assert got.dtype == np.float32
            assert case.mismatch(outputs(case, got)) is None, case.check.distribution
            assert case.passed(outputs(case, got)).precision in ("exact", "float32", "")


def excesses(name: str, wrong: str) -> dict[str, float]:
    """By distribution, how many times the allowed error a careless kernel has."""
    found = {}
    for case in cases(name):
        operands = case.problem.operands(case.given)  # type: ignore[attr-defined]
        formula = case.problem.formula  # type: ignore[attr-defined]
        (result,) = follow(formula, operands, [CARELESS[wrong]]).values()
        found[case.check.distribution] = case.excess(outputs(case, result.results[0]))
    return found


APPROXIMATED = ("softmax-12x40", "layernorm-12x48", "rmsnorm-12x48", "attention-24x16")
WRONG = [
    *((name, wrong) for name in NAMES for wrong in ("bf16 inputs", "fp16 inputs", "skipped terms")),
    *((name, "half the sum, doubled") for name in NAMES),
    *((name, "rough functions") for name in APPROXIMATED),
    ("layernorm-12x48", "one-pass variance"),
]


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_careless_kernels_are_refused_by_some_distribution_with_a_margin(
    name: str, wrong: str
) -> None:
    found = excesses(name, wrong)
    assert max(found.values()) >= MARGIN, found


@pytest.mark.parametrize("name", NAMES)
def test_zeros_are_refused_and_left_to_no_single_distribution(name: str) -> None:
    found = [
        case.excess(outputs(case, np.zeros(case.workload.arguments[-1].shape, np.float32)))
        for case in cases(name)
    ]
    assert sum(excess >= MARGIN for excess in found) >= 3


def test_a_one_pass_variance_is_refused_where_the_mean_is_shifted() -> None:
    found = excesses("layernorm-256x768", "one-pass variance")
    assert found["shifted mean"] >= MARGIN
    assert max(v for name, v in found.items() if name in ("small", "full-range")) < 1


def softmax_from(start: float, scores: np.ndarray) -> np.ndarray:
    """Correct wherever the largest score of a row is not far below the start."""
    with np.errstate(all="ignore"):
        most = np.maximum(scores.max(1, keepdims=True), np.float32(start))
        powers = np.exp(scores - most, dtype=np.float32)
        return powers / powers.sum(1, keepdims=True)


@pytest.mark.parametrize("start", [0.0, -1e3, -1e4, -1e6, -1e9])
def test_a_softmax_whose_maximum_starts_above_its_values_is_refused(start: float) -> None:
    found = {
        case.check.distribution: case.excess(outputs(case, softmax_from(start, case.given["X"])))
        for case in cases("softmax-12x40")
    }
    assert found["shifted below"] >= MARGIN
    assert max(v for name, v in found.items() if name in ("small", "shifted mean")) < 1


@pytest.mark.parametrize("start", [0.0, -1e3, -1e4])
def test_attention_whose_maximum_starts_above_its_scores_is_refused(start: float) -> None:
    found = {}
    for case in cases("attention-24x16"):
        q, k, v = (case.given[name] for name in "QKV")
        with np.errstate(all="ignore"):
            got = softmax_from(start, q @ k.T * np.float32(0.25)) @ v
        found[case.check.distribution] = case.excess(outputs(case, got))
    assert found["far below"] >= MARGIN
    assert max(v for name, v in found.items() if name in ("small", "peaked")) < 1


def test_attention_leaves_out_what_float32_cannot_compute_and_says_why() -> None:
    shape = parse_shape("attention-24x16")
    made = Cases(shape.workload("host-c"), create_problem(shape), 7)
    assert set(made.omissions) >= {"near overflow", "mixed scales"}
    assert all("float32" in reason for reason in made.omissions.values())
    assert {"small", "peaked", "tiny values"} <= {
        c.check.distribution for c in cases("attention-24x16")
    }
