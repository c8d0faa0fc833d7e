"""Iterations that hand values on through memory, or wait for a fence, keep their order."""

from __future__ import annotations

import random

import numpy as np
import pytest
from float_model import results
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, find_buffer
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step, steps_for
from tilewright.targets.gemmini import create_fp32_target

TECHNIQUES = [
    "banks",
    "block-load",
    "double-accumulator",
    "double-buffer",
    "interleave",
    "peel",
    "pipeline",
    "reorder",
    "resident",
    "retile",
    "split",
    "tail-first",
    "unroll",
]


@pytest.fixture(scope="module")
def floats() -> Machine:
    return Machine.of(create_fp32_target().brief())


def chain(source: str, ahead: int, fence: str = "fence();", before: str = "") -> str:
    """`x[t + ahead] = W * source[t]`, four rows at a time."""
    return f"""
void kernel(const float W[4][4], const float y[40][4], float x[40][4], float z[40][4]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(16);
  config_ld(16, 1.0f, 4, 0);
  config_ld(16, 1.0f, 4, 1);
  {before}
  for (int t = 0; t < 24; t += 4) {{
    {fence if before else ""}
    mvin(&W[0][0], SPAD(0), 4, 4);
    mvin2(&{source}[t][0], SPAD(4), 4, 4);
    preload(SPAD(4), ACC(0), 4, 4, 4, 4);
    compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);
    mvout(&x[t + {4 * ahead}][0], ACC(0), 4, 4);
    {"" if before else fence}
  }}
  fence();
}}
"""


STORED_BEFORE = """
  mvin(&W[0][0], ACC(16), 4, 4);
  for (int s = 0; s < 24; s += 4) {
    mvout(&z[s][0], ACC(16), 4, 4);
  }
"""


def arrays(kernel: Kernel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {a.name: rng.standard_normal(a.shape) for a in kernel.arrays}


@pytest.mark.parametrize(
    ("source", "step", "reason"),
    [
        (chain("x", 1), "pipeline x t 2", "it loads ahead"),
        (chain("x", 2), "retile t 3", "share elements of x"),
        (
            chain("x", 1, fence=""),
            "double-accumulator x2 t 2 delayed",
            "it stores one iteration later",
        ),
        (chain("y", 0), "double-accumulator x t 2 delayed", "order its stores"),
        (chain("z", 0, before=STORED_BEFORE), "pipeline z t 2", "order accesses to z"),
        (chain("z", 0, before=STORED_BEFORE), "retile t 2", "order accesses to z"),
        (chain("z", 0, before=STORED_BEFORE), "block-load z t", "order accesses to z"),
    ],
)
def test_what_would_change_the_order_is_refused(
    floats: Machine, source: str, step: str, reason: str
) -> None:
    kernel = simplify(lift(source, floats))
    with pytest.raises(NotApplicable, match=reason):
        Step.parse(step).apply(kernel, floats)


@pytest.mark.parametrize("step", ["pipeline y t 2", "retile t 3", "block-load y t"])
def test_a_fence_that_orders_nothing_else_stops_nothing(floats: Machine, step: str) -> None:
    kernel = simplify(lift(chain("y", 0), floats))
    given = arrays(kernel)
    after = Step.parse(step).apply(kernel, floats)
    np.testing.assert_allclose(results(after, given)["x"], results(kernel, given)["x"])


def test_loads_that_refill_rows_in_use_are_not_spread(floats: Machine) -> None:
    """A person's loads ahead, into the very rows that the work after them reads."""
    source = """
void kernel(const float W[4][4], const float y[24][8], float x[24][4]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(16);
  config_ld(16, 1.0f, 4, 0);
  config_ld(32, 1.0f, 4, 1);
  mvin(&W[0][0], SPAD(0), 4, 4);
  mvin2(&y[0][0], SPAD(4), 4, 4);
  mvin2(&y[0][4], SPAD(8), 4, 4);
  for (int t = 0; t < 24; t += 4) {
    if (t + 4 < 24) {
      for (int k = 0; k < 8; k += 4) mvin2(&y[t + 4][k], SPAD(k + 4), 4, 4);
    }
    for (int k = 0; k < 8; k += 4) {
      preload(SPAD(k + 4), ACC(0) | (k > 0 ? ACCUMULATE : 0), 4, 4, 4, 4);
      compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);
    }
    mvout(&x[t][0], ACC(0), 4, 4);
  }
  fence();
}
"""
    kernel = simplify(lift(source, floats))
    with pytest.raises(NotApplicable, match="share rows with its other commands"):
        Step.parse("interleave t").apply(kernel, floats)


@settings(
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from(["x", "x", "y"]), st.integers(1, 3), st.integers(0, 10**6))
def test_any_sequence_keeps_the_chain(floats: Machine, source: str, ahead: int, seed: int) -> None:
    kernel = simplify(lift(chain(source, ahead), floats))
    given, rng = arrays(kernel), random.Random(seed)
    expected, done = results(kernel, given), []
    for _ in range(6):
        steps = list(steps_for(kernel, floats, rng.choice(TECHNIQUES)))
        if not steps:
            continue
        step = rng.choice(steps)
        try:
            kernel = step.apply(kernel, floats)
        except NotApplicable:
            continue
        done.append(str(step))
    for array, values in results(kernel, given).items():
        np.testing.assert_allclose(values, expected[array], err_msg=str(done))


def test_a_buffer_with_slots_holds_whatever_shares_rows_with_one(floats: Machine) -> None:
    """Rows are those of the fullest slot, not those of the last."""
    source = chain("y", 0).replace("SPAD(4)", "SPAD(4 + 64 * (t / 4 % 2))")
    source = source.replace("mvin(&W[0][0], SPAD(0), 4, 4);", "mvin(&W[0][0], SPAD(0), 16, 4);")
    source = source.replace("W[4][4]", "W[4][16]").replace("config_ld(16, 1.0f, 4, 0)", "", 1)
    source = source.replace("config_st(16);", "config_st(16); config_ld(64, 1.0f, 4, 0);")
    kernel = simplify(lift(source, floats))
    buffer = find_buffer(kernel, floats, "W")
    assert (buffer.base, buffer.slots, buffer.slot_stride, buffer.rows) == (0, 2, 64, 16)


def test_loads_ahead_reach_no_further_than_the_loop(floats: Machine) -> None:
    """The test for a next iteration bounds the rows, so a buffer close by stays its own."""
    source = chain("y", 0).replace("SPAD(4)", "SPAD(t + 4)").replace("SPAD(0)", "SPAD(28)")
    kernel = Step.parse("pipeline y t 2").apply(simplify(lift(source, floats)), floats)
    assert find_buffer(kernel, floats, "y").rows == 24
    assert len(find_buffer(kernel, floats, "W").accesses) == 2
