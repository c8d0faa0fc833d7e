"""Memory of large arrays is used again, but not while an array refers to it."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.parts.memory import KeptMemory, to_transpose


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


def test_rows_to_transpose_do_not_begin_at_multiples_of_a_large_power_of_two() -> None:
    matrix = np.arange(3 * 512, dtype=np.float32).reshape(3, 512)
    found = to_transpose(matrix)
    assert np.array_equal(found, matrix)
    assert found.strides[0] % 128
    assert not np.shares_memory(found, matrix)
