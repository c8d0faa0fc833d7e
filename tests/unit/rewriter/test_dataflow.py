"""Sums that stay in the array, moved to local memory: the styles that are followed."""

from __future__ import annotations

import pytest
from kernel_model import gemm_is_right

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read

HEAD = """
#define LOAD(k)                          \\
  mvin(&A[i][k], SPAD(0), 16, 16);       \\
  mvin2(&B[k][j], SPAD(4096), 16, 16)
#define FIRST compute_preloaded(SPAD(0), SPAD(4096), 16, 16, 16, 16)
#define AGAIN compute_accumulated(SPAD(0), SPAD(4096), 16, 16, 16, 16)
#define TO(where) preload(NONE, where, 16, 16, 16, 16)
void kernel(const int8_t A[32][80], const int8_t B[80][48], int8_t C[32][48]) {
  config_ex(OUTPUT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(80, 1.0f, 16, 0);
  config_ld(48, 1.0f, 16, 1);
  config_st(48);
  for (int i = 0; i < 32; i += 16)
    for (int j = 0; j < 48; j += 16) {
"""
TAIL = """
      mvout(&C[i][j], ACC(0), 16, 16);
    }
  fence();
}
"""
LOOP = "for (int k = 0; k < 80; k += 16) { LOAD(k); "
STYLES = {
    "tests": LOOP + "TO(k == 64 ? ACC(0) : NONE); if (k) AGAIN; else FIRST; }",
    "a variable": LOOP + "const uint32_t to = k < 64 ? NONE : ACC(0); TO(to);"
    " if (k == 0) { FIRST; } else { AGAIN; } }",
    "first and last apart": "LOAD(0); TO(NONE); FIRST;"
    " for (int k = 16; k < 64; k += 16) { LOAD(k); TO(NONE); AGAIN; }"
    " LOAD(64); TO(ACC(0)); AGAIN;",
    "first apart": "LOAD(0); TO(NONE); FIRST; for (int k = 16; k < 80; k += 16)"
    " { LOAD(k); TO(k == 64 ? ACC(0) : NONE); AGAIN; }",
    "one by one": "LOAD(0); TO(NONE); FIRST; LOAD(16); TO(NONE); AGAIN; LOAD(32); TO(NONE); AGAIN;"
    " LOAD(48); TO(NONE); AGAIN; LOAD(64); TO(ACC(0)); AGAIN;",
}
REFUSED = {
    "a sum that goes on": LOOP + "TO(k == 64 ? ACC(0) : NONE); AGAIN; }",
    "sums in between": LOOP + "TO(k == 32 ? ACC(0) : NONE); if (k) AGAIN; else FIRST; }",
    "begun twice": LOOP + "TO(k == 64 ? ACC(0) : NONE); if (k == 16) FIRST; else AGAIN; }",
    "something to begin with": LOOP
    + "preload(SPAD(64), k == 64 ? ACC(0) : NONE, 16, 16, 16, 16); if (k) AGAIN; else FIRST; }",
    "to the factors": LOOP + "TO(k == 64 ? SPAD(64) : NONE); if (k) AGAIN; else FIRST; }",
    "scaled": STYLES["tests"] + " config_st(48, 0.0001f);",
    "scaled by an argument": STYLES["tests"] + " config_st(48, SCALE);",
    "unscaled": STYLES["tests"] + " mvout(&C[i][j], ACC(0) | FULL, 4, 16);",
    "stored while the next one is open": LOOP
    + "if (k == 32 && j > 0) mvout(&C[i][j - 16], ACC(0), 16, 16);"
    " TO(k == 64 ? ACC(0) : NONE); if (k) AGAIN; else FIRST; }",
    "stored between products": STYLES["one by one"].replace(
        "LOAD(32);", "LOAD(32); mvout(&C[0][0], ACC(0), 16, 16);"
    ),
    "beside text": STYLES["tests"] + " helper();",
    "another setting": STYLES["tests"] + " config_ex(OUTPUT_STATIONARY, RELU, 1, 0, 0);",
}


@pytest.mark.parametrize("style", STYLES)
def test_sums_move_to_memory(machine: Machine, style: str) -> None:
    kernel = read(HEAD + STYLES[style] + TAIL, machine)
    kernel = Step.parse("dataflow").apply(kernel, machine)
    assert "WEIGHT_STATIONARY" in emit(kernel)
    assert gemm_is_right(kernel, 32, 48, 80)


@pytest.mark.parametrize("style", REFUSED)
def test_sums_that_are_not_followed_stay(machine: Machine, style: str) -> None:
    kernel = read(HEAD + REFUSED[style] + TAIL, machine)
    with pytest.raises(NotApplicable):
        Step.parse("dataflow").apply(kernel, machine)


@pytest.mark.parametrize("settings", ["1, 1, 1", "1, 1, 0"])
def test_transposed_factors_stay(machine: Machine, settings: str) -> None:
    source = (HEAD + STYLES["tests"] + TAIL).replace(
        "1, 0, 0", settings.replace("0, 1, 1", "1, 1, 1")
    )
    with pytest.raises(NotApplicable):
        Step.parse("dataflow").apply(read(source, machine), machine)
