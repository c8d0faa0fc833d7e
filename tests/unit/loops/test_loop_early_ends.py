"""Loops that a condition on data ends early, and arrays that are used as one row."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from c_programs import HEAD, SIGNATURE, Program, built, random_arrays, results
from tree_sitter import Node

from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.memory import Memory
from tilewright.proposers.loops.parsing.scope import Value
from tilewright.proposers.loops.parsing.syntax import UnsupportedError
from tilewright.proposers.loops.planning.steps import steps_of

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
SEARCH = "for (j = 0; j < 8; j++) { if (X[i][j] > 1.0f) break; Y[i][0] += X[i][j]; } H[i % 16] = j;"


def assert_reading_keeps_results(text: str, folder: Path, seeds: Iterable[int]) -> None:
    """A kernel gives the same results after it was read and printed."""
    library = built({"before": text, "after": emit(parse(text))}, folder)
    for seed in seeds:
        arrays = random_arrays(seed)
        assert results(library, "before", arrays) == results(library, "after", arrays)


def sized(program: Program) -> str:
    """A random statement that writes only arrays whose sizes are known."""
    while "H[(" in (made := program.statement("P", "j")) or "H[~" in made or "H[i - j" in made:
        pass
    return made


def ending_early(rng: random.Random) -> str:
    """A kernel in which inner loops may end early in various ways."""
    program = Program(rng)
    program.fresh = 1
    some = [sized(program) for _ in range(3)]
    test = program.condition("P", "j")
    leave = rng.choice(
        [f"if ({test}) break;", f"if ({test}) {{ {some[0]} break; }}", "",
         f"if (A[j]) {{ if ({test}) break; {some[0]} }}", f"if ({test}) continue;",
         f"if ({test}) {{ H[2] += 3; break; }} else {{ {some[0]} }}"]
    )  # fmt: skip
    also = f"({program.condition('P', 'j')})"
    head = rng.choice(
        ["for (j = 0; j < 8; j++)", f"for (j = 0; j < 8 && {also}; j++)",
         f"for (j = 7; j >= 0 && {also}; j--)", f"for (j = 1; {also} && j != 7; j += 2)",
         f"for (j = 0; j < 8 && {also}; total1 += j, j++)"]
    )  # fmt: skip
    return (
        f"{HEAD}void kernel{SIGNATURE} {{\n  int i, j;\n"
        "  for (i = 0; i < 12; i++) {\n  float sum1 = 0.0f; int total1 = 2;\n"
        f"  {head} {{\n{some[1]}    {leave}\n{some[2]}  }}\n"
        f"  H[i] = j; Q[i] = sum1; Y[i][0] += total1;\n  }}\n}}\n"
    )


@needs_gcc
@pytest.mark.parametrize("seed", range(2))
def test_loops_that_end_early_keep_their_results(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    sources: dict[str, str] = {}
    read, changed = 0, 0
    for number in range(40):
        text = ending_early(rng)
        try:
            kernel = parse(text)
        except UnsupportedError:
            continue
        read += "going" in emit(kernel)
        found = [*steps_of(kernel, "lanes", 4)]
        after = rng.choice(found)[1] if found else kernel
        changed += bool(found)
        sources |= {f"before_{number}": text, f"after_{number}": emit(after)}
        assert parse(emit(kernel)) == kernel
    assert read >= 15
    assert changed >= 5
    library = built(sources, tmp_path)
    for name in (n for n in sources if n.startswith("before")):
        arrays = random_arrays(int(name.split("_")[1]))
        ways = [results(library, way, arrays) for way in (name, name.replace("before", "after"))]
        assert ways[0] == ways[1], sources[name]


@needs_gcc
@pytest.mark.parametrize(
    "body",
    [
        SEARCH,
        "for (j = 0; j < 8 && P[j] < 0.5f; j++) { do H[j] += 2; while (0); "
        "if (X[i][j] > 1.0f) break; H[9] += 1; }",
        "j = 0; do { H[j] += 1; j++; } while (j < 8 && X[i][j - 1] < 0.5f); H[i % 16] += j;",
        "int n = 8; while (n-- && A[n] < 90) H[n] += i; H[15] += 1;",
        "const float *p = P; for (j = 0; j < 8; j++, p++) { if (*p > 0.5f) break; Y[i][j] = *p; }",
        "for (j = 0; j < 8; j++) { for (int k = 0; k < 4; k++) { if (A[k] > j) break; H[k] += 1; }"
        " if (A[j] > 5) break; }",
        "int m = 0; for (j = 0; j < 8; m += A[j], j++) if (X[i][j] > 0.0f) break; H[5] ^= m;",
        "j = 0; do { H[j] += 1; } while (++j < 8 && X[i][j] < 0.5f); H[i % 16] += j;",
        "j = 0; do H[j] += 1; while (j++ < 7 && A[j] < 90); H[i % 16] += j;",
        "j = 7; do { if (A[j] > 60) continue; H[j] += 1; } while (--j && (X[i][j] < 1.0f || "
        "A[j] > 5)); H[i % 16] += j;",
        "uint8_t j = 7; do { H[j] += 1; } while ((j -= 2) > 2 && A[j] < 90); H[i % 16] += j;",
        "int n = 0; j = 0; do { H[j] += 1; } while (++j < 8 && ++n < 90); H[i % 16] += j * n;",
        "j = 25; do H[3] += 1; while (j++ < 8 && A[j] < 90); H[i % 16] += j;",
    ],
)
def test_each_way_to_end_early_is_read(body: str, tmp_path: Path) -> None:
    text = f"{HEAD}void kernel{SIGNATURE} {{ int i, j; for (i = 0; i < 11; i++) {{ {body} }} }}"
    assert_reading_keeps_results(text, tmp_path, range(5))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for (int j = 0; j < H[0]; j++) if (X[j][0] > 1.0f) break;", "varying number"),
        ("const float *p; for (p = P; p < P + 8; p++) if (*p > 1.0f) break;", "over p"),
        ("for (int j = 0; j < 8; j++) { do { if (A[j] > 3) break; H[j] += 2; } while (0);"
         " if (X[0][j] > 1.0f) break; }", "of this kind .break"),
        ("int m = 0; for (int j = 0; j < 8; j++, m += A[j]) H[j] = m;", "after it has changed j"),
        ("int m = 0; for (int j = 0; j < 8; j++, m += j) H[j] = m;", "after it has changed j"),
        ("int j = 0; for (;;) { if (j >= 8 && A[j] > 5) break; H[j] = 1; j++; }", "comparison"),
        ("const float *q = P; for (int j = 0; j < 8; j++, q++) if (*q > 1.0f) break; Q[0] = *q;",
         "may end early"),
    ],
)  # fmt: skip
def test_what_an_early_end_leaves_unknown_is_refused(body: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        parse(f"{HEAD}void kernel{SIGNATURE} {{ {body} }}")


@needs_gcc
@pytest.mark.parametrize(
    "body",
    [
        "const float *p = &X[0][0]; float *y = (float *)Y; for (int e = 0; e < 96; e++) "
        "y[e] = p[95 - e]; Y[2][3] += X[4][5];",
        "for (int e = 0; e < 90; e++) (&Y[0][0])[e + 2] = ((const float *)X + 3)[e];",
        "float *y = &Y[0][0]; int n = 96; while (n--) *y++ = 0.0f; add_row(X[2], Y[11], 8);",
    ],
)
def test_arrays_of_rows_are_used_as_one_row(body: str, tmp_path: Path) -> None:
    text = f"{HEAD}void kernel{SIGNATURE} {{ {body} }}"
    assert_reading_keeps_results(text, tmp_path, [3])
    assert parse(emit(parse(text))) == parse(text)


@needs_gcc
def test_numbers_reached_through_pointers_and_static_numbers_are_followed(tmp_path: Path) -> None:
    text = (
        "static int scale_(int *n, float *a, int *lda) {\n  int a_dim1, a_offset, i__1;\n"
        "  static int i__, j; static float t;\n  a_dim1 = *lda; a_offset = 1 + a_dim1;\n"
        "  a -= a_offset; i__1 = *n;\n  for (j = 1; j <= i__1; ++j) {\n"
        "    t = a[j + j * a_dim1];\n"
        "    for (i__ = j; i__ <= i__1; ++i__) a[i__ + j * a_dim1] += t;\n  }\n  return 0;\n}\n"
        f"{HEAD}void kernel{SIGNATURE} {{ int n = 7, lda = 8; scale_(&n, &Y[0][0], &lda); }}"
    )
    assert_reading_keeps_results(text, tmp_path, [3])


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("float f(float *x) { static float s; s += x[0]; return s; }\n"
         "void kernel(float *X) { X[1] = f(X); }", "until the next call"),
        ("void kernel(const int *X, int *Y) { for (int i = 0; i < 4; i++) {\n"
         " static int n; if (X[i] > 0) n = i; Y[i] = n; } }", "until the next call"),
        ("int g(int *n) { *n += 1; return *n; }\n"
         "void kernel(const int *X, int *Y) { for (int i = 0; i < 4; i++) { int n = X[i]; "
         "Y[i] = n > 3 && g(&n) > 7; Y[i + 4] = n; } }", "changes this condition"),
        ("void g(int *n) { *n = 3; }\nvoid f(int *n, int *y) { y[0] = *n; g(n); }\n"
         "void kernel(int *Y) { int n = 2; f(&n, Y); Y[n] = 1; }", "only read"),
    ],
)  # fmt: skip
def test_numbers_that_may_keep_other_values_are_refused(source: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        parse(source)


FIRST = "for (int k = 0; k < 8; k++) { if (x[k] > t) return k; } return -1;"


@needs_gcc
@pytest.mark.parametrize(
    "body",
    [
        FIRST,
        "for (int k = 0; k < 8; k++) { if (x[k] > t) { if (x[0] < t) return k; break; } } "
        "return 9;",
        "int s = 0; for (int k = 0; k < 8; k++) for (int n = 0; n < 3; n++) { s += n; "
        "if (x[k] > n - t) return s; } s += 1; return s;",
        "".join(f"if (x[{k}] > t) {{ if (x[{k + 1}] < t) return {k}; }} " for k in range(6))
        + "return 20;",
        "int s = 3; if (x[0] > t) { s *= 2; return s; } s += 5; return s;",
        "int s = x[1]; if (s > 0) { s -= 9; if (s < -8) return s; s++; } s += 5; return s;",
        "int s = 0; int r = x[0] > t ? more(&s) : 4; return r + 10 * s;",
        "int s = 0; int r = x[0] > t && more(&s) > 0; return r + 10 * s;",
        "int s = 0; if (x[0] > t || more(&s) > 2) return s; return more(&s);",
        "if (t > 9.0f) return 5; else { " + FIRST.replace("return -1;", "") + " } return 7;",
    ],
)
def test_functions_may_return_anywhere(body: str, tmp_path: Path) -> None:
    text = (
        "static int more(int *n) { *n += 1; return *n; }\n"
        f"static int f(const float *x, float t) {{ {body} }}\n{HEAD}void kernel{SIGNATURE} {{ "
        "for (int i = 0; i < 12; i++) H[i] = f(X[i], 0.5f) + 1; }"
    )
    assert_reading_keeps_results(text, tmp_path, range(5))


@needs_gcc
def test_a_function_without_a_value_may_return_anywhere(tmp_path: Path) -> None:
    text = (
        "static void f(const float *x, int *h, int i) { for (int k = 0; k < 8; k++) { "
        "if (x[k] > 1.0f) { h[i] += k; if (x[0] > 0.0f) return; } h[15] += 1; } h[14] -= 1; }\n"
        f"{HEAD}void kernel{SIGNATURE.replace('int32_t H[16]', 'int H[16]')} {{ "
        "for (int i = 0; i < 12; i++) f(X[i], &H[0], i); }"
    )
    assert_reading_keeps_results(text, tmp_path, range(5))


@needs_gcc
@pytest.mark.parametrize(
    "function",
    [
        "int32_t *f(int32_t *h, int n) { if (n <= 0) return g(h); else return h; }",
        "int32_t *f(int32_t *h, int n) { if (n > 3) return (*h = 7, h); h[1] = 5; return h + 1; }",
        "int32_t *f(int32_t *h, int n) { if (n <= 0) return h + (h[2] = n); "
        "return (h[1] = 5, h); }",
        "int32_t *f(int32_t *h, int n) { for (int j = 0; j < 3; j++) { h[j] += n; "
        "if (h[j] > 4) return /* all */ h + k(h); } return h; }",
        "int32_t *f(int32_t *h, int n) { if (n > 3) return NULL; h[0] = 4; return 0; }",
        "int32_t *f(int32_t *h, int n) { h[0] = n; return n > 3 ? NULL : h + n; }",
        "void *f(int32_t *h, int n) { h[0] = n; return (void *)h; }",
        "void f(int32_t *h, int n) { if (n <= 0) return (void)k(h); else h[0] = 5; }",
        "void f(int32_t *h, int n) { if (n <= 0) return v(h); h[0] = 5; return v(h + 1); }",
        "void f(int32_t *h, int n) { if (n <= 0) return v(h), (void)(h[0]++); h[0] = 5; }",
        "void f(int32_t *h, int n) { if (n < 0) return; else if (n < 3) return v(h); h[0] = n; }",
        "void f(int32_t *h, int n) { int i = 0; for (;;) { i++; h[1] += n; "
        "if (i == 3) return v(h); } }",
    ],
)
def test_effects_of_what_nothing_uses_are_kept(function: str, tmp_path: Path) -> None:
    text = (
        "#include <stddef.h>\n#include <stdint.h>\n"
        "static int k(int32_t *h) { h[2] += 9; return 1; }\n"
        "static void v(int32_t *h) { h[2] += 9; }\n"
        "static int32_t *g(int32_t *h) { h[1] = 77; return h + 2; }\n"
        f"static {function}\n{HEAD}void kernel{SIGNATURE} {{ "
        "for (int i = 0; i < 12; i++) f(H + i, A[i]); }"
    )
    assert_reading_keeps_results(text, tmp_path, range(5))


@pytest.mark.parametrize(
    ("body", "guarded"),
    [
        ("if (y == 0) break; int t = x % y; x = y; y = t;", "going ? x % y : 0"),
        ("if (y != 0) { int t = x / y; x = y; y = t; }", "holds ? x / y : 0"),
        ("if (y <= 0) continue; int t = 9 / y; x += t; y -= t;", "? 9 / y : 0"),
        ("if (y >= 0 && y < 9) { int t = x << y; x = y; y = t; }", "holds ? x << y : 0"),
        ("if (y != 0) { int t = x / 3 + (x >> 2); x = y; y = t; }", "int t_1 = x / 3 + (x >> 2);"),
    ],
)
def test_numbers_that_may_be_undefined_are_computed_only_under_their_conditions(
    body: str, guarded: str
) -> None:
    loop = f"for (int k = 0; k < 9; k++) {{ {body} }}"
    text = emit(
        parse(
            "void kernel(const int a[8], const int b[8], int o[8]) { for (int i = 0; i < 8; i++) "
            f"{{ int x = a[i], y = b[i]; {loop} o[i] = x; }} }}"
        )
    )
    assert guarded in text


@pytest.mark.parametrize("conditions", [1, 2, 3, 4])
def test_statements_after_up_to_three_conditions_that_may_return_are_read_for_each_case(
    conditions: int,
) -> None:
    body = "".join(f"if (x > {k}) {{ if (x < {9 * k}) return {k}; }} " for k in range(conditions))
    text = emit(
        parse(
            f"static int f(int x) {{ {body}return 99; }}\n"
            "void kernel(const int h[8], int o[8]) "
            "{ for (int i = 0; i < 8; i++) o[i] = f(h[i]); }"
        )
    )
    assert ("going" in text) == (conditions > 3)


@needs_gcc
@pytest.mark.parametrize(
    "body",
    [
        "(void)(A[i]); (void)(i + 1); (void)H; (H[i] & 3) == i;",
        "(void)(H[i] = 3), (void)(k(H + i), 0);",
        "const float *p = X[i]; (void)*p++; Y[i][0] = *p; *++p; Y[i][1] = *p;",
        "int n = 0, m = 0; (n++, m += 2), (void)0; for (j = 0; j < 3; (void)n++, j++) H[n] = m;",
        "(void)H[H[i] = 4];",
    ],
)
def test_values_that_nothing_uses_are_left_out_and_their_effects_kept(
    body: str, tmp_path: Path
) -> None:
    text = (
        f"{HEAD}static int k(int32_t *h) {{ h[2] += 9; return 1; }}\n"
        f"void kernel{SIGNATURE} {{ int i, j; for (i = 0; i < 8; i++) {{ {body} }} }}"
    )
    assert_reading_keeps_results(text, tmp_path, range(3))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for (;;) { if (i == 5) return 1; if (h[i] > 3) break; i++; } return 2;", "both"),
        ("for (;;) { i++; if (h[i] > 3) break; if (i == 5) return 1; } return 2;", "both"),
        ("int t = 9; for (;;) { int t = h[i]; i++; if (i == 5) return t; }", "declares"),
    ],
)
def test_other_ends_of_loops_that_return_are_refused(body: str, why: str) -> None:
    text = f"static int f(const int *h) {{ int i = 0; {body} }}\n"
    with pytest.raises(UnsupportedError, match=why):
        parse(f"{text}void kernel(const int h[8], int o[1]) {{ o[0] = f(h); }}")


def nested(kind: str, depth: int) -> str:
    """A function with nested conditions that read elements which may not exist."""
    if kind == "returns":
        body = "".join(f"if (x > {k}) {{ if (T[x] > {k + 1}) return {k}; }} " for k in range(depth))
        return body + "return 99;"
    if kind == "else":
        body = "return 99;"
        for k in range(depth):
            body = f"if (x > T[x + {k}]) {{ {body} }} else return g(x - {k}, T);"
        return body
    value = "1"
    for k in range(depth):
        value = {
            "choices": f"(g(x + {k}, T) > {k} ? {value} : g(x - {k}, T))",
            "both": f"(g(x + {k}, T) > {k} && {value})",
            "either": f"(g(x + {k}, T) > {k} || {value})",
        }[kind]
    return f"return {value};"


@pytest.mark.parametrize("kind", ["returns", "else", "choices", "both", "either"])
def test_the_time_of_reading_does_not_double_with_each_condition(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = 0
    value = Memory.value

    def counted(self: Memory, node: Node) -> Value:
        nonlocal values
        values += 1
        assert values <= 20_000, "too many readings"
        return value(self, node)

    monkeypatch.setattr(Memory, "value", counted)
    parse(
        "static int g(int x, const int *T) { int v = T[x]; return v; }\n"
        f"static int f(int x, const int *T) {{ {nested(kind, 25)} }}\n"
        "void kernel(const int T[8], int Y[8]) { for (int i = 0; i < 8; i++) Y[i] = f(T[i], T); }"
    )


def test_loops_that_data_end_with_a_carried_variable_are_read() -> None:
    """Such a loop takes no fixed amount of what is left, as in the Mandelbrot set."""
    body = (
        "for (int i = 0; i < 8; i++) {\n    float x = 0; int n;\n"
        "    for (n = 0; n < 9 && x < c[i]; n++) { float t = x * x + c[i]; x = t; }\n"
        "    o[i] = n;\n  }"
    )
    assert parse(f"void kernel(const float c[8], int o[8]) {{\n  {body}\n}}")


@pytest.mark.parametrize(
    "struct",
    [
        "struct q { int a : 4, b : 9; };",
        "struct q { _Alignas(32) int a; int b; };",
        "struct __attribute__((aligned(32))) q { int a, b; };",
        "struct q { int a, b __attribute__((aligned(16))); };",
    ],
)
def test_structures_with_gaps_between_fields_are_refused(struct: str) -> None:
    text = "void kernel(int o[8]) { struct q *y = (struct q *)o; y[0].a += y[0].b; }"
    with pytest.raises(UnsupportedError, match="bit-fields or alignments"):
        parse(f"{struct}\n{text}")
