"""Elements that a loop keeps in variables for its next iterations are read again."""

from __future__ import annotations

import numpy as np
import pytest
from test_loop_rewrites import outputs

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.rewrites.roll import roll
from tilewright.proposers.loops.rewrites.vectorise import vectorise

HEAD = "void kernel(const float X[24], const float A[4][26], float Y[24], float Z[4][24])"
START = "float a = X[0], b = X[1];"
BODY = "float c = X[i + 2]; Y[i] = a + 2.0f * b + c; a = b; b = c;"
KEPT = {
    "three": (0, f"{START} for (int i = 0; i < 22; i++) {{ {BODY} }}"),
    "used_after": (0, f"{START} for (int i = 0; i < 17; i++) {{ {BODY} }} Y[23] = a - b;"),
    "without_a_name": (
        0,
        "float a = X[2]; for (int i = 3; i < 20; i++) { Y[i] = X[i] - a; a = X[i]; }",
    ),
    "in_rows": (
        1,
        "for (int r = 0; r < 4; r++) { float a = A[r][0], b = A[r][1]; for (int i = 0; i < 24; "
        "i++) { float c = A[r][i + 2]; Z[r][i] = a * b + c; a = b; b = c; } }",
    ),
    "in_a_loop_inside": (
        0,
        "float a = X[0]; for (int i = 1; i < 20; i++) { float s = 0.0f; for (int k = 0; k < 3; "
        "k++) s += a * A[k][i]; Y[i] = s; a = X[i]; }",
    ),
}
OTHER_VALUES_BEFORE = [
    (0, f"float a = X[1], b = X[1]; for (int i = 0; i < 22; i++) {{ {BODY} }}"),
    (0, f"float a = 0.0f, b = X[1]; for (int i = 0; i < 22; i++) {{ {BODY} }}"),
    (0, f"float a = X[0], b = X[1]; b = X[2]; for (int i = 0; i < 22; i++) {{ {BODY} }}"),
    (0, "float a = 0.0f; for (int i = 1; i < 20; i++) { Y[i] = X[i] - a; a = X[i]; } Y[0] = a;"),
    (
        1,
        "float a = X[0]; for (int r = 0; r < 4; r++) for (int i = 1; i < 22; i++) { Z[r][i] = a; "
        "a = X[i]; }",
    ),
]
NOT_KEPT = [
    "float a = 0.0f; for (int i = 1; i < 2; i++) { Y[i] = X[i] - a; a = X[i]; }",
    f"float a = X[0]; int b = (int)X[1]; for (int i = 0; i < 22; i++) {{ {BODY} }}",
    "double a = X[0]; for (int i = 1; i < 22; i++) { Y[i] = X[i] - a * 0.1; a = X[i]; }",
    "float a = X[0]; for (int i = 1; i < 22; i++) { int c = X[i]; Y[i] = a; a = c; }",
    "float a = X[0]; for (int i = 1; i < 22; i++) { Y[i] = a; a = X[i]; Y[i] += a; }",
    "float a = X[0]; for (int i = 1; i < 22; i++) { float c = X[i]; c = 2.0f; Y[i] = a; a = c; }",
    "float a = Y[0]; for (int i = 1; i < 22; i++) { float c = Y[i]; Y[i] = a + c; a = c; }",
    "float a = X[0]; for (int i = 1; i < 22; i++) { Y[i] = a; if (Y[i] > 0.0f) a = X[i]; }",
    "float a = X[0]; for (int i = 2; i < 22; i += 2) { Y[i] = a; a = X[i]; }",
]


@pytest.mark.parametrize("name", KEPT)
def test_kept_elements_are_read_again(name: str) -> None:
    number, text = KEPT[name]
    start = parse(f"{HEAD} {{ {text} }}")
    kernel = roll(start, number)
    assert parse(emit(kernel)) == kernel
    assert ("a = X[17" in emit(kernel)) == (name == "used_after")
    vectors = vectorise(kernel, number, 4)
    for array, expected in outputs(start, 4).items():
        np.testing.assert_allclose(outputs(kernel, 4)[array], expected, rtol=1e-12)
        np.testing.assert_allclose(outputs(vectors, 4)[array], expected, rtol=1e-12)


@pytest.mark.parametrize("text", NOT_KEPT)
def test_what_is_not_an_element_of_an_earlier_iteration_stays(text: str) -> None:
    kernel = parse(f"{HEAD} {{ {text} }}")
    for number in range(len(loops(kernel))):
        with pytest.raises(NotApplicableError):
            roll(kernel, number)


@pytest.mark.parametrize(("number", "text"), OTHER_VALUES_BEFORE)
def test_the_first_iterations_read_what_the_variables_held_before(number: int, text: str) -> None:
    start = parse(f"{HEAD} {{ {text} }}")
    kernel = roll(start, number)
    assert parse(emit(kernel)) == kernel
    vectors = vectorise(kernel, number + 1, 4)
    for array, expected in outputs(start, 4).items():
        np.testing.assert_allclose(outputs(kernel, 4)[array], expected, rtol=1e-12)
        np.testing.assert_allclose(outputs(vectors, 4)[array], expected, rtol=1e-12)


def test_whole_numbers_are_read_again_too() -> None:
    source = (
        "void kernel(const int16_t X[24], int16_t Y[24]) { int16_t a = 0, b = 0; "
        "for (int i = 0; i < 24; i++) { int16_t c = X[i]; Y[i] = a + 2 * b + c; a = b; b = c; } }"
    )
    kernel = roll(parse(source), 0)
    assert "Y[i] = X[i - 2] + 2 * X[i - 1] + c;" in emit(kernel)
    np.testing.assert_array_equal(outputs(kernel, 2)["Y"], outputs(parse(source), 2)["Y"])
    other = source.replace("int16_t a", "int32_t a")
    with pytest.raises(NotApplicableError):
        roll(parse(other), 0)
