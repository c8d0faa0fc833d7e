"""The elements of an output that differ from the expected values, and a sentence about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.records import Argument, Tolerance
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.float_error import (
    blocks,
)
from tilewright.parts.inputs import Array
from tilewright.parts.memory import to_transpose
from tilewright.parts.problem import (
    Expected,
)

MOST_EXTREMES = 64
"""Maximum number of elements beyond the limit that are compared with their own honest results. If
there are more, the outputs are wrong.
"""


@dataclass(frozen=True)
class Differing:
    """How many elements of an output differ, and the row-major indices of the first ones."""

    count: int
    places: Array

    @classmethod
    def of(cls, wrong: Iterable[tuple[int, NDArray[np.bool_]]]) -> Differing:
        """From blocks of the output, each with the number of its first element."""
        count, places = 0, [np.zeros(0, np.intp)]
        for first, block in wrong:
            found = np.flatnonzero(block)
            if count < MOST_EXTREMES:
                places.append(first + found[:MOST_EXTREMES])
            count += found.size
        return cls(count, np.concatenate(places)[:MOST_EXTREMES])

    def first_of(self, expected: TrackedArray) -> tuple[Any, Any]:
        """The exact value and the deviation of the first element that differs."""
        first = int(self.places[0])
        found = expected.reshape(-1)[first : first + 1]
        return found.exact[0], found.deviation[0]


def exact_values(expected: Expected) -> Array:
    """The expected values without the deviations that belong to them."""
    return expected.exact if isinstance(expected, TrackedArray) else expected


def difference(
    argument: Argument, got: Array, expected: Expected, tolerance: Tolerance
) -> str | None:
    """A sentence about the elements whose error is larger than `tolerance`, or None."""
    wanted = exact_values(expected)

    def wrong(found: Array, exact: Array) -> Array:
        values, allowed = allowed_errors(exact, tolerance)
        return found != values if allowed is None else beyond(found, values, allowed)

    differing = Differing.of((first, wrong(*pair)) for first, *pair in _blocks(got, wanted))
    if not differing.count:
        return None
    place = np.unravel_index(int(differing.places[0]), got.shape)
    value, allowed = allowed_errors(wanted[place], tolerance)
    return sentence(argument, got, value, differing, allowed)


def _blocks(got: Array, wanted: Array) -> Iterator[tuple[int, Array, Array]]:
    """The number of the first element of each block, and its elements in both arrays.

    If the wanted elements are in another order in memory, as in a transposed view, only one block
    of them is copied at a time.
    """
    if wanted.ndim > 1 and not wanted.flags.c_contiguous:
        for i, row in enumerate(wanted):
            is_turned = row.ndim == 2 and row.T.flags.c_contiguous
            ordered = to_transpose(row.T).T if is_turned else row
            yield i * row.size, got[i].reshape(-1), ordered.reshape(-1)
        return
    flat, exact = got.reshape(-1), wanted.reshape(-1)
    for part in blocks(flat.size):
        yield part.start, flat[part], exact[part]


def sentence(
    argument: Argument, got: Array, wanted: Any, differing: Differing, allowed: Any
) -> str:
    """How many elements differ, with the first one, its expected value and its allowed error."""
    first = int(differing.places[0])
    index = "".join(f"[{i}]" for i in np.unravel_index(first, got.shape))
    room = "" if allowed is None else f" within {allowed:.3g}"
    return (
        f"{differing.count} of {got.size} elements of {argument.name} differ, first at "
        f"{argument.name}{index}: got {got.reshape(-1)[first]}, expected {wanted}{room}"
    )


def allowed_errors(expected: Expected, tolerance: Tolerance) -> tuple[Array, Array | None]:
    """The expected values with their allowed errors, or with None if they must be exact."""
    values = exact_values(expected)
    if tolerance == Tolerance():
        return values, None
    exact = values.astype(np.float64)
    return exact, tolerance.absolute + tolerance.relative * np.abs(exact)


def beyond(got: Array, exact: Array, allowed: Array) -> Array:
    """A mask of the elements with |got - exact| > allowed. NaN is always wrong. Infinity is correct
    if the exact value is infinite, or too large for the type of `got`, with the same sign.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(got.astype(np.float64) - exact) <= allowed
        stored = exact if got.dtype.kind in "iu" else exact.astype(got.dtype).astype(np.float64)
        right: Array = (np.isfinite(exact) & close) | (np.isinf(stored) & (got == stored))
    return ~right
