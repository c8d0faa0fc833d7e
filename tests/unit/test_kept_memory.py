"""Memory of large arrays is used again, but not while an array refers to it."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.parts.memory import KeptMemory


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("is_viewed", [False, True])
def test_memory_is_used_again_when_its_array_is_gone(is_viewed: bool) -> None:
    memory = KeptMemory()
    first = memory.empty((30, 50), np.float32)
    first[...] = 1
    place, view = address(first), first.T[10:] if is_viewed else None
    del first
    second = memory.empty((50, 30), np.float32)
    second[...] = 2
    assert (address(second) == place) is (view is None)
    assert view is None or (view == 1).all()


def test_arrays_of_other_sizes_have_their_own_memory() -> None:
    memory = KeptMemory()
    place = address(memory.empty((30,), np.float32))
    assert memory.empty((31,), np.float32).shape == (31,)
    assert address(memory.empty((15,), np.float64)) == place
