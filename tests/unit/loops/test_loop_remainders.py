"""Iterations that remain after the last whole vector: run again with others, where they may."""

from __future__ import annotations

import numpy as np
import pytest
from test_loop_rewrites import outputs

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
