"""The bound that correct float32 kernels keep and wrong ones exceed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.errors import InternalError
from tilewright.parts.float_error import Bounded, gamma


def data(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def in_any_order(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """a @ b in float32, the products of each sum in random order, in groups of random size."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    order = rng.permutation(a.shape[1])
    for group in np.array_split(order, rng.integers(1, len(order) + 1)):
        part = np.zeros_like(total)
        for k in group:
            part += a[:, k : k + 1] * b[k]
        total += part
    return total


@given(st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_a_product_in_any_order_is_within_its_bound(terms: int, seed: int) -> None:
    a, b = data(seed, 5, terms), data(seed + 1, terms, 6)
    exact = Bounded.exact(a) @ Bounded.exact(b)
    got = in_any_order(a, b, np.random.default_rng(seed))
    assert (np.abs(got - exact.value) <= exact.error).all()


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_a_chain_of_operations_is_within_its_bound(steps: int, seed: int) -> None:
    """x = A x + B (-(K x) - d), as in a controller's forward pass."""
    n, m = 12, 4
    dynamics, effect = data(seed, n, n) / 4, data(seed + 1, n, m) / 4
    gain, offset, x = data(seed + 2, m, n) / 4, data(seed + 3, m, 1), data(seed + 4, n, 1)
    exact = Bounded.exact(x)
    for _ in range(steps):
        u = -(gain @ x) - offset
        exact_u = -(Bounded.exact(gain) @ exact) - Bounded.exact(offset)
        x = dynamics @ x + effect @ u
        exact = Bounded.exact(dynamics) @ exact + Bounded.exact(effect) @ exact_u
    assert (np.abs(x - exact.value) <= exact.error).all()


def test_a_missing_product_is_beyond_the_bound() -> None:
    a, b = data(1, 64, 64), data(2, 64, 64)
    exact = Bounded.exact(a) @ Bounded.exact(b)
    wrong = a[:, :-1] @ b[:-1]
    assert (np.abs(wrong - exact.value) > exact.error).mean() > 0.999


def test_half_precision_is_beyond_the_bound() -> None:
    a, b = data(1, 64, 64), data(2, 64, 64)
    exact = Bounded.exact(a) @ Bounded.exact(b)
    rough = a.astype(np.float16).astype(np.float32) @ b.astype(np.float16).astype(np.float32)
    assert (np.abs(rough - exact.value) > exact.error).mean() > 0.9


def test_inputs_are_exact_and_a_rounding_is_half_a_unit() -> None:
    one = Bounded.exact(np.ones(1, np.float32))
    assert one.error[0] == 0
    assert (one + one).error[0] == pytest.approx(2 * 2.0**-24)
    assert (one - one).error[0] < 2.0**-140


def test_no_bound_for_absurd_lengths() -> None:
    with pytest.raises(InternalError, match="no bound is known"):
        gamma(1 << 24)
