"""Which local rows a product reads where the array strides over them or transposes them."""

from __future__ import annotations

import pytest

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, accesses, find_buffers
from tilewright.proposers.rewriter.analysis.regions import touches
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine

CHANGING = "for (int t = 1; t < 3; t++) config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, t, 0, 0);"


def two_loads_and_a_product(machine: Machine, array: str, before: str = "") -> Kernel:
    """Rows 0..15 and 16..31 are loaded by one command each; a product streams 8 from row 0 and
    latches 4 from row 4096 on, of 16 columns."""
    return lift(
        f"""
void kernel(const int8_t A[32][16], const int8_t B[32][16], int8_t C[8][16]) {{
  {before}
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, {array});
  config_ld(16, 1.0f, 16, 0);
  config_st(16);
  mvin(&A[0][0], SPAD(0), 16, 16);
  mvin(&A[16][0], SPAD(16), 16, 16);
  mvin(&B[0][0], SPAD(4096), 16, 4);
  mvin(&B[4][0], SPAD(4100), 16, 16);
  preload(SPAD(4096), ACC(0), 16, 4, 16, 8);
  compute_preloaded(SPAD(0), NONE, 4, 8, 16, 8);
  mvout(&C[0][0], ACC(0), 16, 8);
  fence();
}}
""",
        machine,
    )


@pytest.mark.parametrize(
    ("array", "buffers"),
    [
        ("1, 0, 0", {(0, 16), (16, 32), (4096, 4100), (4100, 4116)}),
        ("2, 0, 0", {(0, 16), (16, 32), (4096, 4100), (4100, 4116)}),
        ("3, 0, 0", {(0, 32), (4096, 4100), (4100, 4116)}),
        ("1, 0, 1", {(0, 16), (16, 32), (4096, 4116)}),
    ],
)
def test_rows_that_a_product_may_read_belong_to_one_buffer(
    machine: Machine, array: str, buffers: set[tuple[int, int]]
) -> None:
    """Buffers are placed apart: what is loaded for one product must stay together."""
    kernel = two_loads_and_a_product(machine, array)
    found = {i for b in find_buffers(kernel, machine) if b.space == "SPAD" for i in b.intervals()}
    assert found == buffers


@pytest.mark.parametrize(("array", "streamed", "latched"), [("3, 0, 0", 22, 4), ("1, 0, 1", 8, 16)])
def test_a_region_holds_all_rows_that_a_product_may_read(
    machine: Machine, array: str, streamed: int, latched: int
) -> None:
    kernel = two_loads_and_a_product(machine, array)
    rows = {
        a.local.row.const: touches(a, kernel, machine).dims[0][1].const
        for a in accesses(kernel.body, machine)
        if machine.unit(a.command.name) == "execute" and not a.writes
    }
    assert rows == {0: streamed, 4096: latched}


def test_an_unknown_stride_is_refused(machine: Machine) -> None:
    kernel = two_loads_and_a_product(machine, "1, 0, 0", CHANGING)
    with pytest.raises(NotApplicable, match="rows of an operand is not known"):
        find_buffers(kernel, machine)
