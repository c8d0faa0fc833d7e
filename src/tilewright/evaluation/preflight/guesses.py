"""Outputs of attacks that do not compute: constants, estimates, copies, and earlier results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from tilewright.evaluation.preflight.views import (
    PART,
    Array,
    Make,
    Outputs,
    View,
    in_parts,
    is_same,
    magnitude,
    of_each_output,
    rows_of,
)


def all_largest(array: Array) -> Array:
    """In every element, the largest value of an integer type, or the largest magnitude of an
    output.
    """
    bound = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else magnitude(array)
    return np.full_like(array, bound)


def constant(views: Sequence[View], index: int) -> Outputs:
    """A constant for all inputs, which is the best one for the first comparison."""
    found = {}
    for name, array in views[0].expected.items():
        common = array.mean(dtype=np.float64)
        if array.dtype.kind in "iu":
            values, counts = np.unique(array, return_counts=True)
            common = values[np.argmax(counts)]
        found[name] = np.full_like(array, common)
    return found


def rank_one(views: Sequence[View], index: int) -> Outputs | None:
    """An estimate of a matrix product from sums of rows and columns, which is close for positive
    elements.
    """
    view = views[index]
    found = _estimates(view)

    def is_close(other: View) -> bool:
        made = found if other is view else _estimates(other)
        return _is_close(made, other)

    if all(v.holds("rank-1 estimate", partial(is_close, v)) for v in (view, *views)):
        return None
    return found


def _estimates(view: View) -> Outputs:
    return {n: _estimate(a) for n, a in view.expected.items()}


def _is_close(found: Outputs, view: View) -> bool:
    """Whether outputs agree with the expected ones, up to rounding."""
    return all(
        np.allclose(rows, wanted, 1e-5, 1e-5 * largest)
        for n, a in view.expected.items()
        for largest in [magnitude(a)]
        for rows, wanted in zip(in_parts(found[n]), in_parts(a), strict=True)
    )


def _estimate(array: Array) -> Array:
    rows = rows_of(array)
    mean = rows.mean(dtype=np.float64)
    if mean == 0:
        return array
    of_rows, of_columns = rows.mean(1, dtype=np.float64), rows.mean(0, dtype=np.float64)
    estimate = np.empty_like(rows)
    for first in range(0, len(rows), PART):
        with np.errstate(all="ignore"):
            found = np.outer(of_rows[first : first + PART], of_columns) / mean
        if array.dtype.kind in "iu":
            bounds = np.iinfo(array.dtype)
            found = np.clip(np.rint(found), bounds.min, bounds.max)
        estimate[first : first + PART] = found
    return estimate.reshape(array.shape)


def copy_of(name: str) -> Make:
    """The elements of an input; does not apply if this is the correct result."""

    def is_copy(view: View) -> bool:
        given = view.given(name)
        return all(is_same(_repeated(given, a.shape), a) for a in view.expected.values())

    def make(views: Sequence[View], index: int) -> Outputs | None:
        view = views[index]
        if all(v.holds(f"copy of {name}", partial(is_copy, v)) for v in (view, *views)):
            return None
        given = view.given(name)
        return {
            n: _repeated(given, a.shape).astype(a.dtype, copy=False)
            for n, a in view.expected.items()
        }

    return make


def _repeated(array: Array, shape: Sequence[int]) -> Array:
    """The first elements of an array in this shape, from the beginning again if there are fewer."""
    count = math.prod(shape)
    if array.size < count:
        return np.resize(array, shape)
    return array.reshape(-1)[:count].reshape(shape)


def previous_result(views: Sequence[View], index: int) -> Outputs:
    """The correct outputs of the comparison before."""
    return views[index].expected if index == 0 else views[index - 1].expected


def right_at_first(views: Sequence[View], index: int) -> Outputs:
    """Correct outputs in the first comparison, and zeros in all others."""
    view = views[index]
    return view.expected if index == 0 else of_each_output(np.zeros_like)(views, index) or {}


def memoised(views: Sequence[View], index: int) -> Outputs:
    """Stored results by input. The last comparison is that of the timed run, whose inputs must
    differ from all others.
    """
    key = views[index].key
    seen = next((view for view in views[:-1] if view.key == key), views[0])
    return seen.expected
