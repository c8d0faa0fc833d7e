"""Values that an outer loop does not change are computed once, into arrays."""

from __future__ import annotations

import numpy as np
import pytest
from test_loop_rewrites import outputs

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Call, Kernel, expressions, loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.planning.steps import Step
from tilewright.proposers.loops.rewrites.tabulate import tabulate

HEAD = "void kernel(const float X[4][16], const float M[16], float Y[4][16], float Z[16])"


def around(body: str, inner: str = "int c = 0; c < 16; c++", rows: int = 4) -> Kernel:
    return parse(f"{HEAD} {{ for (int r = 0; r < {rows}; r++) for ({inner}) {{ {body} }} }}")


def require_same(start: Kernel, after: Kernel) -> None:
    assert parse(emit(after)) == after
    for array, expected in outputs(start, 3).items():
        np.testing.assert_array_equal(outputs(after, 3)[array], expected)


@pytest.mark.parametrize(
    ("body", "tables"),
    [
        ("float s = sinf(M[c]); Y[r][c] = X[r][c] * s;", 1),
        ("float a = M[c] * 2.0f; float s = sinf(a); Y[r][c] = X[r][c] * s + a;", 1),
        ("float s = sinf(M[c]), k = cosf(M[c]); Y[r][c] = X[r][c] * s + k;", 2),
        ("Y[r][c] = X[r][c] * (1.0f / sqrtf(M[c] * M[c] + 1.0f));", 1),
        ("Y[r][c] = X[r][c] / (M[c] + 9.0f) + X[r][c] * expf(M[c]);", 1),
        ("float f = c * 0.9f; f = f < 2.0f ? 2.0f : f; int k = (int)f; Y[r][c] = X[r][k];", 1),
        ("float s = sinf(M[c]); Y[r][c] = s; if (X[r][c] > 0.0f) Y[r][c] = s * 2.0f;", 1),
    ],
)
def test_values_of_the_inner_loop_alone_become_tables(body: str, tables: int) -> None:
    start = around(body)
    after = tabulate(start, 1)
    assert emit(after).count("table_") - emit(after).count("table_1[c]") >= tables
    assert sum(" table_" in line and "[16];" in line for line in emit(after).splitlines()) == tables
    assert not any(isinstance(e, Call) for e in expressions((loops(after)[1],)))
    require_same(start, after)


@pytest.mark.parametrize(
    "body",
    [
        "Y[r][c] = sinf(X[r][c]);",  # changes with the outer loop
        "float s = M[c] + M[c]; Y[r][c] = X[r][c] * s;",  # is computed as fast as it is read
        "Z[c] = Z[c] * 0.5f; Y[r][c] = cosf(Z[c]);",  # the loop writes what is read
        "float s = r > 1 ? sinf(M[c]) : 0.0f; Y[r][c] = s;",
        "Y[r][c] = r > 1 ? expf(M[c]) : 0.0f;",  # may not be computed
        "Y[r][c] = X[r][c] + sinf(0.5f);",  # the compiler computes it
    ],
)
def test_other_values_stay(body: str) -> None:
    with pytest.raises(NotApplicableError):
        tabulate(around(body), 1)


@pytest.mark.parametrize(
    "inner", ["int c = 0; c < 16; c += 2", "int c = 2; c < 16; c++", "int c = 4; c < 14; c += 2"]
)
def test_tables_have_an_element_for_each_iteration(inner: str) -> None:
    body = "float s = sinf(M[c] + M[c / 2]); Y[r][c] = X[r][c] * s; Y[r][c - c % 2] = s;"
    start = around(body, inner)
    after = tabulate(start, 1)
    assert {loop.step for loop in loops(after)} == {1}
    require_same(start, after)
    if "0" in inner:
        assert "M[c]" in emit(after)  # c / 2 of the loop before


@pytest.mark.parametrize(
    "body",
    [
        "float s = sinf(M[c]); s = s + X[r][c]; Y[r][c] = s;",
        "float s = 0.0f; Z[c] = s; s = sinf(M[c]); Y[r][c] = X[r][c] * s;",
        "float s = sinf(M[c]); Z[c] = s; for (int k = 0; k < 2; k++) s = s + M[k]; Y[r][c] = s;",
    ],
)
def test_a_variable_that_changes_is_not_in_a_table_but_its_first_value_is(body: str) -> None:
    start = around(body)
    after = tabulate(start, 1)
    assert "table_1[c] = sinf(M[c]);" in emit(after)
    assert "float s =" in emit(after)
    require_same(start, after)


def test_a_loop_around_that_runs_once_gains_nothing() -> None:
    with pytest.raises(NotApplicableError):
        tabulate(around("Y[r][c] = X[r][c] * sinf(M[c]);", rows=1), 1)


def test_tables_of_more_than_a_cache_are_not_made() -> None:
    source = (
        "void kernel(const float M[9000], float Y[2][9000]) { for (int r = 0; r < 2; r++) "
        "for (int c = 0; c < 9000; c++) Y[r][c] = sinf(M[c]) + r; }"
    )
    with pytest.raises(NotApplicableError, match="too large"):
        tabulate(parse(source), 1)


def test_the_table_is_made_before_the_outermost_loop_that_keeps_its_values() -> None:
    source = (
        "void kernel(const float *q, const float *f, float *y) { for (int p = 0; p < 3; p++) "
        "for (int h = 0; h < 4; h++) for (int i = 0; i < 16; i++) "
        "y[(p * 4 + h) * 16 + i] = q[(p * 4 + h) * 16 + i] * cosf(p * f[i]) + expf(f[i]); }"
    )
    once = tabulate(parse(source), 2)
    assert emit(once).index("expf") < emit(once).index("int p") < emit(once).index("cosf")
    twice = tabulate(once, 3)
    assert emit(twice).index("int p") < emit(twice).index("cosf") < emit(twice).index("int h")


def test_complete_sequences_make_tables_and_vectorise_them() -> None:
    source = (
        "void kernel(const float *q, const float *f, float *y) { for (int p = 0; p < 3; p++) "
        "for (int h = 0; h < 4; h++) for (int i = 0; i < 16; i++) "
        "y[(p * 4 + h) * 16 + i] = q[(p * 4 + h) * 16 + i] * cosf(p * f[i]); }"
    )
    whole = Whole(4, 16, frozenset({"tabulate", "vectorise"}))
    steps = [[str(step) for step, _ in made] for made, _ in whole.sequences(parse(source))]
    assert ["tabulate 2 0", "vectorise 3 4", "vectorise 1 4"] in steps
    assert str(Step("tabulate", 2)) == "tabulate 2 0"
