"""Updates of variables that go through copies, as functions on structures are read."""

from __future__ import annotations

import numpy as np
import pytest
from test_loop_rewrites import outputs

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.rewrites.roll import roll

COMPLEX = (
    "typedef struct { float re, im; } pair; "
    "static pair plus(pair a, pair b) "
    "{ pair c; c.re = a.re + b.re; c.im = a.im - b.im; return c; } "
    "void kernel(const pair *x, float *y) { pair s = { 0.0f, 0.0f }; "
    "for (int i = 0; i < 64; i++) s = plus(s, x[i]); y[0] = s.re; y[1] = s.im; }"
)


def in_a_loop(body: str) -> str:
    return (
        "void kernel(const float X[8], float Y[8]) { float s = 0.0f; "
        f"for (int i = 0; i < 8; i++) {{ {body} }} Y[0] = s; }}"
    )


def rolled(kernel: Kernel) -> Kernel:
    try:
        return roll(kernel, 0)
    except NotApplicableError:
        return kernel


def test_functions_on_structures_update_variables_at_once() -> None:
    text = emit(rolled(parse(COMPLEX)))
    assert "s_re = s_re + b_re;" in text
    assert "s_im = s_im - b_im;" in text
    assert "c_re" not in text


@pytest.mark.parametrize(
    ("body", "update"),
    [
        ("float a = s; s = a * 2.0f + X[i];", "s = s * 2.0f + X[i];"),
        ("float t = s + X[i]; s = t;", "s = s + X[i];"),
        ("float t; t = s + X[i]; s = t;", "s = s + X[i];"),
        ("float a = s; Y[i] = a; s = X[i];", "Y[i] = s;"),
    ],
)
def test_copies_of_what_is_updated_later_are_left_out(body: str, update: str) -> None:
    start = parse(in_a_loop(body))
    kernel = rolled(start)
    text = emit(kernel)
    assert update in text
    assert parse(text) == kernel
    assert text.count("float ") == 3
    np.testing.assert_array_equal(outputs(kernel, 1)["Y"], outputs(start, 1)["Y"])


@pytest.mark.parametrize(
    "body",
    [
        "float old = s; s = s + X[i]; Y[i] = old;",
        "float old = s; for (int k = 0; k < 3; k++) s = s + old;",
        "float old = s; old = old + X[i]; s = s + old;",
        "double old = s; s = old * 3.0 + X[i];",
        "float t = s + Y[i]; Y[i] = 1.0f; s = t;",
        "float f = X[i], t = s * f; f = 1.0f; s = t + f;",
        "float f = X[i], t = s * f; f = 1.0f; s = t; s = s + f;",
        "float t = s + X[i]; Y[i] = t; s = t;",
        "double t = s + X[i]; s = t;",
        "float t; for (int k = 0; k < 2; k++) t = X[k]; float u = t; s = s + u * u;",
    ],
)
def test_copies_that_keep_another_value_stay(body: str) -> None:
    start = parse(in_a_loop(body))
    assert rolled(start) == start
