"""Counters that begin again, and loops over rows and columns that are written as one loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_interpreter import Interpreter
from test_loop_rewrites import outputs

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel, loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.syntax import UnsupportedError
from tilewright.proposers.loops.rewrites.split import split

COUNTED = {  # the statement, and the values of the counter in the first iterations
    "if (++c == 3) c = 0;": [0, 1, 2, 0, 1],
    "c++; if (c >= 3) { c = 0; }": [0, 1, 2, 0, 1],
    "if (c == 2) c = 0; else c++;": [0, 1, 2, 0, 1],
    "if (c < N - 2) c++; else c = 0;": [0, 1, 2, 0, 1],
    "c = (c + 1) % 3;": [0, 1, 2, 0, 1],
    "c += 1; c %= 3;": [0, 1, 2, 0, 1],
    "c = c == 2 ? 0 : c + 1;": [0, 1, 2, 0, 1],
    "c = c == 4 ? 0 : c + 2;": [0, 2, 4, 0, 2],
    "if (c == 0) c = 2; else --c;": [0, 2, 1, 0, 2],
    "if (c++ == 2) c = 0;": [0, 1, 2, 0, 1],
}
NOT_FOLLOWED = [
    "if (++c == 3) c = 0; y[i] = b[c];",  # it is read after it was counted
    "if (++c == n) c = 0; n++;",  # the other variable changes, too
    "if (x[i] > 0.0f) continue; if (++c == 3) c = 0;",
    "c = (c + 1) % 300;",  # a type of 8 bits does not hold it
    "c = (c * 2 + 1) % 7;",  # 0, 1, 3, 0
    "if (--c < 0) c = 2;",
]


def kernel_of(body: str, kind: str = "int", before: str = "") -> Kernel:
    return parse(
        "enum { N = 4 }; void kernel(const float x[12], const float b[12], float y[12]) { "
        f"{kind} c = 0; {before} for (int i = 0; i < 12; i++) {{ y[i] = x[i] + b[c]; {body} }} }}"
    )


def at_places(kernel: Kernel, places: list[int]) -> None:
    x, b = np.arange(12.0), np.arange(100.0, 112.0)
    found = Interpreter(kernel, {"x": x, "b": b, "y": np.zeros(12)}).run()["y"]
    np.testing.assert_array_equal(found[: len(places)], x[: len(places)] + b[places])


@pytest.mark.parametrize("counting", COUNTED)
@pytest.mark.parametrize("kind", ["int", "unsigned char", "size_t"])
def test_a_counter_that_begins_again_is_a_remainder(counting: str, kind: str) -> None:
    before = emit(kernel_of(counting, kind))
    if counting.startswith("if (c == 0)"):
        assert "c = " in before  # 0, 2, 1 is no even sequence
    else:
        assert "i % 3" in before
        assert " c" not in before.split("{", 1)[1]
    at_places(kernel_of(counting, kind), COUNTED[counting])


def test_a_counter_has_its_value_after_the_loop() -> None:
    text = (
        "void kernel(const float b[9], float y[9]) { int c = 0; for (int i = 0; i < 8; i++) "
        "{ y[i] = b[c]; if (++c == 3) c = 0; } y[8] = b[c]; }"
    )
    assert "y[8] = b[2]" in emit(parse(text))


@pytest.mark.parametrize("counting", NOT_FOLLOWED)
def test_other_counters_are_kept_as_they_are(counting: str) -> None:
    kind = "unsigned char" if "300" in counting else "int"
    try:
        text = emit(kernel_of(counting, kind, "int n = 3;"))
    except UnsupportedError:
        return
    assert "%" not in text.replace("% 300", "").replace("% 7", "")
    assert "c = " in text


def test_a_loop_that_starts_late_in_the_turn_keeps_its_counter() -> None:
    text = emit(kernel_of("if (++c == 3) c = 0;", "int", "c = 1;"))
    assert "i % 3" not in text
    assert "c = " in text


HEAD = "void kernel(const float X[96], const float A[96], const float B[96], float Y[97])"
ROWS = [
    "for (int i = 0; i < 96; i++) Y[i] = X[i] + A[i / 8] * B[i % 8];",
    "for (int i = 0; i < 96; i++) Y[i] = X[i] + A[i >> 3] * B[i & 7];",
    "for (unsigned i = 0; i < 96u; i++) Y[i] = X[i] + A[i >> 4] * B[i & 15u];",
    "for (int i = 0; i < 96; i += 2) { Y[i] = A[i % 16 / 2] * B[(i + 1) / 16] + X[i]; Y[i + 1] = "
    "A[(i + 1) % 16] * X[i + 1]; }",
    "for (int i = 32; i < 96; i++) Y[i] = A[i / 32] * B[i / 8 % 4] + X[i % 8] + X[i % 32];",
    "for (int i = 0; i < 96; i++) Y[i + 1] = Y[i] + B[i % 48];",
    "float s = 0.0f; for (int i = 0; i < 96; i++) { s += X[i]; Y[i] = s * B[i % 12]; }",
]
NOT_ROWS = {
    "for (int i = 0; i < 96; i++) Y[i] = A[i / 8] * B[i % 12];": "common",
    "for (int i = 0; i < 90; i++) Y[i] = B[i % 8];": "several complete rows",
    "for (int i = 3; i < 91; i++) Y[i] = B[i % 8];": "several complete rows",
    "for (int i = 4; i < 96; i++) Y[i] = B[i % 8];": "several complete rows",
    "for (int i = 0; i < 96; i++) Y[i] = B[i % 96];": "several complete rows",
    "for (int i = 0; i < 96; i++) Y[i] = B[i % 4];": "short",
    "for (int i = 0; i < 96; i += 3) Y[i] = B[i % 16];": "common",
}


@pytest.mark.parametrize("text", ROWS)
def test_a_loop_over_rows_and_columns_becomes_two(text: str) -> None:
    start = parse(f"{HEAD} {{ Y[0] = 0.0f; {text} }}")
    after = split(start, 0)
    assert len(loops(after)) == 2
    assert parse(emit(after)) == after
    for array, expected in outputs(start, 5).items():
        np.testing.assert_array_equal(outputs(after, 5)[array], expected)


@settings(max_examples=80)
@given(st.data())
def test_rows_and_columns_of_any_size_give_the_same(data: st.DataObject) -> None:
    width, rows = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 5))
    step = data.draw(st.integers(1, 3))
    first = data.draw(st.sampled_from([0, width, 1]))
    offset, times = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    text = (
        f"for (int i = {first}; i < {first + width * rows}; i += {step}) "
        f"Y[i] = A[(i + {offset}) / {width * times}] + B[(i + {offset}) % {width}] * X[i % "
        f"{width * times}] + A[i % {width} / {step}];"
    )
    start = parse(HEAD.replace("96", "260").replace("97", "260") + f" {{ {text} }}")
    try:
        after = split(start, 0)
    except NotApplicableError:
        return
    for array, expected in outputs(start, 5).items():
        np.testing.assert_array_equal(outputs(after, 5)[array], expected)


@pytest.mark.parametrize("text", NOT_ROWS)
def test_what_is_not_made_of_whole_rows_stays_one_loop(text: str) -> None:
    with pytest.raises(NotApplicableError, match=NOT_ROWS[text]):
        split(parse(f"{HEAD} {{ {text} }}"), 0)
