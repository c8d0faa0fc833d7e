"""Loops in kernels and what runs after them."""

from __future__ import annotations

import numpy as np
from nki_world import Kernel, numbers

X = numbers(4, 8)


def test_else_after_a_loop_runs_unless_the_loop_was_left() -> None:
    body = """
        found = []
        for j in (0, 1, 2):
            if j == 5:
                break
        else:
            found.append(1)
        for j in (0, 1, 2):
            if j == 1:
                break
        else:
            found.append(2)
        left = 2
        while left:
            left -= 1
        else:
            found.append(4)
        while True:
            break
        else:
            found.append(8)
        for j in nl.affine_range(2):
            k = j
        else:
            found.append(16)
        nl.store(out, nl.load(x) * float(sum(found)))
    """
    np.testing.assert_array_equal(Kernel(body, x=X).run(), X * np.float32(21))
