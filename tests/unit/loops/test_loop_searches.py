"""Searches for the largest or smallest value and its place, done by several copies at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_interpreter import Interpreter

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import For, Kernel, loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.rewrites.unroll import unroll

HEAD = (
    "void kernel(const float X[19], const int16_t I[19], const double D[19], const uint32_t U[19], "
    "float V[2], int32_t P[2])"
)


def in_a_loop(body: str, before: str = "float best = X[0]; int at = 0;") -> str:
    return (
        f"{HEAD} {{ {before} for (int i = 1; i < 19; i++) {{ {body} }} V[0] = best; P[0] = at; }}"
    )


LARGEST = in_a_loop("if (X[i] > best) { best = X[i]; at = i; }")
SEARCHES = {
    "largest": LARGEST,
    "smallest": in_a_loop("if (best > X[i]) { at = i; best = X[i]; }"),
    "place_first": in_a_loop(
        "at = X[i] < best ? i + 3 : at; best = X[i] < best ? X[i] : best;"
    ),
    "computed": in_a_loop("float v = fabsf(X[i] - 1.0f); if (v < best) { best = v; at = i; }"),
    "whole": in_a_loop("if (I[i] > best) { best = I[i]; at = i; }", "int best = I[0], at = 0;"),
    "doubles": in_a_loop(
        "if (D[i] > best) { best = D[i]; at = i; }", "double best = 1; int at = 7;"
    ),
    "floats_as_doubles": in_a_loop(
        "if (-X[i] > best) { best = -X[i]; at = i; }", "double best = 1; int at = 7;"
    ),
    "long_place": in_a_loop(
        "if (X[i] > best) { best = X[i]; at = i; }", "float best = X[0]; long at = 0;"
    ),
    "place_alone": in_a_loop("if (X[i] < X[at]) at = i;", "float best = 0.0f; int at = 2;"),
    "magnitude_alone": in_a_loop(
        "at = fabsf(X[at]) < fabsf(X[i]) ? i : at;", "float best = 0.0f; int at = 2;"
    ),
    "excluded": in_a_loop(
        "if (I[i] == 0) continue; if (X[i] > best) { best = X[i]; at = i; }",
        "float best = 0.5f; int at = -1;",
    ),
    "excluded_together": in_a_loop("if (I[i] && i != 4 && X[i] > best) { best = X[i]; at = i; }"),
    "excluded_twice": in_a_loop(
        "at = I[i] < 2 && U[i] != 0 && X[i] < best ? i : at; "
        "best = I[i] < 2 && U[i] != 0 && X[i] < best ? X[i] : best;",
    ),
    "downwards": (
        f"{HEAD} {{ float best = X[18]; int at = 18; for (int i = 17; i >= 0; i--) "
        "if (X[i] > best) { best = X[i]; at = i; } V[0] = best; P[0] = at; }"
    ),
}  # fmt: skip
VALUES = st.sampled_from([0.0, -0.0, 1.0, 2.0, 2.0, -3.0, 2.5, float("nan"), float("inf")])
"""So few that most of them occur several times."""


def found_by(kernel: Kernel, values: list[float]) -> bytes:
    """The best value and its place, with the sign of a zero."""
    given_values = np.array(values)
    whole = np.nan_to_num(given_values, posinf=9.0)
    arrays = {
        "X": given_values, "I": np.trunc(whole), "D": given_values, "U": np.abs(whole),
        "V": np.zeros(2), "P": np.zeros(2),
    }  # fmt: skip
    found = Interpreter(kernel, arrays).run()
    return found["V"].tobytes() + found["P"].tobytes()


@settings(max_examples=150)
@given(
    st.sampled_from(sorted(SEARCHES)),
    st.lists(VALUES, min_size=19, max_size=19),
    st.integers(2, 8),
)
def test_copies_find_the_value_and_the_place_that_one_search_finds(
    name: str, values: list[float], copies: int
) -> None:
    start = parse(SEARCHES[name])
    kernel = unroll(start, 0, copies)
    assert parse(emit(kernel)) == kernel
    assert sum(loop.trips == copies for loop in loops(kernel)) >= 4
    assert found_by(kernel, values) == found_by(start, values)


@pytest.mark.parametrize("name", SEARCHES)
def test_of_equal_values_the_first_one_counts(name: str) -> None:
    """Copies reach them in another order."""
    start = parse(SEARCHES[name])
    for early, late in ((3, 4), (4, 7), (5, 10), (2, 17)):
        for value in (5.0, -5.0):
            values = [1.0] * 19
            values[early] = values[late] = value
            assert found_by(unroll(start, 0, 4), values) == found_by(start, values)


@pytest.mark.parametrize(
    "source",
    [
        LARGEST.replace("X[i] > best", "X[i] >= best"),  # the last of equal values
        LARGEST.replace("at = i", "at = at + i"),
        LARGEST.replace("at = i", "at = I[i]"),  # places that do not grow
        LARGEST.replace("at = i", "at = i - 2"),  # negative places
        LARGEST.replace("best = X[i]", "best = X[i] + 1.0f"),  # not what was compared
        LARGEST.replace("best = X[i]", "best = X[i - 1]"),
        LARGEST.replace("X[i] > best", "X[i] > best + 1.0f"),
        LARGEST.replace("X[i] > best", "X[i] > best && at != 4"),
        LARGEST.replace("X[i] > best", "X[i] > best && V[0] != best"),
        # What a condition excludes cannot be computed in any case.
        in_a_loop("if (i < 9 && X[i + 10] > best) { best = X[i + 10]; at = i; }"),
        in_a_loop("if (i < 9 && I[i + 10] && X[i] > best) { best = X[i]; at = i; }"),
        in_a_loop("if (I[i] != 0 && 8 / I[i] > best) { best = 8 / I[i]; at = i; }",
                  "int best = 0, at = 0;"),
        in_a_loop("if (U[i] < 31 && I[i] >> U[i] && X[i] > best) { best = X[i]; at = i; }"),
        # A variable of whole numbers keeps no fraction: 0.5 becomes 0.
        in_a_loop("int holds = X[i] > best ? D[i] : 0; if (holds) { best = X[i]; at = i; }"),
        # The two assignments have other conditions.
        in_a_loop("at = I[i] != 0 && X[i] > best ? i : at; "
                  "best = U[i] != 0 && X[i] > best ? X[i] : best;"),
        in_a_loop("at = X[i] > best ? i : at; best = U[i] != 0 && X[i] > best ? X[i] : best;"),
        in_a_loop("best = I[i] != 0 && X[i] > best ? X[i] : best; "
                  "at = I[i] != 0 && X[i] > best ? i : at;"),
        LARGEST.replace("X[i] > best", "X[at] > best"),
        LARGEST.replace("int at", "int8_t at"),
        LARGEST.replace("int at", "float at"),
        LARGEST.replace("if (X", "V[1] = X[i]; if (X"),  # the loop does something else as well
        LARGEST.replace("if (X", "float d = best - X[i]; if (X"),
        LARGEST.replace("float best", "float sum = 0.0f, best").replace("if (X", "sum += 1; if (X"),
        in_a_loop("best = X[i] > best ? X[i] : best; at = X[i] > best ? i : at;"),
        in_a_loop("int holds = X[i] > best; float v = X[i] * holds; "
                  "best = holds ? v : best; at = holds ? i : at;"),
        # The value changes as it is kept, or it is compared as another type.
        LARGEST.replace("X[", "D["),
        LARGEST.replace("float best", "int best"),
        LARGEST.replace("X[", "U[").replace("float best", "int best"),
        LARGEST.replace("X[", "I[").replace("float best", "uint32_t best"),
        LARGEST.replace("X[", "U["),
        in_a_loop("if (X[i] < X[at + 1]) at = i;", "float best = 0.0f; int at = 2;"),
        in_a_loop("if (X[i] < D[at]) at = i;", "float best = 0.0f; int at = 2;"),
        # A compiler may compute one of both with more precision.
        in_a_loop("if (X[i] * X[i] < X[at] * X[at]) at = i;", "float best = 0.0f; int at = 2;"),
        in_a_loop("if (sqrtf(X[i]) < sqrtf(X[at])) at = i;", "float best = 0.0f; int at = 2;"),
        in_a_loop("if (X[i] < X[at]) at = i + 1;", "float best = 0.0f; int at = 2;"),
    ],
)  # fmt: skip
def test_other_loops_are_not_divided_among_copies(source: str) -> None:
    try:
        kernel = unroll(parse(source), 0, 4)
    except NotApplicableError:
        return
    assert not any(isinstance(s, For) and s.trips == 4 for s in loops(kernel)[1:3])


def test_a_loop_of_few_iterations_has_no_copies() -> None:
    with pytest.raises(NotApplicableError, match="too few"):
        unroll(parse(LARGEST), 0, 10)


def test_whole_sequences_search_in_thirty_two_copies() -> None:
    source = LARGEST.replace("[19]", "[100]").replace("i < 19", "i < 100")
    steps, after = next(Whole(16, 32, frozenset({"accumulators"})).sequences(parse(source)))
    assert [str(step) for step, _ in steps] == ["accumulators 0 32"]
    assert "float best_1[32];" in emit(after)


def test_a_condition_with_a_fraction_holds() -> None:
    """An int that keeps the condition would be 0 where the condition is 0.5."""
    kernel = parse(in_a_loop("if (D[i]) if (X[i] > best) { best = X[i]; at = i; }"))
    assert "int holds_1 = D[i] != 0;" in emit(kernel)
