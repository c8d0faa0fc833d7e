"""Which loops touch no element in two iterations: flat subscripts, halves of rows, strides."""

from __future__ import annotations

import itertools

import pytest

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.analysis.independence import require_independent
from tilewright.proposers.loops.ir import loops
from tilewright.proposers.loops.parsing.kernel import parse

HEAD = "void kernel(const float *x, float *y)"


def is_independent(body: str) -> bool:
    kernel = parse(f"{HEAD} {{ {body} }}")
    try:
        require_independent(loops(kernel)[0], kernel)
    except NotApplicableError:
        return False
    return True


@pytest.mark.parametrize(
    "body",
    [
        # Transposed: what the loop inside moves are multiples of a row.
        "for (int i = 0; i < 32; i++) for (int j = 0; j < 9; j++) y[j * 32 + i] = x[i * 9 + j];",
        # Rows in the other order.
        "for (int i = 0; i < 32; i++) for (int j = 0; j < 9; j++) "
        "y[(8 - j) * 32 + i] += y[j * 32 + i];",
        # The two halves of a row.
        "for (int i = 0; i < 8; i++) { y[i] = x[i]; y[i + 8] = x[i]; }",
        "for (int i = 0; i < 8; i++) { y[2 * i] = x[i]; y[2 * i + 1] = x[i + 8]; }",
        "for (int i = 0; i < 8; i++) { y[2 * i] = x[i]; y[2 * i + 17] = x[i + 8]; }",
    ],
)
def test_loops_whose_iterations_never_meet(body: str) -> None:
    assert is_independent(body)


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 33; i++) for (int j = 0; j < 9; j++) y[j * 32 + i] = x[i * 9 + j];",
        "for (int i = 0; i < 31; i++) for (int j = 0; j < 9; j++) "
        "y[(8 - j) * 32 + i] += y[j * 32 + i + 1];",
        "for (int i = 0; i < 9; i++) { y[i] = x[i]; y[i + 8] = x[i]; }",
        "for (int i = 0; i < 9; i++) { y[i + 8] = x[i]; y[i] = x[i]; }",
        "for (int i = 0; i < 8; i++) { y[2 * i] = x[i]; y[2 * i + 2] = x[i + 8]; }",
        "for (int i = 0; i < 8; i++) for (int j = 0; j < 3; j++) y[2 * i + j] = x[i];",
        "for (int i = 0; i < 32; i++) for (int j = 0; j < 9; j++) for (int k = 0; k < 2; k++) "
        "y[j * 32 + i + k] = x[i];",
    ],
)
def test_loops_whose_iterations_may_meet(body: str) -> None:
    assert not is_independent(body)


@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("stride", [0, 1, 4, 6])
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_what_is_called_independent_never_meets(factor: int, stride: int, offset: int) -> None:
    """All elements of all iterations, beside the answer."""
    trips, inner = 5, 3
    body = (
        f"for (int i = 0; i < {trips}; i++) for (int j = 0; j < {inner}; j++) {{ "
        f"y[{factor} * i + {stride} * j] = x[i]; y[{factor} * i + {offset}] = x[j]; }}"
    )
    touched = [
        {factor * i + stride * j for j in range(inner)} | {factor * i + offset}
        for i in range(trips)
    ]
    meets = any(a & b for a, b in itertools.combinations(touched, 2))
    assert not (is_independent(body) and meets)
