"""What is the same in all iterations of a vectorised loop is computed before it."""

from __future__ import annotations

import numpy as np
import pytest
from test_loop_rewrites import outputs

from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Declare, Element, Number, expressions, loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.steps import Step
from tilewright.proposers.loops.rewrites.invariants import moved_out
from tilewright.proposers.loops.rewrites.vectorise import vectorise

HEAD = "void kernel(const float X[6][16], const float M[16], float Y[6][16], float Z[16])"
MOVED = {
    "Y[r][c] = X[r][c] - M[r];": "float same_1 = M[r];",
    "Y[r][c] = (X[r][c] - M[r]) / sqrtf(M[1] * M[1] + 1.0f);":
        "float same_1 = M[r]; float same_2 = sqrtf(M[1] * M[1] + 1.0f);",
    "float v = X[r][c] * M[2]; Y[r][c] = v + M[2];": "float same_1 = M[2];",
    "Y[r][c] = M[3] > 0.5f ? X[r][c] : M[c];": "float same_1 = M[3];",
}  # fmt: skip
STAYS = [
    "Y[r][c] = X[r][c] + M[c];",  # it changes
    "Y[r][c] = r < 16 && M[r] > 0.0f ? X[r][c] : M[c];",  # it may not be computed
    "Y[r][c] = X[r][c] * (float)r;",
    "float s = 0.0f; for (int k = 0; k < 6; k++) s = s + M[k] * X[k][c]; Y[r][c] = s;",
    "Y[r][c] = r > 2 ? X[r][c] * M[r - 3] : X[r][c];",
]


def around(body: str) -> str:
    return f"{HEAD} {{ for (int r = 0; r < 6; r++) for (int c = 0; c < 16; c++) {{ {body} }} }}"


@pytest.mark.parametrize("body", [*MOVED, *STAYS])
def test_only_what_is_the_same_and_always_computed_is_moved(body: str) -> None:
    start = parse(around(body))
    after = vectorise(start, 1, 4)
    text = " ".join(emit(after).split())
    assert MOVED.get(body, "") in text
    assert ("same_1" in text) == (body in MOVED)
    assert parse(emit(after)) == after
    for array, expected in outputs(start, 3).items():
        np.testing.assert_allclose(outputs(after, 3)[array], expected, rtol=1e-12)


def test_what_the_loop_writes_stays() -> None:
    loop = loops(parse(around("Y[r][c] = Y[0][0] + M[0]; Z[c] = Y[0][0];")))[1]
    before, after = moved_out(loop, lambda _: True, set())
    assert before == [Declare("float", "same_1", (), Element("M", (Number("0"),)))]
    assert Element("Y", (Number("0"), Number("0"))) in expressions(after.body)


def test_a_divisor_that_was_moved_becomes_a_reciprocal() -> None:
    after = vectorise(parse(around("Y[r][c] = X[r][c] / sqrtf(M[r] * M[r] + 1.0f);")), 1, 4)
    assert "* over_1" in emit(Step("reciprocal", 1).apply(after))
