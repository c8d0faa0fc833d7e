"""Elements kept in variables, loops exchanged for that, and sequences that do all at once."""

from __future__ import annotations

import numpy as np
import pytest
from test_loop_rewrites import KERNELS, LANES, SCORES, outputs

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Element, Load, expressions, loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.full_sequences import MOST_UNROLLED, Whole, length
from tilewright.proposers.loops.planning.steps import Step
from tilewright.proposers.loops.rewrites.order import exchange
from tilewright.proposers.loops.rewrites.pack import pack
from tilewright.proposers.loops.rewrites.scalar_replacement import keep
from tilewright.proposers.loops.rewrites.vectorise import vectorise

ALL = frozenset({"accumulators", "vectorise", "reciprocal", "pack", "keep", "exchange", "jam"})
HEAD = "void kernel(const float X[9], const float A[9][9], float Y[9], float Z[9][9])"


def body_after(technique: str, loop: int, body: str) -> str:
    kernel = Step(technique, loop).apply(parse(f"{HEAD} {{ {body} }}"))
    assert parse(emit(kernel)) == kernel
    text = emit(kernel)
    return " ".join(text[text.index("{") + 1 : text.rindex("}")].split())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for (int i = 0; i < 9; i++) Y[0] += X[i];",
         "float Y_1 = Y[0]; for (int i = 0; i < 9; i++) { Y_1 = Y_1 + X[i]; } Y[0] = Y_1;"),
        ("for (int i = 1; i < 9; i++) Y[i] = Y[i - 1] + X[i];",
         "float Y_1 = Y[0]; for (int i = 1; i < 9; i++) { Y_1 = Y_1 + X[i]; Y[i] = Y_1; }"),
        ("for (int i = 2; i < 9; i += 2) { float a = Z[0][i - 2]; Z[0][i] = a; Y[i] = Z[0][i]; }",
         "float Z_1 = Z[0][0]; for (int i = 2; i < 10; i += 2) { float a = Z_1; Z_1 = a; "
         "Z[0][i] = Z_1; Y[i] = Z_1; }"),
    ],
)  # fmt: skip
def test_an_element_stays_in_a_variable(before: str, after: str) -> None:
    assert body_after("keep", 0, before) == after


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 9; i++) Y[0] = X[i];",  # it is never read
        "for (int i = 0; i < 9; i++) Y[i] = Y[i] + X[i];",
        "for (int i = 0; i < 9; i++) { Y[0] = Y[0] + X[i]; Y[i] = 0.0f; }",
        "for (int i = 1; i < 9; i++) Y[i] = Y[i + 1] + Y[i - 1];",
        "for (int i = 1; i < 9; i++) { Y[i] = Y[i - 1] + X[i]; Z[0][i] = Y[i - 1]; }",
        "for (int i = 2; i < 9; i++) Y[i] = Y[i - 2] + X[i];",
        "for (int i = 1; i < 9; i++) { Y[i] = X[i]; Z[0][i] = Y[i - 1]; }",  # written before
        "for (int i = 1; i < 9; i++) { Y[i] = Y[i - 1]; Y[i] = Y[i] + X[i]; }",
        "for (int i = 0; i < 9; i++) Y[i] = i > 0 && X[i] > 0.0f ? Y[i - 1] : 0.0f;",  # Y[-1]
        "int n = 0; n = X[0]; for (int i = 0; i < 9; i++) { n = X[i]; Y[n] = Y[n] + 1.0f; }",
        "for (int i = 1; i < 9; i++) for (int j = 0; j < 9; j++) Y[i] = Y[i - 1] + A[i][j];",
    ],
)
def test_what_changes_from_one_iteration_to_the_next_is_not_kept(body: str) -> None:
    with pytest.raises(NotApplicableError):
        keep(parse(f"{HEAD} {{ {body} }}"), 0)


def test_an_element_that_grows_by_the_one_before_is_kept() -> None:
    body = "for (int i = 1; i < 9; i++) { float t = Y[i]; Y[i] = Y[i] + Y[i - 1] * t; }"
    start = parse(f"{HEAD} {{ {body} }}")
    kernel = keep(start, 0)
    assert kernel != start
    for array, expected in outputs(start, 3).items():
        np.testing.assert_allclose(outputs(kernel, 3)[array], expected, rtol=1e-12)


def test_what_an_outer_loop_declares_moves_into_the_one_that_is_exchanged() -> None:
    sums = "for (int k = 0; k < 9; k++) { float a = X[k]; for (int j = 0; j < 9; j++) SUM; }"
    assert body_after("exchange", 0, sums.replace("SUM", "Y[j] += a * A[k][j]")) == (
        "for (int j = 0; j < 9; j++) { for (int k = 0; k < 9; k++) "
        "{ float a = X[k]; Y[j] = Y[j] + a * A[k][j]; } }"
    )


@pytest.mark.parametrize(
    "body",
    [
        "for (int k = 0; k < 8; k++) for (int j = 0; j < 8; j++) Z[0][j] = Z[0][j + 1] + X[k];",
        "for (int k = 0; k < 4; k++) for (int j = 0; j < 5; j++) Y[j + k] = Y[j + k] * X[k];",
        "float s = 0.0f; for (int k = 0; k < 9; k++) for (int j = 0; j < 9; j++) "
        "{ s = X[j]; Y[k] = Y[k] + s; } Z[0][0] = s;",
        "for (int k = 0; k < 9; k++) { float a = Y[0]; for (int j = 0; j < 9; j++) "
        "Y[j] = Y[j] + a; }",
        "for (int k = 0; k < 9; k++) { Z[0][k] = 0.0f; for (int j = 0; j < 9; j++) "
        "Y[j] = Y[j] + X[k]; }",
        "float s = 0.0f; for (int k = 0; k < 9; k++) { float a = s; "
        "for (int j = 0; j < 9; j++) { s = X[j]; Y[j] = Y[j] + a; } }",
    ],
)
def test_what_another_order_would_change_is_not_exchanged(body: str) -> None:
    with pytest.raises(NotApplicableError):
        exchange(parse(f"{HEAD} {{ {body} }}"), 0)


@pytest.mark.parametrize(
    "body",
    [
        "float s = 0.0f; for (int i = 0; i < 9; i++) { Y[i] = s; float t = X[i]; s += t; }",
        "float s = 0.0f; for (int i = 0; i < 9; i++) { float a = s; Y[i] = a; s += Y[i]; }",
    ],
)
def test_a_sum_of_what_is_written_after_it_is_read_is_not_vectorised(body: str) -> None:
    with pytest.raises(NotApplicableError):
        vectorise(parse(f"{HEAD} {{ {body} }}"), 0, LANES)


def test_a_loop_that_only_copies_is_not_packed_again() -> None:
    packed = pack(parse(SCORES), 1)
    with pytest.raises(NotApplicableError, match="only copies"):
        pack(packed, 0)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_whole_sequences_keep_the_results(name: str) -> None:
    start = parse(KERNELS[name])
    expected = outputs(start, 3)
    found = list(Whole(LANES, 16, ALL).sequences(start))
    assert found
    for steps, after in found:
        kernel = start
        for step, before in steps:
            assert kernel == before
            kernel = step.apply(kernel)
        assert kernel == after
        assert length(after) <= MOST_UNROLLED
        assert parse(emit(after)) == after
        for array, values in outputs(after, 3).items():
            np.testing.assert_allclose(values, expected[array], rtol=1e-9)


def test_sums_of_a_tile_are_kept_in_registers() -> None:
    product = KERNELS["product"].replace("[5]", "[12]").replace("i < 5", "i < 12")
    product = product.replace("[10]", "[16]").replace("j < 10", "j < 16")
    first = next(Whole(LANES, 16, ALL).sequences(parse(product)))[0]
    assert [str(step) for step, _ in first] == ["vectorise 1 4", "jam 1 2", "jam 0 6"]


def test_only_what_is_offered_is_used() -> None:
    for steps, _ in Whole(LANES, 16, frozenset({"vectorise", "pack"})).sequences(parse(SCORES)):
        assert {step.technique for step, _ in steps} <= {"vectorise", "pack"}


def test_a_product_whose_sums_lie_in_memory_becomes_one_in_registers() -> None:
    found = [after for _, after in Whole(LANES, 16, ALL).sequences(parse(KERNELS["rows"]))]
    summing = [loop for loop in loops(found[0]) if loop.trips == 6]
    assert summing
    used = [e for e in expressions(tuple(summing)) if isinstance(e, (Element, Load))]
    assert {e.array for e in used} == {"A", "B"}


BYTES = (
    "void kernel(const int8_t *a, const int8_t b[8][6], int32_t *c) { for (int i = 0; i < 4; i++) "
    "for (int j = 0; j < 8; j++) { int32_t sum = 0; for (int k = 0; k < 6; k++) "
    "sum += a[i * 6 + k] * b[j][k]; c[i * 8 + j] = sum; } }"
)


def most_steps(source: str, registers: int = 32) -> list[str]:
    ways = Whole(LANES, registers, ALL).sequences(parse(source))
    return max(([str(step) for step, _ in steps] for steps, _ in ways), key=len, default=[])


def test_sums_of_products_of_narrow_numbers_become_tiles_of_wider_ones() -> None:
    assert most_steps(BYTES) == ["pack 2 0", "jam 4 8", "jam 3 2"]
    assert most_steps(BYTES, registers=16) == ["pack 2 0", "jam 4 4", "jam 3 2"]
    rows = (
        "void kernel(const int8_t a[4][6], const int8_t b[6][8], int32_t c[4][8]) { "
        "for (int i = 0; i < 4; i++) for (int k = 0; k < 6; k++) "
        "for (int j = 0; j < 8; j++) c[i][j] += a[i][k] * b[k][j]; }"
    )
    ways = Whole(LANES, 32, ALL).sequences(parse(rows))
    made = ["; ".join(str(step) for step, _ in steps) for steps, _ in ways]
    assert "exchange 1 0; keep 2 0; pack 2 0; pack 4 0; jam 5 8; jam 4 2" in made


def test_sums_of_products_of_numbers_of_16_bits_become_tiles_without_a_copy() -> None:
    assert most_steps(BYTES.replace("int8_t", "int16_t")) == ["jam 1 8", "jam 0 2"]


def test_numbers_that_are_read_once_are_not_copied_to_be_wider() -> None:
    once = (
        "void kernel(const int8_t x[32], const int8_t w[16][32], int32_t y[16]) { "
        "for (int i = 0; i < 16; i++) { int32_t s = 0; for (int k = 0; k < 32; k++) "
        "s += x[k] * w[i][k]; y[i] = s; } }"
    )
    assert not [step for step in most_steps(once) if step.startswith("pack")]
    often = once.replace("for (int i", "for (int r = 0; r < 3; r++) for (int i")
    assert "pack 2 0" in most_steps(often)


def test_what_is_not_a_sum_of_wider_numbers_is_not_tiled() -> None:
    mixed = BYTES.replace("c)", "c, const int32_t d[6])").replace("* b[j][k]", "* b[j][k] + d[k]")
    assert most_steps(mixed) == ["pack 2 0"]
    stored = BYTES.replace("void kernel(", "void kernel(int32_t d[6], ")
    stored = stored.replace("sum +=", "{ d[k] = k; sum +=").replace("b[j][k];", "b[j][k]; }")
    assert most_steps(stored) == ["pack 2 0"]


def test_loops_that_add_to_tables_get_tables_of_their_own_at_once() -> None:
    source = (
        "void kernel(const uint8_t X[9][64], int32_t H[256]) { for (int i = 0; i < 9; i++) "
        "for (int j = 0; j < 64; j++) H[X[i][j]] += 1; }"
    )
    ways = Whole(LANES, 16, ALL).sequences(parse(source))
    made = [[str(step) for step, _ in steps] for steps, _ in ways]
    assert sorted(made) == [["accumulators 1 2"], ["accumulators 1 4"]]
    assert not list(Whole(LANES, 16, ALL - {"accumulators"}).sequences(parse(source)))


def test_tiles_are_tried_with_as_many_rows_as_fit_too() -> None:
    source = (
        "void kernel(const float a[16][9], const float b[9][32], float c[16][32]) { "
        "for (int i = 0; i < 16; i++) for (int j = 0; j < 32; j++) { float s = 0.0f; "
        "for (int k = 0; k < 9; k++) s += a[i][k] * b[k][j]; c[i][j] = s; } }"
    )
    for registers, tiles in ((32, {"jam 1 4; jam 0 4", "jam 1 2; jam 0 8"}), (4, {"jam 0 2"})):
        ways = Whole(4, registers, ALL).sequences(parse(source))
        made = ["; ".join(str(s) for s, _ in steps if s.technique == "jam") for steps, _ in ways]
        assert {text for text in made if text} == tiles


def test_sums_in_double_precision_get_as_many_variables_as_there_are_iterations_for() -> None:
    source = (
        "void kernel(const double X[2][70], const double P[9], double Y[3]) { "
        "for (int r = 0; r < 2; r++) { double s = 0.0; for (int c = 0; c < 70; c++) s += X[r][c]; "
        "Y[r] = s; } double t = 0.0; for (int c = 0; c < 9; c++) t += P[c]; Y[2] = t; }"
    )
    offered = frozenset({"vectorise", "accumulators"})
    steps, after = next(Whole(16, 32, offered).sequences(parse(source)))
    assert [str(step) for step, _ in steps] == ["accumulators 2 8", "accumulators 1 32"]
    for array, expected in outputs(parse(source), 1).items():
        np.testing.assert_allclose(outputs(after, 1)[array], expected, rtol=1e-12)
    assert not list(Whole(16, 32, frozenset({"vectorise"})).sequences(parse(source)))
