"""Integer expressions in a canonical form: constant + sum of coefficient * atom.

An atom is a variable, or a quotient, remainder or minimum of expressions. Dividends of quotients
and remainders are assumed to be non-negative, so C's truncation equals rounding down. Expressions
are compared by value. Equal sums are equal objects, whatever their order in the source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

Bounds: TypeAlias = tuple[float, float]
"""Smallest and largest value, inclusive; infinite if unknown."""

UNBOUNDED: Bounds = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable or another integer that the kernel names."""

    name: str


@dataclass(frozen=True, slots=True)
class Quotient:
    """`of / by`, rounded down; `by` is positive."""

    of: Expr
    by: int


@dataclass(frozen=True, slots=True)
class Remainder:
    """`of % by`; `by` is positive."""

    of: Expr
    by: int


@dataclass(frozen=True, slots=True)
class Minimum:
    """The smaller of two expressions."""

    left: Expr
    right: Expr


Atom: TypeAlias = Var | Quotient | Remainder | Minimum


class _Remembered:
    """What is computed when it is first needed, because many expressions exist only for a
    moment."""

    __slots__ = ("_hash", "_named")
    _hash: int
    _named: frozenset[str]


@dataclass(frozen=True, slots=True)
class Expr(_Remembered):
    """`const` plus the sum of `coefficient * atom`. Terms are sorted, and no coefficient is
    zero."""

    const: int = 0
    terms: tuple[tuple[Atom, int], ...] = ()

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.const, self.terms)))
            return self._hash

    def __add__(self, other: Expr | int) -> Expr:
        other = as_expr(other)
        const = self.const + other.const
        if not (self.terms and other.terms):
            return Expr(const, self.terms or other.terms)
        return _sum(const, (*self.terms, *other.terms))

    def __sub__(self, other: Expr | int) -> Expr:
        return self + as_expr(other) * -1

    def __mul__(self, factor: int) -> Expr:
        if factor in (0, 1):
            return self if factor else ZERO
        return Expr(self.const * factor, tuple((a, c * factor) for a, c in self.terms))

    @property
    def is_const(self) -> bool:
        """Whether the expression contains no variable."""
        return not self.terms

    def coefficient(self, name: str) -> int:
        """Coefficient of a variable outside other atoms."""
        return next((c for a, c in self.terms if a == Var(name)), 0)

    def names(self) -> frozenset[str]:
        """Every variable in the expression."""
        if not self.terms:
            return _NO_NAMES
        try:
            return self._named
        except AttributeError:
            object.__setattr__(self, "_named", _names(self.terms))
            return self._named

    def atoms(self) -> Iterator[Atom]:
        """All atoms; inner atoms come before the atoms that contain them."""
        for atom, _ in self.terms:
            for part in _parts(atom):
                yield from part.atoms()
            yield atom

    def rebuilt(self, change: Callable[[Atom], Expr]) -> Expr:
        """The sum in which each of its own atoms is replaced by `change(atom)`."""
        parts = [change(atom) * coefficient for atom, coefficient in self.terms]
        const = self.const + sum(part.const for part in parts)
        return _sum(const, tuple(term for part in parts for term in part.terms))

    def substituted(self, values: Mapping[str, Expr]) -> Expr:
        """The expression with variables replaced everywhere, simplified again."""
        if self.names().isdisjoint(values):
            return self

        def change(atom: Atom) -> Expr:
            if isinstance(atom, Var):
                return values.get(atom.name, _single(atom))
            return _refold(atom, lambda e: e.substituted(values))

        return self.rebuilt(change)

    def replaced(self, old: Atom, new: Expr) -> Expr:
        """The expression with one atom replaced everywhere, simplified again."""
        return self.rebuilt(
            lambda a: new if a == old else _refold(a, lambda e: e.replaced(old, new))
        )


ZERO = Expr()
_NO_NAMES: frozenset[str] = frozenset()


def _names(terms: tuple[tuple[Atom, int], ...]) -> frozenset[str]:
    found: set[str] = set()
    for atom, _ in terms:
        if isinstance(atom, Var):
            found.add(atom.name)
        else:
            for part in _parts(atom):
                found |= part.names()
    return frozenset(found)


def as_expr(value: Expr | int) -> Expr:
    """An integer as an expression."""
    return value if isinstance(value, Expr) else Expr(value)


def var(name: str) -> Expr:
    """A variable as an expression."""
    return _single(Var(name))


def quotient(of: Expr, by: int) -> Expr:
    """`of / by`, where multiples of `by` are separated from the quotient."""
    if by == 1:
        return of
    whole = Expr(of.const // by, tuple((a, c // by) for a, c in of.terms if c % by == 0))
    rest = Expr(of.const % by, tuple((a, c) for a, c in of.terms if c % by))
    if rest.is_const:
        return whole
    if len(rest.terms) == 1 and rest.const == 0 and isinstance(rest.terms[0][0], Quotient):
        inner, coefficient = rest.terms[0]
        if coefficient == 1 and isinstance(inner, Quotient):
            return whole + quotient(inner.of, inner.by * by)
    return whole + _single(Quotient(rest, by))


def remainder(of: Expr, by: int) -> Expr:
    """`of % by`: coefficients are reduced first."""
    rest = Expr(of.const % by, tuple((a, c % by) for a, c in of.terms if c % by))
    return rest if rest.is_const else _single(Remainder(rest, by))


def reduced(expr: Expr, units: Mapping[str, int]) -> Expr:
    """The same value with fewer divisions, if each variable is a multiple of its unit.

    Common factors of a divisor and all terms of its dividend are removed: `(2 * x + 1) / 16` is
    `x / 8`, and `(2 * x + 1) % 16` is `2 * (x % 8) + 1`. If the unit of x is 4, `64 * (x / 4)` is
    `16 * x`.
    """
    result = Expr(expr.const)
    for atom, coefficient in expr.terms:
        folded = _refold(atom, lambda e: reduced(e, units))
        if len(folded.terms) == 1 and folded.terms[0][1] == 1 and not folded.const:
            atom = folded.terms[0][0]
            folded = _without_factor(atom)
            if isinstance(atom, Quotient) and coefficient % atom.by == 0 and _whole(atom, units):
                result = result + atom.of * (coefficient // atom.by)
                continue
        result = result + folded * coefficient
    return result


def _whole(atom: Quotient, units: Mapping[str, int]) -> bool:
    """Whether a division leaves no remainder."""
    parts = [atom.of.const]
    parts += [c * (units.get(a.name, 1) if isinstance(a, Var) else 1) for a, c in atom.of.terms]
    return all(part % atom.by == 0 for part in parts)


def _without_factor(atom: Atom) -> Expr:
    if not isinstance(atom, Quotient | Remainder):
        return _single(atom)
    factor = math.gcd(atom.by, *(c for _, c in atom.of.terms))
    inner = Expr(atom.of.const // factor, tuple((a, c // factor) for a, c in atom.of.terms))
    if isinstance(atom, Quotient):
        return quotient(inner, atom.by // factor)
    return remainder(inner, atom.by // factor) * factor + atom.of.const % factor


def minimum(left: Expr, right: Expr) -> Expr:
    """The smaller of two expressions, evaluated if their difference is a constant."""
    difference = left - right
    if difference.is_const:
        return left if difference.const <= 0 else right
    first, second = sorted((left, right), key=_key)
    return _single(Minimum(first, second))


def bounds(expr: Expr, env: Mapping[str, Bounds]) -> Bounds:
    """The smallest and largest value if each variable is within `env`."""
    low: float = expr.const
    high: float = expr.const
    for atom, coefficient in expr.terms:
        first, last = _atom_bounds(atom, env)
        if coefficient < 0:
            first, last = last, first
        low, high = low + coefficient * first, high + coefficient * last
    return low, high


def evaluated(expr: Expr, values: Mapping[str, int]) -> int:
    """The value of an expression if `values` contains all of its variables."""
    total = expr.const
    for atom, coefficient in expr.terms:
        total += coefficient * _evaluated(atom, values)
    return total


def _evaluated(atom: Atom, values: Mapping[str, int]) -> int:
    if isinstance(atom, Var):
        return values[atom.name]
    if isinstance(atom, Quotient):
        return evaluated(atom.of, values) // atom.by
    if isinstance(atom, Remainder):
        return evaluated(atom.of, values) % atom.by
    return min(evaluated(atom.left, values), evaluated(atom.right, values))


def simplified(expr: Expr, env: Mapping[str, Bounds]) -> Expr:
    """The same value without the minimums, quotients and remainders that `env` decides, and without
    quotients and remainders that together are a multiple of their dividend."""
    if all(isinstance(a, Var) and not _is_point(env.get(a.name)) for a, _ in expr.terms):
        return expr
    return _simplified(expr, tuple((name, env[name]) for name in expr.names() if name in env))


@lru_cache(maxsize=1 << 14)
def _simplified(expr: Expr, ranges: tuple[tuple[str, Bounds], ...]) -> Expr:
    """Cached, because each version of a kernel contains most expressions of the previous one."""
    env = dict(ranges)

    def change(atom: Atom) -> Expr:
        if isinstance(atom, Var):
            low, high = env.get(atom.name, UNBOUNDED)
            return Expr(int(low)) if low == high else _single(atom)
        folded = _refold(atom, lambda e: simplified(e, env))
        if len(folded.terms) != 1 or folded.terms[0][1] != 1 or folded.const:
            return folded
        return _decided(folded.terms[0][0], env)

    return _rejoined(expr.rebuilt(change))


def _rejoined(expr: Expr) -> Expr:
    """The same value with `x` instead of `x % 4 + 4 * (x / 4)`."""
    given = dict(expr.terms)
    for atom, coefficient in expr.terms:
        if isinstance(atom, Remainder):
            whole = Quotient(atom.of, atom.by)
            if given.get(whole) == coefficient * atom.by:
                parts = ((atom, -coefficient), (whole, -coefficient * atom.by))
                return _rejoined(expr + Expr(0, parts) + atom.of * coefficient)
    return expr


def _is_point(range_: Bounds | None) -> bool:
    return range_ is not None and range_[0] == range_[1]


def _decided(atom: Atom, env: Mapping[str, Bounds]) -> Expr:
    match atom:
        case Minimum(left, right):
            low, high = bounds(left - right, env)
            return left if high <= 0 else right if low >= 0 else _single(atom)
        case Quotient(of, by):
            low, high = bounds(of, env)
            same = math.isfinite(low) and math.isfinite(high) and low // by == high // by
            return Expr(int(low // by)) if same else _single(atom)
        case Remainder(of, by):
            low, high = bounds(of, env)
            return of if low >= 0 and high < by else _single(atom)
    return _single(atom)


def _atom_bounds(atom: Atom, env: Mapping[str, Bounds]) -> Bounds:
    if isinstance(atom, Var):
        return env.get(atom.name, UNBOUNDED)
    match atom:
        case Quotient(of, by):
            low, high = bounds(of, env)
            return low // by, high // by
        case Remainder(of, by):
            low, high = bounds(of, env)
            return (low, high) if low >= 0 and high < by else (0, by - 1)
        case Minimum(left, right):
            a, b = bounds(left, env), bounds(right, env)
            return min(a[0], b[0]), min(a[1], b[1])


def _refold(atom: Atom, change: Callable[[Expr], Expr]) -> Expr:
    match atom:
        case Quotient(of, by):
            return quotient(change(of), by)
        case Remainder(of, by):
            return remainder(change(of), by)
        case Minimum(left, right):
            return minimum(change(left), change(right))
    return _single(atom)


def _parts(atom: Atom) -> tuple[Expr, ...]:
    match atom:
        case Quotient(of, _) | Remainder(of, _):
            return (of,)
        case Minimum(left, right):
            return (left, right)
    return ()


def _single(atom: Atom) -> Expr:
    return Expr(0, ((atom, 1),))


def _sum(const: int, terms: tuple[tuple[Atom, int], ...]) -> Expr:
    total: dict[Atom, int] = {}
    for atom, coefficient in terms:
        total[atom] = total.get(atom, 0) + coefficient
    kept = [(a, c) for a, c in total.items() if c]
    if len(kept) < 2:
        return Expr(const, tuple(kept))
    return Expr(const, tuple(sorted(kept, key=lambda t: _atom_key(t[0]))))


def _key(expr: Expr) -> str:
    return f"{expr.const}+" + "+".join(f"{c}*{_atom_key(a)}" for a, c in expr.terms)


def _atom_key(atom: Atom) -> str:
    match atom:
        case Var(name):
            return name
        case Quotient(of, by):
            return f"~({_key(of)})/{by}"
        case Remainder(of, by):
            return f"~({_key(of)})%{by}"
        case Minimum(left, right):
            return f"~min({_key(left)},{_key(right)})"
