"""Outputs of attacks that compute with a mistake, such as parts that are not written."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tilewright.core.errors import WorkloadError
from tilewright.evaluation.preflight.views import (
    Array,
    Make,
    Outputs,
    View,
    in_parts,
    of_each_output,
    rows_of,
)

TILE = 16
"""Number of rows or columns that are wrong in an attack on a tile."""


def wrong_on(distribution: str) -> Make:
    """Outputs that are shifted by their range, which is wrong even if all correct outputs are
    zero.
    """

    def shifted(array: Array) -> Array:
        low, high = array.min(), array.max()
        if array.dtype.kind in "iu":
            other = low if low < high else high - 1
            whole: Array = np.where(array == high, other, high).astype(array.dtype)
            return whole
        step = max(float(high) - float(low), abs(float(high)), 1.0)
        real = np.empty_like(array)
        for found, part in zip(in_parts(real), in_parts(array), strict=True):
            found[...] = part.astype(np.float64) - step
        return real

    def make(views: Sequence[View], index: int) -> Outputs:
        view = views[index]
        wrong = view.case.distribution == distribution
        return of_each_output(shifted)(views, index) or {} if wrong else view.expected

    return make


def unwritten(views: Sequence[View], index: int) -> Outputs:
    """The contents of the outputs before the call."""
    view = views[index]
    return {a.name: view.given(a.name) for a in view.arguments if a.is_written}


def without_last_row(views: Sequence[View], index: int) -> Outputs:
    """Correct outputs, except that the last row is not written."""
    return _keeping(views[index], lambda array: array.shape[-1])


def without_last_element(views: Sequence[View], index: int) -> Outputs:
    """Correct outputs, except that the last element is not written."""
    return _keeping(views[index], lambda array: 1)


def _keeping(view: View, count_in: Callable[[Array], int]) -> Outputs:
    """Correct outputs, except for one part that keeps its values from before the call.

    `count_in` returns the number of elements of a part. The part is the last one in memory order,
    or for an argument that is also an input, the last one that a correct kernel changes.
    """
    found = {}
    for argument in view.arguments:
        if not argument.is_written:
            continue
        changed, before = view.expected[argument.name].copy(), view.given(argument.name)
        last = changed.size - 1
        if argument.is_given:
            differing = np.flatnonzero(changed.reshape(-1) != before.reshape(-1))
            last = differing[-1] if differing.size else last
        count = count_in(changed)
        first = last // count * count
        part = np.s_[first : first + count]
        changed.flat[part] = before.flat[part]
        found[argument.name] = changed
    return found


def wrapped(views: Sequence[View], index: int) -> Outputs | None:
    """Outputs in which saturated sums, which equal a bound of the narrow type, are replaced by the
    opposite bound.
    """
    narrow = [
        name
        for name, array in views[0].expected.items()
        if array.dtype.kind in "iu" and array.dtype.itemsize < 4
    ]
    if not any(_at_bounds(v.expected[name]).any() for v in views for name in narrow):
        return None
    found = dict(views[index].expected)
    for name in narrow:
        array = found[name]
        found[name] = np.where(_at_bounds(array), ~array, array).astype(array.dtype)
    return found


def _at_bounds(array: Array) -> Array:
    bounds = np.iinfo(array.dtype)
    found: Array = (array == bounds.max) | (array == bounds.min)
    return found


def ignoring(name: str) -> Make:
    """Correct outputs if an input were all zeros; the attack does not apply if the reference raises
    an exception for zeros, for instance because they are not a matrix that it can factorise.
    """

    def make(views: Sequence[View], index: int) -> Outputs | None:
        try:
            return views[index].without(name)
        except WorkloadError:
            return None

    return make


def shifted_tile(axis: int) -> Make:
    """Correct outputs whose last rows or columns are shifted by one."""

    def make(views: Sequence[View], index: int) -> Outputs | None:
        if all(rows_of(a).shape[axis] == 1 for a in views[0].expected.values()):
            return None
        found = {}
        for name, array in views[index].expected.items():
            found[name] = array.copy()
            tile = np.moveaxis(rows_of(found[name]), axis, 0)[-TILE:]
            tile[:] = np.roll(tile, 1, 0)
        return found

    return make


def negated(array: Array) -> Array:
    """The negated values, within the bounds of an integer type."""
    if array.dtype.kind != "i":
        return (-array).astype(array.dtype, copy=False)
    bounds = np.iinfo(array.dtype)
    return np.clip(-array.astype(np.int64), bounds.min, bounds.max).astype(array.dtype)


def last_rows_negated(array: Array) -> Array:
    """The array with its last rows negated."""
    changed = array.copy()
    rows_of(changed)[-TILE:] = negated(rows_of(array)[-TILE:])
    return changed


def one_wrong(views: Sequence[View], index: int) -> Outputs:
    """Outputs with one wrong element, at another position in every comparison."""
    found = {}
    for name, array in views[index].expected.items():
        changed = array.copy()
        place = (index * 7919 + 1) % array.size
        low, high = float(array.min()), float(array.max())
        step = (high - low) / 100
        if array.dtype.kind in "iu":
            step = max(1, math.ceil(step))
        elif step == 0:
            step = abs(high) / 100 or 1.0
        old = changed.flat[place].item()
        smaller = old > 0 and (array.dtype.kind != "u" or old >= step)
        changed.flat[place] = old - step if smaller else old + step
        found[name] = changed
    return found
