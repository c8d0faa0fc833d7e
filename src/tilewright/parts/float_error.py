"""How far a correct float32 kernel may be from the exact result, element by element.

The rule is the classical one for sums in any order, with or without fused multiply-adds: n
products are summed with an error of at most gamma(n) * sum |a b|, where gamma(n) = n u / (1 - n u)
and u is half the distance from 1 to the next float32 (Higham, Accuracy and Stability of Numerical
Algorithms, section 3.1). A reference computes in float64 with `Bounded` values, which
carry that bound through each operation, so that chains of products have the bound of the chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.core.errors import InternalError

UNIT_ROUNDOFF = 2.0**-24
SMALLEST_NORMAL = 2.0**-126
_SMALLEST = 2.0**-149  # a result below the normal range is off by less than this, each time
FUNCTION_ROUNDINGS = 8
"""Roundings that an elementary function may be off by: 4 units in the last place. Libraries have
about one; a polynomial of the right degree, evaluated in float32, has two."""
QUOTIENT_ROUNDINGS = 4
"""Roundings of a quotient or of one over a root: a refined reciprocal, and a product with it."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """Float64 values, and how far float32 arithmetic may be from each; equal shapes."""

    value: NDArray[np.float64]
    error: NDArray[np.float64]

    @staticmethod
    def exact(values: ArrayLike) -> Bounded:
        """Inputs: float32 numbers that a kernel reads as they are."""
        value = np.asarray(values, np.float64)
        return Bounded(value, np.zeros_like(value))

    def __matmul__(self, other: Bounded) -> Bounded:
        """Sums of products over the last axis of `self` and the first of `other`."""
        terms = self.value.shape[-1]
        left, right = np.abs(self.value), np.abs(other.value)
        carried = left @ other.error + self.error @ right + self.error @ other.error
        rounding = gamma(terms) * (left @ right + carried) + terms * _SMALLEST
        return Bounded(self.value @ other.value, carried + rounding)

    def __add__(self, other: Bounded) -> Bounded:
        return self._rounded(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Bounded) -> Bounded:
        return self._rounded(self.value - other.value, self.error + other.error)

    def __mul__(self, other: Bounded) -> Bounded:
        left, right = np.abs(self.value), np.abs(other.value)
        carried = left * other.error + self.error * right + self.error * other.error
        return self._rounded(self.value * other.value, carried)

    def __truediv__(self, other: Bounded) -> Bounded:
        value = self.value / other.value
        least = np.abs(other.value) - other.error
        with np.errstate(divide="ignore", invalid="ignore"):
            carried = (self.error + np.abs(value) * other.error) / least
        carried = np.where(least > 0, carried, np.inf)
        return self._rounded(value, carried, QUOTIENT_ROUNDINGS)

    def sum(self, axis: int = -1) -> Bounded:
        """Sums along an axis that stays, with length 1; in any order."""
        terms = self.value.shape[axis]
        value = self.value.sum(axis, keepdims=True)
        carried = self.error.sum(axis, keepdims=True)
        rounding = gamma(terms) * (np.abs(self.value).sum(axis, keepdims=True) + carried)
        return Bounded(value, carried + rounding)

    def max(self, axis: int = -1) -> Bounded:
        """Maxima along an axis that stays, with length 1; comparing rounds nothing."""
        error = self.error.max(axis, keepdims=True)
        return Bounded(self.value.max(axis, keepdims=True), error)

    def exp(self) -> Bounded:
        """e to the power of each value; results below the normal range may be taken for zero."""
        value = np.exp(self.value)
        with np.errstate(over="ignore", invalid="ignore"):
            carried = np.where(value > 0, value * np.expm1(self.error), 0.0)
        found = self._rounded(value, carried, FUNCTION_ROUNDINGS)
        return Bounded(found.value, found.error + SMALLEST_NORMAL)

    def sqrt(self) -> Bounded:
        """Square roots."""
        value = np.sqrt(self.value)
        below = value - np.sqrt(np.maximum(self.value - self.error, 0.0))
        return self._rounded(value, below, QUOTIENT_ROUNDINGS)

    def at_most(self, error: float) -> Bounded:
        """The same values, for which another argument shows a bound of the error."""
        return Bounded(self.value, np.fmin(self.error, error))

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.error)

    def __getitem__(self, index: Any) -> Bounded:
        return Bounded(self.value[index], self.error[index])

    def reshape(self, *shape: int) -> Bounded:
        """The same values in another shape."""
        return Bounded(self.value.reshape(*shape), self.error.reshape(*shape))

    @staticmethod
    def stack(rows: list[Bounded]) -> Bounded:
        """Several results of one shape along a new first axis."""
        return Bounded(np.stack([r.value for r in rows]), np.stack([r.error for r in rows]))

    @staticmethod
    def _rounded(
        value: NDArray[np.float64], error: NDArray[np.float64], roundings: int = 1
    ) -> Bounded:
        unit = UNIT_ROUNDOFF if roundings == 1 else gamma(roundings)
        return Bounded(value, error + unit * (np.abs(value) + error) + roundings * _SMALLEST)


def gamma(roundings: int) -> float:
    """The relative error of `roundings` roundings one after the other, at most."""
    if roundings * UNIT_ROUNDOFF >= 0.5:
        raise InternalError(f"no bound is known for {roundings} float32 roundings in a row")
    return roundings * UNIT_ROUNDOFF / (1 - roundings * UNIT_ROUNDOFF)
