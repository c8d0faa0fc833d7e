"""Integers that depend on loop variables: sums of constant multiples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Linear:
    """`constant` plus each variable times its factor; the variables are sorted."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.constant + other, self.terms)
        if not other.terms:
            return Linear(self.constant + other.constant, self.terms)
        factors = dict(self.terms)
        for name, factor in other.terms:
            factors[name] = factors.get(name, 0) + factor
        return _linear(self.constant + other.constant, factors)

    def __sub__(self, other: Linear | int) -> Linear:
        return self + other * -1

    def __mul__(self, factor: int) -> Linear:
        return _linear(self.constant * factor, {n: f * factor for n, f in self.terms})

    def factor(self, variable: str) -> int:
        """The amount by which the value grows with the variable."""
        return next((f for name, f in self.terms if name == variable), 0)

    def without(self, variable: str) -> Linear:
        """The same value with the variable set to 0."""
        return Linear(self.constant, tuple(t for t in self.terms if t[0] != variable))

    def replaced(self, values: Mapping[str, Linear]) -> Linear:
        """The value with variables replaced."""
        if not any(name in values for name, _ in self.terms):
            return self
        found = Linear(self.constant)
        for name, factor in self.terms:
            found = found + values.get(name, variable(name)) * factor
        return found

    def bounds(self, trips: Mapping[str, int]) -> tuple[int, int]:
        """The smallest and largest value, if each variable runs from 0 to its trips - 1."""
        low = high = self.constant
        for name, factor in self.terms:
            reach = factor * (trips[name] - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high

    def divided(self, size: int) -> tuple[Linear, Linear]:
        """Quotient and remainder, divided separately for each factor: `quotient * size + remainder`
        is the same value."""
        if size == 1:
            return self, Linear()
        whole, rest = divmod(self.constant, size)
        quotient, remainder = {}, {}
        for name, factor in self.terms:  # toward zero: a place that moves back stays in its row
            sign = 1 if factor > 0 else -1
            quotient[name], remainder[name] = (sign * n for n in divmod(abs(factor), size))
        return _linear(whole, quotient), _linear(rest, remainder)

    def text(self, factor_first: bool = False) -> str:
        """The value as Python text."""
        parts = [name if f == 1 else f"{name} * {f}" for name, f in self.terms if f > 0]
        negative = [name if f == -1 else f"{name} * {-f}" for name, f in self.terms if f < 0]
        if self.constant > 0 or not parts:
            parts.append(str(self.constant))
        elif self.constant < 0:
            negative.append(str(-self.constant))
        return " - ".join([" + ".join(parts), *negative])


def _linear(constant: int, factors: Mapping[str, int]) -> Linear:
    return Linear(constant, tuple(sorted((n, f) for n, f in factors.items() if f)))


@lru_cache(maxsize=1024)
def variable(name: str) -> Linear:
    """The value of a single variable."""
    return Linear(0, ((name, 1),))


Rename: TypeAlias = Callable[[Linear], Linear]
