"""Rewrites of straight iterations: stored results, refusals, any sequence of them in a model."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from float_model import results
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_model import randomly_rewritten, trace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel, Loop, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.catalogue import CATALOGUE
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.rewrites.roll import roll
from tilewright.targets.gemmini import create_fp32_target
from tilewright.targets.gemmini.tinympc import Direction, TinyMpc
from tilewright.targets.gemmini.tinympc_naive import naive_tinympc

GOLDEN = Path(__file__).parents[2] / "golden" / "rewriter"
SOURCE = (GOLDEN / "recurrence.c").read_text()
RESIDENT = "offload t; offload t; share t; forward t; carry t; hoist-loads t; fences"
CASES = {
    "recurrence_lifted": "",
    "recurrence_offload": "offload t",
    "recurrence_offload_both": "offload t; offload t",
    "recurrence_share": "share t",
    "recurrence_forward": "offload t; offload t; forward t",
    "recurrence_carry": "offload t; offload t; carry t",
    "recurrence_hoist_loads": "hoist-loads t",
    "recurrence_early_loads": "offload t; early-loads t",
    "recurrence_fences": "offload t; offload t; forward t; fences",
    "recurrence_resident": RESIDENT,
    "recurrence_transpose": "transpose",
    "recurrence_own_rows": f"transpose; {RESIDENT}; own-rows t",
}


@pytest.fixture(scope="module")
def floats() -> Machine:
    return Machine.of(create_fp32_target().brief())


def arrays(kernel: Kernel, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {a.name: rng.standard_normal(a.shape) for a in kernel.arrays if not a.local}


def after(steps: str, machine: Machine, source: str = SOURCE) -> Kernel:
    kernel = simplify(lift(source, machine))
    for step in filter(None, steps.split("; ")):
        kernel = Step.parse(step).apply(kernel, machine)
    return kernel


@pytest.mark.parametrize(("name", "steps"), CASES.items())
def test_result_is_the_stored_one(
    floats: Machine, name: str, steps: str, update_golden: bool
) -> None:
    kernel = after(steps, floats)
    path = GOLDEN / "expected" / f"{name}.c"
    if update_golden:
        path.write_text(emit(kernel))
    assert emit(kernel) == path.read_text()
    given = arrays(kernel)
    expected = results(simplify(lift(SOURCE, floats)), given)
    for array, values in results(kernel, given).items():
        np.testing.assert_allclose(values, expected[array], rtol=1e-9, atol=1e-9)


def test_the_model_computes_the_recurrence(floats: Machine) -> None:
    kernel = after("", floats)
    given = arrays(kernel)
    h = given["h"].copy()
    for t in range(3):
        y = -given["W"] @ h[t] - given["b"][t]
        h[t + 1] = given["V"] @ h[t] + given["Z"] @ y
    np.testing.assert_allclose(results(kernel, given)["h"], h)


@settings(
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from([(8, 4, 3), (4, 4, 2), (12, 4, 4), (8, 8, 3)]), st.integers(0, 10**6))
def test_any_sequence_keeps_the_results(
    floats: Machine, sizes: tuple[int, int, int], seed: int
) -> None:
    rng = random.Random(seed)
    source = recurrence(*sizes, rng)
    kernel = simplify(lift(source, floats))
    given = arrays(kernel, seed)
    expected = results(kernel, given)
    kernel, done = randomly_rewritten(kernel, floats, rng, 8)
    again = simplify(lift(emit(kernel), floats))
    assert emit(again) == emit(kernel), done
    for array, values in results(kernel, given).items():
        np.testing.assert_allclose(values, expected[array], rtol=1e-8, atol=1e-8, err_msg=str(done))


# Sequences that once went wrong: rows that reach further than a slot, wide loads whose blocks lie
# apart, memory that hands values from one iteration to the next.
@pytest.mark.parametrize(
    ("direction", "steps"),
    [
        ("forward", "hoist-loads i; pipeline x b#3 4; retile b#5 3"),
        ("forward", "offload i; offload i; retile i 2"),
        ("forward", "offload i; offload i; share i; double-accumulator x2 i 2 delayed"),
        ("backward", "offload i; block-load AmBKt b#2; block-load AmBKt2 b#3; hoist-loads i"),
        ("backward", "offload i; share i; offload i; carry i; pipeline Bp i 3"),
    ],
)
def test_known_hard_sequences_of_a_controller(
    floats: Machine, direction: Direction, steps: str
) -> None:
    source = naive_tinympc(TinyMpc(direction, 12, 4, 4), 4)
    kernel = simplify(lift(source, floats))
    given = arrays(kernel)
    expected, applied = results(kernel, given), 0
    for step in steps.split("; "):
        try:
            kernel = Step.parse(step).apply(kernel, floats)
        except NotApplicable:
            continue
        applied += 1
        for array, values in results(kernel, given).items():
            np.testing.assert_allclose(values, expected[array], rtol=1e-8, err_msg=step)
    assert applied > 1


ADDING = """
void kernel(const float A[4][4], const float x[9][4], const float d[9][4], float y[9][4]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(16, 1.0f, 4, 0);
  config_st(16);
  mvin(&A[0][0], SPAD(0), 4, 4);
  for (int t = 0; t < 9; t++) {
    mvin(&x[t][0], SPAD(4096), 4, 1);
    preload(SPAD(0), ACC(0), 4, 4, 4, 1);
    compute_preloaded(SPAD(4096), NONE, 4, 1, 4, 1);
    mvin(&d[t][0], SPAD(4100), 4, 1);
    mvin(&d[t][0], ACC(0) | ACCUMULATE, 4, 1);
    preload(SPAD(0), ACC(0) | ACCUMULATE, 4, 4, 4, 1);
    compute_preloaded(SPAD(4100), NONE, 4, 1, 4, 1);
    mvout(&y[t][0], ACC(0), 4, 1);
  }
  fence();
}
"""
"""A load adds to the sums of the product before it."""


def test_loads_that_add_to_sums_stay_after_the_whole_product(floats: Machine) -> None:
    kernel = simplify(lift(ADDING, floats))
    given = arrays(kernel)
    expected = results(kernel, given)["y"]
    kernel = Step.parse("early-loads t").apply(kernel, floats)
    np.testing.assert_allclose(results(kernel, given)["y"], expected)


def test_loads_with_settings_of_their_own_are_not_rolled_into_one_loop(floats: Machine) -> None:
    source = recurrence(8, 8, 3, random.Random(1))
    kernel = simplify(lift(source, floats))
    given = arrays(kernel)
    expected = results(kernel, given)["h"]
    for step in ("share t", "block-load W2 b2#2", "hoist-loads t"):
        kernel = Step.parse(step).apply(kernel, floats)
    np.testing.assert_allclose(results(kernel, given)["h"], expected)


def recurrence(states: int, inputs: int, steps: int, rng: random.Random) -> str:
    """Random signs, factors, places of the sum and directions of a recurrence like SOURCE."""
    sign, factor = rng.choice(["-", ""]), rng.choice(["", "2 * ", "0.5f * "])
    down = rng.random() < 0.5
    now, following = (f"h[{steps} - t]", f"h[{steps - 1} - t]") if down else ("h[t]", "h[t + 1]")
    head = (
        f"for (int t = {steps - 1}; t >= 0; t--)" if down else f"for (int t = 0; t < {steps}; t++)"
    )
    if down:
        now, following = "h[t + 1]", "h[t]"
    bias = rng.choice(["- b[t][e]", "+ b[t][e]", ""])
    total = rng.choice(["h_[e] + part[e]", "part[e] + h_[e]", "h_[e] - part[e]"])
    total = total.replace("h_", following)

    def product(matrix: str, vector: str, to: str, rows: int, columns: int) -> str:
        return f"""
    config_ld({4 * columns}, 1.0f, 4, 0);
    config_ld(4, 1.0f, 4, 1);
    for (int r = 0; r < {rows}; r += 4) {{
      for (int c = 0; c < {columns}; c += 4) {{
        mvin(&{matrix}[r][c], SPAD(0), 4, 4);
        mvin2(&{vector}[c], SPAD(4), 1, 4);
        preload(SPAD(4), ACC(0) | (c > 0 ? ACCUMULATE : 0), 1, 4, 1, 4);
        compute_preloaded(SPAD(0), NONE, 4, 4, 1, 4);
      }}
      mvout(&{to}[r], ACC(0), 1, 4);
    }}"""

    return f"""
void kernel(const float V[{states}][{states}], const float Z[{states}][{inputs}],
            const float W[{inputs}][{states}], const float b[{steps}][{inputs}],
            float h[{steps + 1}][{states}], float y[{steps}][{inputs}]) {{
  float part[{states}];
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(4);
  {head} {{
    {product("W", now, "y[t]", inputs, states)}
    fence();
    for (int e = 0; e < {inputs}; e++) y[t][e] = {sign}{factor}y[t][e] {bias};
    {product("V", now, following, states, states)}
    {product("Z", "y[t]", "part", states, inputs)}
    fence();
    for (int e = 0; e < {states}; e++) {following}[e] = {total};
  }}
  fence();
}}
"""


@pytest.mark.parametrize(
    ("old", "new", "step", "reason"),
    [
        ("-y[t][e] - b[t][e]", "-y[t][e] - 0.3f * b[t][e]", "offload t", "power of two"),
        ("= -y[t][e] - b[t][e]", "= b[t][e] - y[t][e] - 1.0f", "offload t", "more than a sum"),
        ("part[r], ACC(0), 1, 4", "part[r], ACC(0), 1, 3", "offload t", "also used elsewhere"),
        ("config_st(4);", "config_st(4, 0.5f);", "offload t", "changes values"),
        ("NO_ACTIVATION, 1", "RELU, 1", "forward t", "applies a function"),
        ("1, 0, 0);", "1, 0, 0, 0.5f);", "forward t", "scales operands"),
        ("1, 0, 0);", "1, 0, 0, 0.5f);", "transpose", "scale does not have the value"),
        ("1, 0, 0);", "1, 1, 0);", "share t", "transposed"),
        ("1, 0, 0);", "1, 1, 0);", "transpose", "a_transpose"),
        ("config_ld(4, 1.0f, 4, 1)", "config_ld(8, 1.0f, 4, 1)", "transpose", "are not contiguous"),
        ("SPAD(4)", "SPAD(2)", "transpose", "columns and matrices"),
        ("4, 4, 1, 4);", "4, 3, 1, 4);", "transpose", "not square"),
        ("compute_preloaded", "compute_accumulated", "transpose", "earlier one"),
        ("", "", "own-rows t", "copies nothing"),
        ("", "", "forward t", "the core writes"),
        ("", "", "early-loads e", "unrecognised"),
    ],
)
def test_what_does_not_fit_is_refused(
    floats: Machine, old: str, new: str, step: str, reason: str
) -> None:
    source = SOURCE.replace(old, new)
    if step == "forward t" and old:
        source = source.replace("for (int e = 0; e < 4; e++) y[t][e] = -y[t][e] - b[t][e];", "")
    kernel = simplify(lift(source, floats))
    if step == "offload t" and "config_st(4, 0.5f)" not in source:
        kernel = Step.parse(step).apply(kernel, floats)  # the loop that is left as it was
    with pytest.raises(NotApplicable, match=reason):
        CATALOGUE[step.split()[0]].apply(kernel, floats, *step.split()[1:])


COPIED_BACK = "    for (int b3 = 0; b3 < 2; b3++) {\n      preload(NONE, SPAD(b3 + 2)"


@pytest.mark.parametrize(
    ("before", "added", "reason"),
    [
        ("    mvout(&y[t][0]", "    mvin(&h[t][0], SPAD(2), 4, 1);\n", "used for something else"),
        (
            "    fence();\n" + COPIED_BACK,
            "    mvout(&y[t][0], SPAD(2), 4, 2);\n",
            "in other pieces",
        ),
        ("  }\n  fence();\n}", "    mvin(&b[t][0], ACC(4) | ACCUMULATE, 4, 1);\n", "written again"),
        ("  }\n  fence();\n}", "    mvout(&y[t][0], SPAD(2), 4, 1);\n", "used for something else"),
        ("  fence();\n}", "  mvout(&y[0][0], SPAD(2), 4, 1);\n", "used around the loop"),
        ("  config_ld(32", "  mvin2(&h[0][0], SPAD(2) | ACCUMULATE, 4, 1);\n", "around the loop"),
        ("  config_ld(32", "  config_ex(WEIGHT_STATIONARY, RELU, 1, 0, 1);\n", "a function"),
    ],
)
def test_rows_that_are_handed_on_are_used_for_nothing_else(
    floats: Machine, before: str, added: str, reason: str
) -> None:
    """Rows 2 and 3 hand a result on to the next iteration; rows 4 to 11 of sums hold it before."""
    source = emit(after(f"transpose; {RESIDENT}", floats))
    assert COPIED_BACK in source
    head, found, tail = source.rpartition(before)
    assert found
    kernel = simplify(lift(head + added + before + tail, floats))
    with pytest.raises(NotApplicable, match=reason):
        CATALOGUE["own-rows"].apply(kernel, floats, "t")


@pytest.mark.parametrize(
    "steps", ["offload t; offload t", "hoist-loads t; offload t; early-loads t; offload t"]
)
def test_the_first_product_of_a_sum_is_the_first_one_issued(floats: Machine, steps: str) -> None:
    """Wherever its term stands in the sum."""
    source = SOURCE.replace("h[t + 1][e] += part[e]", "h[t + 1][e] = part[e] - h[t + 1][e]")
    start = simplify(lift(source, floats))
    given = arrays(start)
    found = results(after(steps, floats, source), given)
    np.testing.assert_allclose(found["h"], results(start, given)["h"])


def test_repeated_commands_become_loops_and_issue_the_same(floats: Machine) -> None:
    kernel = after(RESIDENT, floats)
    flat: list[str] = []
    for name, operands in trace(kernel.body):
        flat.append(f"{name} {operands}")
    loops = [s for s in walk(kernel.body) if isinstance(s, Loop)]
    assert len(loops) > 5
    again = kernel.with_body(roll(kernel, kernel.body))
    assert [f"{n} {o}" for n, o in trace(again.body)] == flat


def test_integer_results_keep_their_core_code() -> None:
    """A store that saturates is no sum: the core's addition sees saturated values."""
    from tilewright.targets.gemmini import create_target

    machine = Machine.of(create_target().brief())
    source = """
void kernel(const int8_t A[16][16], const int8_t b[4][16], int8_t c[4][16]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(16);
  config_ld(16, 1.0f, 16, 0);
  for (int t = 0; t < 4; t++) {
    mvin(A, SPAD(0), 16, 16);
    mvin(b[t], SPAD(4096), 16, 1);
    preload(SPAD(0), ACC(0), 16, 16, 16, 1);
    compute_preloaded(SPAD(4096), NONE, 16, 1, 16, 1);
    mvout(c[t], ACC(0), 16, 1);
    fence();
    for (int e = 0; e < 16; e++) c[t][e] = c[t][e] + b[t][e];
  }
  fence();
}
"""
    kernel = simplify(lift(source, machine))
    with pytest.raises(NotApplicable, match="changes values"):
        Step.parse("offload t").apply(kernel, machine)
