"""Private inputs: random arrays of several value distributions.

One distribution alone hides errors: full-range values mostly saturate an int8 output (a wrong sum
still gives 127), small ones never saturate, dense ones hide a missing zero, and random ones
rarely meet -128.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.records import Argument, content_id

Array = NDArray[Any]
"""An argument's values."""

VERSION = "4"
"""To be raised whenever other values are drawn for the same seed; part of every cache key."""

DISTRIBUTIONS = ("small", "full-range", "sparse", "extremes")
"""`small`: outputs spread over the whole int8 range, the strongest test of values.
`full-range`: uniform over the type, outputs saturate. `sparse`: about four products of an output
are not zero. `extremes`: the type's bounds, zero and one; for floats rows of denormals, of large
and of small values."""

_OUTPUT_DEVIATION = 45.0  # of a sum of products, so that few outputs of int8 saturate
_LIMIT_INT32 = 1 << 20  # biases of any distribution stay far from overflowing sums
_SPARSE_PRODUCTS = 4
_FLOAT_EXTREMES = np.array([-1e3, -1.0, -1e-3, 0.0, 1e-3, 1.0, 1e3])
_FLOAT_MAGNITUDES = np.array([1e-40, 1.0, 1.0, 1e6])  # the first makes denormals of float32


def distribution(index: int) -> str:
    """Distribution of check number `index`."""
    return DISTRIBUTIONS[index % len(DISTRIBUTIONS)]


def derived_seed(input_seed: int, index: int) -> int:
    """Seed of check number `index` of a run with this private seed (63 bits)."""
    return int(content_id("private inputs", str(input_seed), str(index)), 16) >> 1


def bytes_of(arguments: Iterable[Argument]) -> int:
    """Of the arrays that these describe, together."""
    return sum(math.prod(a.shape) * np.dtype(a.dtype).itemsize for a in arguments)


def draw(argument: Argument, distribution: str, reduction: int, rng: np.random.Generator) -> Array:
    """Values for one input; `reduction` is how many products each output sums."""
    if argument.dtype.startswith("float"):
        return _draw_float(argument, distribution, reduction, rng)
    return _draw_integer(argument, distribution, reduction, rng)


def poison(argument: Argument, rng: np.random.Generator) -> Array:
    """Random bytes for an output, so that what a kernel does not write is noticed."""
    data = np.frombuffer(rng.bytes(bytes_of([argument])), argument.dtype)
    return data.reshape(argument.shape)


def _draw_integer(
    argument: Argument, distribution: str, reduction: int, rng: np.random.Generator
) -> Array:
    bounds = np.iinfo(argument.dtype)
    low, high = max(bounds.min, -_LIMIT_INT32), min(bounds.max, _LIMIT_INT32)
    dtype, shape = np.dtype(argument.dtype), argument.shape
    if distribution == "full-range":
        return _uniform(low, high, shape, dtype, rng)
    if distribution == "extremes":
        values = np.array([low, low + 1, max(low, -1), 0, 1, high], dtype)
        return values[_uniform(0, len(values) - 1, shape, np.dtype(np.int8), rng)]
    if distribution == "sparse":
        density = math.sqrt(_SPARSE_PRODUCTS / reduction)
        return _thinned(_uniform(max(low, -11), 11, shape, dtype, rng), density, rng)
    variance = _OUTPUT_DEVIATION / math.sqrt(reduction)
    # Uniform on [-m, m] has the variance m (m + 1) / 3; zeros bring it down to the wanted one.
    m = max(1, math.ceil((math.sqrt(1 + 12 * variance) - 1) / 2))
    values = _uniform(max(low, -m), m, shape, dtype, rng)
    return _thinned(values, variance * 3 / (m * (m + 1)), rng)


def _uniform(
    low: int, high: int, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator
) -> Array:
    """Whole numbers from `low` to `high`, both included."""
    values: Array = rng.integers(low, high, shape, dtype=dtype.type, endpoint=True)
    return values


def _thinned(values: Array, density: float, rng: np.random.Generator) -> Array:
    """`values` with all but this share made zero."""
    if density < 1:
        values *= rng.random(values.shape, dtype=np.float32) < density
    return values


def _draw_float(
    argument: Argument, distribution: str, reduction: int, rng: np.random.Generator
) -> Array:
    shape = argument.shape
    values: Array
    if distribution == "extremes":
        # One magnitude for all of a row, so that sums of tiny and of large values are seen alone.
        rows = (shape[0], *(1 for _ in shape[1:]))
        values = rng.choice(_FLOAT_EXTREMES, shape) * rng.choice(_FLOAT_MAGNITUDES, rows)
    else:
        # Single precision is all that arguments hold, and is drawn in half the time.
        values = rng.standard_normal(shape, np.float32)
        if distribution == "full-range":
            values *= 100.0
        if distribution == "sparse":
            values = _thinned(values, math.sqrt(_SPARSE_PRODUCTS / reduction), rng)
    return values.astype(argument.dtype)
