"""Sums that stay in the array are raised where the way out of the array cannot change them."""

from __future__ import annotations

import pytest
from kernel_model import gemm_is_right
from test_dataflow import HEAD, LOOP, STYLES, TAIL

from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.raised import raised

WHOLE = {
    **STYLES,
    "the next operands are loaded while a sum is open": "LOAD(0); TO(NONE); FIRST;"
    " for (int k = 16; k < 80; k += 16) { LOAD(k); TO(k == 64 ? ACC(0) : NONE); AGAIN; LOAD(0); }",
    "the next sum is open when one is stored": LOOP
    + "TO(k == 64 ? ACC(0) : NONE); if (k) AGAIN; else FIRST; }"
    " LOAD(0); TO(NONE); FIRST;",
}
REFUSED = {
    "something to begin with": (
        "preload(SPAD(64), ACC(0), 16, 16, 16, 16); FIRST;",
        "starts the sums in the array with a block",
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
    "scaled": ("TO(ACC(0)); FIRST; config_st(48, 0.0001f);", "with a scale or unscaled"),
    "unscaled": (
        "TO(ACC(0)); FIRST; mvout(&C[i][j], ACC(0) | FULL, 16, 16);",
        "with a scale or unscaled",
    ),
    "transposed": (
        "config_ex(OUTPUT_STATIONARY, NO_ACTIVATION, 1, 1, 0); TO(ACC(0)); FIRST;",
        "an operand is transposed or missing",
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


def test_the_same_kernel_with_a_scale_of_one_is_raised(machine: Machine) -> None:
    source = (HEAD + STYLES["tests"] + TAIL).replace("config_st(48)", "config_st(48, 1.0f)")
    assert gemm_is_right(raised(source, machine), 32, 48, 80)
