"""Loops whose number of iterations depends on loops around them, as in triangular matrices."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from c_programs import STOPS, built, random_loops, results

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.syntax import UnsupportedError
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.planning.steps import TECHNIQUES, Step, possible

HEAD = "void kernel(const float A[40][40], float X[40][40], float y[40])"
SOLVE = (
    "for (int r = 0; r < 40; r++) for (int i = 0; i < 40; i++) { float s = A[i][r]; "
    "{0} s -= A[i][j] * X[j][r]; X[i][r] = s; }"
)
READ = [
    ("for (int i = 0; i < 40; i++) for (int j = i; j < 40; j++) X[i][j] = A[j][i];",
     "for (int j = i; j < 40; j++) { X[i][j] = A[j][i]; }"),
    ("for (int i = 0; i < 40; i++) for (int j = i - 1; j >= 0; --j) X[i][j] = A[j][i];",
     "for (int j = 0; j < i; j++) { X[i][i - 1 - j] = A[i - 1 - j][i]; }"),
    ("for (int i = 0; i < 40; i++) for (int j = 0; j <= i; j++) X[i][j] = 2.0f;",
     "for (int j = 0; j < i + 1; j++) { X[i][j] = 2.0f; }"),
    ("for (int i = 0; i < 40; i++) for (int j = 0; j != i; j++) X[i][j] = 2.0f;",
     "for (int j = 0; j < i; j++) { X[i][j] = 2.0f; }"),
    ("for (int i = 0; i < 40; i++) { const float *a = A[i]; for (unsigned j = i; j < 40; j++) "
     "X[j][i] = *a++; }", "for (int j = i; j < 40; j++) { X[j][i] = A[i][j - i]; }"),
    ("for (int i = 0; i < 40; i++) { int j = i; while (j < 40) { X[i][j] = A[j][i]; j++; } }", ""),
    ("for (int i = 0; i < 9; i++) for (int j = i + 40; j < 40 - i; j++) y[j] = 1.0f; y[0] = 2.0f;",
     "y[0] = 2.0f;"),
]  # fmt: skip
KERNELS = [
    SOLVE.replace("{0}", "for (int j = 0; j < i; j++)"),
    SOLVE.replace("{0}", "for (int j = i - 1; j >= 0; j--)"),
    SOLVE.replace("A[i][r]", "A[39 - i][r]")
    .replace("X[i][r] = s", "X[39 - i][r] = s")
    .replace("{0}", "for (int j = 40 - i; j < 40; j++)"),
    "for (int i = 0; i < 40; i++) for (int j = i; j < 40; j++) { X[i][j] = 0.0f; "
    "for (int k = 0; k < 40; k++) X[i][j] += A[i][k] * A[j][k]; }",
    "for (int i = 0; i < 40; i++) { y[i] = 1.0f; for (int j = 0; j < i; j++) y[i] += A[i][j]; }",
    "for (int i = 0; i < 40; i++) for (int k = 0; k < 40; k++) { float s = 1.0f; "
    "for (int j = i; j <= 39; j++) s += A[j][k] * A[i][j]; X[i][k] = s; }",
]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")


def kernel_of(body: str) -> str:
    return f"{HEAD} {{ {body} }}"


def data() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = (40, 40), (40, 40), (40,)
    return [(rng.standard_normal(shape) / 8).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize(("body", "read"), READ)
def test_loops_that_vary_with_others_are_read(body: str, read: str) -> None:
    if not read:
        with pytest.raises(UnsupportedError, match="number of iterations of the loop over j"):
            parse(kernel_of(body))
        return
    kernel = parse(kernel_of(body))
    assert read in " ".join(emit(kernel).split())
    assert parse(emit(kernel)) == kernel


@pytest.mark.slow
@needs_gcc
def test_reading_and_steps_keep_the_results(tmp_path: Path) -> None:
    sources = {}
    for number, body in enumerate([*KERNELS, *(body for body, read in READ if read)]):
        kernel = parse(kernel_of(body))
        sources[f"before_{number}"] = kernel_of(body)
        sources[f"read_{number}"] = emit(kernel)
        for technique in TECHNIQUES:
            for step in possible(kernel, technique, 8):
                after = step.applied(kernel) if step.factor in (0, 2, 4, 8) else None
                if after is not None:
                    name = f"after_{number}_{step}".replace(" ", "_")
                    sources[name] = emit(after)
                    again = parse(emit(after))
                    assert parse(emit(again)) == again
    applied = {name.split("_")[2] for name in sources if name.startswith("after")}
    assert {"lanes", "vectorise", "jam", "keep", "accumulators"} <= applied
    library = built(sources, tmp_path)
    for name in sources:
        number = name.split("_")[1]
        before = results(library, f"before_{number}", data())
        for one, other in zip(results(library, name, data()), before, strict=True):
            found, expected = (np.frombuffer(d, np.float32) for d in (one, other))
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=sources[name])


def test_right_hand_sides_are_solved_side_by_side() -> None:
    kernel = parse(kernel_of(KERNELS[0]))
    steps, _ = next(Whole(16, 30, frozenset(TECHNIQUES)).sequences(kernel))
    assert str(steps[0][0]) == "vectorise 0 16"


@pytest.mark.parametrize(
    ("body", "step", "says"),
    [
        (KERNELS[3], "vectorise 0 8", "of iterations of an inner loop varies"),
        (KERNELS[3], "jam 0 2", "of iterations of an inner loop varies"),
        (KERNELS[4], "lanes 0 8", "of iterations of an inner loop varies"),
        (KERNELS[3], "exchange 0 0", "the number of iterations of a loop in this nest varies"),
        (KERNELS[3], "vectorise 1 8", "the number of iterations of a loop in this nest varies"),
        # the number of iterations is kept in a variable
        ("for (int r = 0; r < 40; r++) { int n = (int)A[0][r]; "
         "for (int i = 0; i < 40; i++) { for (int j = 0; j < n; j++) X[i][r] += 1.0f; } }",
         "lanes 0 8", "the bounds of a loop in this nest depend on data"),
        # for i = 0, the variable has a value of the iteration before
        ("float t = 3.0f; for (int r = 0; r < 40; r++) for (int i = 0; i < 40; i++) "
         "{ for (int j = 0; j < i; j++) t = A[j][r]; X[i][r] = t; }",
         "lanes 0 8", "t is carried from one iteration to the next"),
        # in the last iteration, the row does not exist, and is not read
        ("for (int i = 0; i < 40; i++) for (int j = i + 1; j < 40; j++) X[i + 1][2] += A[i][j];",
         "keep 1 0", "no element is read and written"),
    ],
)  # fmt: skip
def test_steps_that_other_lengths_forbid_are_refused(body: str, step: str, says: str) -> None:
    with pytest.raises(NotApplicableError, match=says):
        Step.parse(step).apply(parse(kernel_of(body)))


def test_elements_of_a_varying_loop_are_known() -> None:
    rows = "for (int r = 0; r < 40; r++) for (int i = 0; i < 40; i++) "
    rows += "for (int j = 0; j < {0}; j++) "
    flat = "void kernel(const float *A, float *B) {{ {0} B[i * 40 + r] += B[j * 40 + r]; }}"
    step = Step.parse("lanes 0 8")
    assert step.applied(parse(flat.format(rows.format("i")))) is not None
    beyond = flat.replace("B[j * 40 + r]", "B[i * 40 + r + j - i]")
    assert step.applied(parse(beyond.format(rows.format("i")))) is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("for (int j = i; j > 0; j -= 2) y[j] = 1.0f;", "its head does not count by one"),
        (
            "const float *a = A[0]; for (int j = 0; j < i; j += 2) y[j] = *a++;",
            "its head does not count by one",
        ),
        ("for (int j = 0; j != i; j += 2) y[j] = 1.0f;", "it may not end"),
        ("for (int j = 8; j != i; j++) y[j] = 1.0f;", "it may not end"),
        ("for (int j = i; j > 3; j++) y[j] = 1.0f;", "it may not end"),
        ("int n = i; for (int j = 0; j < n; j++) { y[j] = 1.0f; n--; }", "changes its own limit"),
        ("const float *a = A[0]; for (int j = 0; j < i; j++) a++; y[0] = *a;", "a is moved"),
    ],
)
def test_other_varying_loops_are_named(body: str, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        parse(kernel_of(f"for (int i = 0; i < 40; i++) {{ {body} }}"))


def test_what_a_varying_loop_moves_is_known_in_all_its_iterations() -> None:
    """The condition holds in some iterations, and not only in the first ones."""
    body = "int n = 0; for (int j = i; j < 40; j++) { if (j < 20) n++; y[j] = A[0][j]; } y[0] = n;"
    text = emit(parse(kernel_of(f"for (int i = 0; i < 9; i++) {{ {body} }}")))
    assert "n = j < 20 ? n + 1 : n;" in text


def test_reads_of_a_varying_loop_count_with_its_longest_range() -> None:
    assert [loop.range for loop in loops(parse(kernel_of(KERNELS[0])))][2] == (0, 38)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("for (int i = 0; i < 300; i++) for (unsigned char j = i; j < 250; j++) z[j] += 1.0f;",
         "'i' does not fit the type uint8_t"),
        ("for (int i = 0; i < 300; i += 4) for (int8_t j = i; j < 100; j++) "
         "if (j >= 0) z[j] += 1.0f;", "'i' does not fit the type int8_t"),
        ("int8_t j; for (int i = 0; i < 300; i += 4) for (j = i; j < 100; j++) z[j + 9] += 1.0f;",
         "'i' does not fit the type int8_t"),
        ("for (int i = 0; i < 300; i++) { unsigned char k = i; z[k] += 1.0f; }",
         "'i' does not fit the type uint8_t"),
        ("uint8_t k; for (int i = 0; i < 300; i++) { k = i; z[k] += 1.0f; }",
         "'i' does not fit the type uint8_t"),
        ("for (int i = 0; i < 5; i++) for (int j = 0; j < 30; j++) "
         "{ int8_t m = i * 40; z[j + m + 128] += 1.0f; }", "'i . 40' does not fit the type int8_t"),
        ("for (int i = 0; i < 9; i++) z[i] += k;", "'300' does not fit the type uint8_t"),
    ],
)  # fmt: skip
def test_values_that_a_narrow_variable_does_not_hold_are_refused(body: str, says: str) -> None:
    constant = "static const uint8_t k = 300; " if "+= k" in body else ""
    with pytest.raises(UnsupportedError, match=f"line 2: {says}"):
        parse(f"\n{constant}void kernel(float z[400]) {{ {body} }}")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("for (int i = 0; i < 20; i++) for (unsigned j = 0; j < i - 5; j++) if (j < 20) z[j] = 1;",
         "the limit 'i - 5' may be negative, and is compared as uint32_t"),
        ("for (size_t i = 0; i < 20; i++) for (int j = -3; j < i; j++) z[j + 3] = 1;", ""),
        ("for (int i = 0; i < 20; i++) for (int j = i - 5; j < 20u; j++) z[j + 5] = 1;", ""),
        ("const size_t n = 20; for (int i = 0; i < 9; i++) for (int j = i - 2; j < n; j++) "
         "z[j + 2] = 1;", ""),
        ("for (int i = 0; i < 9; i++) for (int j = i; j >= 0u; j--) z[j] = 1;", ""),
        ("for (int i = 0; i < 9; i++) for (int j = i - 1; j > 0u; j--) z[j] = 1;", ""),
        ("for (int j = -3; j < 20u; j++) z[j + 5] = 1;", ""),
        ("for (int j = -2; j + 1u < 20; j++) z[j + 5] = 1;", ""),
        ("for (int j = 7; j >= 0u; j--) z[j] = 1;", ""),
        ("for (int j = 7; j > 0u; j -= 2) z[j] = 1;", ""),
        ("const int n = -2; for (size_t j = 0; j < n; j++) z[j] = 1;",
         "the limit 'n' may be negative, and is compared as uint64_t"),
    ],
)  # fmt: skip
def test_negative_numbers_are_not_compared_as_unsigned_ones(body: str, says: str) -> None:
    says = says or "j may be negative where it is compared as an unsigned number"
    with pytest.raises(UnsupportedError, match=says):
        parse(f"void kernel(float z[400]) {{ {body} }}")


@pytest.mark.parametrize(
    ("body", "read"),
    [
        ("for (int j = -1; j + 1 < 8u; j++) z[j + 1] = 1;", "for (int j = -1; j < 7; j++)"),
        ("for (int j = -3; j != 5u; j++) z[j + 3] = 1;", "for (int j = -3; j < 5; j++)"),
        ("for (size_t j = 5; j != -1; j--) z[j] = 1;", "for (int j = 0; j < 6; j++)"),
        ("for (int i = 0; i < 9; i++) for (int j = i; j > 0u; j--) z[j] = 1;",
         "for (int j = 0; j < i; j++)"),
        ("for (int i = 0; i < 128; i++) { int8_t k = i; z[k] = 1; }", "z[i] = 1;"),
        ("if (-3 < 20u) z[0] = 1;", "z[0] = -3 < (uint32_t)20 ? 1 : z[0];"),
        ("for (int i = 0; i < 9; i++) { int m = i - 4; z[i] = m > 20u ? m : 20u; }",
         "i - 4 > (uint32_t)20 ? i - 4 : (uint32_t)20"),
    ],
)  # fmt: skip
def test_numbers_of_several_types_are_compared_as_c_compares_them(body: str, read: str) -> None:
    assert read in " ".join(emit(parse(f"void kernel(float z[400]) {{ {body} }}")).split())


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 9; i++) for (int j = 0; j <= i + 2147483639; j++) z[i] += 1.0f;",
        "for (long j = 2147483640; j <= 2147483647; j++) z[j - 2147483640] += 1.0f;",
        "for (int j = -2000000000; j < 2000000000; j++) z[0] += 1.0f;",
    ],
)
def test_bounds_that_no_int_holds_are_refused(body: str) -> None:
    with pytest.raises(UnsupportedError, match="bounds of the loop over j do not fit an int"):
        parse(f"void kernel(float z[400]) {{ {body} }}")


@needs_gcc
def test_loops_with_variables_of_any_integer_type_keep_their_results(tmp_path: Path) -> None:
    rng = random.Random(5)
    sources: dict[str, str] = {}
    for number in range(200):
        text = random_loops(rng)
        try:
            sources[f"after_{number}"] = emit(parse(text))
        except UnsupportedError:
            continue
        for comment, statement in STOPS:
            text = text.replace(comment, statement)
        sources[f"before_{number}"] = text
    library = built(sources, tmp_path)
    assert len(sources) > 60
    for name in (n for n in sources if n.startswith("after")):
        before, numbers = name.replace("after", "before"), [np.zeros(64, np.int32)]
        assert results(library, name, numbers) == results(library, before, numbers), sources[before]
