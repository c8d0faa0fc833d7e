"""Rewrites keep out where one condition of theirs does not hold, and all others do."""

from __future__ import annotations

import numpy as np
import pytest
from float_model import results
from kernel_model import trace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step, steps_for
from tilewright.targets.gemmini import create_fp32_target

PRODUCT = """
    preload(SPAD({b}), ACC({c}), 4, 4, 4, 4);
    compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);"""


@pytest.fixture(scope="module")
def floats() -> Machine:
    return Machine.of(create_fp32_target().brief())


def floats_kernel(
    body: str, machine: Machine, store: str = "config_st(16);", before: str = ""
) -> Kernel:
    """A kernel over W, y (40 rows each), x and z, with W in SPAD(0) and settings of both loads."""
    source = f"""{before}
void kernel(const float W[4][4], float y[40][4], float x[40][4], float z[40][4]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  {store}
  config_ld(16, 1.0f, 4, 0);
  config_ld(16, 1.0f, 4, 1);
  mvin(&W[0][0], SPAD(0), 4, 4);
  {body}
  fence();
}}
"""
    return simplify(lift(source, machine))


def given_to(kernel: Kernel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {a.name: rng.standard_normal(a.shape) for a in kernel.arrays if not a.local}


def assert_refused(kernel: Kernel, machine: Machine, step: str, reason: str) -> None:
    results(kernel, given_to(kernel))  # what is refused is a kernel that works
    with pytest.raises(NotApplicable, match=reason):
        Step.parse(step).apply(kernel, machine)


def assert_keeps(kernel: Kernel, machine: Machine, step: str) -> None:
    given = given_to(kernel)
    expected = results(kernel, given)
    found = results(Step.parse(step).apply(kernel, machine), given)
    for array, values in expected.items():
        np.testing.assert_allclose(found[array], values, err_msg=array)


USE = PRODUCT.format(b=4, c=0)


def test_a_buffer_that_is_used_after_a_loop_keeps_its_place(floats: Machine) -> None:
    """With slots that turn, the last iteration's values would lie in another one."""
    kernel = floats_kernel(
        f"""
  for (int t = 0; t < 12; t += 4) {{
    mvin2(&y[t][0], SPAD(4), 4, 4);{USE}
    mvout(&x[t][0], ACC(0), 4, 4);
  }}
  {PRODUCT.format(b=4, c=4)}
  mvout(&z[0][0], ACC(4), 4, 4);""",
        floats,
    )
    assert_refused(kernel, floats, "double-buffer y t 2", "also used outside loop t")


HANDED_ON = {
    "rows that the next iteration loads again": f"""
  for (int t = 0; t < 12; t += 4) {{
    if (t > 0) {{{PRODUCT.format(b=4, c=0)}
      mvout(&x[t][0], ACC(0), 4, 4);
    }}
    mvin2(&y[t][0], SPAD(4), 4, 4);
  }}""",
    "rows of its own": f"""
  for (int t = 0; t < 12; t += 4) {{
    mvin2(&y[t][0], SPAD(t + 4), 4, 4);
    if (t > 0) {{{PRODUCT.format(b="t", c=0)}
      mvout(&x[t][0], ACC(0), 4, 4);
    }}
  }}""",
}


@pytest.mark.parametrize("body", HANDED_ON.values(), ids=HANDED_ON)
def test_rows_that_a_later_iteration_uses_are_not_loaded_for_all_of_a_loop(
    floats: Machine, body: str
) -> None:
    """The later iteration would find its own rows instead of those of the one before."""
    kernel = floats_kernel(body, floats)
    assert ("y", "t") not in {s.arguments for s in steps_for(kernel, floats, "block-load")}
    assert_refused(kernel, floats, "block-load y t", "uses rows of y that an earlier one loaded")


def test_rows_that_a_later_iteration_of_an_inner_loop_uses_are_not_loaded_for_an_outer_one(
    floats: Machine,
) -> None:
    own = HANDED_ON["rows of its own"].replace("[t]", "[s + t]")
    kernel = floats_kernel(f"for (int s = 0; s < 24; s += 12) {{{own}}}", floats)
    assert_refused(kernel, floats, "block-load y s", "uses rows of y that an earlier one loaded")


@pytest.mark.parametrize("how", ["before", "at-first-use"])
def test_rows_that_a_later_iteration_uses_do_not_become_resident(floats: Machine, how: str) -> None:
    """Each iteration of s begins with what the last one of t left behind."""
    kernel = floats_kernel(
        f"""
  for (int s = 0; s < 24; s += 12) {{
    for (int t = 0; t < 12; t += 4) {{
      if (s + t > 0) {{{PRODUCT.format(b=4, c=0)}
        mvout(&x[s + t][0], ACC(0), 4, 4);
      }}
      mvin2(&y[t][0], SPAD(4), 4, 4);
    }}
  }}""",
        floats,
    )
    assert ("y", "s", how) not in {s.arguments for s in steps_for(kernel, floats, "resident")}
    step = f"resident y s {how}"
    assert_refused(kernel, floats, step, "uses rows of y that an earlier one loaded")


def test_rows_that_are_loaded_again_after_their_use_are_not_loaded_for_all_of_a_loop(
    floats: Machine,
) -> None:
    """The third load is into rows of its own, the fourth one into those that were used before."""
    kernel = floats_kernel(
        f"""
  for (int s = 0; s < 24; s += 16) {{
    mvin2(&y[s][0], SPAD(4), 4, 4);
    mvin2(&y[s + 4][0], SPAD(8), 4, 4);{PRODUCT.format(b=6, c=0)}
    mvout(&x[s][0], ACC(0), 4, 4);
    mvin2(&y[s + 8][0], SPAD(12), 4, 2);
    mvin2(&y[s + 12][0], SPAD(4), 4, 4);{PRODUCT.format(b=6, c=4)}
    mvout(&x[s + 4][0], ACC(4), 4, 4);{PRODUCT.format(b=10, c=8)}
    mvout(&x[s + 8][0], ACC(8), 4, 4);
  }}""",
        floats,
    )
    assert_refused(kernel, floats, "block-load y s", "y is overwritten after it was used")


def test_a_load_is_not_moved_ahead_of_a_store_before_it_in_its_own_iteration(
    floats: Machine,
) -> None:
    kernel = floats_kernel(
        f"""
  for (int t = 0; t < 12; t += 4) {{
    mvin2(&y[t][0], SPAD(4), 4, 4);{USE}
    mvout(&x[t][0], ACC(0), 4, 4);
    fence();
    mvin2(&x[t][0], SPAD(8), 4, 4);{PRODUCT.format(b=8, c=4)}
    mvout(&z[t][0], ACC(4), 4, 4);
  }}""",
        floats,
    )
    assert_refused(kernel, floats, "pipeline x2 t 2", "stores elements of x it loads ahead")


def test_stores_keep_the_fence_after_which_the_core_reads(floats: Machine) -> None:
    kernel = floats_kernel(
        f"""
  for (int t = 0; t < 12; t += 4) {{
    mvin2(&y[t][0], SPAD(4), 4, 4);{USE}
    mvout(&x[t][0], ACC(0), 4, 4);
    fence();
  }}
  for (int e = 0; e < 4; e++) z[0][e] = x[0][e] + x[9][e];""",
        floats,
    )
    assert_refused(kernel, floats, "retile t 3", "fences in loop t order accesses to x")


AHEAD = """
  mvin2(&y[0][0], SPAD(4), 4, 4);
  mvin2(&y[4][0], SPAD(8), 4, 4);
  for (int t = 0; t < 24; t += 8) {{
    if (t + 8 < 24) {{
      for (int k = 0; k < 8; k += 4) mvin2(&y[t + 8 + k][0], SPAD(k + 4 + 8 * ((t / 8 + 1) % 2)), 4, 4);
    }}
    {between}
    for (int k = 0; k < 8; k += 4) {{
      preload(SPAD(k + 4 + 8 * (t / 8 % 2)), ACC(0), 4, 4, 4, 4);
      compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);
      mvout(&x[t + k][0], ACC(0), 4, 4);
    }}
  }}"""  # noqa: E501


def test_loads_are_not_spread_over_what_stores_their_elements(floats: Machine) -> None:
    store = """
    fence();
    mvout(&y[t + 8][0], ACC(0), 4, 4);"""
    kernel = floats_kernel("mvin(&W[0][0], ACC(0), 4, 4);" + AHEAD.format(between=store), floats)
    assert_refused(kernel, floats, "interleave t", "y is stored to in loop t")


def test_loads_that_are_spread_keep_their_settings(floats: Machine) -> None:
    other = """
    config_ld(16, 2.0f, 4, 1);
    mvin2(&z[t][0], SPAD(64), 4, 4);"""
    back = AHEAD.replace("    if (t + 8", "    config_ld(16, 1.0f, 4, 1);\n    if (t + 8")
    kernel = floats_kernel(back.format(between=other), floats)
    assert_keeps(kernel, floats, "interleave t")
    assert_keeps(floats_kernel(AHEAD.format(between=""), floats), floats, "interleave t")


DELAYED = """
  mvin(&W[0][0], ACC(32), 4, 4);
  for (int t = 0; t < 24; t += 8) {{
    {before}
    for (int k = 0; k < 8; k += 4) {{
      mvin2(&y[t + k][0], SPAD(4), 4, 4);
      preload(SPAD(4), ACC(k + 8 * ({slot} % 2)), 4, 4, 4, 4);
      compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);
    }}
    if (t > 0) {{
      for (int k = 0; k < 8; k += 4) mvout(&x[t - 8 + k][0], ACC(k + 8 * ((t / 8 + 1) % 2)), 4, 4);
    }}
  }}"""


def test_stores_of_an_earlier_iteration_are_spread(floats: Machine) -> None:
    kernel = floats_kernel(DELAYED.format(before="", slot="t / 8"), floats)
    assert_keeps(kernel, floats, "interleave t")
    spread = emit(Step.parse("interleave t").apply(kernel, floats))
    assert spread.index("mvout") < spread.index("preload")


@pytest.mark.parametrize(
    ("before", "slot", "reason"),
    [
        ("", "(t / 8 + 1)", "share rows with its other commands"),
        ("mvout(&x[t][0], ACC(32), 4, 4);", "t / 8", "loop t uses elements of x elsewhere"),
        ("config_st(16);", "t / 8", ""),
    ],
)
def test_stores_are_not_spread_before_what_they_come_after(
    floats: Machine, before: str, slot: str, reason: str
) -> None:
    """Products that they store, stores of the same elements; settings move out of the loop."""
    kernel = floats_kernel(DELAYED.format(before=before, slot=slot), floats)
    if reason:
        assert_refused(kernel, floats, "interleave t", reason)
    else:
        assert_keeps(kernel, floats, "interleave t")


def test_loads_of_one_place_by_different_factors_are_two(floats: Machine) -> None:
    def twice(factor: str) -> Kernel:
        return floats_kernel(
            f"""
  config_ld(16, {factor}, 4, 2);
  for (int t = 0; t < 12; t += 4) {{
    mvin2(&y[t][0], SPAD(4), 4, 4);{USE}
    mvout(&x[t][0], ACC(0), 4, 4);
    mvin3(&y[t][0], SPAD(8), 4, 4);{PRODUCT.format(b=8, c=4)}
    mvout(&z[t][0], ACC(4), 4, 4);
  }}""",
            floats,
        )

    assert_refused(twice("2.0f"), floats, "share t", "loads nothing twice")
    assert_keeps(twice("1.0f"), floats, "share t")


def stored_and_loaded(stored: str, rows: int, machine: Machine, store: str) -> Kernel:
    return floats_kernel(
        f"""
  for (int t = 0; t < 12; t += 4) {{
    mvin2(&y[t][0], SPAD(4), 4, 4);{USE}
    mvout(&{stored}[t][0], ACC(0), 4, {rows});
    fence();
    mvin2(&x[t][0], SPAD(8), 4, 4);{PRODUCT.format(b=8, c=4)}
    mvout(&z[t][0], ACC(4), 4, 4);
  }}""",
        machine,
        store,
    )


def test_what_is_stored_is_handed_on_only_whole_and_unchanged(floats: Machine) -> None:
    plain = "config_st(16);"
    assert_keeps(stored_and_loaded("x", 4, floats, plain), floats, "forward t")
    part = stored_and_loaded("x", 2, floats, plain)
    assert_refused(part, floats, "forward t", "x is stored in other pieces")
    scaled = stored_and_loaded("x", 4, floats, "config_st(16, 0.5f);")
    with pytest.raises(NotApplicable, match="the store changes values"):
        Step.parse("forward t").apply(scaled, floats)


def handed_on(machine: Machine, *, between: str = "", factor: str = "1.0f") -> Kernel:
    """A result that is stored and loaded again, with other commands between the two."""
    return floats_kernel(
        f"""
  config_ld(16, {factor}, 4, 2);
  for (int t = 0; t < 12; t += 4) {{
    mvin2(&y[t][0], SPAD(4), 4, 4);{USE}
    mvout(&x[t][0], ACC(0), 4, 4);{between}
    fence();
    mvin3(&x[t][0], SPAD(8), 4, 4);{PRODUCT.format(b=8, c=4)}
    mvout(&z[t][0], ACC(4), 4, 4);
  }}""",
        machine,
    )


def test_a_result_is_handed_on_only_where_its_rows_and_elements_stay_the_same(
    floats: Machine,
) -> None:
    assert_keeps(handed_on(floats), floats, "forward t")
    adds = PRODUCT.format(b=4, c=0).replace("ACC(0)", "ACC(0) | ACCUMULATE")
    added = handed_on(floats, between=adds)
    assert_refused(added, floats, "forward t", "the stored rows are written again")
    scaled = handed_on(floats, factor="2.0f")
    assert_refused(scaled, floats, "forward t", "loads nothing that it stored before")
    core = handed_on(floats, between="fence(); for (int e = 0; e < 4; e++) x[t][e] = z[t][e];")
    assert_refused(core, floats, "forward t", "the core writes x")


def test_two_loads_are_not_one_where_a_store_lies_between(floats: Machine) -> None:
    kernel = floats_kernel(
        f"""
  for (int t = 0; t < 12; t += 4) {{
    mvin2(&y[t][0], SPAD(4), 4, 4);{USE}
    fence();
    mvout(&y[t][0], ACC(0), 4, 4);
    fence();
    mvin2(&y[t][0], SPAD(8), 4, 4);{PRODUCT.format(b=8, c=4)}
    mvout(&z[t][0], ACC(4), 4, 4);
  }}""",
        floats,
    )
    assert_refused(kernel, floats, "share t", "loads nothing twice")


@pytest.mark.parametrize(
    "accesses",
    [
        # the core reads what was stored
        "mvin(&W[0][0], ACC(0), 4, 4); mvout(&x[0][0], ACC(0), 4, 4); fence();"
        "for (int e = 0; e < 4; e++) z[0][e] = x[0][e] + x[1][e];",
        # the core writes what was loaded, and may not have been read yet
        "mvin2(&y[0][0], SPAD(4), 4, 4); fence();"
        "for (int e = 0; e < 4; e++) y[0][e] = z[0][e] + z[1][e];",
        # the core writes what was stored
        "mvin(&W[0][0], ACC(0), 4, 4); mvout(&x[0][0], ACC(0), 4, 4); fence();"
        "for (int e = 0; e < 4; e++) x[0][e] = z[0][e] + z[1][e];",
        # the core reads a single element of what was stored
        "mvin(&W[0][0], ACC(0), 4, 4); mvout(&x[0][0], ACC(0), 4, 4); fence();"
        "z[0][0] = x[0][0] + x[1][0];",
        # a store overwrites what was loaded
        "mvin(&y[0][0], ACC(0), 4, 4); fence(); mvout(&y[0][0], ACC(0), 4, 4);",
    ],
)
def test_a_fence_stays_between_the_accelerator_and_the_core(floats: Machine, accesses: str) -> None:
    kernel = floats_kernel(accesses, floats)
    assert_refused(kernel, floats, "fences", "every fence is needed")


@pytest.mark.parametrize(
    "code",
    [
        "mvout(&x[0][0], ACC(0), 4, 4); fence(); if (x[0][0] > 0.0f) z[0][0] = 1.0f;",
        "mvout(&x[0][0], ACC(0), 4, 4); fence(); report(z);",
        "static float own[4][4]; mvout(&own[0][0], ACC(0), 4, 4); fence(); z[0][0] = own[1][0];",
        "fence(); issue(); fence(); for (int e = 0; e < 4; e++) z[0][e] = x[0][e] + x[1][e];",
    ],
)
def test_a_fence_stays_beside_code_that_is_not_modelled(floats: Machine, code: str) -> None:
    kernel = floats_kernel(
        f"mvin(&W[0][0], ACC(0), 4, 4); {code}",
        floats,
        before="void report(float z[40][4]);\nstatic void issue(void) { mvout(0, ACC(0), 4, 4); }",
    )
    with pytest.raises(NotApplicable):
        Step.parse("fences").apply(kernel, floats)


# int8


def int8_kernel(text: str, machine: Machine) -> Kernel:
    source = f"void kernel(const int8_t A[64][64], int8_t C[64][64], int n) {{ {text} }}"
    return lift(source, machine)


INT8_PRODUCT = (
    "preload(SPAD(0), {c}, 16, 16, 16, 16); compute_preloaded(SPAD(64), NONE, 16, 16, 16, 16);"
)


def test_products_that_overlap_keep_their_clearing(machine: Machine) -> None:
    """16 rows each, the second from row 8 on: which of them is the first differs by row."""
    products = "".join(INT8_PRODUCT.format(c=f"ACC({row}) | ACCUMULATE") for row in (0, 8))
    kernel = int8_kernel(
        "for (int i = 0; i < 64; i += 16) { mvin(0, ACC(0), 16, 16); mvin(0, ACC(16), 16, 16); "
        f"{products} mvout(&C[i][0], ACC(0), 16, 16); }}",
        machine,
    )
    with pytest.raises(NotApplicable, match="overlapping parts of the accumulator"):
        Step.parse("overwrite C").apply(kernel, machine)


def test_a_setting_that_changes_within_a_loop_stays_in_it(machine: Machine) -> None:
    text = (
        "for (int i = 0; i < 64; i += 16) {{ config_ld(64, 1.0f, 16, 0); "
        "mvin(&A[i][0], SPAD(0), 16, 16); config_ld({second}, 1.0f, 16, 0); "
        "mvin(&A[i][0], SPAD(16), 16, 16); }}"
    )
    with pytest.raises(NotApplicable, match="sets nothing that could be set before it"):
        Step.parse("hoist i").apply(int8_kernel(text.format(second=128), machine), machine)
    hoisted = Step.parse("hoist i").apply(int8_kernel(text.format(second=64), machine), machine)
    assert emit(hoisted).count("config_ld") == 1


@pytest.mark.parametrize(("apart", "wider"), [(16, True), (20, True), (8, False)])
def test_blocks_of_a_wide_move_do_not_overlap(machine: Machine, apart: int, wider: bool) -> None:
    """Each is 16 rows high."""
    kernel = int8_kernel(
        "config_ld(64, 1.0f, 16, 0); "
        f"for (int k = 0; k < 4; k++) mvin(&A[0][16 * k], SPAD({apart} * k), 16, 16);",
        machine,
    )
    assert ("64, 16)" in emit(Step.parse("widen").apply(kernel, machine))) == wider


SOMETIMES = "for (int i = 0; i < 64; i += 16) for (int j = 0; j < i; j += 16) {{ {body} }}"


def test_no_product_of_a_loop_that_may_not_run_is_taken_out_of_it(machine: Machine) -> None:
    kernel = int8_kernel(SOMETIMES.format(body=INT8_PRODUCT.format(c="ACC(j)")), machine)
    with pytest.raises(NotApplicable, match="no product follows"):
        Step.parse("reuse").apply(kernel, machine)


def test_what_only_the_first_iteration_does_stays_in_a_loop_that_may_not_run(
    machine: Machine,
) -> None:
    body = "if (j == 0) { mvin(&A[i][0], SPAD(i), 16, 16); }"
    kernel = int8_kernel(SOMETIMES.format(body=body), machine)
    issued = list(trace(kernel.body))
    assert len(issued) == 3
    assert list(trace(simplify(kernel).body)) == issued
