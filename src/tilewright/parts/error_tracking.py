"""Arrays that evaluate a formula in several arithmetics at once.

A reference that was written for numpy arrays is called with `TrackedArray` arrays. Every operation
is then performed in a wider type ("exact"), in each of the given arithmetics, and for the
deviation. The *deviation* of an element is the typical error (root mean square) that the element
has if each operation rounds once. Errors divided by deviations are comparable for tiny and for
large elements. The errors of honest results are measured in this unit, not derived.

With a format that does not round, only exact values are computed, and no deviations.

An operation that is not supported raises `TypeError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, SupportsIndex

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from tilewright.parts.arithmetic import SINGLE, Arithmetic, Array, Format, products, rounded
from tilewright.parts.element_types import is_float, limits
from tilewright.parts.lazy_arrays import as_read

MOST_DEVIATIONS = 5.0
"""Number of deviations that the error of an operand of a minimum or maximum may have."""
_EXACT = frozenset({
    np.negative, np.positive, np.absolute, np.maximum, np.minimum, np.fmax, np.fmin, np.sign,
})  # fmt: skip
_COMPARISONS = frozenset({
    np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal, np.isnan,
    np.isfinite, np.isinf,
})  # fmt: skip
_STRUCTURAL: frozenset[Callable[..., Any]] = frozenset({
    np.reshape, np.transpose, np.concatenate, np.stack, np.hstack, np.vstack, np.moveaxis,
    np.swapaxes, np.expand_dims, np.squeeze, np.broadcast_to, np.take, np.repeat, np.tile, np.pad,
    np.roll, np.flip, np.where, np.ravel, np.diagonal, np.atleast_1d, np.atleast_2d, np.split,
    np.tril, np.triu, sliding_window_view,
})  # fmt: skip


class TrackedArray(NDArrayOperatorsMixin):
    """One array of a formula, with `exact` values, their `deviation` (None for 0), and `results`.

    `results` are in the order of `ways` and have the same shape. `format` is the format in which an
    honest kernel stores numbers.
    """

    def __init__(
        self,
        exact: Array,
        deviation: Array | None,
        results: Sequence[Array],
        ways: Sequence[Arithmetic],
        numbers: Format = SINGLE,
    ) -> None:
        self.exact = np.asarray(exact)
        self._deviation = None if deviation is None else as_read(deviation)
        self._is_positive = False  # whether no deviation is known to be zero
        self.results = [np.asarray(result) for result in results]
        self.ways = ways
        self.format = numbers

    @staticmethod
    def given(
        values: ArrayLike,
        ways: Sequence[Arithmetic] = (),
        numbers: Format = SINGLE,
    ) -> TrackedArray:
        """An input, which an honest kernel reads without an error."""
        exact, held = np.asarray(values, numbers.exact), np.asarray(values, numbers.type)
        return TrackedArray(exact, None, [way.given(held) for way in ways], ways, numbers)

    @property
    def deviation(self) -> Array:
        """The deviation, which is never zero, because every computed number may have an error below
        the normal range.
        """
        if self._deviation is None:
            return np.full(self.exact.shape, self.format.smallest, self.exact.dtype)
        known = np.asarray(self._deviation)
        if self._is_positive or (known.size and known.min() >= self.format.smallest):
            self._is_positive = True
            return known  # the usual case, in which no array is needed
        found: Array = np.maximum(known, self.format.smallest)
        return found

    def followed_alone(self) -> TrackedArray:
        """The array without results in other arithmetic."""
        return TrackedArray(self.exact, self._deviation, (), (), self.format)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.exact.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.exact.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.exact.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the exact values."""
        return self.exact.dtype

    @property
    def T(self) -> TrackedArray:
        """All axes in the opposite order."""
        return self.transpose()

    def __len__(self) -> int:
        return len(self.exact)

    def __array__(self, *_: object, **__: object) -> Array:
        raise TypeError("the formula copies elements into an array that numpy has made")

    def __float__(self) -> float:
        raise TypeError("a conversion to a single number is not supported")

    def __getitem__(self, index: Any) -> TrackedArray:
        return self._each(lambda part: part[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        other = value if isinstance(value, TrackedArray) else None
        self.exact = self.exact.copy()
        self.exact[index] = value if other is None else other.exact
        if self.format.rounds:
            self._deviation, self._is_positive = self.deviation.copy(), False
            self._deviation[index] = 0.0 if other is None else other.deviation
        for i, result in enumerate(self.results):
            self.results[i] = result.copy()
            self.results[i][index] = value if other is None else other.results[i]

    def astype(self, dtype: Any, *_: object, **__: object) -> TrackedArray:
        """The array itself for every floating-point type, because each way keeps its own type."""
        if not is_float(np.dtype(dtype).name):
            raise TypeError(f"a conversion to {np.dtype(dtype)} is not supported")
        return self

    def copy(self) -> TrackedArray:
        """Another array with the same values."""
        return self._each(np.copy)

    def reshape(self, *shape: Any) -> TrackedArray:
        """The same values in another shape."""
        return self._each(lambda part: part.reshape(*shape))

    def transpose(self, *axes: Any) -> TrackedArray:
        """The same values with the axes in another order."""
        return self._each(lambda part: part.transpose(*axes))

    def ravel(self) -> TrackedArray:
        """The same values along one axis."""
        return self.reshape(-1)

    flatten = ravel

    def swapaxes(self, first: SupportsIndex, second: SupportsIndex) -> TrackedArray:
        """The same values with two axes exchanged."""
        return self._each(lambda part: part.swapaxes(first, second))

    def dot(self, other: Any) -> TrackedArray:
        """Matrix product."""
        found: TrackedArray = np.matmul(self, other)
        return found

    def sum(self, axis: Any = None, keepdims: bool = False, **_: object) -> TrackedArray:
        """Sums along one or several axes."""
        flat, axes = self._joined(axis)
        exact, deviation = flat.exact.sum(-1), None
        if self.format.rounds:
            step = self.format.unit_roundoff
            square = (step * exact) ** 2 + step**2 * _squares(flat.exact)
            if flat._deviation is not None:
                square = square + _squares(flat._deviation)
            deviation = np.sqrt(square) + self.format.smallest
        results = [w.total(r, -1) for w, r in zip(self.ways, flat.results, strict=True)]
        found = TrackedArray(exact, deviation, results, self.ways, self.format)
        return found._each(lambda part: np.expand_dims(part, axes)) if keepdims else found

    def mean(self, axis: Any = None, keepdims: bool = False, **_: object) -> TrackedArray:
        """Means along one or several axes."""
        total = self.sum(axis, keepdims)
        found: TrackedArray = total / float(self.size // max(1, total.size))
        return found

    def var(self, axis: Any = None, keepdims: bool = False, **_: object) -> TrackedArray:
        """Mean squared distance from the mean."""
        return self.spread(axis, keepdims)[1]

    def spread(self, axis: Any = None, keepdims: bool = False) -> tuple[TrackedArray, TrackedArray]:
        """The distances from the mean, and their mean square."""
        centred: TrackedArray = self - self.mean(axis, keepdims=True)
        found: TrackedArray = (centred * centred).mean(axis, keepdims)
        if any(way.one_pass for way in self.ways):
            mean = self.mean(axis, keepdims)
            short: Any = np.maximum((self * self).mean(axis, keepdims) - mean * mean, 0.0)
            for i, way in enumerate(self.ways):
                if way.one_pass:
                    found.results[i] = short.results[i]
        return centred, found

    def std(self, axis: Any = None, keepdims: bool = False, **_: object) -> TrackedArray:
        """Root of the variance."""
        return _elements(np.sqrt, [self.var(axis, keepdims)])

    def max(self, axis: Any = None, keepdims: bool = False, **_: object) -> TrackedArray:
        """Maxima along one or several axes; comparing rounds nothing."""
        return self._largest(1, lambda part: np.max(part, axis=axis, keepdims=keepdims))

    def min(self, axis: Any = None, keepdims: bool = False, **_: object) -> TrackedArray:
        """Minima, as maxima."""
        return self._largest(-1, lambda part: np.max(part, axis=axis, keepdims=keepdims))

    def __array_ufunc__(self, function: np.ufunc, method: str, *operands: Any, **more: Any) -> Any:
        """Arithmetic. With `out=`, the result is also a new array, which is sufficient for `a +=
        b`.
        """
        if not set(more) <= {"out", "dtype", "casting", "axis", "keepdims"}:
            raise _unsupported(function, method)
        if method == "reduce":
            reduction = {
                np.add: TrackedArray.sum,
                np.maximum: TrackedArray.max,
                np.minimum: TrackedArray.min,
            }
            if function not in reduction:
                raise _unsupported(function, method)
            axis, keepdims = more.get("axis", 0), bool(more.get("keepdims", False))
            return reduction[function](operands[0], axis, keepdims)
        if method == "accumulate" and function in (np.maximum, np.minimum):
            sign, axis = 1 if function is np.maximum else -1, more.get("axis", 0)
            return operands[0]._largest(sign, lambda part: np.maximum.accumulate(part, axis))
        if method != "__call__":
            raise _unsupported(function, method)
        if function in _COMPARISONS:
            return function(*(o.exact if isinstance(o, TrackedArray) else o for o in operands))
        if function.nout != 1:
            raise _unsupported(function, method)
        followed = [self._constant(operand) for operand in operands]
        with np.errstate(all="ignore"):
            return _product(*followed) if function is np.matmul else _elements(function, followed)

    def __array_function__(
        self, function: Any, types: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Functions that move elements, and reductions."""
        if function in _STRUCTURAL:
            return self._moved(function, args, kwargs)
        if function in _REDUCTIONS:
            first, *rest = args
            return _REDUCTIONS[function](first, *rest, **kwargs)
        raise _unsupported(function)

    def _constant(self, operand: Any) -> TrackedArray:
        """Constants of the formula, which are used without rounding."""
        if isinstance(operand, TrackedArray):
            return operand
        exact, same = np.asarray(operand, self.format.exact), [operand] * len(self.ways)
        held = _computed(self.ways, lambda way, value: way.held(value), same)
        return TrackedArray(exact, None, held, self.ways, self.format)

    def _largest(self, sign: int, largest: Callable[[Array], Array]) -> TrackedArray:
        """The results of `largest`, or with the sign -1 those of the function for smallest values.

        Another element is the result if its error exceeds its distance from the exact result, so
        each element counts with its deviation less a part of this distance (see `_carried`).
        """
        with np.errstate(invalid="ignore"):
            exact = sign * largest(sign * self.exact)
            deviation = None
            if self._deviation is not None:
                part = sign / MOST_DEVIATIONS
                found = largest(self.deviation + part * self.exact) - part * exact
                deviation = np.where(np.isfinite(exact), np.fmax(found, 0.0), 0.0)
            results = _computed(self.ways, lambda _, one: sign * largest(sign * one), self.results)
        return TrackedArray(exact, deviation, results, self.ways, self.format)

    def _each(self, change: Callable[[Array], Array]) -> TrackedArray:
        deviation = None if self._deviation is None else change(self._deviation)
        results = _computed(self.ways, lambda _, result: change(result), self.results)
        return TrackedArray(change(self.exact), deviation, results, self.ways, self.format)

    def _moved(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        def applied(part: Callable[[TrackedArray], Array], constant: Callable[[Any], Any]) -> Any:
            given = _replaced([*args, *kwargs.values()], part, constant)
            return function(
                *given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True))
            )

        tracked: list[TrackedArray] = []

        def deviation_of(followed: TrackedArray) -> Array:
            tracked.append(followed)
            return followed.deviation

        def result_of(_: Arithmetic, *given: Array) -> Any:
            taken = dict(zip(map(id, tracked), given, strict=True))
            return applied(lambda f: taken[id(f)], lambda value: value)

        exact = applied(lambda f: f.exact, lambda value: value)
        deviation = applied(deviation_of, _zero)
        inexact = any(followed._deviation is not None for followed in tracked)
        results = _computed(self.ways, result_of, *(followed.results for followed in tracked))

        def made(exact: Array, deviation: Array | None, *results: Array) -> TrackedArray:
            held = _computed(self.ways, lambda way, result: way.held(result), results)
            return TrackedArray(exact, deviation, held, self.ways, self.format)

        if isinstance(exact, list):
            return [made(*parts) for parts in zip(exact, deviation, *results, strict=True)]
        return made(exact, deviation if inexact else None, *results)

    def _joined(self, axis: Any) -> tuple[TrackedArray, tuple[int, ...]]:
        """The array with the given axes (None for all) moved to the end and merged into one."""
        every = range(self.ndim) if axis is None else np.atleast_1d(axis)
        axes = tuple(sorted(int(a) % self.ndim for a in every))
        rest = [a for a in range(self.ndim) if a not in axes]
        shape = [self.shape[a] for a in rest]
        return self.transpose(*rest, *axes).reshape(*shape, -1), axes


def narrowed(values: Any, digits: int) -> Any:
    """Values that a formula may store in a narrower type, with this number of binary digits.

    The exact values do not change. Every arithmetic rounds the values, and deviations increase by
    the rounding error (for inputs, only if the narrower type cannot represent the value). Arrays
    that are not `TrackedArray` are returned unchanged.
    """
    if not isinstance(values, TrackedArray):
        return values
    deviation = _with_digits(values, digits) if values.format.rounds else None
    results = _computed(values.ways, lambda _, result: rounded(result, digits), values.results)
    return TrackedArray(values.exact, deviation, results, values.ways, values.format)


def _with_digits(values: TrackedArray, digits: int) -> Array:
    """The deviation of values that are rounded to a number of digits."""
    step = 2.0**-digits * np.abs(values.exact)
    if values._deviation is None:
        held = rounded(values.exact.astype(values.format.type), digits) == values.exact
        return np.where(held, 0.0, step)
    return np.asarray(np.hypot(values._deviation, step))


def stored(values: TrackedArray, dtype: str) -> TrackedArray:
    """Values that are written to an array of a narrower type, to which every arithmetic rounds
    once.
    """
    deviation = None
    if values.format.rounds:
        digits, least = limits(dtype).nmant + 1, float(limits(dtype).smallest_subnormal)
        step = np.maximum(2.0**-digits * np.abs(values.exact), least / 2)
        deviation = np.hypot(values.deviation, step)
    with np.errstate(over="ignore"):
        results = _computed(
            values.ways, lambda _, r: r.astype(dtype).astype(r.dtype), values.results
        )
    return TrackedArray(values.exact, deviation, results, values.ways, values.format)


def _unsupported(function: Any, method: str = "__call__") -> TypeError:
    module = getattr(function, "__module__", None) or "numpy"  # functions of elements have none
    name = f"{module}.{function.__name__}".replace("numpy", "np", 1)
    return TypeError(f"{name}{'' if method == '__call__' else f'.{method}'} is not supported")


def _squares(values: Array) -> Array:
    """Sums of squares along the last axis."""
    return np.asarray(np.einsum("...i,...i->...", values, values))


def _replaced(
    value: Any, part: Callable[[TrackedArray], Array], constant: Callable[[Any], Any]
) -> Any:
    """Arguments of a NumPy function, with a part of every `TrackedArray` in its place.

    This is not a closure, because a recursive closure keeps its arrays until the next garbage
    collection.
    """
    if isinstance(value, TrackedArray):
        return part(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(v, part, constant) for v in value)
    return constant(value)


def _zero(value: Any) -> Any:
    """The deviation of a constant; values that are not numbers of elements are returned
    unchanged.
    """
    if isinstance(value, float):
        return 0.0
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.zeros_like(value)
    return value


def _computed(
    ways: Sequence[Arithmetic], compute: Callable[..., Array], *operands: Sequence[Array]
) -> list[Array]:
    """The result of each way.

    Results are computed once for all ways that round in the same way and have the same operands, so
    that these ways still have the same arrays.
    """
    found: dict[tuple[Any, ...], Array] = {}
    keys = []
    for way, *given in zip(ways, *operands, strict=True):
        keys.append((way.rounding, *map(id, given)))
        if keys[-1] not in found:
            found[keys[-1]] = compute(way, *given)
    return [found[key] for key in keys]


def _elements(function: np.ufunc, operands: Sequence[TrackedArray]) -> TrackedArray:
    """A function of elements. The errors of operands are multiplied by the slope of the
    function.
    """
    ways, of, values = operands[0].ways, operands[0].format, [o.exact for o in operands]
    exact = np.asarray(function(*values), of.exact)
    results = _computed(
        ways, lambda way, *given: way.elementwise(function, *given), *(o.results for o in operands)
    )
    inexact = [i for i, operand in enumerate(operands) if operand._deviation is not None]
    if not of.rounds or (function in _EXACT and not inexact):
        return TrackedArray(exact, None, results, ways, of)
    # Sums of squares are computed in place, because the arrays are large, and creating a new one
    # takes as long as the arithmetic on it.
    rounds = function not in _EXACT
    square = np.asarray(of.unit_roundoff * exact) if rounds else np.zeros_like(exact)
    square *= square
    added = square
    for i in inexact:
        if function is not np.multiply or i == 0 or operands[i] is not operands[0]:
            carried = _carried(function, values, exact, i, operands[i].deviation)
            if not np.isfinite(carried.max(initial=0.0)):
                # An infinite operand is infinite in spite of any error, as in 1 / (1 + exp(1000)).
                carried = np.where(np.isinf(values[i]) & np.isfinite(exact), 0.0, carried)
            added = np.square(carried)
        square += added  # in `a * a`, both operands add the same
    if function in (np.multiply, np.square) and len(inexact) == len(operands):
        # If a value is zero, this is the only contribution:
        square += np.square(operands[0].deviation * operands[-1].deviation)
    np.sqrt(square, out=square)
    # An exponential may replace a result below the normal range by zero, as libraries do.
    square += of.smallest_normal if function is np.exp else of.smallest
    return TrackedArray(exact, square, results, ways, of)


def _carried(
    function: np.ufunc, values: Sequence[Array], exact: Array, i: int, deviation: Array
) -> Array:
    if function in (np.add, np.subtract, np.negative):
        return deviation
    if function is np.multiply:
        return np.asarray(values[1 - i] * deviation)
    if function is np.square:
        return np.asarray(2 * values[0] * deviation)
    if function in (np.maximum, np.minimum, np.fmax, np.fmin):
        with np.errstate(invalid="ignore"):  # infinite operands, and operands without a value
            apart = np.where(exact == values[i], 0.0, np.abs(exact - values[i]))
        # The other operand is the result if its error exceeds its distance from the exact result.
        return np.fmax(deviation - apart / MOST_DEVIATIONS, 0.0)
    moved = [v + deviation if j == i else v for j, v in enumerate(values)]
    return np.asarray(function(*moved)) - exact


def _product(left: TrackedArray, right: TrackedArray) -> TrackedArray:
    exact, deviation = left.exact @ right.exact, None
    if left.format.rounds:
        deviation = _deviation_of_product(left, right, exact)
    results = products(left.ways, left.results, right.results)
    return TrackedArray(exact, deviation, results, left.ways, left.format)


def _deviation_of_product(left: TrackedArray, right: TrackedArray, exact: Array) -> Array:
    step = left.format.unit_roundoff
    square = (step * exact) ** 2
    squares = left.exact**2, right.exact**2
    rounded_left = step**2 * squares[0]
    if left._deviation is not None:
        rounded_left += left._deviation**2
    square += rounded_left @ squares[1]
    if right._deviation is not None:
        square += squares[0] @ right._deviation**2
    return np.asarray(np.sqrt(square) + left.format.smallest)


def _einsum(subscripts: str, *operands: Any, **_: object) -> TrackedArray:
    """Sums of products of one or two arrays, as one matrix product for each shared axis that the
    result keeps."""
    inputs, arrow, kept = str(subscripts).replace(" ", "").partition("->")
    axes = inputs.split(",")
    if not arrow or len(operands) > 2 or any(len(set(a)) < len(a) or "." in a for a in axes):
        raise TypeError(
            "np.einsum is supported only for one or two arrays with subscripts such as "
            "'ij,jk->ik', without `...` and without an axis that is named twice for one array"
        )
    arrays = list(operands)
    for i, own in enumerate(axes):
        rest = {*kept, *"".join(axes[:i] + axes[i + 1 :])}
        if alone := tuple(n for n, axis in enumerate(own) if axis not in rest):
            arrays[i] = np.sum(arrays[i], axis=alone)
            axes[i] = "".join(axis for axis in own if axis in rest)
    if len(arrays) == 1:
        (only,) = arrays
        moved: TrackedArray = only.transpose([axes[0].index(axis) for axis in kept])
        return moved
    left, right = (dict(zip(a, x.shape, strict=True)) for a, x in zip(axes, arrays, strict=True))
    if any(left[axis] != right.get(axis, left[axis]) for axis in left):
        raise TypeError("np.einsum is not supported if an axis of two arrays has different lengths")
    shared = [a for a in left if a in right and a in kept]
    summed = [a for a in left if a in right and a not in kept]
    rows, columns = [a for a in left if a not in right], [a for a in right if a not in left]
    first, second = (
        np.transpose(x, [own.index(a) for a in order])
        for x, own, order in zip(
            arrays, axes, (shared + rows + summed, shared + summed + columns), strict=True
        )
    )
    outer, terms = [left[a] for a in shared], prod(left[a] for a in summed)
    found: TrackedArray = np.matmul(
        first.reshape((*outer, -1, terms)), second.reshape((*outer, terms, -1))
    )
    order, sizes = shared + rows + columns, {**left, **right}
    return found.reshape([sizes[a] for a in order]).transpose([order.index(a) for a in kept])


def _running_sums(values: TrackedArray, axis: int | None = None, **_: object) -> TrackedArray:
    """Sums of each element and all earlier ones."""
    if axis is None:
        values, axis = values.ravel(), 0
    exact, deviation = np.cumsum(values.exact, axis), None
    if values.format.rounds:
        step = values.format.unit_roundoff
        square = (step * exact) ** 2 + step**2 * np.cumsum(values.exact**2, axis)
        if values._deviation is not None:
            square += np.cumsum(values._deviation**2, axis)
        deviation = np.sqrt(square) + values.format.smallest
    results = [w.running(r, axis) for w, r in zip(values.ways, values.results, strict=True)]
    return TrackedArray(exact, deviation, results, values.ways, values.format)


def _sorted(values: TrackedArray, axis: int = -1, **_: object) -> TrackedArray:
    """Sorted elements, each with the deviation of the element at its place."""
    at = np.argsort(values.exact, axis)
    known = values._deviation
    return TrackedArray(
        np.take_along_axis(values.exact, at, axis),
        None if known is None else np.take_along_axis(known, at, axis),
        [np.sort(result, axis) for result in values.results],
        values.ways,
        values.format,
    )


_REDUCTIONS: Mapping[Callable[..., Any], Callable[..., TrackedArray]] = {
    np.sum: TrackedArray.sum,
    np.mean: TrackedArray.mean,
    np.var: TrackedArray.var,
    np.std: TrackedArray.std,
    np.max: TrackedArray.max,
    np.amax: TrackedArray.max,
    np.min: TrackedArray.min,
    np.amin: TrackedArray.min,
    np.copy: TrackedArray.copy,
    np.dot: np.matmul,
    np.einsum: _einsum,
    np.cumsum: _running_sums,
    np.sort: _sorted,
}
