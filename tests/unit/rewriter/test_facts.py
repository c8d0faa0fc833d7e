"""Facts about Gemmini kernels that decide which options language models are offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core.plugins import load_target
from tilewright.core.records import Candidate, Measured, Trial, Verdict
from tilewright.proposers.applicable import applicable
from tilewright.proposers.rewriter.facts import FACTS, facts_of

BRIEF = load_target("gemmini").brief()
FOLDERS = Path(__file__).parents[2] / "fixtures" / "foreign_folders"
OF_CONVOLUTIONS = {
    "reuse-halo", "block-output-rows", "resident-weights", "resident-channels", "pixels-of-rows",
}  # fmt: skip
OF_VECTORS = {
    "invariant-matrices", "load-vector-once", "fold-vector-sums", "carry-over-steps",
    "stack-products",
}  # fmt: skip


def facts(body: str, parameters: str = "const int8_t A[64][64], int8_t C[64][64]") -> set[str]:
    found = facts_of(BRIEF, f"void kernel({parameters}) {{\n{body}\n}}\n")
    assert found is not None
    assert found <= FACTS.keys()
    return set(found)


def offered(folder: str, **lost: float) -> set[str]:
    source = (FOLDERS / folder / "kernel.c").read_text()
    outcome = Measured(1000.0, "cycles", "simulated", 0.5, Verdict(()), lost)
    return {o.id for o in applicable(BRIEF, Trial(0, 0, Candidate(source), outcome), BRIEF.menu)}


@pytest.mark.parametrize("folder", ["attention_heads", "attention_tiles", "batch_tiles"])
def test_attention_and_products_are_not_offered_options_of_other_workloads(folder: str) -> None:
    kept = offered(folder, dma_wait=500.0)
    assert not kept & (OF_CONVOLUTIONS | OF_VECTORS | {"forward-results", "dataflow"})
    assert {"resident-operand", "share-operand", "tile-sizes"} <= kept


@pytest.mark.parametrize("folder", ["depthwise_naive", "depthwise_channels", "depthwise_planes"])
def test_convolutions_in_folders_are_offered_their_options(folder: str) -> None:
    assert offered(folder, dma_wait=500.0) >= OF_CONVOLUTIONS


def test_less_code_is_offered_where_fetching_code_takes_time() -> None:
    assert "less-code" in offered("attention_heads", cpu_fetch=100.0)
    assert "less-code" not in offered("attention_heads", cpu_fetch=10.0)


def loops(sum_: str, step: str = "y++") -> str:
    moved = f"mvin(&A[{sum_}][0], SPAD(0), 16, 16);"
    return f"for (int y = 0; y < 8; {step}) for (int r = 0; r < 3; r += 1) {{ {moved} }} fence();"


@pytest.mark.parametrize(
    ("sum_", "step", "is_window"),
    [
        ("y + r", "y++", True),
        ("2 * y + r", "y++", True),
        ("(y * 3) + r", "++y", True),
        ("y + r", "y += 16", False),
        ("y * 16 + r", "y++", False),
        ("y + y", "y++", False),
        ("y + 1", "y++", False),
    ],
)
def test_windows_are_sums_of_two_loop_variables(sum_: str, step: str, is_window: bool) -> None:
    assert ("windows" in facts(loops(sum_, step))) == is_window


def test_an_array_of_four_dimensions_may_have_windows() -> None:
    assert "windows" in facts("fence();", "const int8_t A[2][8][8][16], int8_t C[8][8][8][16]")
    assert "windows" not in facts("fence();", "const int8_t A[2][8][8], int8_t C[8][8][8]")


@pytest.mark.parametrize(
    ("stored", "fences", "holds"),
    [
        ("config_st(64);", "fence(); fence();", True),
        ("config_st(64, 1.0f);", "fence(); fence();", True),
        ("config_st(64, 0.125f);", "fence(); fence();", False),
        ("config_st(64, scale);", "fence(); fence();", True),
        ("config_st(64, 0.125f); config_st(64, 1.f);", "fence(); fence();", True),
        ("config_st(64);", "fence();", False),
        ("config_st(64);", "for (int i = 0; i < 2; i++) { fence(); }", True),
    ],
)
def test_results_without_a_scale_can_be_passed_on(stored: str, fences: str, holds: bool) -> None:
    body = f"{stored} mvout(&C[0][0], ACC(0), 16, 16); {fences}"
    assert ("unscaled-results" in facts(body)) == holds


@pytest.mark.parametrize("scale", ["0.125f", "1.0f"])
def test_a_scale_that_a_helper_gets_is_that_of_its_calls(scale: str) -> None:
    source = (
        "static void part(int8_t *c, float s) { config_st(64, s); mvout(c, ACC(0), 16, 16); "
        "fence(); }\nvoid kernel(const int8_t A[64][64], int8_t C[64][64]) "
        f"{{ part(&C[0][0], {scale}); part(&C[16][0], {scale}); }}\n"
    )
    found = facts_of(BRIEF, source)
    assert found is not None
    assert ("unscaled-results" in found) == (scale == "1.0f")


@pytest.mark.parametrize(
    ("size", "holds"), [("1, 16", True), ("16, 1", True), ("16, 16", False), ("n, 16", False)]
)
@pytest.mark.parametrize("form", ["mvin(A, SPAD(0), {});", "mvin_block(A, BLOCK(SPAD(0), {}));"])
def test_vectors_have_one_row_or_column(size: str, holds: bool, form: str) -> None:
    assert ("vectors" in facts(f"int n = A[0][0]; {form.format(size)} fence();")) == holds


@pytest.mark.parametrize(
    ("dataflow", "holds"),
    [("WEIGHT_STATIONARY", False), ("1", False), ("OUTPUT_STATIONARY", True), ("flow", True)],
)
def test_the_dataflow_is_that_of_the_configuration(dataflow: str, holds: bool) -> None:
    body = f"config_ex({dataflow}, NO_ACTIVATION, 1, 0, 0); fence();"
    assert ("sums-in-array" in facts(body)) == holds
