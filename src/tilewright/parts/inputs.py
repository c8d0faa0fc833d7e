"""Private inputs: random arrays of several value distributions.

With only one distribution, errors would remain undetected: full-range values mostly saturate an
int8 output (a wrong sum still gives 127), small values never saturate, dense values do not show
that a zero is missing, and random values rarely include -128.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.records import Argument, content_id
from tilewright.parts.element_types import is_float, limits
from tilewright.parts.structured_inputs import (
    one_per_row,
    structured_floats,
    structured_integers,
)

Array = NDArray[Any]
"""The values of an argument."""

VERSION = "17"
"""Version of the generation of inputs. Increment it whenever other values are drawn for the same
seed. It is part of every cache key.
"""

DISTRIBUTIONS = ("small", "full-range", "sparse", "extremes", "structured")
"""The distributions of inputs of all types.

`small`: outputs spread over the whole range of int8, which is the strongest test of values.
`full-range`: uniform over the type; outputs saturate. `sparse`: about four products of each output
are not zero. `extremes`: the bounds of the type, zero and one; for floats, rows of denormals, of
large values and of small values, and, except in the first argument, columns of denormals.
`structured`: like `small`, but with rows and blocks that are zero, equal or constant; for floats
with rows of few binary digits, for integers sometimes like `extremes`, and sometimes with values of
one sign (`parts.structured_inputs`).
"""

LATER = "huge later values"

DECLARED = ("as described", "constant rows", "ends of the range")
"""The distributions of a folder that describes its inputs. All their values fit the description."""

FLOAT_DISTRIBUTIONS = (
    *DISTRIBUTIONS,
    "shifted mean",
    "constant rows",
    "mixed scales",
    "near overflow",
    "denormals",
    "outliers",
    "shifted below",
    "huge values",
    LATER,
    "positive",
)
"""The distributions of tasks with floating-point arguments.

`shifted mean`: 1000 with a standard deviation of 1.
`shifted below`: -1000 with a standard deviation of 1, and rows of such values times a thousand or
ten million. A running maximum that starts at 0, -1e4 or -1e9 is wrong on them.
`constant rows`: all values of a row are equal.
`mixed scales`: values of twelve orders of magnitude in a row.
`near overflow`: sums of products reach 1e36.
`denormals`: all values of the first argument are denormal.
`outliers`: like `small`, but about one value in a thousand is about a thousand times as large, so
that a part of the inputs does not determine the others.
`huge values`: the first argument reaches 1e36 divided by the number of terms of a sum.
`huge later values`: the same for all arguments but the first.
`positive`: uniform from 0.5 to 1.5, so no sum cancels and yet errors may only be small.

These numbers are for float32. Types with a smaller range or fewer digits get values that they can
represent."""

OF_TIMED_INTEGERS = "mixed ranges"
"""The distribution of timed calls if all inputs are integers: rows of `small` and of
`full-range` values in random order. On `small` values alone, a kernel could gain time by sums of 16
bits or by skipping zeros, which most inputs do not allow. On `full-range` values alone, most
outputs saturate, so a kernel could compute only their signs.
"""

_OUTPUT_DEVIATION = 45.0  # of a sum of products, so that few outputs of int8 saturate
_LIMIT_INT32 = 1 << 20  # limits biases of all distributions, so that sums do not overflow
_SPARSE_PRODUCTS = 4
_STRUCTURED_EXTREMES = 0.25  # share of the structured arrays of integers
_FLOAT_EXTREMES = np.array([-1e3, -1.0, -1e-3, 0.0, 1e-3, 1.0, 1e3])
_BELOW_OVERFLOW = 8  # by how many powers of two a sum of products is below the largest number
_OUTLIER_EVERY, _OUTLIER = 1000, 1e3
_FAR_BELOW = 128.0  # whose exponential with the opposite sign is zero in float32
_ROWS_BELOW = np.array([1.0, 1.0, 1e3, 1e7], np.float32)  # factors of rows of `shifted below`
_DENORMAL = 1e-39 / 2.0**-126  # of the least normal number


def distributions(arguments: Iterable[Argument]) -> tuple[str, ...]:
    """The distributions of the inputs of a task with these arguments."""
    given = [a for a in arguments if a.is_given]
    if not any(is_float(a.dtype) for a in given):
        return DISTRIBUTIONS
    has_later = any(is_float(a.dtype) for a in given[1:])
    return tuple(n for n in FLOAT_DISTRIBUTIONS if has_later or n != LATER)


def shown_seed(seed: int) -> int:
    """A hash of a case's seed for results, from which the seed cannot be computed."""
    return int(content_id("shown", str(seed)), 16) >> 1


def derived_seed(input_seed: int, index: int) -> int:
    """Seed of check number `index` of a run with this private seed (63 bits)."""
    return int(content_id("private inputs", str(input_seed), str(index)), 16) >> 1


def bytes_of(arguments: Iterable[Argument]) -> int:
    """The total size of the arrays in bytes."""
    return sum(math.prod(a.shape) * np.dtype(a.dtype).itemsize for a in arguments)


def draw(
    argument: Argument,
    distribution: str,
    reduction: int,
    rng: np.random.Generator,
    *,
    leading: bool = False,
) -> Array:
    """Values for one input; `reduction` is the number of products that each output sums.

    `leading` is true for the one argument that gets denormals in the distribution `denormals`, and
    huge values in `huge values`. Only the others get huge values in `huge later values`, and
    columns of denormals in `extremes`.
    """
    if is_float(argument.dtype):
        of_others = (LATER,) if leading else ("denormals", "huge values")
        if distribution in of_others:
            distribution = "small"
        values = _draw_float(argument, distribution, reduction, rng)
        if distribution == "extremes" and not leading:
            return _with_denormal_columns(values, rng)
        return values
    return _draw_integer(argument, distribution, reduction, rng)


FILLS = ("nan", "half nan", "numbers", "positive", "negative", "zeros", "one value")
"""Kinds of contents that an output has before a call. The results of a kernel must not depend on
them: on NaN, on numbers of any sign, or on the same number everywhere. The first three kinds are
the same for integers, which are then random.
"""
_NAN_SHARES = {"nan": 1.0, "half nan": 0.5}


def poison(argument: Argument, rng: np.random.Generator, fill: str = "nan") -> Array:
    """Contents of an output before a call. They reveal elements that a kernel does not write, and
    kernels that read an output before they write it.

    `fill` is one of `FILLS`. NaN have random digits. Numbers are as large as those of an earlier
    result. Random bytes would not be suitable, because half of them are floats close to zero. These
    would be accepted in elements to which a kernel should write zero, for instance after a ReLU.
    """
    if not is_float(argument.dtype):
        found = np.frombuffer(rng.bytes(bytes_of([argument])), argument.dtype)
        return _signed(found.reshape(argument.shape), fill, rng)
    share = _NAN_SHARES.get(fill, 0.0)
    if share == 1.0:
        return _random_nan(argument, rng)
    numbers = rng.standard_normal(argument.shape, np.float32).astype(argument.dtype)
    if share > 0:
        chosen = rng.random(argument.shape, np.float32) < share
        return np.where(chosen, _random_nan(argument, rng), numbers)
    return _signed(numbers, fill, rng)


def _random_nan(argument: Argument, rng: np.random.Generator) -> Array:
    found = np.frombuffer(rng.bytes(bytes_of([argument])), argument.dtype)
    bits = 8 * np.dtype(argument.dtype).itemsize
    digits = int(limits(argument.dtype).nmant)
    exponent_and_first_digit = (1 << (bits - 1)) - (1 << (digits - 1))
    found = (found.view(f"u{bits // 8}") | exponent_and_first_digit).view(argument.dtype)
    return found.reshape(argument.shape)


def _signed(numbers: Array, fill: str, rng: np.random.Generator) -> Array:
    """Random numbers with the signs that the fill requires."""
    if fill == "zeros":
        return np.zeros_like(numbers)
    if fill == "one value":
        return np.full_like(numbers, numbers.flat[int(rng.integers(numbers.size))])
    wrong = {"positive": numbers < 0, "negative": numbers > 0}.get(fill)
    if wrong is None:
        return numbers
    other = np.invert(numbers) if numbers.dtype.kind in "iub" else -numbers
    return np.where(wrong, other, numbers)


def _draw_integer(
    argument: Argument, distribution: str, reduction: int, rng: np.random.Generator
) -> Array:
    bounds = np.iinfo(argument.dtype)
    low, high = max(bounds.min, -_LIMIT_INT32), min(bounds.max, _LIMIT_INT32)
    dtype, shape = np.dtype(argument.dtype), argument.shape
    if distribution == "full-range":
        return _uniform(low, high, shape, dtype, rng)
    if distribution == OF_TIMED_INTEGERS:
        wide = rng.random(one_per_row(shape)) < 0.5
        wide.flat[rng.integers(shape[0])] = True
        few = _draw_integer(argument, "small", reduction, rng)
        return np.where(wide, _uniform(low, high, shape, dtype, rng), few)
    if distribution == "extremes":
        values = np.array([low, low + 1, max(low, -1), 0, 1, high], dtype)
        return values[_uniform(0, len(values) - 1, shape, np.dtype(np.int8), rng)]
    if distribution == "sparse":
        density = math.sqrt(_SPARSE_PRODUCTS / reduction)
        return _thinned(_uniform(max(low, -11), 11, shape, dtype, rng), density, rng)
    if distribution == "structured":
        base = "extremes" if rng.random() < _STRUCTURED_EXTREMES else "small"
        return structured_integers(_draw_integer(argument, base, reduction, rng), rng)
    variance = _OUTPUT_DEVIATION / math.sqrt(reduction)
    # The variance of uniform integers in [-m, m] is m (m + 1) / 3. Zeros reduce it to the required
    # one.
    m = max(1, math.ceil((math.sqrt(1 + 12 * variance) - 1) / 2))
    values = _uniform(max(low, -m), m, shape, dtype, rng)
    return _thinned(values, variance * 3 / (m * (m + 1)), rng)


def _uniform(
    low: int, high: int, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator
) -> Array:
    """Integers from `low` to `high`, both included."""
    values: Array = rng.integers(low, high, shape, dtype=dtype.type, endpoint=True)
    return values


def _thinned(values: Array, density: float, rng: np.random.Generator) -> Array:
    """`values`, of which only this share is kept, and all others are set to zero."""
    if density < 1:
        values *= rng.random(values.shape, dtype=np.float32) < density
    return values


def _with_denormal_columns(values: Array, rng: np.random.Generator) -> Array:
    """Values of which about a quarter of the columns are replaced by denormals, at least one column
    if there are several.

    A product adds the rows of its second operand, so a row of denormals has no effect beside the
    other rows.
    """
    if values.ndim < 2:
        return values
    columns = values.shape[-1]
    chosen: Array = np.less(rng.random(columns), 0.25)
    if columns > 1:
        chosen[rng.integers(columns)] = True
    scales = float(limits(values.dtype.name).tiny) * _DENORMAL / 10
    found = rng.choice(_FLOAT_EXTREMES, values.shape) * scales
    return np.where(chosen, found.astype(values.dtype), values)


def _draw_float(
    argument: Argument, distribution: str, reduction: int, rng: np.random.Generator
) -> Array:
    shape, of_type = argument.shape, limits(argument.dtype)
    wide, denormal = of_type.maxexp >= 128, float(of_type.tiny) * _DENORMAL
    values: Array
    rows = one_per_row(shape)
    if distribution == "extremes":
        # All values of a row have one magnitude, so that sums of tiny values and of large values
        # occur separately.
        magnitudes = np.array([denormal / 10, 1.0, 1.0, 1e6 if wide else 10.0])
        values = rng.choice(_FLOAT_EXTREMES, shape) * rng.choice(magnitudes, rows)
    elif distribution == "constant rows":
        values = np.broadcast_to(rng.standard_normal((*shape[:-1], 1)), shape)
    elif distribution == "mixed scales":
        most = 6 if wide else 3
        values = rng.standard_normal(shape)
        values *= 10.0 ** rng.integers(-most, most, shape, endpoint=True)
    elif distribution in ("near overflow", "huge values", LATER):
        largest = 2.0 ** (int(of_type.maxexp) - _BELOW_OVERFLOW) / reduction
        power = 0.5 if distribution == "near overflow" else 1.0
        values = rng.uniform(-1, 1, shape) * largest**power
    elif distribution == "positive":
        values = rng.uniform(0.5, 1.5, shape)
    else:
        # Most arguments have at most single precision, which is drawn in half the time.
        double = argument.dtype == "float64"
        values = rng.standard_normal(shape, np.float64 if double else np.float32)
        if distribution == "full-range":
            values *= 100.0
        if distribution == "shifted mean":
            values += 1000.0 if of_type.nmant >= 23 else 8.0
        if distribution == "shifted below":
            # Values around -128 would all be the same number in 8 bits.
            few_digits = _FAR_BELOW if of_type.nmant >= 7 else 8.0
            values -= 1000.0 if of_type.nmant >= 23 else few_digits
            if wide:
                values *= rng.choice(_ROWS_BELOW, rows)
        if distribution == "denormals":
            return (values.astype(np.float64) * denormal).astype(argument.dtype)
        if distribution == "outliers":
            few = rng.integers(0, values.size, max(1, values.size // _OUTLIER_EVERY))
            # No two large values of a row are close to each other. Otherwise, a softmax would lose
            # digits in a few rows only, and the sample of rows on which honest errors are measured
            # might not contain these rows.
            least = np.copysign(1.0, values.reshape(-1)[few])
            values.reshape(-1)[few] += least
            values.reshape(-1)[few] *= _OUTLIER if of_type.nmant >= 10 else 16.0
        if distribution == "sparse":
            values = _thinned(values, math.sqrt(_SPARSE_PRODUCTS / reduction), rng)
        if distribution == "structured":
            values = structured_floats(values, rng)
    if np.dtype(argument.dtype).itemsize == 1:  # some distributions exceed the range of 8 bits
        bound = float(of_type.max) / 4
        values = np.clip(values, -bound, bound)
    return values.astype(argument.dtype)
