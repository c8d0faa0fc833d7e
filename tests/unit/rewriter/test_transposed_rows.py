"""Which local rows a product reads of operands that the array transposes."""

from __future__ import annotations

import pytest

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, find_buffers
from tilewright.proposers.rewriter.analysis.regions import reads
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read


def product(first: str = "1, 0", more: str = "", dataflow: str = "WEIGHT_STATIONARY") -> str:
    """`C = A^T * B` with a depth of 24, which leaves a short last block of 8 rows of A."""
    return f"""
void kernel(const int8_t A[24][64], const int8_t B[24][16], int8_t C[64][16], int n) {{
  config_ex({dataflow}, NO_ACTIVATION, 1, {first});
  config_ld(64, 1.0f, 16, 0);
  config_ld(16, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  config_st(16);
  {more}
  for (int i = 0; i < 64; i += 16) {{
    mvin3(0, ACC(0), 16, 16);
    for (int k = 0; k < 24; k += 16) {{
      const int depth = 24 - k < 16 ? 24 - k : 16;
      mvin(&A[k][i], SPAD(0), 16, depth);
      mvin2(&B[k][0], SPAD(64), 16, depth);
      preload(SPAD(64), ACC(0) | ACCUMULATE, 16, depth, 16, 16);
      compute_preloaded(SPAD(0), NONE, depth, 16, 16, 16);
    }}
    mvout(&C[i][0], ACC(0), 16, 16);
  }}
  fence();
}}
"""


def rows_read(source: str, machine: Machine, name: str) -> Expr:
    """How many rows the products read of a buffer."""
    kernel = read(source, machine)
    buffer = next(b for b in find_buffers(kernel, machine) if b.name == name)
    found = [reads(a, kernel, machine) for a in buffer.accesses if not a.writes]
    assert len(found) == 1
    assert found[0] is not None
    return found[0].dims[0][1]


def test_columns_of_a_transposed_operand_are_its_local_rows(machine: Machine) -> None:
    plain = rows_read(product("0, 0"), machine, "B")
    assert not plain.is_const
    assert rows_read(product(), machine, "A") == plain
    assert rows_read(product("0, 0"), machine, "A") == Expr(16)


@pytest.mark.parametrize(
    "more",
    [
        "config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);",
        "config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, n, 0);",
        "strange(n);",
    ],
)
def test_it_is_not_known_where_settings_differ(machine: Machine, more: str) -> None:
    assert rows_read(product(more=more), machine, "A") == Expr(16)
    narrow = product(more=more).replace("NONE, depth, 16, 16, 16", "NONE, depth, 8, 16, 8")
    assert rows_read(narrow, machine, "A") == Expr(16)
    with pytest.raises(NotApplicable):
        Step("block-load", ("A", "i")).apply(read(product(more=more), machine), machine)


def test_a_block_that_begins_a_sum_is_not_transposed(machine: Machine) -> None:
    stays = "config_ex(OUTPUT_STATIONARY, NO_ACTIVATION, 1, 0, 1);"
    text = product("0, 1", more=stays).replace("16, depth, 16, 16", "8, depth, 8, 16")
    assert rows_read(text, machine, "B") == Expr(16)


def test_a_short_last_block_of_a_transposed_operand_is_loaded_before_the_loop(
    machine: Machine,
) -> None:
    assert Step("block-load", ("A", "i")).apply(read(product(), machine), machine)
