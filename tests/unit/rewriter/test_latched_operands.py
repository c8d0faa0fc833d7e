"""Products that keep the operand of an earlier one stay after it, whatever loops change places."""

from __future__ import annotations

import pytest
from kernel_model import gemm, gemm_is_right

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read

SHAPE = (64, 128, 32)
KEPT = "retile i 4; reuse"
"""All products of a tile's rows but the first keep its operand, in a loop of their own."""


def rewritten(kernel: Kernel, steps: str, machine: Machine) -> Kernel:
    for step in steps.split("; "):
        kernel = Step.parse(step).apply(kernel, machine)
    return kernel


def test_larger_tiles_keep_each_product_with_those_that_keep_its_operand(machine: Machine) -> None:
    kernel = rewritten(read(gemm(*SHAPE), machine), f"{KEPT}; retile j 2", machine)
    assert "compute_accumulated" in emit(kernel)
    assert gemm_is_right(lift(emit(kernel), machine), *SHAPE)


AROUND = """
void kernel(const int8_t A[64][16], const int8_t B[16][64], int8_t C[64][64]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(64);
  config_ld(16, 1.0f, 16, 0);
  config_ld(64, 1.0f, 16, 1);
  for (int i = 0; i < 64; i += 16) mvin(&A[i][0], SPAD(i), 16, 16);
  {before}
  for (int j = 0; j < 64; j += 16) {{
    {first}
    for (int i = 0; i < 64; i += 16) {{
      preload(i == 0 ? SPAD(4096{j}) : NONE, ACC(i{wide}), 16, 16, 16, 16);
      if (i == 0) compute_preloaded(SPAD(i), NONE, 16, 16, 16, 16);
      else compute_accumulated(SPAD(i), NONE, 16, 16, 16, 16);
    }}
    {last}
  }}
  {after}
  fence();
}}
"""
"""The first product over i latches; the moves stand around both loops, or within the outer one."""
WHOLE = AROUND.format(
    before="mvin2(&B[0][0], SPAD(4096), 64, 16);",
    first="",
    j=" + j",
    wide=" * 4 + j",
    last="",
    after="for (int i = 0; i < 64; i += 16) mvout(&C[i][0], ACC(i * 4), 64, 16);",
)
BY_COLUMNS = AROUND.format(
    before="",
    first="mvin2(&B[0][j], SPAD(4096), 16, 16);",
    j="",
    wide="",
    last="for (int i = 0; i < 64; i += 16) mvout(&C[i][j], ACC(i), 16, 16);",
    after="",
)


def test_rows_whose_first_product_latches_are_not_swapped_with_columns(machine: Machine) -> None:
    kernel = read(WHOLE, machine)
    assert gemm_is_right(lift(emit(kernel), machine), 64, 64, 16)
    with pytest.raises(NotApplicable, match="use operands that earlier ones latched"):
        Step.parse("reorder j").apply(kernel, machine)


def test_tiles_are_not_put_between_rows_whose_first_product_latches(machine: Machine) -> None:
    kernel = rewritten(read(BY_COLUMNS, machine), "retile j 2", machine)
    assert gemm_is_right(lift(emit(kernel), machine), 64, 64, 16)


BETWEEN = """
void kernel(const int8_t A[64][32], const int8_t B[32][64], int8_t C[64][64]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(32, 1.0f, 16, 0);
  config_ld(64, 1.0f, 16, 1);
  config_st(64);
  for (int i = 0; i < 64; i += 16)
    for (int j = 0; j < 64; j += 16) {{
      mvin(&A[i][0], SPAD(0), 16, 16);
      mvin2(&B[0][j], SPAD(4096), 16, 16);
      preload(SPAD(4096), ACC(0), 16, 16, 16, 16);
      mvin(&A[i][16], SPAD(16), 16, 16);
      {load}
      compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      preload(SPAD({second}), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
      compute_preloaded(SPAD(16), NONE, 16, 16, 16, 16);
      mvout(&C[i][j], ACC(0), 16, 16);
    }}
  fence();
}}
"""
"""Loads of the second product stand between the two commands of the first one."""


@pytest.mark.parametrize("step", ["retile i 2", "retile j 2", "retile j 4"])
def test_loads_within_a_product_come_before_it(machine: Machine, step: str) -> None:
    source = BETWEEN.format(load="mvin2(&B[16][j], SPAD(4112), 16, 16);", second=4112)
    kernel = rewritten(read(source, machine), step, machine)
    assert gemm_is_right(lift(emit(kernel), machine), 64, 64, 32)


def test_a_load_into_the_rows_of_the_latched_operand_stays_after_it(machine: Machine) -> None:
    source = BETWEEN.format(load="mvin2(&B[16][j], SPAD(4096), 16, 16);", second=4096)
    kernel = read(source, machine)
    assert gemm_is_right(kernel, 64, 64, 32)
    with pytest.raises(NotApplicable, match="between a latched operand and its product"):
        Step.parse("retile j 2").apply(kernel, machine)
