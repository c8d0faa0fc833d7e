"""Loops over sums that are swapped, tiles that are completed in turn, parts in different banks, and
loads in the middle of products: what applies, and what is refused."""

from __future__ import annotations

import pytest
from test_legality import assert_keeps, assert_refused, floats_kernel

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.expr import Expr, quotient, remainder, simplified, var
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.queries import loops_beside
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.targets.gemmini import create_fp32_target

LOAD = "for (int v = 0; v < 36; v += 4) mvin(&y[v][0], SPAD(4 + v), 4, 4);"
ADD = """
    preload({block}, ACC({row}) | {flag}, 4, 4, 4, 4);
    compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);"""
STORE = "for (int i = 0; i < 12; i += 4) mvout(&z[i][0], ACC({row}), 4, 4);"


def sums(
    row: str = "i",
    block: str = "SPAD(4 + p + i)",
    more: str = "",
    stored: str = "i",
    flag: str = "(p ? ACCUMULATE : 0)",
) -> str:
    """Three tiles, each the sum of three products. The row of its sum may be chosen."""
    add = ADD.format(block=block, row=row, flag=flag)
    loops = f"for (int p = 0; p < 36; p += 12) for (int i = 0; i < 12; i += 4) {{ {add} {more} }}"
    return LOAD + loops + STORE.format(row=stored)


@pytest.fixture(scope="module")
def floats() -> Machine:
    return Machine.of(create_fp32_target().brief())


def test_a_loop_over_the_terms_of_sums_is_swapped(floats: Machine) -> None:
    assert_keeps(floats_kernel(sums(), floats), floats, "reorder p")


def test_sums_in_the_same_rows_keep_their_order(floats: Machine) -> None:
    assert_refused(floats_kernel(sums(row="0", stored="0"), floats), floats, "reorder p", "ACC|z")


def test_a_row_that_moves_with_both_loops_keeps_its_order(floats: Machine) -> None:
    """Each iteration of the inner loop has its own row, but the next iteration of the outer loop
    gives this row to another one."""
    shared = sums(row="i + p / 3", stored="i + 8", flag="0")
    assert_refused(floats_kernel(shared, floats), floats, "reorder p", "ACC|z")


USE_Y = """
    mvin2(&y[i][0], SPAD(60), 4, 4);
    preload(SPAD(60), ACC(i + p), 4, 4, 4, 4);
    compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);
    mvout(&z[i + p][0], ACC(i + p), 4, 4);"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if (i == 0) { config_ld(16 + p / 12 * 16, 1.0f, 4, 1); }", ""),
        ("", "config_ld(32, 1.0f, 4, 1);"),
    ],
)
def test_settings_of_other_iterations_keep_the_order_of_loops(
    floats: Machine, before: str, after: str
) -> None:
    loops = "for (int p = 0; p < 36; p += 12) for (int i = 0; i < 12; i += 4)"
    kernel = floats_kernel(f"{loops} {{ {before} {USE_Y} {after} }}", floats)
    assert_refused(kernel, floats, "reorder p", "differs between the paths")


def test_settings_of_the_same_iteration_allow_another_order_of_loops(floats: Machine) -> None:
    loops = "for (int p = 0; p < 36; p += 12) for (int i = 0; i < 12; i += 4)"
    setting = "config_ld(16 + p / 12 * 16, 1.0f, 4, 1);"
    assert_keeps(floats_kernel(f"{loops} {{ {setting} {USE_Y} }}", floats), floats, "reorder p")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_tiles_are_completed_and_stored_in_turn(floats: Machine, count: int) -> None:
    kernel = floats_kernel(sums(), floats)
    assert_keeps(kernel, floats, f"finish-tiles p {count}")
    text = emit(Step.parse(f"finish-tiles p {count}").apply(kernel, floats))
    assert text.count("compute_preloaded(") == (1 if count == 3 else 2)
    assert text.index("mvout(") > text.rindex("compute_preloaded(")
    assert text.count("for (int i = 0;") == (1 if count == 3 else 2)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (sums(row="0", stored="0"), "share rows"),
        (sums(row="i + p / 3", stored="i + 8", flag="0"), "share rows"),
        (sums(more="mvin(&x[0][0], SPAD(80), 4, 4);"), "does not consist of products"),
        (sums() + "mvout(&z[12][0], ACC(0), 4, 4);", ""),
        (
            sums().replace(
                "for (int i = 0; i < 12; i += 4) mv", "fence(); for (int i = 0; i < 12; i += 4) mv"
            ),
            "before a loop of stores",
        ),
    ],
)
def test_tiles_are_not_completed_in_turn(floats: Machine, body: str, reason: str) -> None:
    kernel = floats_kernel(body, floats)
    if reason:
        assert_refused(kernel, floats, "finish-tiles p 1", reason)
    else:
        assert_keeps(kernel, floats, "finish-tiles p 1")


def test_a_block_that_stays_in_the_array_keeps_the_order_of_tiles(floats: Machine) -> None:
    kept = """
    preload(NONE, ACC(i + 16), 4, 4, 4, 4);
    compute_accumulated(SPAD(4 + i), NONE, 4, 4, 4, 4);"""
    body = sums().replace("{ \n    preload(SPAD(4 + p", "{ " + kept + "\n    preload(SPAD(4 + p")
    first = "preload(SPAD(4), ACC(40), 4, 4, 4, 4); compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);"
    body = body.replace("for (int p", first + "for (int p", 1)
    assert_refused(floats_kernel(body, floats), floats, "finish-tiles p 1", "earlier ones latched")


def test_the_stores_of_the_same_product_follow_its_tiles(floats: Machine) -> None:
    """Another product before it has tiles and stores with the same bounds. Its own stores use
    another variable."""
    other = sums(row="20 + i", stored="20 + i", flag="0").replace(
        "for (int p = 0; p < 36; p += 12) ", "const int p = 0; "
    )
    own = sums().replace(LOAD, "").replace(STORE.format(row="i"), STORE.format(row="w"))
    own = own.replace("for (int i = 0; i < 12; i += 4) mv", "for (int w = 0; w < 12; w += 4) mv")
    kernel = floats_kernel(other + own.replace("z[i]", "z[w + 12]"), floats)
    assert_keeps(kernel, floats, "finish-tiles p 1")
    text = emit(Step.parse("finish-tiles p 1").apply(kernel, floats))
    assert text.index("z[i][0]") < text.index("z[i + 12][0]")
    assert text.count("for (int i = 0;") == 4
    assert "for (int w" not in text


def test_a_number_of_iterations_that_varies_is_not_divided(floats: Machine) -> None:
    body = sums().replace("p < 36", "p < 12 + n").replace(LOAD, "")
    kernel = floats_kernel(f"{LOAD} for (int n = 0; n < 24; n += 12) {{ {body} }}", floats)
    assert_refused(kernel, floats, "finish-tiles p 1", "is not a loop of products")


def test_parts_lie_in_banks_in_turn(floats: Machine) -> None:
    kernel = floats_kernel(
        sums(block="SPAD(4 + p)").replace("v < 36; v += 4", "v < 36; v += 12"), floats
    )
    assert_keeps(kernel, floats, "alternate-banks y v")
    text = emit(Step.parse("alternate-banks y v").apply(kernel, floats))
    assert "= v / 12 % 2;" in text
    assert "4096 * slot" in text or "8192 * slot" in text


def test_an_access_of_several_parts_keeps_them_together(floats: Machine) -> None:
    body = sums(
        more="preload(SPAD(6), ACC(20), 4, 4, 4, 4); compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);"
    )
    assert_refused(floats_kernel(body, floats), floats, "alternate-banks y v", "several parts")


def test_parts_stay_together_if_no_two_banks_have_room(machine: Machine) -> None:
    source = """
void kernel(const int8_t A[16][16], const int32_t D[640][16], int8_t C[32][16]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(16, 1.0f, 16, 0);
  config_ld(64, 1.0f, 16, 2);
  config_st(16);
  mvin(&A[0][0], SPAD(0), 16, 16);
  for (int d = 0; d < ROWS; d += 16) mvin3(&D[d][0], ACC(384 + d), 16, 16);
  for (int i = 0; i < 32; i += 16) {
    preload(SPAD(0), ACC(i), 16, 16, 16, 16);
    compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
  }
  for (int i = 0; i < 32; i += 16) mvout(&C[i][0], ACC(i), 16, 16);
  for (int d = 0; d < ROWS; d += 320) mvout(&C[0][0], ACC(384 + d), 16, 16);
  fence();
}
"""
    few = simplify(lift(source.replace("ROWS", "320"), machine))
    assert "512" in emit(Step.parse("alternate-banks C i").apply(few, machine))
    many = simplify(lift(source.replace("ROWS", "640"), machine))
    with pytest.raises(NotApplicable, match="no two banks have room"):
        Step.parse("alternate-banks C i").apply(many, machine)


MIDWAY = """
for (int v = 0; v < 12; v += 4) {{
  mvin(&y[v][0], SPAD({row}), 4, 4);
  for (int i = 0; i < {most}; i += 4) {{
    preload(SPAD(0), ACC(i), 4, 4, 4, 4);
    compute_preloaded(SPAD({used}), NONE, 4, 4, 4, 4);
  }}
  mvout(&z[v][0], ACC(0), 4, 4);
}}
"""


def test_a_load_for_later_is_issued_in_the_middle(floats: Machine) -> None:
    text = MIDWAY.format(row="8 + v", most=12, used="0")
    kernel = floats_kernel(text, floats)
    assert_keeps(kernel, floats, "load-midway v")
    assert "if (i == 4)" in emit(Step.parse("load-midway v").apply(kernel, floats))


@pytest.mark.parametrize(
    ("row", "most", "used", "reason"),
    [
        ("8", "12", "8", "share rows"),
        ("8 + v", "4 + v", "0", "no single load"),
    ],
)
def test_a_load_stays_before_the_products(
    floats: Machine, row: str, most: str, used: str, reason: str
) -> None:
    kernel = floats_kernel(MIDWAY.format(row=row, most=most, used=used), floats)
    assert_refused(kernel, floats, "load-midway v", reason)


def test_code_of_the_core_in_the_loop_keeps_a_load_in_its_place(floats: Machine) -> None:
    """The core changes the elements after they are loaded."""
    core = "fence(); for (int e = 0; e < 40; e++) y[e][1] = y[e][1] + 1.0f; for (int i"
    body = MIDWAY.format(row="8 + v", most=12, used="0").replace("for (int i", core)
    assert_refused(floats_kernel(body, floats), floats, "load-midway v", "unrecognised code")


def test_blocks_with_rows_of_their_own_lie_next_to_each_other(floats: Machine) -> None:
    body = """
for (int n = 0; n < 12; n += 4)
  for (int i = 0; i < 36; i += 4) {
    mvin(&y[i][0], SPAD(8 + i), 4, 4);
    preload(SPAD(0), ACC(n), 4, 4, 4, 4);
    compute_preloaded(SPAD(8 + i), NONE, 4, 4, 4, 4);
    mvout(&z[n][0], ACC(n), 4, 4);
  }
"""
    kernel = floats_kernel(body, floats)
    assert_keeps(kernel, floats, "resident y n at-first-use")
    text = emit(Step.parse("resident y n at-first-use").apply(kernel, floats))
    assert "SPAD(i" in text


def test_a_quotient_and_a_remainder_are_joined() -> None:
    x = var("x") + 1
    parts = remainder(x, 4) * 3 + quotient(x, 4) * 12 + 5
    assert simplified(parts, {"x": (0, 31)}) == x * 3 + 5
    other = remainder(x, 4) * 3 + quotient(x, 4) * 11
    assert simplified(other, {"x": (0, 31)}) == other
    assert simplified(remainder(var("x"), 4) + quotient(x, 4) * 4, {"x": (0, 31)}) != Expr(0)


def test_a_second_dimension_belongs_to_the_same_product(floats: Machine) -> None:
    kernel = floats_kernel(LOAD + 2 * sums().replace(LOAD, ""), floats)
    assert loops_beside(kernel, "p") == {"i"}
    assert loops_beside(kernel, "i#3") == {"p#2"}
    assert loops_beside(kernel, "none") == set()
