"""Which options of host-c's menu are offered for a kernel, by what its text shows."""

from __future__ import annotations

import pytest

from tilewright.core.plugins import load_target
from tilewright.core.records import Candidate, Measured, Trial, Verdict
from tilewright.proposers.applicable import applicable

QUANTISED = """
#define QK 32
static float dot(int n, const unsigned char *q, const float *d, const float *x) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) {
    float s = 0.0f;
    for (int j = 0; j < QK / 2; ++j) s += (float)((q[i * QK / 2 + j] & 15) - 8) * x[i * QK + j];
    sum += d[i] * s;
  }
  return sum;
}
void kernel(const unsigned char *q, const float *d, const float *x, float *y) {
  for (int row = 0; row < 2048; ++row) y[row] = dot(64, q + row * 64 * QK / 2, d + row * 64, x);
}
"""
SOFTMAX = """
static void row(const float *x, float *y, int n) {
  float most = x[0], sum = 0.0f;
  for (int i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
  for (int i = 0; i < n; i++) { y[i] = expf(x[i] - most); sum += y[i]; }
  for (int i = 0; i < n; i++) y[i] = y[i] / sum;
}
void kernel(const float X[64][256], float Y[64][256]) {
  for (int r = 0; r < 64; r++) row(X[r], Y[r], 256);
}
"""
LAYERNORM = """
static float mean_of(const float *x) {
  float sum = 0.0f;
  for (int i = 0; i < 256; i++) sum += x[i];
  return sum * (1.0f / 256);
}
static float spread_of(const float *x, float mean) {
  float sum = 0.0f;
  for (int i = 0; i < 256; i++) sum += (x[i] - mean) * (x[i] - mean);
  return 1.0f / sqrtf(sum / 256.0f + 1e-5f);
}
void kernel(const float X[64][256], float Y[64][256]) {
  int r = 0;
  while (r < 64) {
    const float mean = mean_of(X[r]), scale = spread_of(X[r], mean);
    for (int i = 0; i < 256; i++) Y[r][i] = (X[r][i] - mean) * scale;
    r++;
  }
}
"""
GEMM = """
void kernel(const float A[64][64], const float B[64][64], float C[64][64]) {
  for (int i = 0; i < 64; i++)
    for (int j = 0; j < 64; j++) {
      C[i][j] = 0.0f;
      for (int k = 0; k < 64; k++) C[i][j] += A[i][k] * B[k][j];
    }
}
"""
BLUR = """
void kernel(const float A[64][64], float B[64][64]) {
  for (int i = 0; i < 64; i++)
    for (int j = 0; j < 64; j++) {
      float s = 0.0f;
      for (int k = -1; k <= 1; k++)
        if (j + k >= 0 && j + k < 64) s += A[i][j + k];
      B[i][j] = s;
    }
}
"""
DONE = """
#include <stdint.h>
typedef float vf __attribute__((vector_size(64), aligned(4), may_alias));
void kernel(const float A[64][64], float B[64]) {
  for (int i = 0; i < 64; i++) {
    vf s = {0};
    for (int j = 0; j < 64; j += 16) s += *(const vf *)&A[i][j];
    float t = 0.0f;
#pragma GCC unroll 16
    for (int l = 0; l < 16; l++) t += s[l];
    B[i] = t;
  }
}
"""
ASKED = {
    "partial-sums", "reciprocal", "fuse-loops", "split-loops", "keep-in-variable",
    "one-pass-statistics", "keep-row-in-registers",
}  # fmt: skip


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (QUANTISED, {"partial-sums"}),
        (SOFTMAX, {"partial-sums", "reciprocal", "fuse-loops", "split-loops", "keep-in-variable",
                   "one-pass-statistics", "keep-row-in-registers"}),
        (LAYERNORM, {"partial-sums", "reciprocal", "fuse-loops", "one-pass-statistics",
                     "keep-row-in-registers"}),
        (GEMM, {"partial-sums", "keep-in-variable"}),
        (BLUR, {"partial-sums", "split-loops"}),
        (GEMM.replace("C[i][j] += A", "C[i][j] = C[i][j] + A"),
         {"partial-sums", "keep-in-variable"}),
        (GEMM.replace("C[i][j] += A", "*(&C[i][0] + j) += A"),
         {"partial-sums", "keep-in-variable"}),
        (GEMM.replace("C[i][j] += A", "C[i][j] = fmaxf(A[i][k], C[i][j])").replace("* B", "+ B"),
         {"partial-sums", "keep-in-variable"}),
        (DONE, {"partial-sums", "fuse-loops", "keep-row-in-registers"}),
        ("#define EACH for (int i = 0; i < 64; i++)\n"
         "void kernel(const float *x, float *y) { EACH y[i] = x[i]; }\n",
         {"fuse-loops", "keep-row-in-registers"}),
    ],
    ids=["quantised", "softmax", "layernorm", "gemm", "blur", "written-out", "pointer", "maximum",
         "done", "macro"],
)  # fmt: skip
def test_options_that_cannot_apply_are_left_out(source: str, wanted: set[str]) -> None:
    brief = load_target("host-c").brief()
    outcome = Measured(100, "ns", "measured", 0.5, Verdict(()))
    kept = {o.id for o in applicable(brief, Trial(0, 0, Candidate(source), outcome), brief.menu)}
    assert {"vectorise", "prefetch", "other"} <= kept
    assert kept & ASKED == wanted


@pytest.mark.parametrize(
    ("source", "offered"),
    [(SOFTMAX, False), (QUANTISED, True), (GEMM.replace("float", "uint32_t"), True)],
    ids=["floats", "bytes", "words"],
)
def test_weights_of_running_sums_are_offered_only_for_unsigned_numbers(
    source: str, offered: bool
) -> None:
    brief = load_target("host-c").brief()
    outcome = Measured(100, "ns", "measured", 0.5, Verdict(()))
    kept = applicable(brief, Trial(0, 0, Candidate(source), outcome), brief.menu)
    assert ("weigh" in {option.id for option in kept}) == offered
