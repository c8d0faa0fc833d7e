"""Kernels that somebody tuned: loads ahead and delayed stores are undone before other rewrites."""

from __future__ import annotations

import pytest
from kernel_model import gemm_is_right

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read
from tilewright.proposers.rewriter.rewrites.plain_buffers import loaded_in_turn

SHAPE = (32, 64, 80)
HEAD = """
#define A_TO(s) SPAD((s) * 512)
#define B_TO(s) SPAD(4096 + (s) * 512)
static void load(const int8_t A[32][80], const int8_t B[80][64], int i, int j, int k, int s) {
  mvin(&A[i][k], A_TO(s), 16, 16);
  mvin2(&B[k][j], B_TO(s), 16, 16);
}
static void multiply(int s, int k) {
  preload(B_TO(s), ACC(0) | (k ? ACCUMULATE : 0), 16, 16, 16, 16);
  compute_preloaded(A_TO(s), NONE, 16, 16, 16, 16);
}
void kernel(const int8_t A[32][80], const int8_t B[80][64], int8_t C[32][64]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(80, 1.0f, 16, 0);
  config_ld(64, 1.0f, 16, 1);
  config_st(64);
  for (int i = 0; i < 32; i += 16)
    for (int j = 0; j < 64; j += 16) {
      load(A, B, i, j, 0, 0);
"""
TAIL = """
      mvout(&C[i][j], ACC(0), 16, 16);
    }
  fence();
}
"""
AHEAD = {
    "at the head": "for (int k = 0; k < 80; k += 16) { if (k + 16 < 80)"
    " load(A, B, i, j, k + 16, (k / 16 + 1) % 2); multiply(k / 16 % 2, k); }",
    "another test": "for (int k = 0; k < 80; k += 16) { if (k != 64)"
    " load(A, B, i, j, k + 16, (k / 16 + 1) % 2); multiply(k / 16 % 2, k); }",
    "after the work": "int s = 0; for (int k = 0; k < 80; k += 16) { multiply(s, k); s = !s;"
    " if (k <= 48) load(A, B, i, j, k + 16, s); }",
    "the last apart": "for (int k = 0; k < 64; k += 16) {"
    " load(A, B, i, j, k + 16, (k / 16 + 1) % 2); multiply(k / 16 % 2, k); } multiply(0, 64);",
}


@pytest.mark.parametrize("style", AHEAD)
def test_loads_ahead_are_undone(machine: Machine, style: str) -> None:
    kernel = read(HEAD + AHEAD[style] + TAIL, machine)
    assert gemm_is_right(kernel, *SHAPE)
    for text in ("block-load A k", "resident B i inside"):
        kernel = Step.parse(text).apply(kernel, machine)
        assert gemm_is_right(kernel, *SHAPE), text
    assert "k + 16" not in emit(kernel)


def test_loads_ahead_of_what_the_loop_stores_stay(machine: Machine) -> None:
    source = HEAD.replace("const int8_t A", "int8_t A") + AHEAD["at the head"] + TAIL
    storing = source.replace("multiply(k /", "mvout(&A[i][k], ACC(0), 16, 16); multiply(k /")
    for text, undone in ((source, True), (storing, False)):
        kernel = simplify(lift(text, machine))
        assert loaded_in_turn(kernel, machine, "A") is undone


@pytest.mark.parametrize(
    "between",
    ["mvout(&A[i][0], ACC(0), 16, 16);", "config_ld(64, 1.0f, 16, 0);", "multiply(0, 0);"],
)
def test_loads_before_a_loop_are_not_moved_after_other_commands(
    machine: Machine, between: str
) -> None:
    source = HEAD.replace("const int8_t A", "int8_t A") + between + AHEAD["at the head"] + TAIL
    assert not loaded_in_turn(simplify(lift(source, machine)), machine, "A")


def test_loads_ahead_under_settings_that_change_stay(machine: Machine) -> None:
    source = HEAD + AHEAD["at the head"].replace("multiply", "config_ld(64, 1.0f, 16, 0); multiply")
    assert not loaded_in_turn(simplify(lift(source + TAIL, machine)), machine, "A")
