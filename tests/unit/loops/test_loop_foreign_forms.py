"""Forms of C that other authors use: characters, compared pointers, casts of rows to structures."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from c_programs import HEAD, SIGNATURE, built, random_arrays, results

from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.syntax import UnsupportedError

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
PAIR = "typedef struct { float r, i; } pair;\n"
GRID = "enum { WIDE = 4 };\nstruct grid { float a[WIDE], b[3][WIDE], c; float d[WIDE + 1]; };\n"
PRODUCT = "#define MUL(m, a) do { (m).r = (a).r * (a).r; (m).i = (a).r * (a).i; } while (0)\n"
SUMS = (
    "static int32_t *sums(const int8_t *first, const int8_t *last, int32_t *to) {\n"
    "  if (first == last) return to;\n  int32_t sum = *first;\n  *to = sum;\n"
    "  while (++first != last) { sum = sum + *first; *++to = sum; }\n  return ++to;\n}\n"
)


POINTERS = (
    "typedef int32_t (*act)(int32_t);\n"
    "static int32_t twice(int32_t x) { return 2 * x; }\n"
    "static int32_t square(int32_t x) { return x * x; }\n"
    "static const act acts[] = {twice, square}; static const act one = &square;\n"
    "static void apply(const int8_t *a, int32_t *h, act f, int n) {\n"
    "  for (int i = 0; i < n; i++) h[i] = (*f)(a[i]) + (*one)(3);\n}\n"
    "static void again(const int8_t *a, int32_t *h, act f) { apply(a, h, f, 4); }\n"
    "static void old(a, h) const int8_t *a; int32_t *h; { h[9] = a[9]; }\n"
)


def whole(body: str, functions: str = "") -> str:
    """A kernel with a body."""
    return f"{HEAD}{functions}void kernel{SIGNATURE} {{ int i, j;\n{body}\n}}"


@needs_gcc
@pytest.mark.parametrize(
    ("body", "functions"),
    [
        (
            "for (i = 0; i < 8; ++i) H[i] = A[i] + '\\n' + '\\x1f' + '\\0' + '\\\\' - '\\11';",
            "",
        ),
        (
            "for (i = 0; i < 12; i++) { pair *x = (pair *)Y[i]; for (j = 0; j < 3; j++) { pair t; "
            "MUL(t, x[j + 1]); (x[j]).r += (t).r; (*x).i -= (t).i; } }",
            PAIR + PRODUCT,
        ),
        ("sums(A, A + 16, H);", SUMS),
        ("sums(A + 3, A + 3, H + 2); H[1] = A + 5 - &A[2];", SUMS),
        (
            "apply(A, H, twice, 8); again(A + 8, H + 8, acts[1]); apply(A, H + 12, one, 1); "
            "old(A, H); H[15] = acts[0](A[3]);",
            POINTERS,
        ),
        ("const float *p = P; for (; p < P + 40; p += 2) Q[p - P] = *p;", ""),
        ("(H[0])++; for (i = 0; i < 4; (i)++) { (H[i]) += i; }", ""),
        (
            "int n = 30; const int8_t *a = A; int s = 0, t = 0; while (n > 0) { int m = n; "
            "if (m > 9) m = 9; n -= m; do { s += *a++; t += s; } while (--m); s %= 17; } H[n] = t;",
            "",
        ),
        (
            "int n = 30; while (n > 0) { int m = n; if (m > 9) m = 9; n -= m; "
            "if (A[n] > 3) continue; H[0] += m; }",
            "",
        ),
        (
            "int left; for (left = 16; left > 0; ) { int m = left > 5 ? 5 : left; "
            "for (j = 0; j < m; j++) H[left - j - 1] += left; left = left - m; }",
            "",
        ),
        (
            "for (i = 0; i < 9; i++) { memmove(Q + 1, Q, 15 * sizeof(float)); Q[0] = P[i]; "
            "memmove(H, H + 3, 13 * sizeof *H); H[15] = A[i]; memcpy(Q + 20, Q, 40); }",
            "#include <string.h>\n",
        ),
        (
            "memmove(Y[2], Y[0], sizeof Y[0]); "
            "memmove(&Y[7][2], Y[7], 12); memmove(Y[8], Y[8], sizeof Y[8]);",
            "#include <string.h>\n",
        ),
        (
            "const int n4 = n & ~3; for (i = 0; i < n4; i += 4) H[i] += ~i + ~A[i]; "
            "for (; i < n; i++) H[i] -= ~7;",
            "enum { n = 15 };\n",
        ),
        (
            "Q[0] = P[0] * A1 + A2; Q[1] = A3 * P[1] - A4; Q[2] = (float)(A5 / P[2]) + A6;",
            "static const float A1 = 1.41421356237309504880 * 1.12837916709551257390 * 0.5, A2 = 2,"
            " A3 = -(1.0 / 3), A4 = 1e-3 - .5; static const double A5 = 3 - 0.7, A6 = -4;\n",
        ),
        (
            "const struct grid *from = (const struct grid *)P; struct grid *to = (struct grid *)Q; "
            "for (i = 0; i < 3; i++) for (j = 0; j < 4; j++) { to->b[i][j] += from->b[i][j] * "
            "from[1].a[j]; *(to[1].a + i) -= from->c; to[2].d[j] = *from->d; }",
            GRID,
        ),
        (
            "float (*rows)[4] = ((struct grid *)Q)->b; const float *d = ((struct grid *)P)[1].d; "
            "for (i = 0; i < 3; i++) rows[i][1] = d[i] + (d + 3)[-i]; H[0] = sizeof(struct grid);",
            GRID,
        ),
    ],
)
def test_each_form_keeps_its_results(body: str, functions: str, tmp_path: Path) -> None:
    text = whole(body, functions)
    library = built({"before": text, "after": emit(parse(text))}, tmp_path)
    for seed in range(3):
        arrays = random_arrays(seed)
        assert results(library, "before", arrays) == results(library, "after", arrays)


@needs_gcc
def test_a_structure_that_no_field_changes_is_assigned_as_a_whole() -> None:
    text = emit(
        parse(
            "typedef struct { float x, y; } point;\n"
            "static point sum(point a, point b) { return (point){a.x + b.x, a.y + b.y}; }\n"
            "void kernel(const point *P, float *Y) { point s = {0, 0}; "
            "for (int i = 0; i < 9; i++) { if (P[i].x < 0) continue; s = sum(s, P[i]); } "
            "Y[0] = s.x; Y[1] = s.y; }"
        )
    )
    assert "s_x = holds ? x_1 : s_x;" in text
    assert "s_y = holds ? y_1 : s_y;" in text


def test_rows_of_the_size_of_a_structure_are_read_as_structures(tmp_path: Path) -> None:
    text = (
        f"{HEAD}struct body {{ float a, b, c, d, e, f, g, h; }};\n"
        f"void kernel{SIGNATURE} {{ struct body *all = (struct body *)Y; "
        "for (int i = 0; i < 12; i++) { struct body *one = &all[i]; one->a += one->h * 0.5f; "
        "for (int j = i + 1; j < 12; j++) { struct body *two = &(all[j]); two->b -= one->c; } } }"
    )
    kernel = parse(text)
    library = built({"before": text, "after": emit(kernel)}, tmp_path)
    arrays = random_arrays(1)
    assert results(library, "before", arrays) == results(library, "after", arrays)
    assert "Y[i][7]" in emit(kernel)  # the array keeps its rows


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("H[0] = 'ab';", "a character"),
        ("H[0] = L'a';", "a character"),
        ("H[0] = '\\q';", "a character"),
        ("H[0] = P < Q;", "different arrays"),
        ("memmove(Q + H[0], Q, 16);", "not constant"),
        ("for (i = 0; i < 3; i++) memmove(Q + i, Q, 16);", "not constant"),
        ("memmove(Y[2], Y[1] + 1, 16);", "not constant"),
        (
            "int n = 1700; while (n > 0) { int m = n; if (m > 9) m = 9; n -= m; H[0] += m; }",
            "more than 16 iterations",
        ),
        (
            "int n = 30; while (n > 0) { int m = n; if (m > 9) m = 9; n -= m; "
            "if (A[n] > 3) break; H[0] += m; }",
            "break",
        ),
    ],
)
def test_other_forms_are_refused(body: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        parse(whole(body))


def test_vectors_at_addresses_are_not_pointers() -> None:
    text = (
        "typedef float vf __attribute__((vector_size(64), aligned(4)));\n"
        "void kernel(const float X[64], float Y[32]) { for (int i = 0; i < 32; i += 16) "
        "*(vf *)&Y[i] = *(const vf *)&X[i] - *(const vf *)&X[i + 16]; }"
    )
    assert parse(emit(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("body", "functions", "why"),
    [
        ("H[0] = acts[A[0] & 1](3);", "", "is not supported"),
        ("H[0] = acts[2](3);", "", "is not supported"),
        ("H[0] = acts[01](3);", "", "is not supported"),
        (
            "other(twice, H);",
            "static void other(act f, int32_t *h) { if (h[0]) f = square; h[1] = f(3); }\n",
            "the type 'act' of f is not supported",
        ),
        ("H[0] = changing(3);", "static act changing = twice;\n", "variables outside"),
    ],
)
def test_pointers_to_unknown_functions_are_refused(body: str, functions: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        parse(whole(body, POINTERS + functions))
