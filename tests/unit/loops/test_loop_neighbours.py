"""Loops over vectors load each of several overlapping vectors once."""

from __future__ import annotations

import numpy as np
import pytest
from test_loop_rewrites import outputs

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.compiled_time import compiled_time
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel, loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.rewrites.neighbours import neighbours
from tilewright.proposers.loops.rewrites.unroll_and_jam import jam
from tilewright.proposers.loops.rewrites.vectorise import vectorise

HEAD = (
    "void kernel(const float X[6][32], float Y[6][32], const float *F, float Z[192], "
    "float W[6][33])"
)
LAPLACE = (
    "for (int y = 1; y < 5; y++) for (int x = 4; x < 28; x++) "
    "Y[y][x] = X[y][x - 1] + X[y][x + 1] + X[y - 1][x] + X[y + 1][x] - 4.0f * X[y][x];"
)


def kernel_of(body: str) -> Kernel:
    return parse(f"{HEAD} {{ {body} }}")


def require_same(start: Kernel, kernel: Kernel) -> None:
    assert parse(emit(kernel)) == kernel
    one, other = outputs(start, 1), outputs(kernel, 1)
    for name in ("Y", "Z", "W"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-12)


def test_a_stencil_loads_each_vector_of_a_row_once() -> None:
    start = kernel_of(LAPLACE)
    kernel = neighbours(vectorise(start, 1, 4), 1)
    require_same(start, kernel)
    text = emit(kernel)
    assert text[text.index("  for (int y") :] == (
        "  for (int y = 1; y < 5; y++) {\n"
        "    vf X_1 = *(const vf *)&X[y][0];\n"
        "    vf X_2 = *(const vf *)&X[y][4];\n"
        "    for (int x = 4; x < 28; x += 4) {\n"
        "      vf X_3 = *(const vf *)&X[y][x + 4];\n"
        "      *(vf *)&Y[y][x] = v_across(X_1, X_2, 3) + v_across(X_2, X_3, 1)"
        " + *(const vf *)&X[y - 1][x] + *(const vf *)&X[y + 1][x] - 4.0f * X_2;\n"
        "      X_1 = X_2;\n"
        "      X_2 = X_3;\n"
        "    }\n"
        "  }\n"
        "}\n"
    )


SHAPES = {
    "no aligned load": "for (int x = 1; x < 25; x++) W[2][x] = X[2][x] + X[2][x + 2];",
    "only aligned loads": "for (int x = 0; x < 24; x++) Y[2][x] = X[2][x] + X[2][x + 4];",
    "far to the left": "for (int x = 8; x < 24; x++) "
    "Y[2][x] = X[2][x - 7] + X[2][x - 4] + X[2][x];",
    "two parts of a row": "for (int x = 0; x < 12; x++) "
    "Y[2][x] = X[2][x] + X[2][x + 1] + X[2][x + 15] + X[2][x + 17];",
    "a flattened array": "for (int i = 1; i < 5; i++) for (int x = 4; x < 28; x++) "
    "Z[i * 32 + x] = F[i * 32 + x - 1] + F[i * 32 + x] * F[i * 32 + x + 33];",
    "short loops inside": "for (int x = 4; x < 28; x++) { float s = 0.0f; "
    "for (int k = -1; k < 2; k++) for (int j = 0; j < 3; j++) { float t = X[2 + k][x + j - 1]; "
    "s = s + t; } Y[2][x] = s; }",
    "under a condition": "for (int x = 4; x < 28; x++) "
    "Y[2][x] = X[2][x] < 0.5f ? X[2][x - 1] : X[2][x + 1];",
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_results_stay_the_same(name: str) -> None:
    head = HEAD.replace("*F", "F[192]")
    start = parse(f"{head} {{ {SHAPES[name]} }}")
    outer = 1 if name == "a flattened array" else 0
    kernel = neighbours(vectorise(start, outer, 4), outer)
    require_same(start, kernel)
    assert emit(kernel).count("vf X_") + emit(kernel).count("vf F_") >= 2


def test_iterations_whose_last_vector_would_leave_the_row_stay_as_they_are() -> None:
    start = kernel_of("for (int x = 1; x < 29; x++) W[2][x] = X[2][x] - X[2][x + 2];")
    kernel = neighbours(vectorise(start, 0, 4), 0)
    require_same(start, kernel)
    ranges = [(loop.first, loop.last, loop.step) for loop in loops(kernel)]
    assert ranges == [(1, 25, 4), (25, 29, 4)]


@pytest.mark.parametrize(
    "body",
    [
        "Y[2][x] = X[2][x] + X[3][x + 1];",  # different rows
        "Y[2][x] = X[2][x] + X[2][x + 9];",  # too far from each other
        "Y[2][x] = Y[2][x] + 2.0f;",
        "Z[x] = Z[x] + 1.0f; Y[2][x] = Z[x];",
        "Y[2][x] = F[x] + F[x + 1];",  # it is not known where F ends
    ],
)
def test_other_loops_stay_as_they_are(body: str) -> None:
    kernel = vectorise(kernel_of(f"for (int x = 4; x < 20; x++) {{ {body} }}"), 0, 4)
    with pytest.raises(NotApplicableError):
        neighbours(kernel, 0)


def test_vectors_of_an_array_that_the_loop_writes_are_loaded_again() -> None:
    """Each iteration reads what an earlier one wrote."""
    head = "void kernel(float Y[32], float Z[32])"
    text = (
        "typedef float vf __attribute__((vector_size(16)));\n"
        f"{head} {{ for (int x = 4; x < 24; x += 4) "
        "*(vf *)&Y[x] = *(vf *)&Y[x - 4] + *(vf *)&Y[x - 3]; }"
    )
    with pytest.raises(NotApplicableError, match="no overlapping"):
        neighbours(parse(text), 0)


def test_scalar_loops_and_short_ones_stay_as_they_are() -> None:
    for lanes, message in ((0, "not a loop over vectors"), (8, "too few iterations")):
        kernel = kernel_of("for (int x = 8; x < 16; x++) Y[2][x] = X[2][x - 1] + X[2][x];")
        with pytest.raises(NotApplicableError, match=message):
            neighbours(vectorise(kernel, 0, lanes) if lanes else kernel, 0)


def test_long_loops_inside_stay_as_they_are() -> None:
    body = "float s = 0.0f; for (int k = 0; k < 8; k++) s = s + X[2][x + k]; Y[2][x] = s;"
    kernel = vectorise(kernel_of(f"for (int x = 4; x < 20; x++) {{ {body} }}"), 0, 4)
    with pytest.raises(NotApplicableError, match="many iterations"):
        neighbours(kernel, 0)


def test_rows_that_are_computed_at_once_share_vectors() -> None:
    start = kernel_of(LAPLACE)
    kernel = neighbours(jam(vectorise(start, 1, 4), 0, 2), 1)
    require_same(start, kernel)
    assert emit(kernel).count("*(const vf *)&X") == 4 + 4  # before the loop and in it


def test_the_estimate_prefers_vectors_that_are_loaded_once() -> None:
    wide = HEAD.replace("[32]", "[512]").replace("*F", "F[512]")
    body = LAPLACE.replace("x = 4; x < 28", "x = 16; x < 496")
    offered = frozenset({"vectorise", "jam", "neighbours"})
    ways = list(Whole(16, 32, offered).sequences(parse(f"{wide} {{ {body} }}")))
    names = [[str(step) for step, _ in steps] for steps, _ in ways]
    assert names == [
        ["vectorise 1 16", "jam 0 4", "neighbours 1 0"],
        ["vectorise 1 16", "neighbours 1 0"],
        ["vectorise 1 16"],
    ]


def test_fewer_rows_are_computed_at_once_if_their_neighbours_are_many() -> None:
    body = (
        "for (int y = 2; y < 6; y++) for (int x = 16; x < 496; x++) { float s = 0.0f; "
        "for (int k = 0; k < 5; k++) for (int j = 0; j < 5; j++) s = s + X[y - 2 + k][x + j]; "
        "Y[y][x] = s; }"
    )
    source = f"void kernel(const float X[8][512], float Y[8][512]) {{ {body} }}"
    ways = Whole(16, 32, frozenset({"vectorise", "jam", "neighbours"})).sequences(parse(source))
    names = [[str(step) for step, _ in steps] for steps, _ in ways]
    assert ["vectorise 1 16", "jam 0 3", "neighbours 1 0"] in names


def test_the_estimate_knows_vectors_in_two_lines_of_a_cache() -> None:
    copy = "for (int x = 16; x < 80; x++) Z[x] = Z[96 + x + 0];"
    aligned = vectorise(kernel_of(copy), 0, 16)
    across = vectorise(kernel_of(copy.replace("+ 0]", "+ 1]")), 0, 16)
    assert compiled_time(aligned, 64) < compiled_time(across, 64)
