"""Vectors are stored at multiples of their size where an additional vector makes this possible."""

from __future__ import annotations

import numpy as np
import pytest
from test_loop_rewrites import outputs

from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.rewrites.alignment import iterations_to_aligned
from tilewright.proposers.loops.rewrites.vectorise import vectorise

HEAD = "void kernel(const float X[4][64], float Y[4][64], float *F, float R[4][63], float Z[64])"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for (int x = 1; x < 63; x++) Y[2][x] = X[2][x - 1];", 3),
        ("for (int x = 0; x < 62; x++) Y[2][x + 2] = X[2][x];", 2),
        ("for (int x = 1; x < 63; x++) { Y[2][x] = X[2][x]; Z[x + 4] = X[1][x]; }", 3),
        ("for (int i = 0; i < 4; i++) for (int x = 3; x < 63; x++) F[i * 64 + x] = X[i][x];", 1),
        # aligned already, not aligned together, at places that are not known, or too short
        ("for (int x = 4; x < 63; x++) Y[2][x] = X[2][x - 1];", 0),
        ("for (int x = 1; x < 63; x++) { Y[2][x] = X[2][x]; Z[x + 1] = X[1][x]; }", 0),
        ("for (int i = 0; i < 4; i++) for (int x = 3; x < 61; x++) F[i * 63 + x] = X[i][x];", 0),
        ("for (int x = 1; x < 60; x++) R[2][x] = X[2][x];", 0),
        ("for (int x = 1; x < 16; x++) Y[2][x] = X[2][x];", 0),
        ("for (int x = 1; x < 32; x++) Y[2][2 * x] = X[2][x];", 0),
    ],
)
def test_the_iterations_before_the_first_aligned_vector_are_found(body: str, expected: int) -> None:
    kernel = parse(f"{HEAD} {{ {body} }}")
    assert iterations_to_aligned(loops(kernel)[-1], kernel, 4) == expected


def test_an_additional_vector_comes_before_the_aligned_ones() -> None:
    body = "for (int x = 1; x < 63; x++) Y[2][x] = X[2][x - 1] + X[2][x + 1];"
    start = parse(f"void kernel(const float X[4][64], float Y[4][64]) {{ {body} }}")
    kernel = vectorise(start, 0, 4)
    ranges = [(loop.first, loop.last, loop.step) for loop in loops(kernel)]
    assert ranges == [(1, 5, 4), (4, 60, 4), (59, 63, 4)]
    assert parse(emit(kernel)) == kernel
    np.testing.assert_array_equal(outputs(kernel, 1)["Y"], outputs(start, 1)["Y"])


def test_iterations_that_may_not_run_twice_begin_as_they_are() -> None:
    body = "for (int x = 1; x < 63; x++) Y[2][x] = Y[2][x] + X[2][x];"
    kernel = parse(f"void kernel(const float X[4][64], float Y[4][64]) {{ {body} }}")
    ranges = [(loop.first, loop.last, loop.step) for loop in loops(vectorise(kernel, 0, 4))]
    assert ranges == [(1, 61, 4), (61, 63, 1)]
