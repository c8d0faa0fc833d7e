"""Constant arrays with their values, such as the weights of a stencil."""

from __future__ import annotations

import pytest

from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.syntax import UnsupportedError
from tilewright.proposers.loops.planning.steps import Step


def body_of(source: str) -> str:
    kernel = parse(source)
    assert parse(emit(kernel)) == kernel
    text = emit(kernel)
    return " ".join(text[text.index("{") + 1 : text.rindex("}")].split())


@pytest.mark.parametrize(
    ("table", "begins"),
    [
        ("static const float w[2] = {0.5f, 2.0f};", "float w_1[2]; w_1[0] = 0.5f; w_1[1] = 2.0f;"),
        ("const int w[] = {3, -4};", "int w_1[2]; w_1[0] = 3; w_1[1] = -4;"),
        ("const float w[3] = {1, 0.5};",
         "float w_1[3]; w_1[0] = (float)1; w_1[1] = (float)0.5; w_1[2] = 0.0f;"),
        ("static const int8_t w[2][2] = {{1}, {2, 3}};",
         "int8_t w_1[2][2]; w_1[0][0] = (int8_t)1; w_1[0][1] = 0; "
         "w_1[1][0] = (int8_t)2; w_1[1][1] = (int8_t)3;"),
        ("const int w[2][2] = {1, /* then */ 2, 3};",
         "int w_1[2][2]; w_1[0][0] = 1; w_1[0][1] = 2; w_1[1][0] = 3; w_1[1][1] = 0;"),
        ("static const float half = 0.5f;", "float half = 0.5f;"),
    ],
)  # fmt: skip
def test_what_is_constant_stands_where_the_kernel_begins(table: str, begins: str) -> None:
    assert (
        body_of(f"void kernel(float *y) {{ y[0] = 1.0f; {table} }}")
        .replace("y[0] = 1.0f;", "")
        .strip()
        == begins
    )
    if "w[" in table:
        found = body_of(f"{table} void kernel(float *w) {{ w[0] = 1.0f; }}")
        assert found == f"{begins} w[0] = 1.0f;"  # the argument hides the constant


def test_a_table_of_a_function_is_filled_once() -> None:
    function = "static float of(int i) { static const float w[2] = {1.0f, 2.0f}; return w[i]; }"
    loop = "for (int i = 0; i < 2; i++) { int w_1 = x[i]; y[i] = of(i) + of(1) + w_1; }"
    found = body_of(f"{function} void kernel(const int *x, float *y) {{ {loop} }}")
    assert found.startswith("float w_2[2]; w_2[0] = 1.0f; w_2[1] = 2.0f; for")
    assert found.endswith("y[i] = w_2[i] + w_2[1] + w_1; }")


def test_loops_that_read_a_table_are_vectorised() -> None:
    source = (
        "static const float w[3] = {0.25f, 0.5f, 0.25f}; void kernel(const float x[34], "
        "float y[34]) { for (int i = 1; i < 33; i++) { float s = 0.0f; "
        "for (int d = -1; d <= 1; d++) s += w[d + 1] * x[i + d]; y[i] = s; } }"
    )
    text = emit(Step.parse("vectorise 0 8").apply(parse(source)))
    assert "s = s + w_1[d + 1] * *(const vf *)&x[i + d];" in text


LARGE = ", ".join(f"{n % 7}.5f" for n in range(80))


def test_tables_of_many_values_stay_arrays() -> None:
    source = (
        f"static float weigh(const float *x) {{ static const float w[] = {{{LARGE}}}; "
        "float s = 0; for (int i = 0; i < 80; i++) s += x[i] * w[i]; return s; }\n"
        "void kernel(const float *x, float *y) "
        "{ for (int i = 0; i < 8; i++) y[i] = weigh(x + i) + weigh(x); }"
    )
    kernel = parse(source)
    text = emit(kernel)
    assert text.count(f"static const float w[80] = {{{LARGE}}};") == 1
    assert parse(text) == kernel
    for steps in ("vectorise 1 8", "vectorise 0 8", "jam 0 2"):
        after = Step.parse(steps).apply(kernel)
        assert [a.name for a in after.scratch] == ["w"]
        assert parse(emit(after)) == after


def test_a_table_of_many_values_has_the_name_of_nothing_else() -> None:
    source = (
        f"static const float w[80] = {{{LARGE}}};\n"
        "static float twice(float w) { return w + w; }\n"
        "void kernel(const float *x, float *y) "
        "{ for (int i = 0; i < 8; i++) { float v = x[i]; y[i] = twice(v * w[i]); } }"
    )
    assert "float w = v * w_1[i];" in emit(parse(source))
    assert parse(emit(parse(source))) == parse(source)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("const float w[2] = {1.0f, y[0]};", "not all numbers"),
        ("const float w[2] = {[1] = 2.0f};", "unsupported form"),
        ("const float w[2] = {{1.0f}, {2.0f}};", "unsupported form"),
        ("const float w[2][2] = {{1.0f, 2.0f}, 3.0f};", "unsupported form"),
        ("const float w[1] = {1.0f, 2.0f};", "more values than elements"),
        ("const float w[2][2] = {{1.0f, 2.0f, 3.0f}};", "more values than elements"),
        ("const float w[4097] = {1.0f};", "more than 4096 values"),
        ("const float w[65] = {1.0f, y[0]};", "not all numbers"),
        (
            "static float w[2] = {1.0f};",
            "without initial values",
        ),  # a call may change it for the next one
        ("static float w = 1.0f;", "static"),
    ],
)
def test_other_tables_are_refused(table: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        parse(f"void kernel(float *y) {{ {table} y[0] = 1.0f; }}")
