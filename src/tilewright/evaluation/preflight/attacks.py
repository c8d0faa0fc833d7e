"""Wrong outputs that any task's check must reject, made from inputs and correct outputs.

Each attack represents a kernel that is faster because it omits work. An attack is rejected if at
least one of the comparisons that a candidate must pass finds its outputs wrong.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.core.records import Argument
from tilewright.core.roles import CheckCase, Data

Array: TypeAlias = NDArray[Any]
Outputs: TypeAlias = Mapping[str, Array]

TILE = 16
"""Number of rows or columns that are wrong in an attack on a tile."""

PART = 1 << 14
"""Rows that are computed together where arrays of float64 for all of them would be large."""

_INPUTS = "draw the inputs from wider distributions, or correct the reference"
_TOLERANCE = "lower the tolerance"
TELLING = (
    "remove the tolerance from workload.toml, so that results are held to the error of float32 "
    "itself, or draw inputs of both signs, so that outputs differ from one another"
)
_SHAPE = "choose larger shapes, so that outputs differ from one another"


@dataclass(frozen=True)
class View:
    """The arrays of one comparison, before and after the call of a correct kernel."""

    case: CheckCase
    arguments: Sequence[Argument]
    _found: dict[str, bool] = field(default_factory=dict, init=False, repr=False)

    def given(self, name: str) -> Array:
        """An argument before the kernel runs; outputs contain data that the kernel must
        overwrite.
        """
        return next(_array(a, self.case.given[name]) for a in self.arguments if a.name == name)

    @property
    def inputs(self) -> Mapping[str, Data]:
        """The arguments that a kernel reads."""
        given = self.case.given
        return {a.name: given[a.name] for a in self.arguments if a.is_given}

    @cached_property
    def expected(self) -> Outputs:
        """All written arguments after the call of a correct kernel."""
        found = self.case.expected
        return {a.name: _array(a, found[a.name]) for a in self.arguments if a.is_written}

    @cached_property
    def key(self) -> str:
        """Hash of the values that a kernel reads."""
        digest = hashlib.sha256()
        for values in self.inputs.values():
            digest.update(values)
        return digest.hexdigest()

    def holds(self, what: str, find: Callable[[], bool]) -> bool:
        """What `find` says about the outputs of this comparison; it is asked once."""
        if what not in self._found:
            self._found[what] = find()
        return self._found[what]

    def forget(self) -> None:
        """Free the expected outputs; they are computed again when they are asked for."""
        self.__dict__.pop("expected", None)

    def without(self, name: str) -> Outputs:
        """Correct outputs if the input `name` were all zeros."""
        given = self.inputs
        changed = self.case.reference({**given, name: memoryview(bytearray(len(given[name])))})
        return {a.name: _array(a, changed[a.name]) for a in self.arguments if a.is_written}


Make: TypeAlias = Callable[[Sequence[View], int], Outputs | None]
"""Outputs of the attack in comparison number `index`; None if the attack does not apply."""


@dataclass(frozen=True)
class OutputAttack:
    """A wrong kernel: its name, a description, and what to change in the task if the check accepts
    it.
    """

    name: str
    text: str
    remedy: str
    make: Make = field(repr=False)


def attacks(arguments: Sequence[Argument], distributions: Sequence[str]) -> Iterator[OutputAttack]:
    """All attacks on a task with these arguments and these distributions of inputs."""
    yield OutputAttack("zeros", "writes zeros", _INPUTS, _each(np.zeros_like))
    yield OutputAttack(
        "constant", "writes the most common value, or the mean, everywhere", TELLING, _constant
    )
    yield OutputAttack(
        "rank-1 estimate",
        "multiplies the means of the rows of the result by those of its columns",
        TELLING,
        _rank_one,
    )
    for distribution in dict.fromkeys(distributions):
        yield OutputAttack(
            f"wrong on {distribution}",
            f"is correct except for inputs of the distribution {distribution!r}",
            "compare inputs of every distribution",
            _wrong_on(distribution),
        )
    yield OutputAttack("extreme", "writes the largest value everywhere", _INPUTS, _each(_largest))
    for argument in arguments:
        if argument.is_given:
            yield OutputAttack(
                f"copy of {argument.name}",
                f"copies {argument.name} to the output",
                _INPUTS,
                _copy_of(argument.name),
            )
    yield OutputAttack("stale buffer", "writes nothing", _INPUTS, _unwritten)
    yield OutputAttack(
        "previous result", "leaves in the outputs what the previous run wrote", _INPUTS, _previous
    )
    yield OutputAttack("skipped tail", "does not write the last row", _TOLERANCE, _no_last_row)
    yield OutputAttack("skipped element", "does not write the last element", _TOLERANCE, _no_last)
    yield OutputAttack(
        "skipped saturation", "lets sums wrap around instead of saturating", _INPUTS, _wrapped
    )
    for argument in arguments:
        if argument.is_given:
            yield OutputAttack(
                f"ignored {argument.name}",
                f"computes as if {argument.name} (a bias, a factor) were zero",
                f"remove {argument.name} from the task if it has no influence, or {_INPUTS}",
                _ignoring(argument.name),
            )
    yield OutputAttack("off by one, rows", "shifts the last tile by one row", _SHAPE, _shifted(0))
    yield OutputAttack(
        "off by one, columns", "shifts the last tile by one column", _SHAPE, _shifted(-1)
    )
    yield OutputAttack("sign flip", "negates the result", _INPUTS, _each(_negated))
    yield OutputAttack(
        "sign flip of a tile", "negates the last rows", _INPUTS, _each(_last_negated)
    )
    yield OutputAttack(
        "one wrong element",
        "is wrong in one element, by a hundredth of the range of the outputs",
        _TOLERANCE,
        _one_wrong,
    )
    yield OutputAttack(
        "first seed only",
        "is correct for the first inputs and writes zeros for all others",
        _INPUTS,
        _first_only,
    )
    yield OutputAttack(
        "memoised by input",
        "looks up results for inputs that it saw during the check",
        _INPUTS,
        _memoised,
    )


def _array(argument: Argument, data: Data) -> Array:
    return np.frombuffer(data, argument.dtype).reshape(argument.shape)


def _each(change: Callable[[Array], Array]) -> Make:
    return lambda views, index: {n: change(a) for n, a in views[index].expected.items()}


def _largest(array: Array) -> Array:
    bound = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else _magnitude(array)
    return np.full_like(array, bound)


def _magnitude(array: Array) -> float:
    """The largest absolute value."""
    return max(float(array.max()), -float(array.min()))


def _constant(views: Sequence[View], index: int) -> Outputs:
    """A constant for all inputs, which is the best one for the first comparison."""
    found = {}
    for name, array in views[0].expected.items():
        common = array.mean(dtype=np.float64)
        if array.dtype.kind in "iu":
            values, counts = np.unique(array, return_counts=True)
            common = values[np.argmax(counts)]
        found[name] = np.full_like(array, common)
    return found


def _rank_one(views: Sequence[View], index: int) -> Outputs | None:
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
        for largest in [_magnitude(a)]
        for rows, wanted in zip(_in_parts(found[n]), _in_parts(a), strict=True)
    )


def _in_parts(array: Array) -> Iterator[Array]:
    """The rows of an array, some at a time."""
    rows = _rows(array)
    for first in range(0, len(rows), PART):
        yield rows[first : first + PART]


def _estimate(array: Array) -> Array:
    rows = _rows(array)
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


def _wrong_on(distribution: str) -> Make:
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
        for found, part in zip(_in_parts(real), _in_parts(array), strict=True):
            found[...] = part.astype(np.float64) - step
        return real

    def make(views: Sequence[View], index: int) -> Outputs:
        view = views[index]
        wrong = view.case.distribution == distribution
        return _each(shifted)(views, index) or {} if wrong else view.expected

    return make


def _copy_of(name: str) -> Make:
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


def _unwritten(views: Sequence[View], index: int) -> Outputs:
    view = views[index]
    return {a.name: view.given(a.name) for a in view.arguments if a.is_written}


def _previous(views: Sequence[View], index: int) -> Outputs:
    return views[index].expected if index == 0 else views[index - 1].expected


def _no_last_row(views: Sequence[View], index: int) -> Outputs:
    return _keeping(views[index], lambda array: np.s_[-array.shape[-1] :])


def _no_last(views: Sequence[View], index: int) -> Outputs:
    return _keeping(views[index], lambda array: np.s_[-1:])


def _keeping(view: View, where: Callable[[Array], slice]) -> Outputs:
    """Correct outputs, except for one part that keeps its values from before the call (elements in
    memory order).
    """
    found = {}
    for name, array in view.expected.items():
        before = view.given(name).flat[where(array)]
        changed = array.copy()
        changed.flat[where(array)] = before
        found[name] = changed
    return found


def _rows(array: Array) -> Array:
    """The array as a matrix whose rows are those of the last dimension, as a view of the same
    memory.
    """
    return array.reshape(-1, array.shape[-1])


def _wrapped(views: Sequence[View], index: int) -> Outputs | None:
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


def _ignoring(name: str) -> Make:
    return lambda views, index: views[index].without(name)


def _shifted(axis: int) -> Make:
    def make(views: Sequence[View], index: int) -> Outputs | None:
        if all(_rows(a).shape[axis] == 1 for a in views[0].expected.values()):
            return None
        found = {}
        for name, array in views[index].expected.items():
            found[name] = array.copy()
            tile = np.moveaxis(_rows(found[name]), axis, 0)[-TILE:]
            tile[:] = np.roll(tile, 1, 0)
        return found

    return make


def _negated(array: Array) -> Array:
    if array.dtype.kind != "i":
        return (-array).astype(array.dtype, copy=False)
    bounds = np.iinfo(array.dtype)
    return np.clip(-array.astype(np.int64), bounds.min, bounds.max).astype(array.dtype)


def _last_negated(array: Array) -> Array:
    changed = array.copy()
    _rows(changed)[-TILE:] = _negated(_rows(array)[-TILE:])
    return changed


def _one_wrong(views: Sequence[View], index: int) -> Outputs:
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


def _first_only(views: Sequence[View], index: int) -> Outputs:
    view = views[index]
    return view.expected if index == 0 else _each(np.zeros_like)(views, index) or {}


def _memoised(views: Sequence[View], index: int) -> Outputs:
    """Stored results by input. The last comparison is that of the timed run, whose inputs must
    differ from all others.
    """
    key = views[index].key
    seen = next((view for view in views[:-1] if view.key == key), views[0])
    return seen.expected


def is_same(one: Array, other: Array) -> bool:
    """Whether all elements of two arrays of one shape are equal, compared some at a time."""
    one, other = one.reshape(-1), other.reshape(-1)
    parts = [slice(first, first + (1 << 22)) for first in range(0, one.size, 1 << 22)]
    return all(np.array_equal(one[part], other[part]) for part in parts)
