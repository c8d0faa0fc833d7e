"""Small loads are issued before large ones, and plans prefer little code for short kernels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.estimate.timeline import COLD, Event, Repeat, Timeline
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.sequences import streamed
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.rewrites.one_nest import nests
from tilewright.proposers.rewriter.rewrites.small_loads_first import small_loads_first

FOLDERS = Path(__file__).parents[2] / "fixtures" / "foreign_folders"


def kernel(row: int = 512, between: str = "") -> str:
    return f"""
void kernel(const int8_t A[16][64], const int8_t B[64][64], int8_t C[16][64]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(64, 1.0f, 64, 1);
  for (int k = 0; k < 64; k += 16) mvin2(&B[k][0], SPAD(k), 64, 16);
  {between}
  config_ld(64, 1.0f, 16, 0);
  mvin(&A[0][0], SPAD({row}), 64, 16);
  config_st(64);
  for (int j = 0; j < 64; j += 16) {{
    for (int k = 0; k < 64; k += 16) {{
      preload(SPAD(4 * j + k), k ? ACC(j) | ACCUMULATE : ACC(j), 16, 16, 16, 16);
      compute_preloaded(SPAD({row} + k), NONE, 16, 16, 16, 16);
    }}
  }}
  mvout(&C[0][0], ACC(0), 64, 16);
  fence();
}}
"""


def test_a_small_load_comes_before_a_large_one(machine: Machine) -> None:
    text = emit(small_loads_first(lift(kernel(), machine), machine))
    assert re.findall(r"mvin\w*\(&(\w)", text) == ["A", "B"]


@pytest.mark.parametrize(
    "source",
    [kernel(row=240), kernel(between="fence();")],
    ids=["the_same_rows", "another_command_between"],
)
def test_loads_stay_in_their_order_otherwise(machine: Machine, source: str) -> None:
    with pytest.raises(NotApplicable):
        small_loads_first(lift(source, machine), machine)


def test_code_takes_longer_when_it_runs_for_the_first_time() -> None:
    def end(*nodes: Event | Repeat) -> float:
        timeline = Timeline(0)
        timeline.run(nodes)
        return timeline.end

    def command() -> Event:
        return Event("core", 0.0, 1.0)

    assert end(command(), command()) == 2 * (1 + COLD)
    assert end(Repeat("i", 2.0, 0.0, (command(),))) == 2 + COLD


def test_a_short_product_streams_past_an_operand_in_local_memory(machine: Machine) -> None:
    naive = raised((FOLDERS / "attention_tiles" / "kernel.c").read_text(), machine)
    for part, kept in zip(nests(naive, machine), "KV", strict=True):
        steps = [str(s) for s in next(streamed(part, machine))[0]]
        assert any(s.startswith(f"resident {kept} ") for s in steps), steps
        assert not any(s.startswith("keep-operand") for s in steps)
