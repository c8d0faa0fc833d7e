"""The parts of the static estimate by which first schedules are chosen."""

from __future__ import annotations

import pytest

from tilewright.core.records import Brief, Candidate, History, Measured, Trial, Verdict, Workload
from tilewright.proposers.builtin import BuiltinProposer
from tilewright.proposers.rewriter.analysis.buffers import buffers_of
from tilewright.proposers.rewriter.estimate.cost import Cost, estimate
from tilewright.proposers.rewriter.estimate.expectation import parts
from tilewright.proposers.rewriter.estimate.prefetches import prefetched_in
from tilewright.proposers.rewriter.estimate.timeline import LATENCY, Event, Repeat, Timeline
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.reading import read
from tilewright.targets.gemmini import create_target


def cost(array: float, moves: float, core: float) -> Cost:
    return Cost(array, moves, core, exposed=10.0, loaded_rows=1.0)


def test_a_kernel_whose_moves_or_commands_take_long_is_expected_to_be_slower() -> None:
    """Their time overlaps that of the products, but never completely."""
    idle, moves, core = cost(990, 100, 100), cost(990, 950, 100), cost(990, 100, 950)
    assert idle.total == moves.total == core.total == 1000
    assert 1000 < idle.with_contention < 1001
    assert moves.with_contention == core.with_contention > 1080


def test_nothing_takes_no_time() -> None:
    nothing = Cost(0, 0, 0, 0, 0)
    assert nothing.with_contention == 0


def test_each_plan_has_the_estimate_of_its_kernel() -> None:
    target = create_target().brief()
    start = Candidate(create_target().open("gemm-64x64x64", {}).start)
    parent = Trial(0, 0, start, Measured(9e4, "cycles", "simulated", 0.1, Verdict()))
    brief, history = Brief(Workload("w", "gemmini", (), 1), target, target.menu, 1, 9), [parent]
    proposer = BuiltinProposer()
    plans = proposer.plan(brief, parent, History(history), 2, seed=1)
    assert plans
    for plan in plans:
        made = proposer.implement(brief, parent, plan, 1, 0)[0]
        machine = Machine.of(target)
        assert plan.estimated == parts(estimate(read(made.source, machine), machine))


KEPT = """
void kernel(const int8_t A[4][40][16], const int8_t B[4][16][16], int8_t C[40][16]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  for (int k = 0; k < 4; k++) {
    preload(SPAD(16 * k), ACC(0) | ACCUMULATE, 16, 16, 16, 10);
    compute_preloaded(SPAD(4096 + 40 * k), NONE, 16, 10, 16, 16);
    for (int i = 1; i < 4; i++) {
      preload(NONE, ACC(10 * i) | ACCUMULATE, 16, 16, 16, 10);
      compute_accumulated(SPAD(4096 + 40 * k + 10 * i), NONE, 16, 10, 16, 16);
    }
  }
  fence();
}
"""


def test_a_short_product_before_one_that_keeps_the_operand_takes_its_own_rows(
    machine: Machine,
) -> None:
    """Only the last of each four products is followed by one that latches 16 rows."""
    found = estimate(read(KEPT, machine), machine)
    assert found.unfilled == pytest.approx(4 * (16 - 10))
    assert found.array == pytest.approx(16 * 10 + found.unfilled)


def test_the_first_product_of_a_test_counts_as_often_as_it_runs(machine: Machine) -> None:
    """The same products as above, written with a test."""
    tested = (
        KEPT[: KEPT.index("    preload")]
        + """
    for (int i = 0; i < 4; i++) {
      if (i == 0) {
        preload(SPAD(16 * k), ACC(0) | ACCUMULATE, 16, 16, 16, 10);
        compute_preloaded(SPAD(4096 + 40 * k), NONE, 16, 10, 16, 16);
      } else {
        preload(NONE, ACC(10 * i) | ACCUMULATE, 16, 16, 16, 10);
        compute_accumulated(SPAD(4096 + 40 * k + 10 * i), NONE, 16, 10, 16, 16);
      }
    }
  }
  fence();
}
"""
    )
    found = estimate(read(tested, machine), machine)
    assert found.unfilled == pytest.approx(4 * (16 - 10), rel=0.2)


SLOTS = """
void kernel(const int8_t A[64][64], const int8_t B[64][64], int8_t C[16][64]) {
  config_ld(64, 1.0f, 16, 1);
  for (int n = 0; n < 16; n++) {
    for (int c = 0; c < 4; c++) {
      mvin2(&B[16 * c][0], SPAD(1024 + 64 * c + 256 * (LOADED % 2)), 64, 16);
      for (int i = 0; i < 20; i++) {
        preload(SPAD(1024 + 64 * c + 256 * (READ % 2)), ACC(0) | ACCUMULATE, 4, 16, 4, 4);
        compute_preloaded(SPAD(4096 + 16 * c), NONE, 16, 4, 16, 16);
      }
    }
    preload(SPAD(8192), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
    compute_preloaded(SPAD(4096), NONE, 16, 16, 16, 16);
  }
  fence();
}
"""


def with_slots(loaded: str, read_in: str, machine: Machine) -> Kernel:
    text = SLOTS.replace("LOADED", loaded).replace("READ", read_in)
    return read(text, machine)


@pytest.mark.parametrize(
    ("loaded", "read_in", "loop"),
    [
        ("n", "n", None),
        ("(n + 1)", "n", "c"),
        ("(n + 2)", "n", None),
        ("(c + 1)", "c", None),  # the next iteration reads it
        ("(n + c)", "n", None),
    ],
)
def test_a_load_into_a_slot_that_its_loop_does_not_read_is_a_prefetch(
    loaded: str, read_in: str, loop: str | None, machine: Machine
) -> None:
    body = with_slots(loaded, read_in, machine).body
    found = prefetched_in(buffers_of(body, machine))
    assert [around.var for around in found.values()] == ([] if loop is None else [loop])


def test_products_of_the_loop_do_not_wait_for_a_prefetch(machine: Machine) -> None:
    in_time, ahead = (
        estimate(with_slots(loaded, "n", machine), machine).total for loaded in ("n", "(n + 1)")
    )
    assert ahead < in_time


def test_products_after_the_loop_wait_for_a_prefetch() -> None:
    load, product = Event("load", 64, 1, writes=(0,), ahead=True), Event("execute", 16, 1, (0,))
    timeline = Timeline(1)
    timeline.run([Repeat("c", 2, 0, (load,), prefetched=(0,)), product])
    assert timeline.end > 2 * 64 + LATENCY + 16
