"""Conditional exchanges are written as minima and maxima of the same values."""

from __future__ import annotations

import numpy as np
import pytest
from loop_interpreter import Interpreter

from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel, Select, Var, expressions
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.rewrites.exchanges import with_extremes

HEAD = "void kernel(const float X[16], float Y[16], float Z[16])"


def around(body: str) -> Kernel:
    return parse(f"{HEAD} {{ for (int i = 0; i < 16; i++) {{ {body} }} }}")


def left(kernel: Kernel) -> int:
    """Number of choices by a variable."""
    found = expressions(kernel.body)
    return sum(isinstance(e, Select) and isinstance(e.condition, Var) for e in found)


EXCHANGE = "if (a > b) { float t = a; a = b; b = t; }"
HERE = "float a = X[i]; float b = Y[i]; float c = Z[i]; {} Y[i] = a; Z[i] = b + c;"


def results(kernel: Kernel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    arrays = {n: rng.integers(-2, 3, 16).astype(np.float64) for n in "XYZ"}
    arrays["X"][3] = arrays["Y"][5] = np.nan
    Interpreter(kernel, arrays).run()
    return arrays


@pytest.mark.parametrize(
    ("body", "choices"),
    [
        (EXCHANGE, 0),
        (f"{EXCHANGE} if (b > c) {{ float s = b; b = c; c = s; }} {EXCHANGE}", 0),
        ("if (a < b) { float t = b; b = a; a = t; }", 0),
        ("int h = a > b; float t = a; a = h ? b : a; a = a + 1.0f; b = h ? t : b;", 0),
        ("int h = a > b; float t = a; a = h ? b : a; t = 0.0f; b = h ? t : b;", 1),
        ("int h = a > b; a = h ? b : a; b = h ? c : b;", 1),
        ("int h = a > b; a = a + 1.0f; a = h ? b : a;", 1),
        ("int h = a > b; float t = h ? a : 0; a = h ? b : a; b = h ? t : b; c = t;", 2),
        ("int h = a > b; float t = h ? c : 0; a = h ? b : a; b = h ? t : b;", 2),
        ("int h = a > b; float t = h ? a : 0; h = i > 3; c = h ? t : c;", 2),
        ("int h = a > b; for (int k = 0; k < 2; k++) a = a + 1.0f; a = h ? b : a;", 1),
    ],
)
def test_a_choice_between_the_values_of_its_comparison_is_an_extreme(
    body: str, choices: int
) -> None:
    start = around(HERE.format(body))
    after = with_extremes(start, 0)
    assert left(after) == choices
    assert parse(emit(after)) == after
    for array, expected in results(start).items():
        np.testing.assert_array_equal(results(after)[array], expected)


def test_elements_of_arrays_are_exchanged() -> None:
    body = "float v = X[i]; if (v > Y[i]) { float t = Y[i]; Y[i] = v; v = t; } Z[i] = v;"
    after = with_extremes(around(body), 0)
    assert left(after) == 0
    assert "holds" not in emit(after)


def test_a_loop_without_exchanges_stays_the_same_object() -> None:
    start = around("Y[i] = X[i] > 0.0f ? X[i] : 0.0f;")
    assert with_extremes(start, 0) is start
