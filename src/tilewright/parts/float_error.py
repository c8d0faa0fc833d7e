"""The allowed error of a floating-point result, which is four times that of honest arithmetic of
its type.

The unit of errors is the deviation (`parts.error_tracking`), so that one limit applies to elements
of any size. Honest results are computed on the same inputs, with sums in several orders. The
largest of their errors determines the limits for the root mean square and for the maximum of an
output's errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.core.records import PRECISIONS
from tilewright.parts.arithmetic import SINGLE, Array, Format, coarser_ways, honest_ways
from tilewright.parts.element_types import is_float
from tilewright.parts.error_tracking import TrackedArray

FACTOR = 4.0
"""The allowed error divided by the honest error."""
MARGIN = 2.0
"""The error of a wrong kernel must be at least this many times the allowed error. Otherwise, the
inputs cannot distinguish it from an honest kernel, and it might pass on other inputs.
"""
HOPELESS = 0.01
"""If the error of an honest result is this share of the output's size, the result has no correct
digits that could be compared.
"""

_LEAST_RMS, _LEAST_LARGEST = 0.5, 1.0  # of one rounding
_BLOCK = 1 << 17  # elements; float64 blocks of this size stay in a processor's cache
_FEW = 256  # elements of an output, from which on one draw says how large honest errors are
_MOST_DRAWS = 16
_ALIKE = 0.25  # mean of an output's errors, divided by their root mean square
_MOST_ALIKE, _LEAST_ALIKE, _MOST_DRAWN = 8, 4, 1 << 20  # draws, and elements of all draws

Formula = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Outputs = Mapping[str, TrackedArray]


@dataclass(frozen=True, slots=True)
class Error:
    """The error of one output in deviations: root mean square and maximum."""

    rms: float
    largest: float

    def over(self, other: Error) -> float:
        """This error divided by the other one; the larger of the two ratios."""
        return max(self.rms / other.rms, self.largest / other.largest)


@dataclass(frozen=True, slots=True)
class HonestError:
    """The error of honest results of one output; `coarser` contains the errors of lower precision
    classes.

    `name` is the type of the output.
    """

    error: Error
    coarser: Mapping[str, Error] = field(default_factory=dict)
    name: str = SINGLE.name

    @property
    def allowed(self) -> Error:
        """The error that a kernel may have."""
        return Error(FACTOR * self.error.rms, FACTOR * self.error.largest)

    def permitted(self, lowest: str) -> Error:
        """The allowed error if results of this lower class are accepted too; empty for no lower
        class.
        """
        if not lowest:
            return self.allowed
        classes = [*self.coarser][: [*self.coarser].index(lowest) + 1]
        errors = [self.error, *(self.coarser[name] for name in classes)]
        return Error(
            FACTOR * max(error.rms for error in errors),
            FACTOR * max(error.largest for error in errors),
        )

    def precision(self, error: Error) -> str:
        """The finest precision class to which an error belongs.

        Empty if the error of a lower class is not larger than the honest error, because the inputs
        then cannot distinguish the classes.
        """
        known = {self.name: self.error, **self.coarser}
        finest = min(found.over(self.allowed) for found in self.coarser.values())
        if finest < MARGIN:
            return ""
        return next((n for n, e in known.items() if error.rms <= FACTOR * e.rms), PRECISIONS[-1])


NOT_FINITE = "the reference returns"
"""Begins the message of a `HopelessError` if the reference itself gives NaN or infinity."""


class HopelessError(Exception):
    """Honest arithmetic fails on these inputs, for the reason in the message."""


def follow(
    formula: Formula,
    operands: Mapping[str, Array],
    ways: Sequence[Any] = (),
    numbers: Format = SINGLE,
) -> Outputs:
    """The outputs of a formula for `TrackedArray` operands. Only floating-point operands are
    followed.
    """
    with np.errstate(all="ignore"):
        given = {
            name: TrackedArray.given(array, ways, numbers) if is_float(array.dtype.name) else array
            for name, array in operands.items()
        }
        return formula(given)


def deviations(got: Array, expected: TrackedArray) -> Array:
    """The error of each element in its deviation; infinite for NaN."""
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(expected.exact.dtype) - expected.exact)
        off: Array = np.asarray(error / expected.deviation)  # an array even for a single number
    off[np.isnan(off)] = np.inf
    return off


def error_of(off: Array) -> Error:
    """Root mean square and maximum of deviations."""
    with np.errstate(over="ignore"):
        return Error(float(np.sqrt(np.mean(np.square(off)))), float(off.max()))


def blocks(size: int) -> Iterator[slice]:
    """Slices of a flat array with this number of elements, each small enough for a processor's
    cache.
    """
    for first in range(0, size, _BLOCK):
        yield slice(first, min(first + _BLOCK, size))


def deviations_by_block(got: Array, expected: TrackedArray) -> Iterator[tuple[int, Array]]:
    """For each block in row-major order, the number of its first element and the deviations.

    Large outputs are compared in blocks, because whole arrays in float64 would take gigabytes.
    """
    flat, wanted = got.reshape(-1), expected.reshape(-1)
    for part in blocks(flat.size):
        yield part.start, deviations(flat[part], wanted[part])


def error_between(got: Array, expected: TrackedArray) -> Error:
    """The error of an output, which is infinite if an element is NaN."""
    squares, largest = 0.0, 0.0
    for _, off in deviations_by_block(got, expected):
        with np.errstate(over="ignore"):
            squares += float(np.square(off).sum())
        largest = max(largest, float(off.max()))
    return Error(float(np.sqrt(squares / got.size)), largest)


def honest_errors(
    formula: Formula,
    draw: Callable[[], Mapping[str, Array]],
    numbers: Format = SINGLE,
    *,
    only_different: bool = False,
) -> Mapping[str, HonestError]:
    """The errors of honest arithmetic for each output, on operands that `draw` returns.

    For outputs with few elements, operands are drawn several times, because the error of one draw
    may be 0 by chance. The same is done if the elements of an output have similar errors, as sums
    of the same terms have. With `only_different`, elements with equal values are used once, because
    a value that is representable with few digits has no error in any of its copies. Raises
    `HopelessError` if honest results overflow or have no correct digits.
    """
    honest, coarser = honest_ways(numbers), coarser_ways(numbers)
    ways = (*honest, *coarser)
    operands = draw()
    first = follow(formula, operands, ways, numbers)
    counted = np.unique if only_different else np.ravel
    fewest = min(counted(found.exact).size for found in first.values())
    wanted = 1 + (_FEW - 1) // fewest
    if any(_are_alike(found, len(honest)) for found in first.values()):
        size = sum(np.size(operand) for operand in operands.values())
        alike = min(_MOST_ALIKE, max(_LEAST_ALIKE, _MOST_DRAWN // max(1, size)))
        wanted = max(wanted, alike)
    more = min(wanted, _MOST_DRAWS) - 1
    draws = [first, *(follow(formula, draw(), ways, numbers) for _ in range(more))]
    names = [way.name for way in honest], [way.name for way in coarser]
    return {name: errors_of(name, [d[name] for d in draws], *names) for name in draws[0]}


def _are_alike(output: TrackedArray, honest: int) -> bool:
    """Whether the elements of an output have similar errors in an honest way, so that all of them
    show no more than one of them.
    """
    for result in output.results[:honest]:
        with np.errstate(all="ignore"):
            off = (result.astype(output.exact.dtype) - output.exact) / output.deviation
            mean, size = float(np.abs(np.mean(off))), float(np.sqrt(np.mean(np.square(off))))
        if mean > _ALIKE * size:
            return True
    return False


def errors_of(
    name: str, draws: Sequence[TrackedArray], honest: Sequence[str], coarser: Sequence[str]
) -> HonestError:
    """The errors of an output, from its honest results and its results in lower precision classes.

    The results of each draw are in the order of the names. Raises `HopelessError` if honest results
    overflow or have no correct digits.
    """
    numbers = draws[0].format
    off = [
        np.concatenate([deviations(d.results[i], d).ravel() for d in draws])
        for i in range(len(honest) + len(coarser))
    ]
    _require_digits(name, draws, honest)
    errors = {way: error_of(each) for way, each in zip((*honest, *coarser), off, strict=True)}
    worst = Error(
        max(_LEAST_RMS, *(errors[way].rms for way in honest)),
        max(_LEAST_LARGEST, *(errors[way].largest for way in honest)),
    )
    _require_differences(name, draws, FACTOR * worst.rms)
    return HonestError(worst, {way: errors[way] for way in coarser}, numbers.name)


def _require_digits(name: str, draws: Sequence[TrackedArray], honest: Sequence[str]) -> None:
    """Raise `HopelessError` unless honest results are finite and differ from one another by more
    than their errors.
    """
    exact, deviation, size, spread = _sizes(draws)
    of = draws[0].format
    if np.isnan(exact).any():
        raise HopelessError(f"{NOT_FINITE} NaN for {name}")
    if not np.isfinite(exact).all():
        raise HopelessError(f"{NOT_FINITE} infinity for {name}")
    if not np.isfinite(deviation).all():
        raise HopelessError(f"rounding errors leave no digit of {name} in {of.name}")
    for i, way in enumerate(honest):
        got = np.concatenate([d.results[i].ravel() for d in draws]).astype(of.exact)
        if not np.isfinite(got).all():
            raise HopelessError(f"{of.name} itself overflows in {name}")
        with np.errstate(over="ignore"):
            off = float(np.sqrt(np.mean((got - exact) ** 2)))
        if off > HOPELESS * size:
            share = f"{off / size:.1%}" if size else "infinite"
            message = f"the error of {of.name} itself is {share} in {name} ({way} sums)"
            raise HopelessError(message)
        if off > spread / 2 > of.unit_roundoff * size:
            raise HopelessError(
                f"the error of {of.name} itself is as large as the differences between elements of "
                f"{name} ({way} sums)"
            )


def _require_differences(name: str, draws: Sequence[TrackedArray], allowed: float) -> None:
    """Raise `HopelessError` unless the allowed error is less than the differences between elements,
    or all elements are equal.
    """
    _, deviation, size, spread = _sizes(draws)
    of = draws[0].format
    if allowed * float(np.median(deviation)) > spread / 2 > of.unit_roundoff * size:
        raise HopelessError(
            f"the allowed error of {of.name} is as large as the differences between elements of "
            f"{name}"
        )


def _sizes(draws: Sequence[TrackedArray]) -> tuple[Array, Array, float, float]:
    """The root mean square and the spread of the exact elements over all draws, and their
    deviations.
    """
    exact = np.concatenate([d.exact.ravel() for d in draws])
    deviation = np.concatenate([np.ravel(d.deviation) for d in draws])
    with np.errstate(all="ignore"):
        return exact, deviation, float(np.sqrt(np.mean(exact**2))), float(np.std(exact))
