"""Loops in parts where their conditions change, flattened inputs packed, and jams that reduce."""

from __future__ import annotations

import numpy as np
import pytest
from loop_interpreter import Interpreter

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.rewrites.pack import pack
from tilewright.proposers.loops.rewrites.split import split
from tilewright.proposers.loops.rewrites.unroll_and_jam import jam
from tilewright.proposers.loops.rewrites.vectorise import vectorise

HEAD = "void kernel(const float X[9], const float *P, float Y[9], float Z[9])"


def kernel_of(body: str) -> Kernel:
    return parse(f"{HEAD} {{ {body} }}")


def body_of(kernel: Kernel) -> str:
    assert parse(emit(kernel)) == kernel
    text = emit(kernel)
    return " ".join(text[text.index(") {") + 3 : text.rindex("}")].split())


def results(kernel: Kernel) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    arrays = {p.name: rng.standard_normal(p.sizes or (99,)) for p in kernel.parameters}
    found = Interpreter(kernel, arrays).run()
    return [found["Y"], found["Z"]]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for (int i = 0; i < 9; i++) Y[i] = i == 0 || i == 8 ? X[i] : X[i - 1] + X[i + 1];",
         "for (int i = 0; i < 1; i++) { Y[i] = X[i]; } "
         "for (int i = 1; i < 8; i++) { Y[i] = X[i - 1] + X[i + 1]; } "
         "for (int i = 8; i < 9; i++) { Y[i] = X[i]; }"),
        ("for (int i = 0; i < 9; i++) { int left = i > 0 ? i - 1 : 0; Y[i] = X[left]; }",
         "for (int i = 0; i < 1; i++) { Y[i] = X[0]; } "
         "for (int i = 1; i < 9; i++) { Y[i] = X[i - 1]; }"),
        ("for (int i = 0; i < 9; i++) Y[i] = i > 0 && 2 * i > 7 ? 1.0f : X[i];",
         "for (int i = 0; i < 1; i++) { Y[i] = X[i]; } "
         "for (int i = 1; i < 4; i++) { Y[i] = X[i]; } "
         "for (int i = 4; i < 9; i++) { Y[i] = 1.0f; }"),
        ("for (int i = 0; i < 9; i++) Y[i] = 2 * i == 7 ? 1.0f : 5 - 3 * i < -4 ? X[i] : 2.0f;",
         "for (int i = 0; i < 4; i++) { Y[i] = 2.0f; } "
         "for (int i = 4; i < 9; i++) { Y[i] = X[i]; }"),
        ("for (int i = 1; i < 9; i += 3) if (i >= 5) Y[i] = X[i];",
         "for (int i = 7; i < 10; i += 3) { Y[i] = X[i]; }"),
        ("for (int i = 0; i < 9; i++) for (int j = 0; j < 3; j++) "
         "{ float a = X[j]; Y[i] = 4 < i && j != 1 ? a : 0.0f; }",
         "for (int i = 0; i < 5; i++) { for (int j = 0; j < 3; j++) "
         "{ float a = X[j]; Y[i] = 0.0f; } } for (int i = 5; i < 9; i++) "
         "{ for (int j = 0; j < 3; j++) { float a_1 = X[j]; Y[i] = j != 1 ? a_1 : 0.0f; } }"),
    ],
)  # fmt: skip
def test_each_part_has_no_condition_on_its_variable(before: str, after: str) -> None:
    start = kernel_of(before)
    kernel = split(start, 0)
    assert body_of(kernel) == after
    for one, other in zip(results(start), results(kernel), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("inner", "number"),
    [("i == 0 || j + 3 < 3 ? X[j] : X[i]", 0), ("i + 2 >= 11 || j == 0 ? X[j] : X[i]", 1)],
)
def test_conditions_on_other_loops_that_always_hold_or_never_do_disappear(
    inner: str, number: int
) -> None:
    """With the ranges of loops inside of the split one, and of those around it."""
    start = kernel_of(f"for (int i = 0; i < 9; i++) for (int j = 0; j < 5; j++) Z[j] += {inner};")
    kernel = split(start, number)
    assert not any(sign in body_of(kernel) for sign in ("?", "||", ">="))
    for one, other in zip(results(start), results(kernel), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 9; i++) Y[i] = X[i] > 0.0f ? 1.0f : X[i];",  # data decides
        "for (int i = 0; i < 9; i++) Y[i] = i < 20 ? 1.0f : X[i];",  # always
        "for (int i = 0; i < 9; i++) Y[i] = i % 2 == 0 ? 1.0f : X[i];",
        "for (int i = 0; i < 9; i++) Y[i] = i == 1 || i == 3 || i == 5 ? 1.0f : X[i];",  # too many
    ],
)
def test_where_no_part_is_without_conditions_nothing_is_split(body: str) -> None:
    with pytest.raises(NotApplicableError):
        split(kernel_of(body), 0)


FILTER = (
    "for (int i = 0; i < 9; i++) { float s = 0.0f; for (int k = -1; k < 2; k++) "
    "{ float w = P[3 * k + 4]; if (i + k < 0 || i + k >= 9) continue; s += X[i + k] * w; } "
    "Y[i] = s; }"
)


def test_a_filter_is_written_out_so_that_its_border_can_be_split_off() -> None:
    start = kernel_of(FILTER)
    out = split(start, 1)
    assert "float w_1 = P[1]; s = " in body_of(out)
    assert body_of(out).count("for (") == 1
    kernel = split(out, 0)
    assert "for (int i = 1; i < 8; i++)" in body_of(kernel)
    assert " ? " not in body_of(kernel)
    vectors = vectorise(kernel, 1, 4)
    for changed in (out, kernel, vectors):
        for one, other in zip(results(start), results(changed), strict=True):
            np.testing.assert_allclose(one, other)


def test_long_loops_are_not_written_out() -> None:
    start = kernel_of(
        FILTER.replace("k = -1; k < 2", "k = -4; k < 4").replace("3 * k + 4", "k + 4")
    )
    with pytest.raises(NotApplicableError):
        split(start, 1)


def test_borders_are_split_off_before_a_loop_is_vectorised() -> None:
    start = kernel_of(
        "for (int i = 0; i < 9; i++) Y[i] = i == 0 || i == 8 ? X[i] : X[i - 1] + X[i + 1];"
    )
    ways = Whole(4, 16, frozenset({"split", "vectorise"})).sequences(start)
    assert [[str(step) for step, _ in steps] for steps, _ in ways] == [
        ["split 0 0", "vectorise 1 4"]
    ]


DOTS = (
    "for (int i = 0; i < 3; i++) { float m = -9.0f; for (int j = 0; j < 5; j++) { float s = 0.0f; "
    "for (int k = 0; k < 3; k++) s += X[i * 3 + k] * P[j * 4 + k]; Y[j] = s; m = fmaxf(m, s); } "
    "Z[i] = m; }"
)


def test_flattened_inputs_are_packed_by_columns() -> None:
    start = kernel_of(DOTS)
    kernel = pack(start, 1)
    assert "P_1[at_2][at_1] = P[at_1 * 4 + at_2];" in body_of(kernel)
    assert "static _Alignas(64) float P_1[3][5];" in emit(kernel)
    for one, other in zip(results(start), results(kernel), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_number_may_be_added_to_the_column_of_a_packed_input() -> None:
    start = kernel_of(DOTS.replace("j * 4 + k", "j * 4 + (k + 1)").replace("j < 5", "j < 4"))
    kernel = pack(start, 1)
    assert "static _Alignas(64) float P_1[4][4];" in emit(kernel)
    assert "P_1[k + 1][j]" in body_of(kernel)
    for one, other in zip(results(start), results(kernel), strict=True):
        np.testing.assert_array_equal(one, other)


def test_elements_that_are_the_same_in_all_rows_stay_in_the_input() -> None:
    start = kernel_of(DOTS.replace("j * 4 + k]", "j * 4 + k] * P[k]"))
    kernel = pack(start, 1)
    assert "P_1[k][j] * P[k]" in body_of(kernel)
    for one, other in zip(results(start), results(kernel), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("j * 4 + k", "j * 4 + k + 2"),  # two columns belong to the next row
        ("j * 4 + k", "j * 4 + k - 1"),  # a column belongs to the row before
        ("j * 4 + k", "j * 2 + k"),  # rows overlap
        ("j * 4 + k", "j + k"),
        ("j * 4 + k]", "j * 4 + k] * P[j + k]"),  # it is read otherwise, too
        ("j * 4 + k", "j * 4 + 2 * k"),
    ],
)
def test_what_is_no_matrix_is_not_packed(old: str, new: str) -> None:
    with pytest.raises(NotApplicableError):
        pack(kernel_of(DOTS.replace(old, new)), 1)


def test_copies_of_a_jammed_loop_reduce_in_their_order() -> None:
    start = kernel_of(DOTS)
    kernel = jam(start, 1, 2)
    assert "m = fmaxf(m, s); m = fmaxf(m, s_1);" in body_of(kernel)
    for one, other in zip(results(start), results(kernel), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_reduction_in_a_loop_inside_is_not_jammed() -> None:
    body = "float m = 0.0f; for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) m += X[i + j];"
    with pytest.raises(NotApplicableError, match="continues a reduction"):
        jam(kernel_of(f"{body} Y[0] = m;"), 0, 2)


def test_copies_of_a_jammed_loop_have_static_arrays_of_their_own() -> None:
    source = (
        (
            f"{HEAD} {{ static float s[3]; for (int i = 0; i < 9; i++) {{ "
            "for (int j = 0; j < 3; j++) s[j] = X[i] * P[j]; "
            "for (int j = 0; j < 3; j++) Y[i] = s[j]; } }"
        )
        .replace("{{", "{")
        .replace("}}", "}")
    )
    start = parse(source)
    kernel = jam(start, 0, 3)
    assert len(kernel.scratch) == 3
    for one, other in zip(results(start), results(kernel), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(NotApplicableError, match="same elements of s"):
        jam(parse(source.replace("Y[i] = s[j]; }", "Y[i] = s[j]; } Z[0] = s[0];")), 0, 3)


def test_rows_of_a_flattened_array_are_told_apart() -> None:
    """Loops inside may share a name: each access is as wide as the loops around it make it."""
    body = (
        "for (int i = 0; i < 2; i++) { for (int d = 0; d < 9; d++) Z[d] = X[d]; "
        "for (int d = 0; d < 4; d++) P2[i * 4 + d] = X[d]; }"
    )
    kernel = parse(f"{HEAD} {{ {body} }}".replace("P2", "Y").replace("Z[d] = X[d]", "Z[i] = X[d]"))
    assert "Y[(i + 1) * 4 + d]" in emit(jam(kernel, 0, 2))
    with pytest.raises(NotApplicableError, match="same elements of Y"):
        jam(parse(emit(kernel).replace("d < 4", "d < 5")), 0, 2)


def test_the_larger_of_two_is_a_maximum_on_vectors() -> None:
    body = "float m = X[0]; for (int i = 0; i < 9; i++) if (X[i] > m) m = X[i]; Y[0] = m;"
    assert "m_1 = v_max(" in emit(vectorise(kernel_of(body), 0, 4))
    least = body.replace("X[i] > m", "X[i] < m")
    assert "m_1 = v_min(" in emit(vectorise(kernel_of(least), 0, 4))


def filtered(radius: int, width: int = 40) -> Kernel:
    """A filter that leaves out what lies outside of a picture, in both directions."""
    taps = (
        f"for (int b = -{radius}; b <= {radius}; b++) for (int a = -{radius}; a <= {radius}; a++)"
    )
    inside = f"y + b >= 0 && y + b < 20 && x + a >= 0 && x + a < {width}"
    return parse(
        f"void kernel(const float X[20][{width}], float Y[20][{width}]) {{ "
        f"for (int y = 0; y < 20; y++) for (int x = 0; x < {width}; x++) {{ "
        "float s = 0.0f, t = 0.0f; "
        f"{taps} if ({inside}) {{ s += X[y + b][x + a]; t += 1.0f; }} "
        "Y[y][x] = s / t; } }"
    )


def test_wide_borders_with_many_statements_keep_conditions_and_the_rest_has_none() -> None:
    kernel = filtered(2)
    after = Whole(4, 16, frozenset({"split"})).split(kernel, [])
    text = emit(after)
    rows, columns = text.split("for (int y = 2; y < 18; y++)")[1], "for (int x = 2; x < 38; x++)"
    middle = rows.split(columns)[1].split("for (int")[0]
    assert "?" not in middle
    assert "?" in text.split("for (int y = 2")[0]
    assert text.count("for (int y") == 3  # the few rows above and below are not split further
    rng = np.random.default_rng(1)
    arrays = {"X": rng.standard_normal((20, 40)), "Y": np.zeros((20, 40))}
    found = [Interpreter(k, arrays).run()["Y"] for k in (kernel, after)]
    np.testing.assert_allclose(found[1], found[0])


def test_loops_whose_longest_part_is_short_are_not_split() -> None:
    after = Whole(4, 16, frozenset({"split"})).split(filtered(2, width=10), [])
    assert emit(after).count("for (int x") == 3
