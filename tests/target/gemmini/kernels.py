"""Small kernels for tests: one product of 16x16 blocks, and ways to break it."""

from __future__ import annotations

GOOD = """\
void kernel(const int8_t A[16][16], const int8_t B[16][16], int8_t C[16][16]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(16);
  config_ld(16, 1.0f, 16, 0);
  mvin(A, SPAD(0), 16, 16);
  mvin(B, SPAD(SPAD_BANK_ROWS), 16, 16);
  preload(SPAD(SPAD_BANK_ROWS), ACC(0), 16, 16, 16, 16);
  compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
  mvout(C, ACC(0), 16, 16);
  fence();
}
"""
"""Correct for gemm-16x16x16. Line 5 loads A, 6 loads B, 7-8 multiply, 9 stores."""


def with_line(number: int, text: str) -> str:
    """`GOOD` with one line replaced."""
    lines = GOOD.splitlines()
    lines[number - 1] = text
    return "\n".join(lines) + "\n"
