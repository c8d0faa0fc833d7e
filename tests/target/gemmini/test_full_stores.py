"""What the simulator says of stores that fill their queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core.config import Settings
from tilewright.core.records import Measured
from tilewright.evaluating import evaluate_kernel

KERNEL = """
void kernel(const int8_t A[64][64], const int8_t B[64][64], int8_t C[64][64]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(64, 1.0f, 16, 0);
  config_st(64);
  for (int k = 0; k < 64; k += 16) {
    mvin(&B[k][0], SPAD(SPAD_BANK_ROWS + 4 * k), 64, 16);
    mvin(&A[k][0], SPAD(4 * k), 64, 16);
  }
  for (int i = 0; i < 64; i += 32) {
    for (int k = 0; k < 64; k += 16)
      for (int r = 0; r < 32; r += 16)
        for (int j = 0; j < 64; j += 16) {
          preload(SPAD(SPAD_BANK_ROWS + 4 * k + j), ACC(4 * (i + r) + j) | (k ? ACCUMULATE : 0),
                  16, 16, 16, 16);
          compute_preloaded(SPAD(4 * (i + r) + k), NONE, 16, 16, 16, 16);
        }
    for (int n = 0; n < 8; n++) {
      const int tile = ORDER, r = tile / 4 * 16, j = tile % 4 * 16;
      mvout(&C[i + r][j], ACC(4 * (i + r) + j), 16, 16);
    }
  }
  fence();
}
"""
"""Eight tiles are stored one after the other, while four stores fit the queue."""


def breakdown(folder: Path, order: str) -> tuple[dict[str, float], str]:
    file = folder / "kernel.c"
    file.write_text(KERNEL.replace("ORDER", order))
    outcome = evaluate_kernel(file, "gemmini:gemm-64x64x64", Settings()).outcome
    assert isinstance(outcome, Measured), outcome
    return dict(outcome.breakdown), outcome.feedback


@pytest.mark.toolchain
@pytest.mark.slow
def test_a_full_queue_waits_for_products_only_if_the_last_ones_are_stored_first(
    tmp_path: Path,
) -> None:
    first, _ = breakdown(tmp_path, "n")
    last, told = breakdown(tmp_path, "7 - n")
    assert first["full_store_products"] == 0
    assert last["full_store_products"] > 0
    assert "until products had left the array" in told
    for counts in (first, last):
        waits = counts["full_store_products"] + counts["full_store_bank"]
        assert 0 < waits <= counts["rs_full_store"]
