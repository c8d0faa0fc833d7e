"""Rewrites of loop nests keep the meaning of kernels, as their interpreter sees it."""

from __future__ import annotations

import ctypes
import math
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_interpreter import Interpreter

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.c_types import RANGES, is_whole
from tilewright.proposers.loops.definitions import definitions, vector_types
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel, loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.syntax import UnsupportedError
from tilewright.proposers.loops.planning.steps import TECHNIQUES, Step, steps_of
from tilewright.proposers.loops.rewrites.pack import pack
from tilewright.proposers.loops.rewrites.reciprocal import reciprocal
from tilewright.proposers.loops.rewrites.unroll import unroll
from tilewright.proposers.loops.rewrites.unroll_and_jam import jam
from tilewright.proposers.loops.rewrites.vectorise import vectorise

GOLDEN = Path(__file__).parents[2] / "golden" / "loops"
LANES = 4

SOFTMAX = """
void kernel(const float X[3][11], float Y[3][11]) {
  for (int r = 0; r < 3; r++) {
    float most = X[r][0];
    for (int c = 0; c < 11; c++) most = fmaxf(most, X[r][c]);
    float sum = 0.0f;
    for (int c = 0; c < 11; c++) {
      Y[r][c] = expf(X[r][c] - most);
      sum += Y[r][c];
    }
    for (int c = 0; c < 11; c++) Y[r][c] = Y[r][c] / sum;
  }
}
"""
NORM = """
void kernel(const float X[2][9], const float gain[9], float Y[2][9]) {
  for (int r = 0; r < 2; r++) {
    float mean = 0.0f;
    for (int c = 0; c < 9; c++) mean += X[r][c];
    mean = mean / 9.0f;
    float least = X[r][0];
    for (int c = 0; c < 9; c++) {
      float off = X[r][c] - mean;
      least = fminf(least, off);
    }
    float spread = sqrtf(least * least + 1e-05f);
    for (int c = 0; c < 9; c++) Y[r][c] = -(X[r][c] - mean) / spread * gain[c];
  }
}
"""
PRODUCT = """
void kernel(const float A[5][6], const float B[6][10], float C[5][10]) {
  for (int i = 0; i < 5; i++) {
    for (int j = 0; j < 10; j++) {
      float sum = 0.0f;
      for (int k = 0; k < 6; k++) sum += A[i][k] * B[k][j];
      C[i][j] = sum;
    }
  }
}
"""
STENCIL = """
void kernel(const float X[20], float Y[20]) {
  for (int i = 0; i < 9; i++) Y[2 * i] = X[i] + X[i + 1];
  for (int i = 0; i < 9; i++) Y[2 * i + 1] = Y[2 * i] * 0.5f;
  for (int i = 1; i < 20; i++) Y[i] = Y[i - 1] + X[i];
}
"""
SCORES = """
void kernel(const float Q[6][5], const float K[7][5], float O[6][5]) {
  float scores[7];
  float most, sum;
  for (int i = 0; i < 6; i++) {
    for (int j = 0; j < 7; j++) {
      scores[j] = 0.0f;
      for (int d = 0; d < 5; d++) scores[j] += Q[i][d] * K[j][d];
    }
    most = scores[0];
    for (int j = 0; j < 7; j++) most = fmaxf(most, scores[j]);
    sum = 0.0f;
    for (int j = 0; j < 7; j++) {
      scores[j] = expf(scores[j] - most);
      sum += scores[j];
    }
    for (int d = 0; d < 5; d++) {
      float total = 0.0f;
      for (int j = 0; j < 7; j++) total += scores[j] * K[j][d];
      O[i][d] = total / sum;
    }
  }
}
"""
RUNNING = """
void kernel(const float X[3][11], float Y[3][11]) {
  for (int r = 0; r < 3; r++) {
    float sum = 0.5f;
    for (int c = 0; c < 11; c++) {
      sum -= X[r][c] * 2.0f;
      Y[r][c] = sum < 0.0f ? -sum : sum;
    }
    Y[r][0] = sum;
  }
}
"""
BEFORE = """
void kernel(const float X[3][11], float Y[3][11]) {
  for (int r = 0; r < 3; r++) {
    float sum = 0.5f;
    for (int c = 0; c < 11; c++) {
      float twice = sum * 2.0f;
      Y[r][c] = sum;
      sum = X[r][c] + sum;
      Y[r][c] = Y[r][c] + twice;
    }
  }
}
"""
ROWS = """
void kernel(const float A[5][6], const float B[6][9], float C[5][9]) {
  float sums[9];
  for (int i = 0; i < 5; i++) {
    for (int j = 0; j < 9; j++) sums[j] = 0.5f;
    for (int k = 0; k < 6; k++) {
      float a = A[i][k];
      for (int j = 0; j < 9; j++) sums[j] += a * B[k][j];
    }
    for (int j = 0; j < 9; j++) C[i][j] = sums[j] < 0.0f ? 0.0f : sums[j];
  }
}
"""
DOUBLES = """
void kernel(const double X[3][11], const float W[11], double Y[3][4]) {
  for (int r = 0; r < 3; r++) {
    double sum = 0.5, most = X[r][0], least = 2.0, chosen = 0.0;
    for (int c = 0; c < 11; c++) {
      sum += X[r][c] * (double)W[c];
      most = X[r][c] > most ? X[r][c] : most;
      least = fmin(X[r][c], least);
      if (X[r][c] > 0.0) chosen -= X[r][c];
    }
    Y[r][0] = sum;
    Y[r][1] = most;
    Y[r][2] = least;
    Y[r][3] = chosen;
  }
}
"""
ZERO_POINTS = """
void kernel(const uint8_t a[28], const uint8_t b[7][5], const int8_t w[4][7], int32_t c[4][5]) {
  for (int i = 0; i < 4; i++) {
    for (int j = 0; j < 5; j++) {
      int32_t sum = 7;
      for (int k = 0; k < 7; k++) {
        int x = b[k][j] - 131;
        sum += ((int32_t)a[i * 7 + k] - 128) * x;
        sum += (w[i][k] + 3) * x;
      }
      c[i][j] = sum;
    }
  }
}
"""
SEARCH = """
void kernel(const float X[3][19], int32_t P[3], float V[3]) {
  for (int r = 0; r < 3; r++) {
    float best = X[r][0];
    int at = 0;
    for (int c = 1; c < 19; c++) {
      float v = X[r][c] * 0.5f;
      if (v < best) {
        best = v;
        at = c;
      }
    }
    P[r] = at;
    V[r] = best;
  }
}
"""
STRUCTURES = """
void kernel(const float P[32], float Y[11]) {
  for (int i = 0; i < 11; i++) {
    float near = 0.0f;
    for (int k = 0; k < 11; k++) {
      float dx = P[3 * k] - P[3 * i];
      float dy = P[3 * k + 1] - P[3 * i + 1];
      near += dx * dx + dy * dy;
    }
    Y[i] = near;
  }
}
"""
WHOLE_SCAN = """
void kernel(const int16_t X[3][11], int32_t Y[3][11], int32_t Z[3][12]) {
  for (int r = 0; r < 3; r++) {
    int32_t sum = r;
    Z[r][0] = 5;
    for (int c = 0; c < 11; c++) {
      Y[r][c] = sum * 2;
      sum += X[r][c] - 3;
      Z[r][c + 1] = Z[r][c] + sum;
    }
  }
}
"""
KERNELS = {
    "whole_scan": WHOLE_SCAN.replace("Z[r][c] + ", ""), "whole_recurrence": WHOLE_SCAN,
    "structures": STRUCTURES, "search": SEARCH, "zero_points": ZERO_POINTS, "doubles": DOUBLES,
    "running": RUNNING, "before": BEFORE, "rows": ROWS,
    "softmax": SOFTMAX, "norm": NORM, "product": PRODUCT, "stencil": STENCIL, "scores": SCORES,
}  # fmt: skip


def outputs(kernel: Kernel, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = {
        p.name: drawn(p.type, p.sizes, rng) if p.constant else np.full(p.sizes, np.nan)
        for p in kernel.parameters
    }
    found = Interpreter(kernel, arrays).run()
    return {p.name: found[p.name] for p in kernel.parameters}


def drawn(kind: str, sizes: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Values of an input, in float64, which holds them exactly."""
    if not is_whole(kind):
        return rng.standard_normal(sizes)
    least, most = RANGES[kind]
    return rng.integers(max(least, -1000), min(most, 1000), sizes, endpoint=True).astype(float)


@pytest.mark.parametrize("name", KERNELS)
def test_text_and_form_are_one(name: str) -> None:
    kernel = parse(KERNELS[name])
    assert parse(emit(kernel)) == kernel


@settings(max_examples=60)
@given(st.sampled_from(sorted(KERNELS)), st.integers(0, 10**6), st.integers(1, 6))
def test_any_sequence_of_steps_keeps_the_result(name: str, seed: int, count: int) -> None:
    rng = random.Random(seed)
    start = kernel = parse(KERNELS[name])
    for _ in range(count):
        if len(loops(kernel)) > 30:
            break
        found = list(steps_of(kernel, rng.choice(TECHNIQUES), LANES, threads=2))
        if found:
            kernel = rng.choice(found)[1]
    assert parse(emit(kernel)) == kernel
    expected, got = outputs(start, seed), outputs(kernel, seed)
    for array in expected:
        np.testing.assert_allclose(got[array], expected[array], rtol=1e-9)


@pytest.mark.parametrize(
    ("source", "loop"),
    [
        (STENCIL, 0),  # every second element is written
        (STENCIL, 2),  # each iteration reads what the one before wrote
        (PRODUCT, 2),  # B is read along its first index
        ("void kernel(float X[9][8]) { for (int i = 0; i < 8; i++) X[0][i] = X[1][7 - i]; }", 0),
        ("void kernel(float X[9]) { float s = 0.0f; for (int i = 0; i < 8; i++) "
         "{ s = s * 0.5f + X[i]; X[i] = s; } }", 0),
        ("void kernel(float X[9]) { for (int i = 0; i < 8; i++) X[i] = X[0]; }", 0),
        # Running sums: read before, added to twice, under a condition, in a loop inside.
        ("void kernel(float X[9]) { float s = 0.0f; for (int i = 0; i < 8; i++) "
         "{ X[i] = s; s += X[i]; X[i] += s; } }", 0),
        ("void kernel(float X[9]) { float s = 0.0f; for (int i = 0; i < 8; i++) "
         "{ s += X[i]; X[i] = s; s += 1.0f; } }", 0),
        ("void kernel(float X[9]) { float s = 0.0f; for (int i = 0; i < 8; i++) "
         "{ if (X[i] > 0.0f) s += 1.0f; X[i] = s; } }", 0),
        ("void kernel(float X[9]) { float s = 0.0f; for (int i = 0; i < 8; i++) "
         "{ s += X[i]; for (int k = 0; k < 2; k++) X[i] += s; } }", 0),
        ("void kernel(float X[9]) { float s = 0.0f; for (int i = 0; i < 8; i++) "
         "{ s = s * X[i]; X[i] = s; } }", 0),
        ("void kernel(float X[9]) { for (int i = 0; i < 8; i++) X[i] = i; }", 0),
        ("void kernel(const int8_t A[9][8], const float X[9][8], float Y[8]) { "
         "for (int i = 0; i < 8; i++) { int at = A[0][i]; Y[i] = X[at][i]; } }", 0),
        ("typedef float vf __attribute__((vector_size(16)));\nvoid kernel(float X[9]) "
         "{ vf t[8]; for (int i = 0; i < 8; i++) t[i] = t[i] * 2.0f; }", 0),
    ],
)  # fmt: skip
def test_what_would_change_the_result_is_not_vectorised(source: str, loop: int) -> None:
    with pytest.raises(NotApplicableError):
        vectorise(parse(source), loop, LANES)


@pytest.mark.parametrize(
    "source",
    [
        "void kernel(float Y[9], const float X[4][4]) { float t[4]; for (int i = 0; i < 4; i++) "
        "{ for (int j = 0; j < 3; j++) t[j] = X[i][j]; "
        "for (int j = 0; j < 4; j++) Y[i] = t[j]; } }",
        "void kernel(float Y[4][9]) { for (int i = 0; i < 4; i++) "
        "for (int j = 0; j < 4; j++) Y[i][j] = Y[0][j + 1]; }",
        "void kernel(float Y[16]) { for (int i = 0; i < 4; i++) "
        "for (int j = 0; j < 4; j++) Y[i + j] = Y[i + j] + 1.0f; }",
    ],
)
def test_iterations_that_share_elements_are_not_jammed(source: str) -> None:
    with pytest.raises(NotApplicableError):
        jam(parse(source), 0, 2)


def test_copies_of_a_jammed_loop_have_arrays_of_their_own() -> None:
    start = parse(SCORES)
    kernel = jam(start, 0, 2)
    text = emit(kernel)
    assert parse(text) == kernel
    assert "scores_1[j] = expf(scores_1[j] - most_1)" in text
    for array, expected in outputs(start, 3).items():
        np.testing.assert_allclose(outputs(kernel, 3)[array], expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # An iteration reads what the one before left; it is used after the loop; it is too large.
        ("scores[j] = 0.0f;", ""),
        ("    sum = 0.0f;", ""),
        ("    }\n  }\n}", "    }\n  }\n  O[0][0] = scores[6];\n}"),
        ("float scores[7]", "float scores[7000]"),
    ],
)
def test_what_iterations_share_is_not_copied(before: str, after: str) -> None:
    assert before in SCORES
    with pytest.raises(NotApplicableError):
        jam(parse(SCORES.replace(before, after)), 0, 2)


@pytest.mark.parametrize(
    "source",
    [
        PRODUCT.replace("const float A", "float A").replace("A[i][k]", "A[k][i]"),  # may change
        PRODUCT.replace("A[i][k]", "A[i][k + i]"),  # both indices move
        PRODUCT.replace("A[i][k]", "A[2 * i][k]"),  # by more than one
        PRODUCT.replace("A[5][6]", "A[5000][6000]"),  # too large
    ],
)
def test_what_is_not_read_along_one_other_index_is_not_packed(source: str) -> None:
    with pytest.raises(NotApplicableError):
        pack(parse(source), 0)


def test_numbers_of_eight_bits_are_copied_to_sixteen() -> None:
    source = (
        "void kernel(const int8_t A[4][8], const uint8_t B[8], const int8_t *P, int32_t C[4]) { "
        "for (int i = 0; i < 4; i++) { int s = 0; for (int k = 0; k < 8; k++) "
        "s += A[i][k] * (int)B[k]; C[i] = s; } }"
    )
    kernel = pack(parse(source), 1)
    assert [(p.name, p.type) for p in kernel.scratch] == [("A_1", "int16_t"), ("B_1", "int16_t")]
    assert "s = s + A_1[i][k] * (int)B_1[k]" in emit(kernel)
    with pytest.raises(NotApplicableError):
        pack(kernel, 4)
    flat = pack(parse(source.replace("A[i][k] * (int)B[k]", "P[8 * i + k] * (int)B[k]")), 1)
    assert [(p.name, p.sizes) for p in flat.scratch] == [("B_1", (8,)), ("P_1", (32,))]
    assert "s = s + P_1[8 * i + k] * (int)B_1[k]" in emit(flat)
    turned = pack(parse(source.replace("A[i][k]", "A[k / 2][i]").replace("k / 2", "k")), 1)
    assert [(p.name, p.type, p.sizes) for p in turned.scratch] == [("A_1", "int16_t", (8, 4))]


def test_copies_hold_the_elements_with_the_zero_point_added() -> None:
    start = parse(ZERO_POINTS)
    kernel = pack(pack(start, 2), 4)
    text = emit(kernel)
    assert parse(text) == kernel
    for copied in (
        "b_1[at_2][at_1] = b[at_1][at_2] - 131;",
        "a_1[at_3] = a[at_3] - 128;",
        "w_1[at_4][at_5] = w[at_4][at_5] + 3;",
        "int x = b_1[j][k];",
        "sum = sum + (int32_t)a_1[i * 7 + k] * x;",
        "sum = sum + w_1[i][k] * x;",
    ):
        assert copied in text, copied
    for array, expected in outputs(start, 1).items():
        np.testing.assert_allclose(outputs(kernel, 1)[array], expected, rtol=1e-12)


@pytest.mark.parametrize(
    "product",
    [
        "(P[k] - 128) * (P[k + 1] - 127)",  # uses that differ
        "(P[k] - 128) * P[k]",
        "(P[k] - 32769) * B[k] + (P[k] - 32769) * (P[k] - 32769)",  # too large for 16 bits
        "((int8_t)P[k] - 128) * B[k]",  # other numbers than those of P
        "(P[k] - 128u) * B[k]",
    ],
)
def test_a_number_is_added_to_a_copy_only_if_all_uses_add_it_and_it_fits(product: str) -> None:
    source = (
        "void kernel(const uint8_t P[9], const int32_t B[8], int32_t C[4]) { for (int i = 0; "
        f"i < 4; i++) {{ int s = 0; for (int k = 0; k < 8; k++) s += {product}; C[i] = s; }} }}"
    )
    try:
        text = emit(pack(parse(source), 1))
    except NotApplicableError:
        return
    assert "P_1[at_1] = P[at_1];" in text


def test_a_flattened_input_is_transposed_only_if_all_of_its_rows_are_inside() -> None:
    source = (
        "void kernel(const uint8_t *x, const uint8_t b[SIZE], int32_t *y) { "
        "for (int j = 0; j < 4; j++) { int s = 0; for (int k = 0; k < 5; k++) "
        "s += (x[k] - 1) * (b[k * 4 + j] - 2); y[j] = s; } }"
    )
    text = emit(pack(parse(source.replace("SIZE", "20")), 1))
    assert "b_1[at_2][at_1] = b[at_1 * 4 + at_2] - 2;" in text
    small = emit(pack(parse(source.replace("SIZE", "19")), 1))
    assert "[at_2][at_1]" not in small


def test_fields_of_structures_are_copied_to_arrays_of_their_own() -> None:
    """P ends with the second field of the last structure: nothing beyond it is copied."""
    start = parse(STRUCTURES)
    kernel = pack(start, 1)
    text = emit(kernel)
    assert parse(text) == kernel
    assert [(p.name, p.sizes) for p in kernel.scratch] == [("P_1", (2, 11))]
    assert "P_1[at_2][at_1] = P[at_1 * 3 + at_2];" in text
    assert "dx = P_1[0][k] - P[3 * i];" in text
    assert "dy = P_1[1][k] - P[3 * i + 1];" in text
    assert "v_sum" in emit(vectorise(kernel, 3, LANES))
    flat = pack(parse(STRUCTURES.replace("P[32]", "*P")), 1)
    assert flat.scratch == kernel.scratch


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("P[3 * k + 1]", "P[2 * k + 1]"),  # structures of two sizes
        ("P[3 * k + 1]", "P[3 * k + 3]"),  # a field of the next structure
        ("P[3 * k + 1]", "P[3 * k - 1]"),
        ("P[3 * k + 1]", "P[3 * k + n]"),  # which field, a variable says
        ("near += dx", "for (int c = 0; c < 2; c++) near += P[3 * k + c] * P[3 * k + n] + dx"),
        ("P[3 * k + 1] - P", "(dx > 0.0f ? P[3 * k + 1] : 0.0f) - P"),  # perhaps outside P
        ("P[32]", "P[31]"),
        ("int k = 0", "int k = -1"),
        ("const float P", "float P"),
    ],
)
def test_what_may_be_outside_the_structures_is_not_copied(before: str, after: str) -> None:
    assert before in STRUCTURES
    source = STRUCTURES.replace(before, after)
    if "P[3" in before:
        source = source.replace("P[32]", "*P")
    source = source.replace("float near", "int n = 1; n = Y[i] > 0.5f ? 1 : 2; float near")
    with pytest.raises(NotApplicableError):
        pack(parse(source), 1)


def test_a_transposed_copy_is_written_line_by_line() -> None:
    source = (
        "void kernel(const float A[32][3], const float x[3], float Y[32]) { "
        "for (int i = 0; i < 32; i++) for (int k = 0; k < 3; k++) Y[i] = A[i][k] * x[k]; }"
    )
    start, kernel = parse(source), pack(parse(source), 0)
    assert parse(emit(kernel)) == kernel
    assert "A_1[at_2][at_1 + at_3] = A[at_1 + at_3][at_2];" in emit(kernel)
    assert [(loop.trips, loop.step) for loop in loops(kernel)[:3]] == [(2, 16), (3, 1), (16, 1)]
    np.testing.assert_array_equal(outputs(start, 1)["Y"], outputs(kernel, 1)["Y"])
    ragged = pack(parse(source.replace("32", "40")), 0)  # the last line would not be full
    assert "A_1[at_2][at_1] = A[at_1][at_2];" in emit(ragged)


@pytest.mark.parametrize(
    ("product", "why"),
    [
        ("(k < 5 ? P[k] * P[k] : 0)", "only under a condition"),
        ("P[k] * P[B[k]]", "not known how much"),
        ("P[k] * P[k - 1]", "not known how much"),
    ],
)
def test_flattened_numbers_of_eight_bits_are_copied_only_as_far_as_they_are_read(
    product: str, why: str
) -> None:
    source = "void kernel(const int8_t *P, const int32_t B[8], int32_t C[4]) { for (int i = 0; "
    source += (
        f"i < 4; i++) {{ int s = 0; for (int k = 0; k < 8; k++) s += {product}; C[i] = s; }} }}"
    )
    with pytest.raises(NotApplicableError, match=why):
        pack(parse(source), 1)


def test_each_copy_of_a_loop_has_its_own_double() -> None:
    kernel = unroll(parse(DOUBLES), 1, 2)
    text = emit(kernel)
    assert "double sum_1 = 0.0;" in text
    assert "sum = sum + sum_1;" in text
    assert "most = fmax(most, most_1);" in text  # fmaxf would round to single precision
    assert "least = fmin(least, least_1);" in text
    for array, expected in outputs(parse(DOUBLES), 2).items():
        np.testing.assert_allclose(outputs(kernel, 2)[array], expected, rtol=1e-12)
    with pytest.raises(NotApplicableError, match="numbers of double precision"):
        vectorise(parse(DOUBLES), 1, LANES)


@pytest.mark.parametrize("statement", ["s = s * 0.5 + X[i];", "s += X[i]; Y[i] = s;"])
def test_a_double_that_is_more_than_a_reduction_has_no_copies(statement: str) -> None:
    source = "void kernel(const double X[9], double Y[9]) { double s = 0.0; "
    source += f"for (int i = 0; i < 8; i++) {{ {statement} }} Y[0] = s; }}"
    with pytest.raises(NotApplicableError):
        unroll(parse(source), 0, 2)


HISTOGRAM = (
    "void kernel(const uint8_t X[11], int32_t H[256], int32_t Y[11]) { "
    "for (int i = 0; i < 11; i++) { H[X[i]] += 2; Y[i] = i; } }"
)


FLAT = (
    "void kernel(const uint8_t *X, const int16_t *Z, int32_t *H) { "
    "for (int c = 0; c < 256; c++) H[c] = 0; "
    "for (int r = 0; r < 3; r++) for (int i = 0; i < 8; i++) H[X[8 * r + i]] += 1; }"
)


def test_tables_are_cleared_and_joined_outside_all_loops_that_use_them_nowhere_else() -> None:
    text = " ".join(emit(unroll(parse(FLAT), 2, 2)).split())
    clear = "int32_t H_1[256]; for (int at_1 = 0; at_1 < 256; at_1++) { H_1[at_1] = 0; }"
    assert f"{clear} for (int r = 0; r < 3; r++) {{ for (int i = 0; i < 8; i += 2)" in text
    assert text.endswith("{ H[at_2] = H[at_2] + H_1[at_2]; } }")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for (int i", "{ H[r] = H[r] * 2; for (int i"),  # the table is used in the loop around
        ("for (int i", "{ int32_t L[256]; for (int i"),  # it is declared there
    ],
)
def test_tables_stay_in_a_loop_that_uses_or_declares_them(before: str, after: str) -> None:
    source = FLAT.replace(before, after)
    if "int32_t L" in after:
        source = source.replace("H[X[8 * r + i]]", "L[X[8 * r + i]]").replace("H[c]", "H[X[c]]")
    source = source.replace("+= 1;", "+= 1; }")
    text = " ".join(emit(unroll(parse(source), 2, 2)).split())
    outside, inside = text.split("for (int r")
    assert "_1[256]" in inside
    assert "_1[256]" not in outside


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c < 256", "c < 255"),  # the table may have no element for the largest index
        ("int c = 0", "int c = 1"),
        ("H[X[", "H[Z["),  # of a type with too many values
        ("H[X[8 * r + i]]", "H[X[8 * r + i] + X[i]]"),
        ("H[c] = 0", "H[2 * c] = 0"),
        ("H[c] = 0", "H[c + 1] = 0"),
        ("H[c] = 0", "H[256 - c] = 0"),
    ],
)
def test_a_flat_table_is_as_large_as_the_loop_that_clears_it(before: str, after: str) -> None:
    assert "H_1" not in emit(unroll(parse(FLAT.replace(before, after)), 2, 2))


def test_a_table_may_be_cleared_from_its_end() -> None:
    assert "H_1" in emit(unroll(parse(FLAT.replace("H[c] = 0", "H[255 - c] = 0")), 2, 2))


def test_an_index_of_a_flat_table_may_be_held_by_a_variable_of_one_value() -> None:
    held = FLAT.replace("H[X[8 * r + i]] += 1;", "{ float v = 0; int n = X[i]; H[n] += 1; }")
    assert "H_1" in emit(unroll(parse(held), 2, 2))
    twice = held.replace("H[n]", "n = n + 1; H[n]")
    assert "H_1" not in emit(unroll(parse(twice), 2, 2))


def test_each_copy_of_a_loop_has_a_table_of_its_own() -> None:
    kernel = unroll(parse(HISTOGRAM), 0, 4)
    assert parse(emit(kernel)) == kernel
    text = emit(kernel)
    assert "H[X[i]] = H[X[i]] + 2;" in text
    for copy in (1, 2, 3):
        assert f"H_{copy}[at_{copy}] = 0;" in text
        assert f"H_{copy}[X[i + {copy}]] = H_{copy}[X[i + {copy}]] + 2;" in text
    assert "H[at_4] = H[at_4] + H_1[at_4] + H_2[at_4] + H_3[at_4];" in text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Y[i] = i", "Y[i] = H[i]"),  # it is read while it is added to
        ("H[X[i]] += 2", "H[X[i]] += H[0]"),
        ("H[X[i]] += 2", "H[X[i]] *= 2"),
        ("H[X[i]] += 2", "H[i] += 2"),  # no table: the loop says the place
        ("H[256]", "*H"),  # its size is not known
        ("H[256]", "H[99999]"),  # too large
    ],
)
def test_what_is_more_than_a_table_stays_one(before: str, after: str) -> None:
    assert "H_1" not in emit(unroll(parse(HISTOGRAM.replace(before, after)), 0, 2))


@pytest.mark.parametrize(
    "source",
    [
        PRODUCT,
        "void kernel(const float X[9], float Y[9]) { float d = 2.0f; for (int i = 0; i < 9; i++) "
        "{ d = X[i] + 3.0f; Y[i] = X[i] / d; } }",
        "void kernel(const float X[9], float Y[9]) { for (int i = 0; i < 9; i++) "
        "{ float d = X[i] + 3.0f; Y[i] = X[i] / d; } }",
    ],
)
def test_a_loop_without_constant_quotients_has_no_reciprocal(source: str) -> None:
    with pytest.raises(NotApplicableError, match="no divisor stays the same"):
        reciprocal(parse(source), 0)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("void kernel(float X[4]) {\n  while (1) {}\n}", 2),
        ("void kernel(float X[4]) {\n\n  X[0] = lgammaf(X[1]);\n}", 3),
        ("void kernel(int X[4]) { static int n; X[0] = n; n = 1; }", 1),
        ("void kernel(float X[010]) {}", 1),
        ("typedef float vf __attribute__((vector_size(4 * 8)));\nvoid kernel(float X[4]) {}", 1),
        ("void kernel(long X[4]) {\n  X[0] = 18446744073709551616u;\n}", 2),
        ("void kernel(long X[4]) {\n  X[0] = " + "9" * 5000 + ";\n}", 2),
        ("void kernel(long X[4]) {\n  X[0] = 0x" + "f" * 5000 + ";\n}", 2),
        ("", 1),
        ("int x = {", 1),
    ],
)
def test_what_is_not_known_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(UnsupportedError) as error:
        parse(text)
    assert error.value.line == line


@pytest.mark.parametrize("empty", ["{}", ";", "for (int r = 0; r < 7; r++) {}"])
def test_every_technique_passes_over_loops_without_a_body(empty: str) -> None:
    """A model leaves such loops behind: they must not end a search."""
    kernel = parse(
        f"void kernel(float X[9]) {{\n  for (int q = 0; q < 9; q++) {empty}\n"
        "  for (int i = 0; i < 9; i++) X[i] = 1.0f;\n}"
    )
    found = [step for technique in TECHNIQUES for step in steps_of(kernel, technique, LANES)]
    assert found


@settings(max_examples=200)
@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except UnsupportedError:
        return


def test_a_negated_negative_is_no_decrement() -> None:
    source = "void kernel(float X[4]) { for (int i = 0; i < 4; i++) X[i] = -(-X[i]); }"
    kernel = parse(source)
    assert "--" not in emit(kernel)
    assert parse(emit(kernel)) == kernel


def test_vectors_have_a_power_of_two_of_lanes() -> None:
    with pytest.raises(NotApplicableError, match="power of two"):
        vectorise(parse(SOFTMAX), 1, 3)


def test_steps_are_texts() -> None:
    for technique in TECHNIQUES:
        step = Step(technique, 3, 4)
        assert Step.parse(str(step)) == step
    with pytest.raises(NotApplicableError):
        Step("vectorise", 99, 4).apply(parse(PRODUCT))


@pytest.mark.parametrize("name", ["softmax", "product", "choices", "running", "packed"])
def test_golden(name: str, update_golden: bool) -> None:
    kernel = parse(KERNELS.get(name, CHOICES))
    if name == "running":
        kernel = vectorise(kernel, 1, 4)
    elif name == "packed":
        kernel = vectorise(pack(parse(SCORES), 1), 3, 4)
    elif name == "choices":
        kernel = vectorise(parse(CHOICES.replace("v != total", "v != peak")), 2, 4)
    elif name == "softmax":
        kernel = reciprocal(unroll(vectorise(vectorise(kernel, 2, 4), 1, 4), 1, 2), 5)
    else:
        kernel = jam(vectorise(kernel, 1, 4), 0, 2)
    path = GOLDEN / f"{name}.c"
    if update_golden:
        path.write_text(emit(kernel))
    assert emit(kernel) == path.read_text()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize(("function", "operator"), [("v_max", ">"), ("v_min", "<")])
def test_the_second_of_two_values_is_chosen_where_a_comparison_fails(
    lanes: int, function: str, operator: str, tmp_path: Path
) -> None:
    """Zeros of both signs are equal, and no comparison with a value that is not a number holds."""
    source = [
        vector_types(lanes), *definitions([function], lanes),
        "void kernel(const float *x, const float *y, float *z, long n) {",
        f"  for (long i = 0; i < n; i += {lanes})",
        f"    *(vf *)&z[i] = {function}(*(const vf *)&x[i], *(const vf *)&y[i]);", "}",
        "void plain(const float *x, const float *y, float *z, long n) {",
        f"  for (long i = 0; i < n; i++) z[i] = x[i] {operator} y[i] ? x[i] : y[i];", "}",
    ]  # fmt: skip
    (tmp_path / "e.c").write_text("\n".join(source))
    command = ["gcc", "-O2", "-march=native", "-shared", "-fPIC", "e.c", "-o", "e.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0], np.float32)
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(values, values))
    library = ctypes.CDLL(str(tmp_path / "e.so"))
    found = []
    for call in (library.kernel, library.plain):
        z = np.empty_like(x)
        call(*(a.ctypes.data_as(ctypes.c_void_p) for a in (x, y, z)), ctypes.c_long(len(x)))
        found.append(z.view(np.uint32))
    assert np.array_equal(*found)


CHOICES = """
void kernel(const float X[2][9], const float P[7], float Y[2][9]) {
  for (int r = 0; r < 2; r++) {
    float peak = X[r][0];
    for (int c = 0; c < 9; c++) peak = X[r][c] > peak ? X[r][c] : peak;
    float total = 0.0f;
    for (int c = 0; c < 9; c++) {
      int holds = X[r][c] < 0.5f && !(X[r][c] == peak);
      float v = holds ? tanhf(2 * X[r][c]) : erff(X[r][c]) / 3;
      if (X[r][c] >= 0.0f) total -= v;
      Y[r][c] = v != total ? logf(fabsf(v)) : 0.25;
    }
    Y[r][0] = total;
  }
}
"""


def test_choices_are_vectorised() -> None:
    """Sums are as in `test_any_sequence`: `total` may not be read while it is reduced."""
    source = CHOICES.replace("v != total", "v != peak")
    start = kernel = parse(source)
    for loop in (2, 1):
        kernel = vectorise(kernel, loop, LANES)
    assert parse(emit(kernel)) == kernel
    for array, expected in outputs(start, 1).items():
        np.testing.assert_allclose(outputs(kernel, 1)[array], expected, rtol=1e-9)
    with pytest.raises(NotApplicableError, match="during its reduction"):
        vectorise(parse(CHOICES), 2, LANES)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("Y[0][i] = X[0][i] > 0.0f ? P[i] : 0.0f;", "outside its sizes"),
        ("Y[0][i] = X[0][i] > 0.0f && P[i] > 0.0f ? P[i] : 0.0f;", "outside its sizes"),
        ("Y[0][i] = X[0][i] > 0.0f ? 8 / n : 0;", "integers are divided"),
        ("Y[0][i] = X[0][i] > 0.0f;", "stored as a number"),
        ("Y[0][i] = 2.0f * (X[0][i] > 0.0f);", "used as a number"),
        ("n = X[0][i] > 0.0f ? n + 1 : n;", "not a float"),
        ("int k = X[0][i] * 4.0; Y[0][i] = k;", "not converted to int"),
        ("Y[0][i] = (double)X[0][i];", "not converted to double"),
        ("Y[0][i] = U[i];", "not an array of floats"),
        ("Y[0][i] = W[i] + 1;", "numbers of W may be too large"),
        ("Y[0][i] = I[i] * 200000;", "too large for floats"),
        ("Y[0][i] = I[i] + n;", "too large for floats"),
        ("Y[0][i] = I[i] < n ? 1.0f : 2.0f;", "too large for floats"),
        ("Y[0][i] = I[i] - 8u;", "wrap around"),
        (
            "int k = n; if (X[0][i] > 0.0f) k = I[i]; Y[0][i] = k < 3 ? 1.0f : 0.0f;",
            "too large for floats",
        ),
        ("int k = (int)X[0][i]; Y[0][i] = k * 2;", "too large for floats"),
        ("int8_t k = (int)X[0][i]; Y[0][i] = k;", "may not fit the type int8_t"),
        ("O[i] = I[i] + 1;", "itself"),
        ("O[i] = (int8_t)(X[0][i] * 0.3);", "double precision"),
        ("O[i] = X[0][i] > 0.0f ? I[i] / 2 : 0;", "too large for floats"),
        ("Y[0][i] = lrintless(X[0][i]);".replace("lrintless", "tanf"), "tanf is not available"),
    ],
)
def test_what_lanes_cannot_compute_is_not_vectorised(body: str, why: str) -> None:
    head = (
        "void kernel(const float X[2][9], const float P[7], const int8_t I[9], float Y[2][9], "
        "const int32_t W[9], const uint32_t U[9], int8_t O[9]) {"
    )
    source = f"{head} int n = 0; n = I[0]; for (int i = 0; i < 9; i++) {{ {body} }} }}"
    with pytest.raises(NotApplicableError, match=why):
        vectorise(parse(source), 0, LANES)


@pytest.mark.parametrize(
    ("body", "vectors"),
    [
        ("Y[0][i] = 0.5f * (I[i] - 128);",
         "*(vf *)&Y[0][i] = 0.5f * (v_from_int8_t(&I[i]) - 128.0f);"),
        ("Y[0][i] = W[i] * X[0][i];",
         "*(vf *)&Y[0][i] = v_from_int32_t(&W[i]) * *(const vf *)&X[0][i];"),
        ("O[i] = (int8_t)(int)(X[0][i] * 8.0f);",
         "v_to_int8_t(&O[i], *(const vf *)&X[0][i] * 8.0f);"),
        ("int k = (int)X[0][i]; if (k > 9) k = 9; O[i] = k;",
         "vf k = v_trunc(*(const vf *)&X[0][i]); "
         "k = v_min(v_splat(9), k); v_to_int8_t(&O[i], k);"),
        ("int v = I[i] * 3; Y[0][i] = v * v;",
         "vf v = v_from_int8_t(&I[i]) * 3.0f; *(vf *)&Y[0][i] = v * v;"),
    ],
)  # fmt: skip
def test_whole_numbers_are_computed_on_vectors_of_floats(body: str, vectors: str) -> None:
    head = (
        "void kernel(const float X[2][8], const int8_t I[8], const int32_t W[8], float Y[2][8], "
        "int8_t O[8]) {"
    )
    kernel = vectorise(parse(f"{head} for (int i = 0; i < 8; i++) {{ {body} }} }}"), 0, LANES)
    text = " ".join(emit(kernel).split())
    assert f"i += 4) {{ {vectors} }}" in text
    assert parse(emit(kernel)) == kernel


@pytest.mark.parametrize("body", ["O[i] = X[i] / 3.0f;", "X[i] = roundf(X[i] / 3.0f);"])
def test_quotients_that_are_rounded_to_whole_numbers_stay(body: str) -> None:
    source = f"void kernel(float *X, int8_t *O) {{ for (int i = 0; i < 8; i++) {{ {body} }} }}"
    with pytest.raises(NotApplicableError, match="rounded to an integer"):
        reciprocal(vectorise(parse(source), 0, LANES), 0)


def test_an_element_that_is_read_in_any_case_may_be_chosen() -> None:
    source = (
        "void kernel(const float *X, float *Y) { for (int i = 0; i < 9; i++) "
        "Y[i] = X[i] > 0.0f ? X[i] * 2.0f : 0.0f; }"
    )
    assert "v_select(v_less(" in emit(vectorise(parse(source), 0, LANES))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
@pytest.mark.parametrize(
    ("function", "exact", "least", "most"),
    [
        ("v_exp", np.exp, -105.0, 89.5),
        ("v_tanh", np.tanh, -12.0, 12.0),
        ("v_erf", np.vectorize(math.erf), -5.0, 5.0),
        ("v_log", np.log, 1e-39, 9.0),
        ("v_sin", np.sin, -2e5, 2e5),
        ("v_cos", np.cos, -2e5, 2e5),
        ("v_sin", np.sin, -13.0, 13.0),
        ("v_cos", np.cos, -13.0, 13.0),
        ("v_sin_of_any", np.sin, -2e5, 2e5),
        ("v_cos_of_any", np.cos, -2e5, 2e5),
        ("v_sin_of_any", np.sin, -3e38, 3e38),
        ("v_cos_of_any", np.cos, -13.0, 13.0),
        ("v_floor", np.floor, -70000.3, 70000.3),
        ("v_ceil", np.ceil, -9.7, 9.7),
        ("v_trunc", np.trunc, -1e9, 1e9),
        ("v_rint", np.rint, -100.0, 100.0),
        ("v_round", lambda x: np.trunc(x + np.copysign(0.5, x)), -3000.0, 3000.0),
    ],
)
def test_functions_on_vectors_are_as_exact_as_their_comments_say(
    function: str, exact: Callable[[np.ndarray], np.ndarray], least: float, most: float,
    tmp_path: Path,
) -> None:  # fmt: skip
    """Over their whole ranges, and near zero, in units in the last place of float32."""
    source = "\n".join(
        [
            vector_types(LANES),
            *definitions([function], LANES),
            "void kernel(float *x, long n) {",
            f"  for (long i = 0; i < n; i += 4) *(vf *)&x[i] = {function}(*(vf *)&x[i]);",
            "}",
        ]
    )
    (tmp_path / "e.c").write_text(source)
    command = ["gcc", "-O2", "-shared", "-fPIC", "e.c", "-o", "e.so", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    small = 10.0 ** np.linspace(-44, 0, 20_000)
    quarters = np.arange(60_000) * (np.pi / 2)  # where sines and cosines are small
    inside = quarters[quarters <= most]
    inside = inside[: len(inside) // 4 * 4]
    x = np.concatenate([np.linspace(least, most, 300_000), small, inside]).astype(np.float32)
    got = x.copy()
    library = ctypes.CDLL(str(tmp_path / "e.so"))
    library.kernel(got.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(len(got)))
    with np.errstate(over="ignore", divide="ignore"):
        right = exact(x.astype(np.float64))
        unit = np.spacing(np.abs(right).astype(np.float32)).astype(np.float64)
    finite = np.isfinite(unit)
    assert np.max(np.abs(got[finite] - right[finite]) / unit[finite]) <= 2.0
    assert np.array_equal(np.isposinf(got[~finite]), right[~finite] > 0.0)
