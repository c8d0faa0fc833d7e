"""Ways to compute in floating point: orders of summation, and shortcuts that lose digits.

The honest ways differ only in the order of their sums. The careless ways represent kernels that are
faster because they are less precise, which a task's check must reject.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Order = Literal["sequential", "backwards", "64-way", "pairwise", "library"]

ALL = 64
"""A number of digits that means no rounding."""
LANES = 64
_MOST_PRODUCTS = 1 << 18  # of a matrix product that are held in memory at once, in the cache
_FEWEST_SUMS = 64  # of a matrix product that are computed at once, even if they have many terms
_APPROXIMATED = (np.exp, np.exp2, np.log, np.tanh, np.sqrt, np.divide, np.reciprocal)


@dataclass(frozen=True, slots=True)
class Format:
    """The type of results, and the wider type in which their errors are computed.

    `digits` is the number of binary digits, `smallest_normal` the smallest normal number, and
    `smallest` the smallest subnormal number. If `rounds` is false, only exact values are computed.
    """

    name: str
    type: Any
    exact: Any
    digits: int
    smallest_normal: Any
    smallest: Any
    rounds: bool = True

    @property
    def unit_roundoff(self) -> float:
        """The maximum relative change of a number by rounding."""
        return 2.0**-self.digits


SINGLE = Format("float32", np.float32, np.float64, 24, 2.0**-126, 2.0**-149)
DOUBLE = Format("float64", np.float64, np.longdouble, 53, 2.0**-1022, 2.0**-1074)
HAS_LONGER = np.finfo(np.longdouble).nmant >= 63
"""Whether this machine has a type that is wider than `DOUBLE`, in which errors of `DOUBLE` can be
computed.
"""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """One way to compute.

    Attributes:
        name: the name of the way.
        order: order of sums; "library" is the order of numpy, which is fast.
        input_digits: binary digits to which inputs are rounded.
        digits: binary digits to which the result of every operation is rounded.
        function_digits: binary digits to which exponentials, roots and quotients are rounded.
        part: share of the terms that a sum includes, beginning with the first one.
        scaled: whether such a sum is divided by this share.
        one_pass: whether a variance is computed as the mean of the squares minus the square of the
        mean. format: the format of the numbers.
    """

    name: str
    order: Order = "library"
    input_digits: int = ALL
    digits: int = ALL
    function_digits: int = ALL
    part: float = 1.0
    scaled: bool = False
    one_pass: bool = False
    format: Format = SINGLE

    def given(self, values: Array) -> Array:
        """The inputs after the rounding of this way."""
        return rounded(self.held(values), min(self.input_digits, self.digits))

    def held(self, values: Any) -> Array:
        """The numbers in the format of this way."""
        return np.asarray(values, self.format.type)

    @property
    def rounding(self) -> tuple[Any, int, int]:
        """What determines the results of functions of elements."""
        return self.format.type, self.digits, self.function_digits

    def elementwise(self, function: np.ufunc, *operands: Array) -> Array:
        """A function of elements; operands in its format."""
        found = self.held(function(*operands))
        few = function in _APPROXIMATED
        return rounded(found, min(self.digits, self.function_digits) if few else self.digits)

    def total(self, terms: Array, axis: int) -> Array:
        """Sums along an axis, which the result no longer has."""
        ordered = np.moveaxis(self.held(terms), axis, -1)
        taken = self._taken(ordered.shape[-1])
        found = _SUMS[self.order](ordered[..., :taken])
        return rounded(self._scaled(found, taken, ordered.shape[-1]), self.digits)

    def running(self, terms: Array, axis: int) -> Array:
        """Running sums along an axis, one after another in every order of sums, because no order
        has larger errors."""
        return rounded(np.add.accumulate(self.held(terms), axis), self.digits)

    def _taken(self, terms: int) -> int:
        return terms if self.part == 1 else max(1, min(terms - 1, round(self.part * terms)))

    def _scaled(self, found: Array, taken: int, terms: int) -> Array:
        return found * self.format.type(terms / taken) if self.scaled else found


def products(
    ways: Sequence[Arithmetic], lefts: Sequence[Array], rights: Sequence[Array]
) -> list[Array]:
    """The matrix product of each way with the rules of `numpy.matmul`.

    Products of elements are computed once for all ways that have the same operands.
    """
    groups: dict[tuple[int, int, float], list[int]] = {}
    for i, (way, left, right) in enumerate(zip(ways, lefts, rights, strict=True)):
        groups.setdefault((id(left), id(right), way.part), []).append(i)
    found: dict[int, Array] = {}
    for group in groups.values():
        left, right = lefts[group[0]], rights[group[0]]
        taken = ways[group[0]]._taken(left.shape[-1])
        rows = (left[None] if left.ndim == 1 else left)[..., :taken]
        columns = (right[:, None] if right.ndim == 1 else right)[..., :taken, :]
        sums = _ordered_products({ways[i].order for i in group}, rows, columns)
        for i in group:
            scaled = ways[i]._scaled(sums[ways[i].order], taken, left.shape[-1])
            found[i] = rounded(scaled, ways[i].digits)
            if left.ndim == 1:
                found[i] = found[i][..., 0, :]
            if right.ndim == 1:
                found[i] = found[i][..., 0]
    return [found[i] for i in range(len(ways))]


def _ordered_products(orders: set[Order], left: Array, right: Array) -> dict[Order, Array]:
    """The product with sums in each of these orders.

    Blocks of the result are computed one after another, so that the products of elements of one
    block stay in the cache. Those with the same number in all sums are adjacent in memory, so that
    each step of all sums is one fast addition.
    """
    found: dict[Order, Array] = {"library": np.matmul(left, right)} if "library" in orders else {}
    ordered = orders - {"library"}
    if not ordered:
        return found
    terms, outer = left.shape[-1], np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    first = np.ascontiguousarray(np.moveaxis(_with_axes(left, len(outer) + 2), -1, 0))
    second = np.ascontiguousarray(np.moveaxis(_with_axes(right, len(outer) + 2), -2, 0))
    sizes = prod(outer), left.shape[-2], right.shape[-1]
    first, second = (
        np.broadcast_to(factors, (terms, *outer, size)).reshape(terms, sizes[0], size)
        for factors, size in ((first, sizes[1]), (second, sizes[2]))
    )
    steps, most = [1, 1, 1], max(_FEWEST_SUMS, _MOST_PRODUCTS // max(1, terms))
    for axis in (2, 1, 0):
        steps[axis] = max(1, min(sizes[axis], most // prod(steps[axis + 1 :])))
    totals = {order: np.empty(sizes, left.dtype) for order in ordered}
    for starts in itertools.product(*map(range, (0, 0, 0), sizes, steps)):
        at = tuple(slice(i, i + step) for i, step in zip(starts, steps, strict=True))
        factors = first[:, at[0], at[1], None], second[:, at[0], None, at[2]]
        multiplied = np.moveaxis(np.multiply(*factors, order="C"), 0, -1)
        for order, total in totals.items():
            total[at] = _SUMS[order](multiplied)
    found.update({o: t.reshape(*outer, *sizes[1:]) for o, t in totals.items()})
    return found


def rounded(values: Array, digits: int) -> Array:
    """Float32 or float64 numbers, rounded to this number of binary digits, to nearest even."""
    drop = np.finfo(values.dtype).nmant + 1 - digits
    if drop <= 0:
        return values
    word: Any = np.uint32 if values.dtype.itemsize == 4 else np.uint64
    bits: Array = np.ascontiguousarray(values).view(word)
    half = word((1 << (drop - 1)) - 1) + (bits >> word(drop) & word(1))
    kept = (bits + half) >> word(drop) << word(drop)
    return np.where(np.isfinite(values), kept.view(values.dtype), values).reshape(values.shape)


def _with_axes(values: Array, count: int) -> Array:
    """The array with this number of axes; additional axes of length 1 come first."""
    return values.reshape((1,) * (count - values.ndim) + values.shape)


def _sequential(terms: Array) -> Array:
    if terms.shape[-1] == 0:
        return np.zeros(terms.shape[:-1], terms.dtype)
    step = abs(terms.strides[-1])
    others = zip(terms.shape[:-1], terms.strides[:-1], strict=True)
    if any(size > 1 and 0 < abs(stride) < step for size, stride in others):
        # numpy adds one term of all sums after another, because other terms are nearer in memory.
        return np.asarray(np.add.reduce(terms, axis=-1, dtype=terms.dtype, initial=-0.0))
    return np.add.accumulate(terms, axis=-1, dtype=terms.dtype)[..., -1]


def _backwards(terms: Array) -> Array:
    return _sequential(terms[..., ::-1])


def _lanes(terms: Array) -> Array:
    """64 sums of every 64th term, then the sum of those."""
    whole = terms.shape[-1] // LANES * LANES
    rest = _padded(terms[..., whole:], -terms.shape[-1] % LANES)
    if whole == 0:
        return _sequential(rest)
    rows = terms[..., :whole].reshape(*terms.shape[:-1], -1, LANES)
    lanes = _sequential(np.swapaxes(rows, -1, -2))
    return _sequential(lanes + rest if rest.shape[-1] else lanes)


def _pairwise(terms: Array) -> Array:
    """Halves are added until one term is left."""
    while terms.shape[-1] > 1:
        terms = _padded(terms, terms.shape[-1] % 2)
        half = terms.shape[-1] // 2
        terms = terms[..., :half] + terms[..., half:]
    return _sequential(terms)


def _library(terms: Array) -> Array:
    return np.asarray(np.sum(terms, axis=-1, dtype=terms.dtype))


def _padded(terms: Array, count: int) -> Array:
    if count == 0:
        return terms
    zeros = np.zeros_like(terms, shape=(*terms.shape[:-1], count))  # with the same memory layout
    return np.concatenate([terms, zeros], axis=-1)


_SUMS = {
    "sequential": _sequential,
    "backwards": _backwards,
    "64-way": _lanes,
    "pairwise": _pairwise,
    "library": _library,
}

HONEST = tuple(
    Arithmetic(order, order) for order in ("sequential", "backwards", "64-way", "pairwise")
)
"""The ways of a kernel that computes in one format. `backwards` is also sequential, because if one
term is much larger than all others, it matters whether a kernel begins or ends with this term.
"""

COARSER = (Arithmetic("tf32-like", digits=11), Arithmetic("bf16-like", digits=8))
"""Precision classes below float32, the finest first, with the binary digits of inputs and results.
Sums are computed in float32.
"""

CARELESS = {
    "bf16 inputs": Arithmetic("rounds inputs to bfloat16", input_digits=8),
    "fp16 inputs": Arithmetic("rounds inputs to half precision", input_digits=11),
    "rough functions": Arithmetic(
        "takes exponentials, roots and quotients with half of their digits", function_digits=12
    ),
    "one-pass variance": Arithmetic(
        "takes the mean square less the square of the mean for a variance", one_pass=True
    ),
    "skipped terms": Arithmetic("leaves out the last sixteenth of every sum", part=15 / 16),
    "half the sum, doubled": Arithmetic(
        "sums the first half of the terms and doubles it", part=1 / 2, scaled=True
    ),
}
"""Wrong kernels by name."""


def honest_ways(numbers: Format) -> tuple[Arithmetic, ...]:
    """`HONEST` with numbers of this format."""
    return tuple(replace(way, format=numbers) for way in HONEST)


def coarser_ways(numbers: Format) -> tuple[Arithmetic, ...]:
    """Ways for the precision classes below this format, the finest first."""
    return COARSER if numbers is SINGLE else (Arithmetic("float32", "sequential"), *COARSER)


def careless_ways(numbers: Format) -> Mapping[str, Arithmetic]:
    """The ways of `CARELESS` that are less precise than this format, by name."""
    if numbers is SINGLE:
        return CARELESS
    kept = {n: replace(w, format=numbers) for n, w in CARELESS.items() if w.input_digits == ALL}
    rough = replace(kept["rough functions"], function_digits=DOUBLE.digits // 2)
    single = Arithmetic("rounds inputs to float32", input_digits=SINGLE.digits, format=numbers)
    return {"float32 inputs": single, **kept, "rough functions": rough}
