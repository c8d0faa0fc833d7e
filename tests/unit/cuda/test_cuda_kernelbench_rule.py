"""KernelBench's rule as it is published, and what it lets through."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.targets.cuda.kernelbench import accepts, wrong_products
from tilewright.targets.cuda.shapes import parse_shape


@pytest.mark.parametrize(
    ("got", "expected", "tolerance", "right"),
    [
        (1.0199, 1.0, 1e-2, True),
        (1.0201, 1.0, 1e-2, False),
        (0.0099, 0.0, 1e-2, True),
        (1.0003, 1.0, 1e-4, False),
        (float("nan"), 1.0, 1e-2, False),
    ],
)
def test_the_rule_is_absolute_and_relative(
    got: float, expected: float, tolerance: float, right: bool
) -> None:
    assert accepts(np.array([got]), np.array([expected]), tolerance) is right


def test_on_problem_6_it_accepts_kernels_that_multiply_nothing() -> None:
    results = wrong_products(parse_shape("gemm-256x256x524288"), 0)
    assert {r.name for r in results if "accepted with 1e-2" in r.log} == {
        "KernelBench: the constant K/4",
        "KernelBench: an estimate from row and column sums",
        "KernelBench: half the terms, twice",
    }
    assert not any("1e-4" in r.log for r in results)


def test_on_problem_1_it_rejects_them() -> None:
    results = wrong_products(parse_shape("gemm-4096x4096x4096"), 0)
    assert all("rejected" in result.log for result in results[:1])
    assert wrong_products(parse_shape("softmax-64x64"), 0) == []
