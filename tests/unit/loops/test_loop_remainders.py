"""Iterations that remain after the last whole vector: run again with others, where they may."""

from __future__ import annotations

import numpy as np
import pytest
from test_loop_rewrites import outputs

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.rewrites.vectorise import vectorise

HEAD = "void kernel(const float X[11], float Y[11], float Z[11])"
TWICE = {
    "copied": "for (int i = 0; i < 11; i++) Y[i] = X[i] * 2.0f;",
    "largest": "float m = X[0]; for (int i = 1; i < 11; i++) m = X[i] > m ? X[i] : m; Y[0] = m;",
}
ONCE = {
    "in_place": "for (int i = 0; i < 11; i++) Y[i] = Y[i] * 2.0f + 1.0f;",
    "exchanged": "for (int i = 0; i < 11; i++) { float t = Y[i]; Y[i] = Z[i]; Z[i] = t; }",
    "summed": "float s = 0.0f; for (int i = 0; i < 11; i++) s += X[i]; Y[0] = s;",
    "running": "float s = 0.0f; for (int i = 0; i < 11; i++) { s += X[i]; Y[i] = s; }",
}


@pytest.mark.parametrize("name", [*TWICE, *ONCE])
def test_the_last_vector_begins_earlier_where_iterations_may_run_twice(name: str) -> None:
    start = parse(f"{HEAD} {{ {(TWICE | ONCE)[name]} }}")
    kernel = vectorise(start, 0, 4)
    last = loops(kernel)[-1]
    assert (last.step == 4) == (name in TWICE)
    if name in TWICE:
        assert (last.first, last.last) == (7, 11)
    assert parse(emit(kernel)) == kernel
    for array, expected in outputs(start, 4).items():
        np.testing.assert_allclose(outputs(kernel, 4)[array], expected, rtol=1e-12)


BACKWARDS = {
    "copied": "for (int i = 10; i >= 0; i--) Y[i] = X[i] * 2.0f;",
    "in_place": "for (int i = 10; i >= 0; i--) Y[i] = Y[i] * X[i];",
    "summed": "float s = 0.0f; for (int i = 10; i >= 0; i--) s += X[i] * Z[i]; Y[0] = s;",
    "begins_later": "for (int i = 9; i >= 2; i--) { float t = X[i + 1]; Y[i] = t; Z[i - 1] = t; }",
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_a_loop_from_the_last_element_to_the_first_is_turned_round(name: str) -> None:
    start = parse(f"{HEAD} {{ {BACKWARDS[name]} }}")
    kernel = vectorise(start, 0, 4)
    for array, expected in outputs(start, 4).items():
        np.testing.assert_allclose(outputs(kernel, 4)[array], expected, rtol=1e-12)


@pytest.mark.parametrize(
    "loop",
    [
        "for (int i = 10; i >= 0; i--) Y[i] = X[10 - i];",
        "for (int i = 9; i >= 0; i--) Y[i] = Y[i + 1] * X[i];",
        "float s = 0.0f; for (int i = 10; i >= 0; i--) { s += X[i]; Y[i] = s; }",
    ],
)
def test_a_loop_that_cannot_be_turned_round_is_not_vectorised(loop: str) -> None:
    with pytest.raises(NotApplicableError):
        vectorise(parse(f"{HEAD} {{ {loop} }}"), 0, 4)
