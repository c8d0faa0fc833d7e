"""When settings, fences and latched operands are needed after all."""

from __future__ import annotations

import pytest

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step

LOAD = "mvin(&A[0][0], SPAD(0), 16, 16);"
PRODUCT = "preload(SPAD({b}), ACC({c}), 16, 16, 16, 16); compute_preloaded(SPAD(64), NONE, 16, 16, 16, 16);"  # noqa: E501


def after(machine: Machine, technique: str, text: str) -> str:
    source = f"void kernel(const int8_t A[64][64], int8_t C[64][64]) {{ {text} }}"
    return emit(Step.parse(technique).apply(lift(source, machine), machine))


@pytest.mark.parametrize(
    "text",
    [
        # another value comes in between, in the text or in the loop's iteration before
        f"config_ld(1, 1.0f, 16, 0); {LOAD} config_ld(2, 1.0f, 16, 0); {LOAD} "
        f"config_ld(1, 1.0f, 16, 0); {LOAD}",
        "config_ld(1, 1.0f, 16, 0); for (int i = 0; i < 4; i++) { config_ld(1, 1.0f, 16, 0); "
        f"{LOAD} config_ld(2, 1.0f, 16, 0); {LOAD} }}",
        # the earlier one is not always carried out
        f"for (int i = 0; i < 4; i++) {{ if (i > 1) {{ config_ld(1, 1.0f, 16, 0); {LOAD} }} "
        f"else {{ config_ld(1, 1.0f, 16, 0); {LOAD} }} }}",
        f"config_ld(1, 1.0f, 16, 0); helper(); config_ld(1, 1.0f, 16, 0); {LOAD}",
        f"for (int i = 0; i < 2; i++) {{ config_ld(1, 1.0f, 16, i); {LOAD} }}",
    ],
)
def test_settings_that_matter_stay(machine: Machine, text: str) -> None:
    with pytest.raises(NotApplicable):
        after(machine, "settings", text)


def test_one_of_equal_settings_stays(machine: Machine) -> None:
    again = f"config_ld(1, 1.0f, 16, 0); {LOAD} "
    nested = f"for (int i = 0; i < 4; i++) {{ if (i > 1) {{ {again} }} {again} }} {again}"
    assert after(machine, "settings", again + nested).count("config_ld") == 1
    with pytest.raises(NotApplicable):
        after(machine, "settings", nested)


@pytest.mark.parametrize(
    "text",
    [
        f"{LOAD} mvout(&A[0][0], SPAD(0), 16, 16); fence(); {LOAD} fence();",
        f"{LOAD} mvout(&C[0][0], SPAD(0), 16, 16); fence(); C[0][0] = 1; fence();",
        f"{LOAD} mvout(&C[0][0], SPAD(0), 16, 16); fence(); {LOAD}",
        f"{LOAD} mvout(&C[0][0], SPAD(0), 16, 16); flush(); {LOAD} fence();",
    ],
)
def test_fences_that_matter_stay(machine: Machine, text: str) -> None:
    with pytest.raises(NotApplicable):
        after(machine, "fences", text)


@pytest.mark.parametrize(
    "text",
    [
        PRODUCT.format(b=0, c=0) + PRODUCT.format(b=16, c=16),
        PRODUCT.format(b=0, c=0) + LOAD + PRODUCT.format(b=0, c=16),
        PRODUCT.format(b=0, c=0)
        + "preload(SPAD(16), ACC(32), 16, 16, 16, 16);"
        + PRODUCT.format(b=0, c=16),
        PRODUCT.format(b=0, c=0).replace("ACC", "SPAD") * 2,
        f"for (int i = 0; i < 64; i += 16) {{ {PRODUCT.format(b='i', c=0)} }}",
        f"for (int i = 0; i < 64; i += 16) {{ {LOAD} {PRODUCT.format(b=0, c='i')} }}",
    ],
)
def test_operands_that_change_are_latched_again(machine: Machine, text: str) -> None:
    with pytest.raises(NotApplicable):
        after(machine, "reuse", text)


def test_every_product_after_the_first_reuses(machine: Machine) -> None:
    text = "".join(PRODUCT.format(b=0, c=16 * n) for n in range(4)) + PRODUCT.format(b=16, c=0)
    assert after(machine, "reuse", text).count("compute_accumulated") == 3


STORE = "mvout(&t[0][0], ACC(0), 16, 16);"


def test_stores_to_local_arrays_that_nothing_loads_go(machine: Machine) -> None:
    stores = f"{STORE} mvout(&C[0][0], ACC(0), 16, 16);"
    text = f"float t[16][16]; {LOAD} {PRODUCT.format(b=0, c=0)} {stores}"
    assert "&t[0][0]" not in after(machine, "dead-code", text)
    assert "&C[0][0]" in after(machine, "dead-code", text)


@pytest.mark.parametrize(
    "more",
    [
        "mvin(&t[0][0], SPAD(0), 16, 16);",  # also where the load stands before the store
        "C[0][0] = t[0][0];",
        "helper(t);",
    ],
)
def test_stores_that_something_reads_stay(machine: Machine, more: str) -> None:
    text = f"float t[16][16]; {more} {PRODUCT.format(b=0, c=0)} {STORE}"
    with pytest.raises(NotApplicable):
        after(machine, "dead-code", text)


def test_tiles_do_not_share_an_operand_of_their_own(machine: Machine) -> None:
    text = (
        "config_st(64); config_ld(64, 1.0f, 16, 0); "
        "for (int i = 0; i < 40; i += 16) { const int n = 40 - i < 16 ? 40 - i : 16; "
        "mvin(&A[i][0], SPAD(0), 16, n); preload(SPAD(0), ACC(0), 16, n, 16, 16); "
        "compute_preloaded(SPAD(64), NONE, n, 16, 16, 16); mvout(&C[i][0], ACC(0), 16, n); }"
    )
    with pytest.raises(NotApplicable, match="no product follows one"):
        after(machine, "keep-operand i 3", text)


def test_a_setting_that_only_comes_later_does_not_serve(machine: Machine) -> None:
    body = "config_ld(64, 1.0f, 16, 0); mvin(&A[i][0], SPAD(0), 16, 16);"
    loop = f"for (int i = 0; i < 64; i += 16) {{ {body} }}"
    head = "void kernel(const int8_t A[64][64]) {"
    twice = lift(f"{head} {loop} {loop} }}", machine)
    assert emit(Step.parse("hoist i").apply(twice, machine)).count("config_ld") == 2
    both = Step.parse("hoist i#2").apply(twice, machine)
    assert emit(both).index("config_ld") < emit(both).index("mvin")
    guarded = (
        f"{head} for (int j = 0; j < 4; j++) {{ if (j > 2) {{ {loop} }} else {{ {loop} }} }} }}"
    )
    kernel = Step.parse("hoist i#2").apply(lift(guarded, machine), machine)
    assert emit(kernel).count("config_ld") == 2


def test_a_setting_of_the_other_branch_does_not_serve(machine: Machine) -> None:
    setting, load = "config_ld(64, 1.0f, 16, 0);", "mvin(&A[i][0], SPAD(0), 16, 16);"
    loop = f"for (int i = 0; i < 64; i += 16) {{ {setting} {load} }}"
    text = (
        "void kernel(const int8_t A[64][64]) { for (int j = 0; j < 4; j++) { "
        f"if (j > 2) {{ {setting} }} else {{ {loop} }} }} }}"
    )
    hoisted = emit(Step.parse("hoist i").apply(lift(text, machine), machine))
    assert hoisted.count("config_ld") == 2
