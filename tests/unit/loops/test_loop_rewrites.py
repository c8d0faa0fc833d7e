"""Rewrites of loop nests keep the meaning of kernels, as their interpreter sees it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_interpreter import Interpreter

from tilewright.proposers.loops.analysis import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel, loops
from tilewright.proposers.loops.parse import parse
from tilewright.proposers.loops.parse_expressions import UnsupportedError
from tilewright.proposers.loops.rewrites.jam import jam
from tilewright.proposers.loops.rewrites.reciprocal import reciprocal
from tilewright.proposers.loops.rewrites.unroll import unroll
from tilewright.proposers.loops.rewrites.vectorise import vectorise
from tilewright.proposers.loops.steps import TECHNIQUES, Step, steps_of

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
KERNELS = {
    "softmax": SOFTMAX, "norm": NORM, "product": PRODUCT, "stencil": STENCIL, "scores": SCORES,
}  # fmt: skip


def outputs(kernel: Kernel, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = {
        p.name: rng.standard_normal(p.sizes) if p.constant else np.full(p.sizes, np.nan)
        for p in kernel.parameters
    }
    found = Interpreter(kernel, arrays).run()
    return {p.name: found[p.name] for p in kernel.parameters}


@pytest.mark.parametrize("name", KERNELS)
def test_text_and_form_are_one(name: str) -> None:
    kernel = parse(KERNELS[name])
    assert parse(emit(kernel)) == kernel


@settings(max_examples=60, deadline=None)
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
        ("void kernel(float X[9]) { float s = 0.0f; for (int i = 0; i < 8; i++) "
         "{ s += X[i]; X[i] = s; } }", 0),
        ("void kernel(float X[9]) { for (int i = 0; i < 8; i++) X[i] = i; }", 0),
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
        "{ for (int j = 0; j < 4; j++) t[j] = X[i][j]; "
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


def test_a_loop_without_constant_quotients_has_no_reciprocal() -> None:
    with pytest.raises(NotApplicableError):
        reciprocal(parse(PRODUCT), 0)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("void kernel(float *X) {}", 1),
        ("void kernel(float X[4]) {\n  while (1) {}\n}", 2),
        ("void kernel(float X[4]) {\n  for (int i = 3; i >= 0; i--) X[i] = 0.0f;\n}", 2),
        ("void kernel(float X[4]) {\n\n  X[0] = sinf(X[1]);\n}", 3),
        ("static float f(float x) { return x; }\nvoid kernel(float X[4]) {}", 1),
        ("void kernel(float X[4]) { static int n; }", 1),
        ("void kernel(float X[010]) {}", 1),
        ("void kernel(float X[4]) {\n  X[0x2] = 0.0f;\n}", 2),
        ("void kernel(float X[4]) {\n  for (int i = 0, j = 1; i < 4; i++) X[i] = j;\n}", 2),
        ("typedef float vf __attribute__((vector_size(4 * 8)));\nvoid kernel(float X[4]) {}", 1),
        (
            "void kernel(float X[4]) { for (int i = 0; i < 4; i++) for (int i = 0; i < 2; i++) "
            "X[i] = 0.0f; }",
            1,
        ),
        ("void kernel(float X[4]) { float s; for (int i = 0; i < 4; i++) { float s; } }", 1),
        ("void kernel(float X[4]) { float X; }", 1),
        ("", 1),
        ("int x = {", 1),
    ],
)
def test_what_is_not_known_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(UnsupportedError) as error:
        parse(text)
    assert error.value.line == line


@settings(max_examples=200, deadline=None)
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


@pytest.mark.parametrize("name", ["softmax", "product"])
def test_golden(name: str, update_golden: bool) -> None:
    kernel = parse(KERNELS[name])
    if name == "softmax":
        kernel = reciprocal(unroll(vectorise(vectorise(kernel, 2, 4), 1, 4), 1, 2), 5)
    else:
        kernel = jam(vectorise(kernel, 1, 4), 0, 2)
    path = GOLDEN / f"{name}.c"
    if update_golden:
        path.write_text(emit(kernel))
    assert emit(kernel) == path.read_text()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
def test_the_exponential_is_as_exact_as_its_comment_says(tmp_path: Path) -> None:
    """Over its whole range, in units in the last place of float32."""
    import ctypes
    import subprocess

    from tilewright.proposers.loops.functions import definitions, vector_types

    source = "\n".join(
        [
            vector_types(LANES),
            *definitions(["v_exp"], LANES),
            "void kernel(float *x, long n) {",
            "  for (long i = 0; i < n; i += 4) *(vf *)&x[i] = v_exp(*(vf *)&x[i]);",
            "}",
        ]
    )
    (tmp_path / "e.c").write_text(source)
    command = ["gcc", "-O2", "-shared", "-fPIC", "e.c", "-o", "e.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    x = np.linspace(-105, 89.5, 400_000, dtype=np.float32)
    got = x.copy()
    library = ctypes.CDLL(str(tmp_path / "e.so"))
    library.kernel(got.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(len(got)))
    with np.errstate(over="ignore"):
        exact = np.exp(x.astype(np.float64))
        unit = np.spacing(exact.astype(np.float32)).astype(np.float64)
    finite = np.isfinite(unit)
    assert np.max(np.abs(got[finite] - exact[finite]) / unit[finite]) <= 2.0
    assert np.all(np.isinf(got[~finite]))
