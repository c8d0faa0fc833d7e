"""Several products one after the other, each of which is rewritten as if it were the only one."""

from __future__ import annotations

from pathlib import Path

import pytest
from byte_model import same

from tilewright.core.errors import InputError
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel, has_opaque
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.by_hand import carried_out
from tilewright.proposers.rewriter.planning.overlapped.products import sequences_of_products
from tilewright.proposers.rewriter.planning.overlapped.sequences import LATE, TECHNIQUES
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read
from tilewright.proposers.rewriter.rewrites.one_nest import nests

FOLDERS = Path(__file__).parents[2] / "fixtures" / "foreign_folders"
CHAIN = """static int8_t T[64][96];
void kernel(const int8_t X[64][48], const int8_t W[48][96], const int8_t U[96][32],
            int8_t Y[64][32]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(48, 1.0f, 16, 0);
  config_ld(96, 1.0f, 16, 1);
  config_st(96);
  for (int i = 0; i < 64; i += 16)
    for (int j = 0; j < 96; j += 16) {
      for (int k = 0; k < 48; k += 16) {
        mvin(&X[i][k], SPAD(0), 16, 16);
        mvin2(&W[k][j], SPAD(64), 16, 16);
        preload(SPAD(64), k ? ACC(0) | ACCUMULATE : ACC(0), 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }
      mvout(&T[i][j], ACC(0), 16, 16);
    }
  fence();
  config_ld(96, 1.0f, 16, 0);
  config_ld(32, 1.0f, 16, 1);
  config_st(32);
  for (int i = 0; i < 64; i += 16)
    for (int j = 0; j < 32; j += 16) {
      for (int k = 0; k < 96; k += 16) {
        mvin(&T[i][k], SPAD(0), 16, 16);
        mvin2(&U[k][j], SPAD(64), 16, 16);
        preload(SPAD(64), k ? ACC(0) | ACCUMULATE : ACC(0), 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }
      mvout(&Y[i][j], ACC(0), 16, 16);
    }
  fence();
}
"""
GOLDEN_CASES = {"in_product": "in-product #2 resident U i before; in-product #1 retile j 3"}
EXPECTED = Path(__file__).parents[2] / "golden" / "rewriter" / "expected"


def chain(machine: Machine, old: str = "", new: str = "") -> Kernel:
    assert old in CHAIN
    return simplify(lift(CHAIN.replace(old, new), machine))


@pytest.mark.parametrize(
    "text",
    [
        "in-product #1 resident W i before; in-product #2 resident U i before",
        "in-product #2 retile j 2; in-product #2 pipeline T k 2; in-product #1 keep-operand i 4",
        "in-product #1 double-accumulator T j 2 delayed; in-product #2 block-load U k",
    ],
)
def test_steps_in_one_product_keep_the_results(machine: Machine, text: str) -> None:
    kernel = before = read(CHAIN, machine)
    kernel, done = carried_out(kernel, machine, text)
    assert [str(step) for step in done] == text.split("; ")
    assert same(before, kernel)
    assert same(before, read(emit(kernel), machine))


@pytest.mark.parametrize(("name", "steps"), GOLDEN_CASES.items())
def test_the_result_is_the_stored_one(
    machine: Machine, name: str, steps: str, update_golden: bool
) -> None:
    text = emit(carried_out(read(CHAIN, machine), machine, steps)[0])
    if update_golden:
        (EXPECTED / f"{name}.c").write_text(text)
    assert text == (EXPECTED / f"{name}.c").read_text()


def test_only_the_named_product_changes(machine: Machine) -> None:
    kernel = read(CHAIN, machine)
    before = nests(kernel, machine)
    after = nests(Step.parse("in-product #2 resident U i before").apply(kernel, machine), machine)
    assert emit(before[0]).count("mvin") == emit(after[0]).count("mvin")
    assert "U for all of loop i" in emit(after[1])


def test_each_product_sets_what_it_needs_itself(machine: Machine) -> None:
    """The second product has no setting of the array of its own."""
    first, second = nests(read(CHAIN, machine), machine)
    for part in (first, second):
        assert emit(part).count("config_ex(") == 1
        assert emit(part).count("config_st(") == 1


@pytest.mark.parametrize(
    ("old", "new", "step", "reason"),
    [
        ("", "", "in-product #3 overwrite T", "no product #?3"),
        ("", "", "in-product #0 overwrite T", "no product #?0"),
        ("", "", "in-product #1 in-product #1", "cannot be applied to product #1"),
        ("", "", "in-product #1 fences", "fences cannot be applied to product #1 alone"),
        ("", "", "in-product #1 dead-code", "dead-code cannot be applied"),
        ("", "", "in-product two retile j 2", "retile cannot be applied to product two"),
        (
            "      mvout(&T[i][j], ACC(0), 16, 16);\n    }\n",
            "      mvout(&T[i][j], ACC(0), 16, 16);\n    }\n"
            "  config_ex(WEIGHT_STATIONARY, RELU, 1, 0, 0);\n",
            "in-product #2 retile j 2",
            "setting of the array changes",
        ),
        ("", "", "in-product #1 unheard i", "unheard cannot be applied"),
        ("mvin2(&U[k][j], SPAD(64), 16, 16);", "", "in-product #2 retile j 2", "two products use"),
        (
            "  fence();\n  config_ld(96",
            "  config_ld(96",
            "in-product #2 retile j 2",
            "no product 2",
        ),
        ("config_st(32);", "T[0][0] = X[0][0];", "in-product #2 retile j 2", "the core computes"),
    ],
)
def test_what_is_no_product_of_its_own_is_refused(
    machine: Machine, old: str, new: str, step: str, reason: str
) -> None:
    with pytest.raises(NotApplicable, match=reason):
        Step.parse(step).apply(chain(machine, old, new), machine)


def test_by_hand_an_unknown_technique_in_a_product_is_refused(machine: Machine) -> None:
    with pytest.raises(InputError, match="unheard cannot be applied"):
        carried_out(read(CHAIN, machine), machine, "in-product #1 unheard i")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp_layers", "attention_packed"])
def test_sequences_for_several_products_keep_the_results(machine: Machine, name: str) -> None:
    source = (FOLDERS / name / "kernel.c").read_text()
    kernel = Step("raise").apply(read(source, machine), machine)
    found = list(sequences_of_products(kernel, machine, TECHNIQUES | LATE))
    assert found
    for steps, after in found:
        assert {step.arguments[0] for step in steps if step.arguments} >= {"#1", "#2"}
        assert same(kernel, after), steps


def test_only_arrays_that_the_core_writes_before_all_products_belong_to_the_first_one(
    machine: Machine,
) -> None:
    loop = "static int8_t D[4][4];\n  for (int d = 0; d < 4; d++) D[d][d] = 1;\n  "
    first = CHAIN.replace("config_ex", f"{loop}config_ex", 1)
    parts = nests(lift(first, machine), machine)
    assert [has_opaque(part.body) for part in parts] == [True, False]
    with pytest.raises(NotApplicable, match="the core computes between"):
        nests(
            lift(
                CHAIN.replace("config_ld(96, 1.0f, 16, 0)", f"{loop}config_ld(96, 1.0f, 16, 0)"),
                machine,
            ),
            machine,
        )
    opaque = first.replace("= 1;", "= 1 + D[d][d] * D[d][d];")
    with pytest.raises(NotApplicable, match="the core computes between"):
        nests(lift(opaque, machine), machine)
