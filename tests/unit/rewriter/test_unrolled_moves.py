"""Short loops of moves among products are written out, and the kernel still issues the same."""

from __future__ import annotations

import pytest

from tilewright.core.tasks import open_task
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.expr import quotient, reduced, remainder, simplified, var
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.sequences import (
    TECHNIQUES,
    overlapped_sequences,
)
from tilewright.proposers.rewriter.raising.execute import executed
from tilewright.proposers.rewriter.reading import read
from tilewright.proposers.rewriter.rewrites.unrolled_moves import write_moves_out
from tilewright.targets.gemmini import create_fp32_target

KERNEL = """
void kernel(const int8_t A[64][256], const int8_t B[16][16], int8_t C[64][256]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(256, 1.0f, 16, 0);
  config_st(256);
  mvin(&B[0][0], SPAD(8192), 16, 16);
  for (int i = 0; i < 64; i += 16) {
    for (int q = %(lower)s; q < %(upper)s; q++) {
      mvin(&A[16 * (q / 4)][16 * (q %% 4)], SPAD(16 * (q %% 4)), 16, 16);
    }
    for (int j = 0; j < 64; j += 16) {
      preload(SPAD(8192), ACC(j), 16, 16, 16, 16);
      compute_preloaded(SPAD(j), NONE, 16, 16, 16, 16);
    }
    mvout(&C[i][0], ACC(0), 64, 16);
  }
  fence();
}
"""
EACH_FOUR = KERNEL % {"lower": "4 * (i / 16)", "upper": "4 * (i / 16) + 4"}


@pytest.mark.parametrize("divisor", [1, 2, 3, 4, 6, 8, 16])
@pytest.mark.parametrize(("factor", "added"), [(1, 0), (2, 1), (4, 3), (4, 6), (6, 5)])
def test_fewer_divisions_have_the_same_value(divisor: int, factor: int, added: int) -> None:
    """For all multiples of the unit of x, also in nested divisions."""
    whole = var("x") * factor + added
    nested = quotient(var("x"), 4) * factor + added
    for of in (whole, nested):
        for expr in (
            quotient(of, divisor) * 12 + remainder(of, divisor),
            quotient(var("x"), divisor) * divisor * 2 + 1,
            remainder(quotient(of, divisor) * 2 + 1, 4),
        ):
            for unit in (1, 4):
                less = reduced(expr, {"x": unit})
                for x in range(0, 97, unit):
                    at = {"x": (x, x)}
                    assert simplified(less, at) == simplified(expr, at)


def test_divisions_without_remainder_disappear() -> None:
    assert reduced(quotient(var("x"), 4) * 64, {"x": 4}) == var("x") * 16
    assert reduced(quotient(var("x"), 4) * 64, {"x": 2}) == quotient(var("x"), 4) * 64
    assert reduced(quotient(var("x") * 2 + 1, 16), {}) == quotient(var("x"), 8)


def test_moves_among_products_are_written_out(machine: Machine) -> None:
    kernel = lift(EACH_FOUR, machine)
    text = emit(write_moves_out(kernel, machine))
    assert text.count("mvin(&A") == 4
    assert "for (int q" not in text
    assert _issued(text, machine) == _issued(EACH_FOUR, machine)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("0", "i / 16 + 1"),  # another number of iterations each time
        ("0", "16"),  # many
    ],
)
def test_other_loops_of_moves_are_kept(machine: Machine, lower: str, upper: str) -> None:
    kernel = lift(KERNEL % {"lower": lower, "upper": upper}, machine)
    with pytest.raises(NotApplicable, match="no short loop of loads and stores"):
        write_moves_out(kernel, machine)


def test_plans_for_a_small_array_write_moves_out(machine: Machine) -> None:
    """There, the array waits for the code of the moves; on a large array, it does not."""
    small = Machine.of(create_fp32_target().brief())
    for array, target, expected in ((small, "gemmini-fp32-4x4", True), (machine, "gemmini", False)):
        kernel = read(open_task(f"{target}:gemm-256x256x256", {}).task.start, array)
        steps, _ = next(overlapped_sequences(kernel, array, TECHNIQUES))
        assert ("write-moves-out" in map(str, steps)) == expected


def _issued(source: str, machine: Machine) -> list[object]:
    return [event[2:] for event in executed(source, machine).events]
