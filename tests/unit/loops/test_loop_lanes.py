"""Iterations that run side by side, for values of every type."""

from __future__ import annotations

import numpy as np
import pytest
from test_loop_rewrites import outputs

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.planning.steps import TECHNIQUES, Step
from tilewright.proposers.loops.rewrites.lanes import lanes
from tilewright.proposers.loops.rewrites.unroll_and_jam import jam

ALL = frozenset(TECHNIQUES) - {"share", "interleave", "stage"}
GENERATORS = (
    "void kernel(const uint32_t seed[11], const float size[11], float Y[11]) { "
    "for (int i = 0; i < 11; i++) { uint32_t state = seed[i]; float p = 1.0f; "
    "for (int t = 0; t < 3; t++) { state = state * 5 + 3; float u = state * 0.5f; "
    "p = p * (1.0f + size[i] * u); } Y[i] = p > 1.0f ? p - 1.0f : 0.0f; } }"
)
TABLE = (
    "void kernel(const double X[8][6], double Y[8]) { double row[7]; for (int r = 0; r < 8; r++) { "
    "for (int j = 0; j < 7; j++) row[j] = j; for (int j = 1; j < 7; j++) { double up = row[j]; "
    "row[j] = up < row[j - 1] + X[r][j - 1] ? up : row[j - 1] + X[r][j - 1]; } Y[r] = row[6]; } }"
)
SHARED = (
    "void kernel(const double A[6], const double B[6][9], double C[9]) { "
    "for (int j = 0; j < 9; j++) { double factor = 1.5, sum = 0.0; "
    "for (int k = 0; k < 6; k++) { double a = A[k] * factor; sum += a * B[k][j] + factor; "
    "factor = factor + 1.0; } C[j] = sum; } }"
)
SUMS = (
    "void kernel(const double X[11], const float F[22], double Y[4]) { "
    "double sum = 0.5, most = X[0]; float even = 0.0f, least = 1.0f; "
    "for (int i = 0; i < 11; i++) { sum += X[i]; most = fmax(most, X[i]); even -= F[2 * i]; "
    "least = F[2 * i + 1] < least ? F[2 * i + 1] : least; } "
    "Y[0] = sum; Y[1] = most; Y[2] = even; Y[3] = least; }"
)
STEPS = (
    "void kernel(const float X[16], float Y[16]) { "
    "for (int i = 0; i < 16; i += 2) Y[i] = X[i + 1]; }"
)
MARKS = (
    "void kernel(const float X[8], float Y[8]) { for (int i = 0; i < 8; i++) { float t[8]; "
    "for (int k = 0; k < 8; k++) t[k] = 0.0f; t[i] = 1.0f; Y[i] = t[3]; } }"
)
GATHER = (
    "void kernel(const uint8_t at[5][8], const float X[256], float Y[8]) { "
    "for (int r = 0; r < 8; r++) { float s = 0.0f; "
    "for (int k = 0; k < 5; k++) s += X[at[k][r] & 7]; Y[r] = s; } }"
)


TRIANGLES = (
    "void kernel(const double A[8][5][5], double Y[8][5]) { double L[5][5], y[5]; "
    "for (int n = 0; n < 8; n++) { for (int j = 0; j < 5; j++) for (int i = j; i < 5; i++) { "
    "double s = A[n][i][j]; for (int k = 0; k < j; k++) s -= L[i][k] * L[j][k]; L[i][j] = s; } "
    "for (int i = 0; i < 5; i++) { double s = 1.0; for (int k = 0; k < i; k++) "
    "s -= L[i][k] * y[k]; y[i] = s * L[i][i]; Y[n][i] = y[i]; } } }"
)


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize(
    "source", [GENERATORS, TABLE, SHARED, SUMS, STEPS, MARKS, GATHER, TRIANGLES]
)
def test_lanes_compute_what_iterations_computed(source: str, count: int) -> None:
    start = parse(source)
    kernel = lanes(start, 0, count)
    assert parse(emit(kernel)) == kernel
    assert count in [loop.trips for loop in loops(kernel)]
    for array, expected in outputs(start, count).items():
        np.testing.assert_allclose(outputs(kernel, count)[array], expected, rtol=1e-12)


def test_what_is_the_same_in_all_lanes_stays_a_scalar() -> None:
    text = emit(lanes(parse(SHARED), 0, 4))
    assert "double a = A[k] * factor;" in text
    assert "double sum_1[4]" not in text
    assert "double sum[4];" in text


def test_arrays_of_an_iteration_get_an_element_for_each_lane() -> None:
    kernel = lanes(parse(TABLE), 0, 4)
    text = emit(kernel)
    assert "double row_1[7][4];" in text
    assert "double row[7];" not in text
    assert "double row[7];" in emit(
        lanes(parse(TABLE.replace("[8]", "[9]").replace("< 8", "< 9")), 0, 4)
    )


@pytest.mark.parametrize(
    "source",
    [
        "void kernel(float X[9]) { for (int i = 0; i < 8; i++) X[i + 1] = X[i] * 2.0f; }",
        "void kernel(float X[9]) { float s = 1.0f; for (int i = 0; i < 8; i++) "
        "{ s = s * X[i]; X[i] = s; } }",
        "void kernel(const float X[9], float Y[9]) { float last = 0.0f; "
        "for (int i = 0; i < 8; i++) { Y[i] = last; last = X[i]; } }",
        "void kernel(const float X[9], float Y[2]) { for (int i = 0; i < 8; i++) Y[0] = X[i]; }",
        "void kernel(const int8_t X[9], float Y[9]) { "
        "for (int i = 0; i < 8; i++) Y[X[i]] = 1.0f; }",
        # The first iteration leaves the second what it has not written.
        "void kernel(const float X[9], float Y[9]) { float t[2]; for (int i = 0; i < 8; i++) "
        "{ t[0] = X[i]; Y[i] = t[0] + t[1]; t[1] = X[i]; } }",
        # The diagonal is read before it is written, and a condition decides what is written.
        TRIANGLES.replace("k < j; k++", "k <= j; k++"),
        TRIANGLES.replace("L[i][j] = s;", "if (s > 0) L[i][j] = s;"),
        TRIANGLES.replace("k < j; k++", "k < (int)A[n][j][i]; k++"),
        TRIANGLES.replace("L[i][k] * L[j][k]", "L[i][(k + n) % 5] * L[j][k]"),
        "void kernel(const float X[3], float Y[3]) { for (int i = 0; i < 3; i++) Y[i] = X[i]; }",
        "typedef float vf __attribute__((vector_size(16)));\nvoid kernel(float X[32]) "
        "{ for (int i = 0; i < 32; i += 4) { vf t = *(vf *)&X[i]; *(vf *)&X[i] = t; } }",
        "void kernel(const float X[8], float Y[8]) { for (int i = 0; i < 8; i++) { "
        "float t[9999]; for (int k = 0; k < 9999; k++) t[k] = X[i]; Y[i] = t[5]; } }",
    ],
)  # fmt: skip
def test_iterations_that_depend_on_each_other_do_not_run_side_by_side(source: str) -> None:
    with pytest.raises(NotApplicableError):
        lanes(parse(source), 0, 4)


def test_only_powers_of_two_can_be_combined_in_pairs() -> None:
    with pytest.raises(NotApplicableError):
        lanes(parse(SUMS), 0, 6)


def test_loops_around_lanes_can_be_jammed() -> None:
    source = (
        "void kernel(const double A[4][6], const double B[6][8], double C[4][8]) { "
        "for (int i = 0; i < 4; i++) for (int j = 0; j < 8; j++) { double sum = 0.0; "
        "for (int k = 0; k < 6; k++) sum += A[i][k] * B[k][j]; C[i][j] = sum; } }"
    )
    start = parse(source)
    kernel = jam(lanes(start, 1, 8), 0, 2)
    assert parse(emit(kernel)) == kernel
    assert "sum_1[lane_1] = sum_1[lane_1] + A[i + 1][k] * B[k][j + lane_1];" in emit(kernel)
    np.testing.assert_allclose(outputs(kernel, 1)["C"], outputs(start, 1)["C"], rtol=1e-12)


def plans(source: str, offered: frozenset[str] = ALL) -> list[str]:
    made = Whole(16, 32, offered).sequences(parse(source))
    return ["; ".join(str(step) for step, _ in steps) for steps, _ in made]


def test_many_small_matrices_are_computed_side_by_side() -> None:
    source = TRIANGLES.replace("[8]", "[64]").replace("n < 8", "n < 64")
    assert plans(source)[0] == "lanes 0 16"


def test_inputs_beside_a_table_are_packed() -> None:
    source = (
        "void kernel(const uint8_t X[8][5], const int32_t T[16], int32_t Y[8]) { "
        "for (int p = 0; p < 8; p++) { int last = 0; for (int i = 0; i < 5; i++) "
        "last = T[X[p][i] & 15] + 2 * last; Y[p] = last; } }"
    )
    assert "T[X_1[i][p] & 15]" in emit(Step("pack", 0).apply(parse(source)))


def test_products_in_double_precision_are_packed_and_tiled() -> None:
    source = (
        "void kernel(const float A[8][64], const float B[32][64], float C[8][32]) { "
        "for (int i = 0; i < 8; i++) for (int j = 0; j < 32; j++) { double sum = 0.0; "
        "for (int k = 0; k < 64; k++) sum += (double)A[i][k] * B[j][k]; C[i][j] = sum; } }"
    )
    found = plans(source)
    assert found[0] == "pack 1 0; lanes 4 32; jam 3 4"
    assert "lanes 2 32" in found
    assert "lanes 2 16" in found
    assert not any("lanes" in plan for plan in plans(source, ALL - {"lanes"}))
    assert not any("jam" in plan for plan in plans(source, ALL - {"jam"}))
    assert not any("pack" in plan for plan in plans(source, ALL - {"pack"}))


def test_inputs_that_are_read_once_are_not_packed_for_lanes() -> None:
    source = (
        "void kernel(const uint32_t X[64][48], uint32_t Y[64]) { for (int i = 0; i < 64; i++) "
        "{ uint32_t c = 7; for (int k = 0; k < 48; k++) c = c * 31 + X[i][k]; Y[i] = c; } }"
    )
    assert plans(source) == ["lanes 0 32", "lanes 0 16"]


def test_loops_that_vectors_of_floats_serve_do_not_run_in_lanes() -> None:
    source = (
        "void kernel(const float X[64], float Y[64]) { "
        "for (int i = 0; i < 64; i++) Y[i] = expf(X[i]); }"
    )
    assert plans(source) == ["vectorise 0 16"]


def test_the_loop_whose_lanes_read_neighbours_is_chosen() -> None:
    source = GATHER.replace("[8]", "[32]").replace("< 8", "< 32").replace("5", "40")
    assert plans(source) == ["lanes 0 32", "lanes 0 16"]


def test_step_is_described() -> None:
    kernel = parse(STEPS)
    assert Step("lanes", 0, 8).sentence(kernel) == (
        "run 8 iterations of the loop over i in parallel lanes (loop 1)"
    )
