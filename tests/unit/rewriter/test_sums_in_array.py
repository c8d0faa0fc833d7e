"""Sums that stay in the array are raised where the way out of the array cannot change them."""

from __future__ import annotations

import pytest
from kernel_model import gemm_is_right
from test_dataflow import HEAD, LOOP, STYLES, TAIL

from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Command, Loop, commands, walk, walk_paths
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.reading import read

WHOLE = {
    **STYLES,
    "the next operands are loaded while a sum is open": "LOAD(0); TO(NONE); FIRST;"
    " for (int k = 16; k < 80; k += 16) { LOAD(k); TO(k == 64 ? ACC(0) : NONE); AGAIN; LOAD(0); }",
    "the next sum is open when one is stored": LOOP
    + "TO(k == 64 ? ACC(0) : NONE); if (k) AGAIN; else FIRST; }"
    " LOAD(0); TO(NONE); FIRST;",
}
REFUSED = {
    "something to begin with in the middle": (
        "TO(NONE); FIRST; preload(SPAD(0), ACC(0), 16, 16, 16, 16); AGAIN;",
        "does not begin with the block before it",
    ),
    "something of another size to begin with": (
        "preload(SPAD(0), ACC(0), 16, 8, 16, 16); FIRST;",
        "does not begin with the block before it",
    ),
    "sums to begin with": (
        "mvin3(0, ACC(64), 16, 16); preload(ACC(64), ACC(0), 16, 16, 16, 16); FIRST;",
        "from a memory for sums",
    ),
    "two parts of a sum": (
        "TO(ACC(0)); FIRST; TO(ACC(0) | ACCUMULATE); FIRST;",
        "sums from the array are added to other sums",
    ),
    "rows on top of a sum": (
        "TO(ACC(0)); FIRST; config_ld(0, 1.0f, 16, 2); mvin3(0, ACC(0) | ACCUMULATE, 16, 16);",
        "are added to other sums",
    ),
    "products on top of a sum": (
        "TO(ACC(0)); FIRST; config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);"
        "preload(SPAD(4096), ACC(0) | ACCUMULATE, 16, 16, 16, 16);"
        "compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);",
        "are added to other sums",
    ),
    "to the factors": ("TO(SPAD(64)); FIRST;", "or moved to other memory"),
    "scaled": ("TO(NONE); FIRST; TO(ACC(0)); AGAIN; config_st(48, 0.0001f);", "may have limited"),
    "unscaled": (
        "TO(NONE); FIRST; TO(ACC(0)); AGAIN; mvout(&C[i][j], ACC(0) | FULL, 16, 16);",
        "may have limited",
    ),
    "both transposed": (
        "config_ex(OUTPUT_STATIONARY, NO_ACTIVATION, 1, 1, 1); TO(ACC(0)); FIRST;",
        "both operands are transposed",
    ),
    "a sum that nothing began": ("TO(ACC(0)); AGAIN;", "row 0 of the array is used"),
}


@pytest.mark.parametrize("style", WHOLE)
def test_sums_in_the_array_are_raised(machine: Machine, style: str) -> None:
    kernel = raised(HEAD + WHOLE[style] + TAIL, machine)
    assert "WEIGHT_STATIONARY" in emit(kernel)
    assert gemm_is_right(kernel, 32, 48, 80)


@pytest.mark.parametrize("how", REFUSED)
def test_sums_that_the_way_out_may_change_are_refused(machine: Machine, how: str) -> None:
    body, reason = REFUSED[how]
    with pytest.raises(NotRaised, match=reason):
        raised(f"{HEAD} LOAD(0); {body} {TAIL}", machine)


@pytest.mark.parametrize(
    "body",
    [
        "TO(ACC(0)); FIRST;",
        "TO(ACC(0)); FIRST; config_st(48, 0.0001f);",
        "TO(NONE); FIRST; TO(ACC(0)); AGAIN; config_st(48, 0.0003f);",
    ],
    ids=["short_sums_unscaled", "short_sums_scaled", "results_at_the_limit"],
)
def test_sums_that_the_way_out_cannot_change_are_raised(machine: Machine, body: str) -> None:
    source = f"{HEAD} LOAD(0); {body} {TAIL}"
    if "config_st" not in body:
        source = (
            source.replace("int8_t C", "int32_t C")
            .replace("config_st(48)", "config_st(192)")
            .replace("ACC(0), 16", "ACC(0) | FULL, 16")
        )
    assert "WEIGHT_STATIONARY" in emit(raised(source, machine))


def test_the_same_kernel_with_a_scale_of_one_is_raised(machine: Machine) -> None:
    source = (HEAD + STYLES["tests"] + TAIL).replace("config_st(48)", "config_st(48, 1.0f)")
    assert gemm_is_right(raised(source, machine), 32, 48, 80)


@pytest.mark.parametrize("style", ["tests", "a variable", "first apart"])
def test_tiles_are_computed_one_after_the_other_while_sums_stay_in_the_array(
    machine: Machine, style: str
) -> None:
    kernel = Step.parse("retile j 2").apply(read(HEAD + STYLES[style] + TAIL, machine), machine)
    for stmt, above in walk_paths(kernel.body):
        if isinstance(stmt, Command) and machine.unit(stmt.name) == "execute":
            loops = [s.var for s in above if isinstance(s, Loop)]
            assert loops[:3] == ["i", "j", "jj"]
            assert loops[3:] in ([], ["k"])


def test_products_with_conditions_stay_together(machine: Machine) -> None:
    rows = """config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
      for (int k = 0; k < 80; k += 16) { LOAD(k);
        if (j == 32) preload(SPAD(4096), ACC(0) | (k ? ACCUMULATE : 0), 12, 16, 12, 16);
        else preload(SPAD(4096), ACC(0) | (k ? ACCUMULATE : 0), 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16); }"""
    kernel = Step.parse("retile j 2").apply(read(HEAD + rows + TAIL, machine), machine)
    inner = [s for s in walk(kernel.body) if isinstance(s, Loop) and s.var == "jj"]
    names = [{c.name for c in commands(loop.body)} for loop in inner]
    assert {"preload", "compute_preloaded"} in names
    assert {"preload"} not in names
