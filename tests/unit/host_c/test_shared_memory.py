"""Where a native kernel's arrays lie from call to call."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tilewright.core.records import Argument
from tilewright.native.shared_memory import ALIGNMENT, SLOTS, SharedArrays

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no memory to seal")

ARGUMENTS = (
    Argument("A", (10, 10), "float32", "input"),
    Argument("B", (7,), "float32", "inout"),
    Argument("C", (3,), "int8", "output"),
)
VALUES = {a.name: np.ones(a.shape, a.dtype) for a in ARGUMENTS}


def shifts(seed: int, calls: int) -> list[tuple[int, ...]]:
    with SharedArrays(ARGUMENTS, np.random.default_rng(seed)) as arrays:
        found = []
        for _ in range(calls):
            arrays.place(VALUES)
            found.append(tuple(place.shift for place in arrays.places))
        return found


def ends() -> tuple[int, ...]:
    """The last aligned place of each array in its pages."""
    with SharedArrays(ARGUMENTS, np.random.default_rng(0)) as arrays:
        return tuple(
            body - -(-size // ALIGNMENT) * ALIGNMENT
            for body, size in zip(arrays.bodies, arrays.bytes, strict=True)
        )


def test_in_two_calls_every_array_lies_at_both_ends_of_its_pages() -> None:
    for seed in range(20):
        first, second = shifts(seed, 2)
        for i, last in enumerate(ends()):
            assert {first[i], second[i]} == {0, last}


def test_which_end_comes_first_is_drawn_for_each_array() -> None:
    orders = {tuple(shift == 0 for shift in shifts(seed, 1)[0]) for seed in range(100)}
    assert len(orders) == 2 ** len(ARGUMENTS)


def test_later_calls_draw_ends_and_places_between_anew() -> None:
    later = shifts(1, 200)[2:]
    for i, last in enumerate(ends()):
        seen = [places[i] for places in later]
        assert {0, last} < set(seen)
        assert len(set(seen)) > 20
        assert all(shift % ALIGNMENT == 0 and 0 <= shift <= last for shift in seen)


def test_which_pages_an_array_lies_in_is_drawn_for_each_call() -> None:
    with SharedArrays(ARGUMENTS, np.random.default_rng(0)) as arrays:
        seen = set()
        for _ in range(100):
            arrays.place(VALUES)
            seen.add(tuple(place.slot for place in arrays.places))
    assert len(seen) == SLOTS ** len(ARGUMENTS)


def test_a_call_may_have_its_arrays_where_the_last_one_had_them() -> None:
    with SharedArrays(ARGUMENTS, np.random.default_rng(3)) as arrays:
        for _ in range(20):
            arrays.place(VALUES)
            places = list(arrays.places)
            other = {name: 2 * value for name, value in VALUES.items()}
            arrays.place(other, as_before=True)
            assert arrays.places == places
            assert arrays.outputs_now() == {name: other[name].tobytes() for name in "BC"}
            assert arrays.written_beside() is None
