"""Plain C as people write it is read, and printed again with the same results."""

from __future__ import annotations

import math
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from c_programs import Program, built, random_arrays, results
from tree_sitter import Node

from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Expr
from tilewright.proposers.loops.parsing.assignments import Assignments
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.syntax import UnsupportedError
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.planning.steps import Step, steps_of

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "plain_c").glob("*.c"))
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")


def body_of(source: str) -> str:
    """The statements of a kernel as they are printed, on one line."""
    text = emit(parse(source))
    return " ".join(text[text.index("void kernel") :].split("{", 1)[1].rsplit("}", 1)[0].split())


@pytest.mark.parametrize("file", FIXTURES, ids=lambda file: file.stem)
def test_kernels_of_many_styles_are_read(file: Path) -> None:
    kernel = parse(emit(parse(file.read_text())))  # where numbers in structures are known too
    assert parse(emit(kernel)) == kernel


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("X[0] = -1.702f*X[1];", "X[0] = -1.702f * X[1];"),
        ("for (int i = 0; i <= 7; i++) X[i] = 0.0f;",
         "for (int i = 0; i < 8; i++) { X[i] = 0.0f; }"),
        ("for (int i = 0; i != 8; i += 2) X[i] = 0.0f;",
         "for (int i = 0; i < 8; i += 2) { X[i] = 0.0f; }"),
        ("for (int i = 0; i < 7; i += 2) X[i] = 0.0f;",
         "for (int i = 0; i < 8; i += 2) { X[i] = 0.0f; }"),
        ("for (int i = 7; i >= 0; i--) X[i] = 0.0f;",
         "for (int i = 0; i < 8; i++) { X[7 - i] = 0.0f; }"),
        ("int i; for (i = 0; 8 > i; i = i + 1) X[i] = 0.0f;",
         "for (int i = 0; i < 8; i++) { X[i] = 0.0f; }"),
        ("for (size_t i = 0; i < sizes; ++i) X[i] = (float)i;".replace("sizes", "4u * 2u"),
         "for (int i = 0; i < 8; i++) { X[i] = (float)(uint64_t)i; }"),
        ("for (int i = 0, j = 7; i < 4; i++, j--) X[i] = X[j];",
         "for (int i = 0; i < 4; i++) { X[i] = X[7 - i]; }"),
        ("int i = 0; while (i < 8) { X[i] = 0.0f; i++; } X[i] = 1.0f;",
         "for (int i = 0; i < 8; i++) { X[i] = 0.0f; } X[8] = 1.0f;"),
        ("int n = 8; for (; n > 0;) { X[n - 1] = 0.0f; n -= 2; }",
         "for (int n = 0; n < 4; n++) { X[8 - n * 2 - 1] = 0.0f; }"),
        ("int i = 0; while (i < 8) { i++; X[i] = 0.0f; } X[i] = 2.0f;",
         "for (int i = 0; i < 8; i++) { X[i + 1] = 0.0f; } X[8] = 2.0f;"),
        ("int n = 8; while (n--) X[n] = 0.0f;",
         "for (int n = 0; n < 8; n++) { X[7 - n] = 0.0f; }"),
        ("for (size_t i = 8; i-- > 0;) X[i] = 0.0f;",
         "for (int i = 0; i < 8; i++) { X[7 - i] = 0.0f; }"),
        ("int i = 8; while (--i >= 0) X[i] = 0.0f; X[i + 3] = 1.0f;",
         "for (int i = 0; i < 8; i++) { X[7 - i] = 0.0f; } X[2] = 1.0f;"),
        ("int i = 8; do X[i] = 0.0f; while (i-- > 0); X[i + 2] = 1.0f;",
         "for (int i = 0; i < 9; i++) { X[8 - i] = 0.0f; } X[1] = 1.0f;"),
        ("int i = 0; do { X[i] = 0.0f; } while ((i += 2) < 8); X[i] = 1.0f;",
         "for (int i = 0; i < 8; i += 2) { X[i] = 0.0f; } X[8] = 1.0f;"),
        ("do { float t = X[0]; X[0] = X[1]; X[1] = t; } while (0);",
         "float t = X[0]; X[0] = X[1]; X[1] = t;"),
        ("do { X[0] = 1.0f; if (X[1] > 0.0f) continue; X[2] = 1.0f; } while (0); X[3] = 1.0f;",
         "X[0] = 1.0f; X[2] = X[1] > 0.0f == 0 ? 1.0f : X[2]; X[3] = 1.0f;"),
        ("int i = 3; do { X[i] = 0.0f; i++; } while (i < 0); X[i] = 1.0f;",
         "for (int i = 3; i < 4; i++) { X[i] = 0.0f; } X[4] = 1.0f;"),
        ("const float *p = X, *end = X + 8; float s = 0.0f; do s += *p++; while (p < end);",
         "float s = 0.0f; for (int p = 0; p < 8; p++) { s = s + X[p]; }"),
        ("float z[4][2]; float (*p)[2] = z + 1; p[1][0] = X[0]; p++; (*p)[1] = X[1];",
         "float z[4][2]; z[2][0] = X[0]; z[2][1] = X[1];"),
        ("float z[4]; if (X[0] > 0.0f) for (int i = 0; i < 4; i++) z[i] = X[i];",
         "float z[4]; int holds = X[0] > 0.0f; "
         "for (int i = 0; i < 4; i++) { z[i] = holds ? X[i] : z[i]; }"),
        ("memset(X, 0, 4 * sizeof(float)); memset(X + 4, 0, sizeof X[0] * 2);",
         "for (int at = 0; at < 4; at++) { X[at] = 0.0f; } "
         "for (int at = 0; at < 2; at++) { X[4 + at] = 0.0f; }"),
        ("float z[2][3]; memset(z, 0, sizeof(z)); memcpy(&X[1], z[1], sizeof z[1]);",
         "float z[2][3]; for (int at = 0; at < 2; at++) { for (int at_1 = 0; at_1 < 3; at_1++) "
         "{ z[at][at_1] = 0.0f; } } for (int at = 0; at < 3; at++) { X[1 + at] = z[1][at]; }"),
        ("const int n = 3; X[n + 1] = X[n];", "X[4] = X[3];"),
        ("const float f = 2.0f; X[0] = f;", "float f = 2.0f; X[0] = f;"),
        ("float *p = X + 2; p[1] = *p;", "X[3] = X[2];"),
        ("float *p = X; for (int i = 0; i < 8; i++) *p++ = 1.0f; *p = 2.0f;",
         "for (int i = 0; i < 8; i++) { X[i] = 1.0f; } X[8] = 2.0f;"),
        ("int n = 0; for (int i = 0; i < 2; i++) for (int j = 0; j < 4; j++) X[n++] = 1.0f;",
         "for (int i = 0; i < 2; i++) { for (int j = 0; j < 4; j++) { X[i * 4 + j] = 1.0f; } }"),
        ("int n = 0; if (X[0] > 0.0f) n++; X[1] = n;",
         "int n = 0; n = X[0] > 0.0f ? n + 1 : n; X[1] = n;"),
        ("if (X[0] < 0.0f) X[0] = 0.0f;", "X[0] = X[0] < 0.0f ? 0.0f : X[0];"),
        ("if (X[0] < 0.0f) X[1] = 1.0f; else X[1] = 2.0f;",
         "X[1] = X[0] < 0.0f ? 1.0f : 2.0f;"),
        ("for (int i = 0; i < 8; i++) { if (X[i] < 0.0f) continue; X[i] = 1.0f; }",
         "for (int i = 0; i < 8; i++) { X[i] = X[i] < 0.0f == 0 ? 1.0f : X[i]; }"),
        ("X[0] = X[1] = 2.0f;", "X[1] = 2.0f; X[0] = X[1];"),
        ("long s = 0; s += (long)X[0]; X[1] = s;",
         "int64_t s = 0; s = s + (int64_t)X[0]; X[1] = s;"),
        ("float z[2] = {0}; X[0] = z[1];",
         "float z[2]; for (int at = 0; at < 2; at++) { z[at] = 0.0f; } X[0] = z[1];"),
        ("{ float t = X[0]; X[1] = t; } { float t = X[2]; X[3] = t; }",
         "float t = X[0]; X[1] = t; float t_1 = X[2]; X[3] = t_1;"),
        ("enum { N = 3, M }; X[M] = X[N];", "X[4] = X[3];"),
        ("float a[4], b[4], *p = a, *q = b; for (int t = 0; t < 5; t++) "
         "{ q[t] = p[0]; float *r = p; p = q; q = r; } X[0] = p[1];",
         "float a[4]; float b[4]; for (int t = 0; t < 2; t++) { b[t * 2] = a[0]; "
         "a[t * 2 + 1] = b[0]; } b[4] = a[0]; X[0] = b[1];"),
        ("float a[4], b[4], *p = a, *q = b, *r; int t = 2; while (t--) "
         "{ p[t] = 1.0f; r = p; p = q; q = r; } *p = 2.0f;",
         "float a[4]; float b[4]; for (int t = 0; t < 1; t++) { a[1] = 1.0f; "
         "b[0] = 1.0f; } a[0] = 2.0f;"),
        ("for (int i = 0; i < 8; i++) { if (X[i] < 0.0f) { X[i] = 0.0f; continue; } X[i] = 1.0f; }",
         "for (int i = 0; i < 8; i++) { X[i] = X[i] < 0.0f ? 0.0f : 1.0f; }"),
        ("for (int i = 0; i < 8; i++) { if (X[i] < 0.0f) X[i] = 1.0f; else continue; "
         "X[i + 8] = 2.0f; }",
         "for (int i = 0; i < 8; i++) { int holds = X[i] < 0.0f; X[i] = holds ? 1.0f : X[i]; "
         "X[i + 8] = holds ? 2.0f : X[i + 8]; }"),
        ("for (int i = 0; i < 8; i++) { if (X[i] < 0.0f) continue; if (X[i] > 1.0f) continue; "
         "X[i] = 1.0f; }",
         "for (int i = 0; i < 8; i++) "
         "{ X[i] = (X[i] < 0.0f == 0) && (X[i] > 1.0f == 0) ? 1.0f : X[i]; }"),
        ("register float s = X[0]; X[1] = s;", "float s = X[0]; X[1] = s;"),
        ("int n = 3; n <<= 2; n /= 3; X[n] = 1.0f;", "X[4] = 1.0f;"),
        ("int n; for (n = 1; n < 8; n *= 2) X[n] = 0.0f; X[n] = 1.0f;",
         "X[1] = 0.0f; X[2] = 0.0f; X[4] = 0.0f; X[8] = 1.0f;"),
        ("for (unsigned n = 6; n; n = n >> 1) X[n] = 0.0f;",
         "X[6] = 0.0f; X[3] = 0.0f; X[1] = 0.0f;"),
        ("int i = 0; for (; i + 4 <= 8; i += 4) X[i] = 0.0f; for (; i < 8; i++) X[i] = 1.0f;",
         "for (int i = 0; i < 8; i += 4) { X[i] = 0.0f; }"),
        ("const float *p = X, *end = X + 7; for (; p + 2 < end; p += 2) X[9] = *p;",
         "for (int p = 0; p < 3; p++) { X[9] = X[p * 2]; }"),
        ("for (int i = 0; i < 8; i += 4) for (int j = i; j < (i + 4 < 8 ? i + 4 : 8); j++) "
         "X[j] = 0.0f;",
         "for (int i = 0; i < 8; i += 4) { for (int j = 0; j < 4; j++) { X[i + j] = 0.0f; } }"),
        ("for (int i = 0; i < 10; i += 4) for (int j = i; j < (i + 4 < 10 ? i + 4 : 10); j++) "
         "X[j] = 0.0f;",
         "for (int i = 0; i < 8; i += 4) { for (int j = 0; j < 4; j++) { X[i + j] = 0.0f; } } "
         "for (int j = 8; j < 10; j++) { X[j] = 0.0f; }"),
        ("int i, j, n; for (i = 0; i < 10; i += 4) { n = 10 - i; if (n > 4) n = 4; "
         "for (j = 0; j < n; j++) X[i + j] = 0.0f; }",
         "for (int i = 0; i < 2; i++) { for (int j = 0; j < 4; j++) { X[i * 4 + j] = 0.0f; } } "
         "for (int j = 0; j < 2; j++) { X[8 + j] = 0.0f; }"),
        ("int i = 0; for (;;) { if (i >= 8) break; X[i] = 0.0f; ++i; }",
         "for (int i = 0; i < 8; i++) { X[i] = 0.0f; }"),
        ("int i = 0; while (1) { X[i] = 0.0f; i += 2; if (i == 8) { break; } } X[i] = 1.0f;",
         "for (int i = 0; i < 8; i += 2) { X[i] = 0.0f; } X[8] = 1.0f;"),
        ("for (int i = 0; ; i++) { if (7 < i) break; X[i] = 0.0f; }",
         "for (int i = 0; i < 8; i++) { X[i] = 0.0f; }"),
        ("unsigned n = 8; while (n > 0U) { X[n] = X[n - 1]; n--; } X[0] = n;",
         "for (int n = 0; n < 8; n++) { X[8 - n] = X[8 - n - 1]; } X[0] = (uint32_t)0;"),
        ("unsigned n = 8; while (n) { n -= 2; X[n] = 0.0f; }",
         "for (int n = 0; n < 4; n++) { X[8 - n * 2 - 2] = 0.0f; }"),
        ("int n = (int)X[0]; X[abs(n) & 7] = labs(n);",
         "int n = (int)X[0]; X[(n < 0 ? -n : n) & 7] = n < 0 ? -n : n;"),
        ("int n = 3; (void)n; X[0] = n;", "X[0] = 3;"),
        ("int n = X[0] > 0.0f; if (++n == 2) n = 0; X[n] = 1.0f;",
         "int n = X[0] > 0.0f; n = n + 1; n = n == 2 ? 0 : n; X[n] = 1.0f;"),
        ("float (*r)[4] = (float (*)[4])X; for (int i = 0; i < 2; i++) r[i + 1][3] = r[i][0];",
         "for (int i = 0; i < 2; i++) { X[(i + 1) * 4 + 3] = X[i * 4]; }"),
        ("float (*r)[2][4] = (float (*)[2][4])X; r++; (*r)[1][2] = *(*r[0] + 1);",
         "X[14] = X[9];"),
        ("float (*r)[4] = (float (*)[4])X; r[(int)X[0] & 1][1] = 1.0f;",
         "X[((int)X[0] & 1) * 4 + 1] = 1.0f;"),
        ("switch (2) { case 1: X[0] = 1.0f; case 2: X[1] = 1.0f; case 3: X[2] = 1.0f; break; "
         "default: X[3] = 1.0f; }", "X[1] = 1.0f; X[2] = 1.0f;"),
        ("switch (7) { case 1: X[0] = 1.0f; break; default: X[3] = 1.0f; }", "X[3] = 1.0f;"),
        ("switch ((int)X[0] & 3) { case 1: case 2: X[1] = 1.0f; break; default: X[1] = 3.0f; }",
         "X[1] = ((int)X[0] & 3) == 1 || ((int)X[0] & 3) == 2 ? 1.0f : 3.0f;"),
        ("switch ((int)X[0]) { case 1: { X[1] = 1.0f; break; } case 2: X[1] = 2.0f; }",
         "int holds = (int)X[0] == 1; X[1] = holds ? 1.0f : X[1]; "
         "X[1] = (holds == 0) && ((int)X[0] == 2) ? 2.0f : X[1];"),
        ("bool b = X[0]; X[1] = b ? 1.0f : 2.0f;", "_Bool b = X[0]; X[1] = b ? 1.0f : 2.0f;"),
        ("X[0] = lrintf(X[1]);", "X[0] = (int64_t)rintf(X[1]);"),
        ("int n = X[0]; X[1] = n ^ 3 ? 2 * n - 6 : -0; X[2] = n != 3 ? n - 2 : 0; "
         "X[3] = n ? (int)n : 0;",
         "int n = X[0]; X[1] = 2 * n - 6; X[2] = n != 3 ? n - 2 : 0; X[3] = (int)n;"),
        ("float s = 0; for (int i = 0; i < 8; i++) s += (X[i] = 2.0f * X[i]);",
         "float s = 0; for (int i = 0; i < 8; i++) { X[i] = 2.0f * X[i]; s = s + X[i]; }"),
        ("float s = 0; if ((s += X[0]) > 1.0f) X[1] = s;",
         "float s = 0; s = s + X[0]; X[1] = s > 1.0f ? s : X[1];"),
        ("int n; float z[4], *p; p = (z); X[n = 3] = *p; X[n] = 1.0f;",
         "float z[4]; X[3] = z[0]; X[3] = 1.0f;"),
        ("float z[8], *p = z, *q = X; for (int i = 0; i < 4; i++) *q++ = *p++ += X[8 + i];",
         "float z[8]; for (int i = 0; i < 4; i++) { z[i] = z[i] + X[8 + i]; X[i] = z[i]; }"),
        ("int i = 0; for (;;) { if (i == 8) return; X[i++] = 0.0f; }",
         "for (int i = 0; i < 8; i++) { X[i] = 0.0f; }"),
        ("if (X[0] > 1.0f) return; X[1] = 2.0f;",
         "X[1] = X[0] > 1.0f == 0 ? 2.0f : X[1];"),
        ("if (X[0] > 1.0f) { X[1] = 1.0f; return; } else X[2] = 1.0f; X[3] = 1.0f;",
         "int holds = X[0] > 1.0f; X[1] = holds ? 1.0f : X[1]; "
         "X[2] = holds == 0 ? 1.0f : X[2]; X[3] = holds == 0 ? 1.0f : X[3];"),
        ("float v = 3.0f; if (X[0] > 1.0f) { float v = X[1]; X[2] = v; } "
         "else { X[3] = 1.0f; return; } X[4] = v;",
         "float v = 3.0f; int holds = X[0] > 1.0f; float v_2 = X[1]; "
         "X[2] = holds ? v_2 : X[2]; X[4] = holds ? v : X[4]; X[3] = holds == 0 ? 1.0f : X[3];"),
        ("if (0.5f == 0.0 || 0.1f > 0.5f) return; if (1.0 < 0.5f) { X[1] = 2.0f; return; } "
         "{ X[0] = 1.0f; }", "X[0] = 1.0f;"),
        ("if (0.1f == 0.1) X[0] = 1.0f; else X[1] = 1.0f;", "X[1] = 1.0f;"),
        ("float w[3] = {0.5f, X[2]}; float s[1][2] = {{0}}; X[0] = w[1] + s[0][1];",
         "float w[3]; for (int at = 0; at < 3; at++) { w[at] = 0.0f; } w[0] = 0.5f; w[1] = X[2]; "
         "float s[1][2]; for (int at_1 = 0; at_1 < 1; at_1++) "
         "{ for (int at_2 = 0; at_2 < 2; at_2++) { s[at_1][at_2] = 0.0f; } } "
         "X[0] = w[1] + s[0][1];"),
        ('const char t[] = "Az"; X[0] = t[(int)X[1]];',
         "int8_t t_1[3]; t_1[0] = 65; t_1[1] = 122; t_1[2] = 0; X[0] = t_1[(int)X[1]];"),
        ("float t[2][4]; float *p = &t[0][0]; for (int i = 0; i < 2; i++) "
         "for (int j = 0; j < 4; j++) p[i * 4 + j] = X[p[5] > 0.0f];",
         "float t[2][4]; for (int i = 0; i < 2; i++) { for (int j = 0; j < 4; j++) "
         "{ t[i][j] = X[t[1][1] > 0.0f]; } }"),
        ("X[0] = tanhf(X[1]) + erff(X[2]) + logf(fabsf(X[3]));",
         "X[0] = tanhf(X[1]) + erff(X[2]) + logf(fabsf(X[3]));"),
    ],
)  # fmt: skip
def test_each_construct_is_read(written: str, read: str) -> None:
    rows = "(*)[" in written  # an array of one size is no pointer to rows
    source = f"void kernel(float {'*X' if rows else 'X[16]'}) {{ {written} }}"
    assert body_of(source) == read
    assert parse(emit(parse(source))) == parse(source)


SIZES = "typedef struct { int m; float *x; float by; } sizes;\n"


def test_parameters_that_point_to_rows_are_read_as_one_array() -> None:
    head = "void kernel(const float (*restrict X)[4], float Y[][4])"
    source = f"{head} {{ for (int i = 0; i < 3; i++, X++) Y[i][1] = (*X)[2] + X[1][3]; }}"
    assert body_of(source) == (
        "for (int i = 0; i < 3; i++) { Y[i * 4 + 1] = X[i * 4 + 2] + X[i * 4 + 7]; }"
    )
    text = emit(parse(source))
    assert "void kernel(const float *restrict X, float *Y)" in text


def test_structures_of_pointers_may_be_written_as_values() -> None:
    source = SIZES + (
        "void kernel(float *X) { const sizes s = (sizes){.x = X, .m = 4}; float *p = s.x + s.m; "
        "for (int i = 0; i < s.m; i++) *(s.x + i) = p[i]; }"
    )
    assert body_of(source) == "for (int i = 0; i < 4; i++) { X[i] = X[4 + i]; }"


def test_structures_of_parameters_stand_for_their_fields() -> None:
    source = SIZES + (
        "static void scaled(const sizes *s, float *to) {\n"
        "  for (int i = 0; i < s->m; i++) to[i] = s->x[i] * s->by; }\n"
        "void kernel(float *X) { const sizes s = {.x = X + 8, .m = 4}; scaled(&s, X); }"
    )
    assert body_of(source) == "for (int i = 0; i < 4; i++) { X[i] = X[8 + i] * 0.0f; }"


def test_constant_structures_outside_of_functions_are_known() -> None:
    source = (
        "struct shape { int m; float by; };\nstatic const struct shape S = {4, 2.0f};\n"
        "void kernel(float *X) { for (int i = 0; i < S.m; i++) X[i] = S.by; }"
    )
    assert body_of(source) == "for (int i = 0; i < 4; i++) { X[i] = 2.0f; }"


MIXED = (
    "struct state { double mean; int n; };\n"
    "static void push(struct state *s, float v) { s->n++; s->mean += (v - s->mean) / s->n; }\n"
    "static double later(struct state t) { t.n += 2; return t.mean * t.n; }\n"
)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("struct state s = {0}; for (int i = 0; i < 4; i++) push(&s, X[i]); X[9] = s.mean;",
         "double s_mean = 0; int s_n = 0; for (int i = 0; i < 4; i++) { float v = X[i]; "
         "s_n = s_n + 1; s_mean = s_mean + (v - s_mean) / s_n; } X[9] = s_mean;"),
        ("struct state s, *p = &s; p->n = 3; s.mean = X[0]; X[1] = (*p).mean + s.n;",
         "double s_mean; int s_n; s_n = 3; s_mean = X[0]; X[1] = s_mean + s_n;"),
        ("struct state s = {X[0], 1}, t = s; t.n = 5; X[1] = s.n + t.n;",
         "double s_mean = X[0]; int s_n = 1; double t_mean = s_mean; int t_n = s_n; t_n = 5; "
         "X[1] = s_n + t_n;"),
        ("struct state s = {X[0], 1}; X[1] = later(s) + s.n;",
         "double s_mean = X[0]; int s_n = 1; double t_mean = s_mean; int t_n = s_n; "
         "t_n = t_n + 2; X[1] = t_mean * t_n + s_n;"),
    ],
)  # fmt: skip
def test_structures_of_several_types_may_change(written: str, read: str) -> None:
    assert body_of(f"{MIXED}void kernel(float X[16]) {{ {written} }}") == read


def test_functions_return_values_where_pointers_to_variables_say() -> None:
    source = (
        "static void add(float *s, float by) { *s += by; }\n"
        "static void ends(const float *v, int n, float *sum, int *last) {\n"
        "  *sum = 0.0f;\n  for (int i = 0; i < n; i++) add(sum, v[i]);\n  *last = n - 1;\n}\n"
        "void kernel(float *X) { float s; int at; ends(X, 4, &s, &at); X[5] = s; X[at] = 0.0f; }"
    )
    assert body_of(source) == (
        "float s; int at; s = 0.0f; for (int i = 0; i < 4; i++) { float by = X[i]; s = s + by; } "
        "at = 3; X[5] = s; X[at] = 0.0f;"
    )


def test_functions_may_return_from_blocks_under_several_conditions() -> None:
    function = (
        "static int clipped(int v, int bits) { if (bits > 0 && bits < 32) "
        "{ const int most = (1 << (bits - 1)) - 1; const int least = -1 - most; "
        "if (v > most) { return most; } else if (v < least) { return least; } } return v; }\n"
    )
    call = "void kernel(int *X) { X[0] = clipped(X[1], 8); }"
    assert body_of(function + call) == "int v = X[1]; X[0] = v > 127 ? 127 : v < -128 ? -128 : v;"
    hidden = function.replace("} } return v", "} } int most = 1; return v + most")
    with pytest.raises(UnsupportedError, match="a block that returns declares the name of another"):
        parse(hidden + call)


def test_functions_may_return_from_an_endless_loop() -> None:
    source = (
        "static float sum(const float *p, int n) {\n  float s = 0.0f;\n"
        "  #pragma GCC unroll 4\n  while (1) { s += *p++; if (--n == 0) return s; }\n}\n"
        "void kernel(float *X) { X[9] = sum(X, 8); }"
    )
    assert body_of(source) == (
        "float s = 0.0f; for (int n = 0; n < 8; n++) { s = s + X[n]; } X[9] = s;"
    )


@pytest.mark.parametrize(
    ("call", "read"),
    [
        ("i > 0 ? twice(X[i - 1]) : Y[i]",
         "float v = i > 0 ? X[i - 1] : 0; Y[i] = i > 0 ? v + v : Y[i];"),
        ("i > 7 ? Y[i] : of(X, i)",
         "float v = i > 7 == 0 ? X[i] : 0; Y[i] = i > 7 ? Y[i] : v + v;"),
        ("i < 8 && of(X, i) > 1.0f ? 2.0f : 3.0f",
         "float v = i < 8 ? X[i] : 0; Y[i] = (i < 8) && (v + v > 1.0f) ? 2.0f : 3.0f;"),
        ("i > 7 || of(X, i) > 1.0f ? 2.0f : 3.0f",
         "float v = i > 7 == 0 ? X[i] : 0; Y[i] = i > 7 || v + v > 1.0f ? 2.0f : 3.0f;"),
        ("i > 7 ? of(Y, i) : 0.0f", "float v = Y[i]; Y[i] = i > 7 ? v + v : 0.0f;"),
    ],
)  # fmt: skip
def test_a_function_called_under_a_condition_reads_elements_only_there(
    call: str, read: str
) -> None:
    """`X` has 8 elements, `Y` 16: what an element of `Y` holds may be read in any case."""
    source = (
        "static float twice(float v) { return v + v; }\n"
        "static float of(const float *a, int i) { float v = a[i]; return v + v; }\n"
        f"void kernel(float X[8], float Y[16]) {{ for (int i = 0; i < 16; i++) Y[i] = {call}; }}"
    )
    assert body_of(source) == f"for (int i = 0; i < 16; i++) {{ {read} }}"


POINT = "typedef struct { float x, y; } point;\n"


def test_a_structure_given_to_a_function_under_a_condition_is_read_only_there() -> None:
    source = (
        f"{POINT}static float of(point z) {{ return z.x * z.y; }}\n"
        "void kernel(point *p, float *X) { X[0] = X[0] > 0 ? of(p[1]) : 0; }"
    )
    assert body_of(source) == (
        "float z_x = X[0] > 0 ? p[2] : 0; float z_y = X[0] > 0 ? p[3] : 0; "
        "X[0] = X[0] > 0 ? z_x * z_y : 0;"
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("p[1].x = p[0].y;", "p[2] = p[1];"),
        ("for (int i = 0; i < 4; i++) p[i].y = i;",
         "for (int i = 0; i < 4; i++) { p[i * 2 + 1] = i; }"),
        ("point *q = p + 1; q++; q->x = q[-1].y; (*q).y = 0.0f;", "p[4] = p[3]; p[5] = 0.0f;"),
        ("point *q = &p[3]; float *f = &q->y; *f = 1.0f;", "p[7] = 1.0f;"),
        ("for (point *q = p; q < p + 4; q++) q->y = 2.0f;",
         "for (int q = 0; q < 4; q++) { p[q * 2 + 1] = 2.0f; }"),
        ("for (const point *q = p, *e = p + 4; q != e; q++) g[2].x += q->x;",
         "for (int q = 0; q < 4; q++) { g[2][0] = g[2][0] + p[q * 2]; }"),
        ("point z = {1.0f, 2.0f}; z.x += z.y; g[1] = z;",
         "float z_x = 1.0f; float z_y = 2.0f; z_x = z_x + z_y; "
         "float x = z_x; float y = z_y; g[1][0] = x; g[1][1] = y;"),
        ("p[0] = (point){p[0].y, p[0].x};", "float x = p[1]; float y = p[0]; p[0] = x; p[1] = y;"),
        ("const point *q = (const point *)f; f[0] = q[2].y; float *h = (float *)p; h[3] = 1.0f;",
         "f[0] = f[5]; p[3] = 1.0f;"),
        ("point a[3]; a[2].y = 1.0f; point *q = a; q[1].x = sizeof(point);",
         "float a[3][2]; a[2][1] = 1.0f; a[1][0] = (uint64_t)8;"),
        ("point z = p[3], w; w = z; f[0] = w.y;",
         "float z_x = p[6]; float z_y = p[7]; float w_x; float w_y; "
         "float x = z_x; float y = z_y; w_x = x; w_y = y; f[0] = w_y;"),
    ],
)  # fmt: skip
def test_structures_are_read_as_their_fields(written: str, read: str) -> None:
    source = f"{POINT}void kernel(point *p, point g[4], float *f) {{ {written} }}"
    assert body_of(source) == read
    assert parse(emit(parse(source)))


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        ("struct s { int a; float b; };\nvoid kernel(struct s *X) {}", 2, "arrays of struct s"),
        ("struct s { int a; float *b; };\n"
         "void kernel(float *X) { struct s v = {1, X}; v.b++; X[0] = v.a; }", 1, "with pointers"),
        (SIZES + "void kernel(float *X) { sizes s = {4, X, 1}; sizes t = s;\n  s = t; }", 3,
         "as a whole"),
        ("void kernel(float *X) {\n  float *p = X; int n;\n  for (int i = 0; i < 10; i += 4) {\n"
         "    n = 10 - i < 4 ? 10 - i : 4;\n    for (int j = 0; j < n; j++) *p++ = 0; }\n"
         "  *p = 1; }", 3, "moves less"),
        ("void kernel(int *X) {\n  switch (X[0]) { case 1: X[1] = 1; case 2: X[2] = 1; } }", 2,
         "continues with the next"),
        ("void kernel(int *X) {\n  switch (X[0]) { default: X[1] = 1; break; case 2: X[2] = 1; } }",
         2, "follows the default"),
        ("void kernel(int *X) {\n  switch (X[0]) {\n case 1: if (X[1]) break; X[2] = 1; } }", 3,
         "in a case"),
        ("void kernel(int *X) {\n  switch (X[0]) {\n case 1: X[1] = 1; break;\n case 2:\n"
         "  { goto done; } } done:; }", 5, "goto"),
        ("void kernel(int *X) {\n  switch (X[0]++) { case 1: X[2] = 1; } }", 2, "has an effect"),
        ("void kernel(int *X) {\n  switch (X[0]) { case 1:; int n = 2; X[1] = n; } }", 2,
         "declares a variable"),
        ("void kernel(int *X) {\n  switch (1) { case 1: if (X[0]) break; } }", 2, "in a case"),
        ("struct s { float *a[2]; };\nvoid kernel(float *X) { struct s t; }", 1, "neither a num"),
        ("struct s { float a[2]; int n; };\nvoid kernel(struct s *X) {}", 1, "one type"),
        ("struct s { float a[2]; };\nvoid kernel(float *X) { struct s t; }", 2, "through a poi"),
        ("struct s { float a[2], b; };\nvoid kernel(struct s *X) {\n X[0] = X[1]; }", 3,
         "through a pointer"),
        ("struct s { float b, a[2]; };\nvoid kernel(struct s *X) {\n X->a = X->b; }", 3, "."),
        ("static const float A = 1e60;\nvoid kernel(float *X) { X[0] = A; }", 1, "is converted"),
        ("static const float A = 1e-60;\nvoid kernel(float *X) { X[0] = A; }", 1, "is converted"),
        ("static const float A = 0.1f * 3.0;\nvoid kernel(float *X) { X[0] = A; }", 1,
         "converted to float"),
        (f"{POINT}void kernel(point *p) {{ p[0].z = 0; }}", 2, "not a field"),
        (f"{POINT}void kernel(point *p) {{ p->x[0] = 0; }}", 2, "too many"),
        (f"{POINT}void kernel(point *p) {{ float *f = p; f[0] = 0; }}", 2, "not a pointer like"),
        (f"{POINT}void kernel(int *p) {{ point *q = (point *)p; }}", 2, "not supported"),
        (f"{POINT}void kernel(float *f) {{ point *q; q = f; }}", 2, "is used as a pointer"),
        (f"{POINT}void kernel(point *p, int *k) {{ p[k[0]].x = 0; }}", 2, "which structure"),
        (f"{POINT}void kernel(point g[4]) {{\n  point *q = g + 2;\n"
         "  for (int i = 0; i < 3; i++) q[i].x = 0;\n}", 4, "end of a row"),
        (f"{POINT}static point f(point z) {{ if (z.x > 0) return z; return z; }}\n"
         "void kernel(point *p) {\n  p[0] = f(p[1]);\n}", 2, "return"),
    ],
)  # fmt: skip
def test_structures_that_are_not_understood_are_named(source: str, line: int, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says) as error:
        parse(source)
    assert error.value.line == line


def test_structures_with_values_are_stored_as_a_whole() -> None:
    source = (
        "typedef struct { float x, y; } two; static float sum(two a) { return a.x + a.y; } "
        "void kernel(const two *v, two *o) { two q = { sum(v[0]), v[1].y }; o[2] = q; }"
    )
    assert body_of(source).endswith(
        "float q_x = a_x + a_y; float q_y = v[3]; float x = q_x; float y = q_y; o[4] = x; o[5] = y;"
    )


def test_structures_that_nothing_uses_need_not_be_understood() -> None:
    unused = (
        "typedef struct { int n; } one; typedef struct { one row[4]; } all; struct two { one a; };"
    )
    kernel = "void kernel(float X[4]) { X[0] = 1.0f; }"
    assert parse(f"{unused} {kernel}") == parse(kernel)
    with pytest.raises(UnsupportedError, match="row"):
        parse(f"{unused} {kernel.replace('{ X', '{ all a; X')}")


def test_limits_of_the_standard_headers_are_read_where_they_are_included() -> None:
    body = (
        "void kernel(float X[4]) { float m = -INFINITY; X[0] = m; X[1] = FLT_MAX; X[2] = INT_MIN; }"
    )
    source = f"#include <math.h>\n#include <float.h>\n#include <limits.h>\n{body}"
    assert body_of(source) == (
        "float m = -INFINITY; X[0] = m; X[1] = 3.40282347e+38F; X[2] = -2147483648;"
    )
    assert emit(parse(source)).startswith("#include <math.h>")
    with pytest.raises(UnsupportedError, match="'FLT_MAX' is not declared here"):
        parse(source.replace("#include <float.h>", ""))


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        ("KERNEL {\n  while (X[0] > 1.0f) X[0] *= 0.5f;\n}", 2, "compares a variable"),
        ("void kernel(float *X, int *n) {\n  for (int i = 0; i != *n; i++) X[i] = 0;\n}", 2, "<"),
        ("KERNEL {\n  for (int i = 0; i < 9; i++) { X[i] = 0; i++; }\n}", 2, "changes"),
        ("const char t[2] = \"abc\";\nKERNEL {\n  X[0] = t[1];\n}", 1, "longer than its array"),
        ('const char t[] = "\\xff";\nKERNEL {\n  X[0] = t[0];\n}', 1, "ASCII"),
        ("KERNEL {\n  float w[2] = {[1] = 2.0f};\n  X[0] = w[0];\n}", 2, "unsupported form"),
        ("KERNEL {\n  float w[2] = {1, 2, 3};\n  X[0] = w[0];\n}", 2, "more values than elements"),
        ("KERNEL {\n  for (unsigned i = 8; i >= 0; i--) X[i] = 0;\n}", 2, "always"),
        ("KERNEL {\n  for (int i = 0; i != 9; i += 2) X[i] = 0;\n}", 2, "skips the end"),
        ("KERNEL {\n  int i = 0;\n  while (i < 8) { X[i] = 0; }\n}", 3, "end with a step"),
        ("KERNEL {\n  int n = 8;\n  for (int i = 0; i < n; i++) { X[i] = 0; n--; }\n}", 3,
         "the loop over i changes its own limit"),
        ("KERNEL {\n  int n = 8;\n  for (int i = 0; i + n < 9; i++, n--) X[i] = 0;\n}", 3,
         "the loop over i changes its own limit"),
        ("KERNEL {\n  int n = 4;\n  for (int i = 0; i < n; i++) { n = 3; X[i] = 0; }\n}", 3,
         "the loop over i changes its own limit"),
        ("KERNEL {\n  float *e = X + 8;\n  for (float *x = X; x < e; x++) { *x = 0; e--; }\n}", 3,
         "the loop over x changes its own limit"),
        ("KERNEL {\n  int n = 8; float z[8];\n  if (X[0] > 0)\n    while (n--) z[n] = 0;\n}", 4,
         "n changes under a condition"),
        ("KERNEL {\n  for (int i = 0, n = 0; i < 4; i++) { X[n] = 0; n += i; }\n}", 2, "n"),
        ("KERNEL {\n  float z[2][4];\n  float (*p)[3] = z;\n}", 3, "like 'z'"),
        ("KERNEL {\n  float z[8]; float *p = z;\n  memset(z, 0, sizeof(p));\n}", 3, "address"),
        ("KERNEL {\n  int i = 0;\n  while (i < 8) {\n    if (X[i] > 0) continue;\n"
         "    X[i] = 0; i++;\n  }\n}", 3, "skips the step"),
        ("KERNEL {\n  int i = 0;\n  while (i < 8) { int i = 3; X[i] = 0; i++; }\n}", 3, "another"),
        ("KERNEL {\n  for (int i = 0; i < 8; i++) {\n    if (X[i] > 0) { if (X[1] > 0) continue; "
         "X[i] = 1; }\n    X[0] = 2;\n  }\n}", 3, "after the block"),
        ("KERNEL {\n  for (int i = 0; i < 8; i++) {\n    { if (X[1] > 0) continue; X[i] = 1; }\n"
         "    X[0] = 2;\n  }\n}", 3, "after the block"),
        ("KERNEL {\n  for (int i = 0; i < 8; i++)\n    if (X[i] > 0) { if (X[1] > 0) X[i + 1] = 1; "
         "}\n"
         "    else { X[2] = 0; X[i + 1] = 2; }\n}", 3, "outside its sizes"),
        ("KERNEL {\n  float a[4], b[4], *p = a, *q = b;\n  for (int i = 0; i < 4; i++) {\n"
         "    X[i] = p[i]; float *r = p; p = q; q = r + 1;\n  }\n}", 4, "carried"),
        ("KERNEL {\n  float a[4], b[4], *p = a, *q = b;\n  for (int i = 0; i < 4; i++) {\n"
         "    X[i] = p[i]; p = q;\n  }\n}", 4, "carried"),
        ("static void f(int *n) { *n = 1; }\nKERNEL {\n  float m; f(&m); X[0] = m;\n}", 3,
         "through a pointer to int"),
        ("KERNEL {\n  memset(X, 1, 8);\n}", 2, "value 0"),
        ("KERNEL {\n  memset(X, 0, sizeof(X));\n}", 2, "size of an address"),
        ("KERNEL {\n  memcpy(X, X + (int)X[9], 16);\n}", 2, "within one array"),
        ("KERNEL {\n  float z[4];\n  memset(z, 0, 20);\n}", 3, "beyond the end"),
        ("KERNEL {\n  float z[4];\n  memset(z, 0, 7);\n}", 3, "not a whole number of elements"),
        ("KERNEL {\n  X[0] = lgammaf(X[1]);\n}", 2, "lgammaf"),
        ("KERNEL {\n  for (int i = 0; i < 8; i++)\n    if (X[i] > 0) X[i + 1] = 0;\n}",
         3, "outside its sizes"),
        ("KERNEL {\n  if (X[0] > 0)\n    for (int i = 0; i < 8; i++) X[i] = 0;\n}",
         3, r"outside its sizes .*, because its declaration gives no sizes, as in X\[64\]"),
        ("static float f(float x) { return f(x); }\nvoid kernel(float *X) { X[0] = f(X[0]); }",
         1, "calls itself"),
        ("void kernel(const int *I, float *X) {\n  const float *end = X + I[0];\n  float *p = X;\n"
         "  while (p != end) *p++ = 0;\n}", 4, "depends on data; .* an integer that counts up"),
        ("union s { int a; };\nvoid kernel(float *X) {}", 1, "only functions"),
        ("KERNEL {\n  float *p = X;\n  if (X[0] > 0) p++;\n  *p = 0;\n}", 3, "p"),
        ("void kernel(float X[4], int8_t *B) {\n  float *p = (float *)B;\n}", 2, "not supported"),
        ("KERNEL {\n  for (int i = 1 << 20; i; i >>= 1) X[1] = 0;\n}", 2, "more than 16"),
        (
            "KERNEL {\n  for (int i = 1; i < 1024; i *= 2)\n    for (int j = 1; j < 1024; j *= 2)\n"
            "      for (int k = 1; k < 1024; k *= 2) X[1] += k;\n}",
            4,
            "more than 512 iterations",
        ),
        ("KERNEL {\n  for (int i = 0; ; i++) { X[i] = 0; if (i == 7) break; }\n}", 2, "neither"),
        ("KERNEL {\n  int i = 0;\n  for (;;) { if (i != 8) break; X[i++] = 0; }\n}", 3, "one val"),
        ("KERNEL {\n  int n = X[0] > 0;\n  X[1] = X[0] > 1 && ++n > 1;\n}", 3, "changes a var"),
        ("KERNEL {\n  int n = X[0] > 0;\n  X[1] = n++;\n}", 3, "changes a var"),
        ("KERNEL {\n  float t = 0;\n  X[1] = X[0] > 1 && (t = X[2]) > 1;\n}", 3, "under a cond"),
        ("KERNEL {\n  for (int j = 0; j < 2; j++)\n"
         "    for (int i = 0;; i++) { if (i == 4) return; X[i] = 0; }\n}", 3, "ends this loop"),
        ("KERNEL {\n  float (*r)[4] = (float (*)[3])X;\n}", 2, "like"),
        ("void kernel(const float X[8], float Y[4]) {\n  for (int i = 0; i < 8; i++)\n"
         "    if (X[i] > 0) { if (X[0] > 0) Y[i] = 1; else Y[i] = 2; }\n}", 3, "outside its sizes"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_named_with_its_line(source: str, line: int, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says) as error:
        parse(source.replace("KERNEL", "void kernel(float *X)"))
    assert error.value.line == line


def nested(depth: int) -> str:
    inner = nested(depth - 1) if depth else ""
    return f"if (T[i] > {depth}) {{ H[{depth}] += i; {inner} H[0] += 1; }}"


@pytest.mark.parametrize(
    "body",
    [
        " else ".join(f"if (T[i] == {n}) H[{n}]++;" for n in range(30)),
        "for (int j = 0; j < 12; j++) { " + "if (i == j) continue; H[j] += i; " * 30 + "}",
        nested(30),
    ],
    ids=["else if", "continue", "nested"],
)
def test_each_further_condition_adds_only_a_few_readings(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If each condition were read twice, 30 conditions would take 2 ** 30 readings."""
    read = []
    assign = Assignments._assign

    def counted(self: Assignments, node: Node, target: Expr, value: Expr) -> None:
        read.append(node)
        assert len(read) <= 4000, "too many readings"
        assign(self, node, target, value)

    monkeypatch.setattr(Assignments, "_assign", counted)
    text = body_of(
        f"void kernel(const int T[64], int H[64]) {{ for (int i = 0; i < 12; i++) {{ {body} }} }}"
    )
    assert text.count("int holds") in (29, 30, 31)
    assert "int holds_61 =" not in text


def test_several_names_of_types_may_stand_on_one_line() -> None:
    text = (
        "typedef signed char s8; typedef int s32; void kernel(const s8 *a, s32 *b) { b[0] = a[0]; }"
    )
    text = text.replace("; void", ";\nvoid")
    assert body_of(text) == "b[0] = a[0];"
    assert "int8_t *a" in emit(parse(text))


def test_what_runs_once_but_is_left_early_is_refused() -> None:
    once = "do { X[0] = 1.0f; if (X[1] > 0.0f) break; X[2] = 1.0f; } while (0);"
    with pytest.raises(UnsupportedError):
        parse(f"void kernel(float X[8]) {{ {once} }}")


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("seed", range(4))
def test_reading_and_printing_keep_the_results_of_random_kernels(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    sources: dict[str, str] = {}
    for number in range(30):
        text = Program(rng).text()
        sources[f"after_{number}"] = emit(parse(text))
        sources[f"before_{number}"] = text
    library = built(sources, tmp_path)
    for number in range(30):
        arrays = random_arrays(1000 * seed + number)
        before, after = (results(library, f"{w}_{number}", arrays) for w in ("before", "after"))
        assert before == after, sources[f"before_{number}"]


@pytest.mark.slow
@needs_gcc
def test_reading_and_printing_keep_the_results_of_kernels_of_many_styles(tmp_path: Path) -> None:
    read = {file.stem: parse(file.read_text()) for file in FIXTURES}
    sources = {f"before_{f.stem}": f.read_text() for f in FIXTURES}
    library = built({**sources, **{f"after_{n}": emit(k) for n, k in read.items()}}, tmp_path)
    # Through a pointer, no kernel uses more elements than 1 << 20.
    largest = max(1 << 20, *(math.prod(p.sizes) for k in read.values() for p in k.parameters))
    rng = np.random.default_rng(0)
    whole, real = rng.integers(0, 100, largest + 16), rng.standard_normal(largest + 16)
    for name, kernel in read.items():
        arrays = []
        for number, parameter in enumerate(kernel.parameters):
            values = whole if "int" in parameter.type else real
            kind = {"double": "float64", "float": "float32"}.get(parameter.type, parameter.type)
            size = max(1 << 20, math.prod(parameter.sizes))
            arrays.append(values[number : number + size].astype(kind.removesuffix("_t")))
        assert results(library, f"before_{name}", arrays) == results(
            library, f"after_{name}", arrays
        ), name


@needs_gcc
def test_whole_sequences_keep_the_results_of_whole_numbers(tmp_path: Path) -> None:
    """Many places of equal values, and zero points, as a compiler for this machine sees them."""
    rng = np.random.default_rng(4)
    for name in ("argmax_rows", "argmin_i32", "qdot_u8s8"):
        kernel = parse(next(f for f in FIXTURES if f.stem == name).read_text())
        offered = frozenset({"accumulators", "pack", "jam"})
        made = Whole(4, 16, offered).sequences(kernel)
        ways = {f"way_{number}": emit(after) for number, (_, after) in enumerate(made)}
        (tmp_path / name).mkdir()
        library = built({"start": emit(kernel), **ways}, tmp_path / name)
        arrays = [
            rng.integers(0, 100, p.sizes).astype(
                np.float32 if p.type == "float" else p.type.removesuffix("_t")
            )
            for p in kernel.parameters
        ]
        assert ways
        for way in ways:
            assert results(library, way, arrays) == results(library, "start", arrays), (name, way)


@pytest.mark.slow
@needs_gcc
def test_vectors_keep_the_results_of_random_kernels(tmp_path: Path) -> None:
    rng = random.Random(11)
    sources: dict[str, str] = {}
    for number in range(120):
        try:
            kernel = before = parse(Program(rng).text())
        except UnsupportedError:
            continue
        for _ in range(6):
            found = list(steps_of(kernel, rng.choice(("vectorise", "lanes", "jam")), 4))
            kernel = rng.choice(found)[1] if found else kernel
        if kernel != before and len(sources) < 40:
            sources[f"before_{number}"], sources[f"after_{number}"] = emit(before), emit(kernel)
    library = built(sources, tmp_path)
    assert len(sources) >= 20
    for name in (n for n in sources if n.startswith("before")):
        number = int(name.split("_")[1])
        arrays = random_arrays(number)
        results_of = [results(library, f"{w}_{number}", arrays) for w in ("before", "after")]
        for one, other, like in zip(*results_of, arrays, strict=True):
            first, second = (np.frombuffer(data, like.dtype) for data in (one, other))
            np.testing.assert_allclose(second, first, rtol=1e-3, atol=1e-4, err_msg=sources[name])


@needs_gcc
@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("histogram", "accumulators 1 4"), ("prefix_sum", "vectorise 0 8"),
        ("quantize", "vectorise 0 16"), ("quant_rows", "vectorise 2 8"),
        ("dequant_gemv", "vectorise 2 16"), ("dequant_zero", "vectorise 1 8; jam 0 2"),
        ("int8_dots", "pack 2 0; jam 4 3; jam 5 2"), ("mlp_tanh", "vectorise 1 8"),
        ("int8_dots", "bytes 2 0; jam 4 8"), ("dot_mixed_unroll4", "roll 2 0; jam 0 8"),
        ("dots_shift", "roll 2 0; bytes 2 0; jam 2 8"), ("kahan_rows", "lanes 0 16"),
        ("mc_lcg", "lanes 0 32"), ("crc32_table", "lanes 0 16"), ("cgemv", "roll 1 0; lanes 1 16"),
        ("edit_distance", "keep 3 0; pack 0 0; pack 3 0; lanes 6 16"),
        ("dgemm_strided", "exchange 2 0; keep 3 0; lanes 0 32; jam 3 4"),
    ],
)  # fmt: skip
def test_rewritten_kernels_of_many_styles_keep_their_results(
    name: str, steps: str, tmp_path: Path
) -> None:
    source = next(f for f in FIXTURES if f.stem == name).read_text()
    kernel = parse(source)
    for step in steps.split("; "):
        kernel = Step.parse(step).apply(kernel)
    again = parse(emit(kernel))  # where numbers that no longer change stand for their variables
    assert parse(emit(again)) == again
    library = built({"before": source, "after": emit(kernel)}, tmp_path)
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-128, 128, 1 << 18).astype(p.type.removesuffix("_t"))
        if "int" in p.type
        else rng.standard_normal(1 << 18).astype(np.float64 if p.type == "double" else np.float32)
        for p in kernel.parameters
    ]
    before, after = (results(library, which, arrays) for which in ("before", "after"))
    for one, other, like in zip(before, after, arrays, strict=True):
        first, second = (np.frombuffer(data, like.dtype) for data in (one, other))
        np.testing.assert_allclose(second, first, rtol=1e-3, atol=1e-3)


def test_constants_of_math_h_are_known() -> None:
    source = "#include <math.h>\nvoid kernel(float Y[2]) { Y[0] = (float)M_PI; Y[1] = (float)M_E; }"
    assert "3.14159265358979323846" in emit(parse(source))
    with pytest.raises(UnsupportedError, match="'M_PI' is not declared"):
        parse(source.replace("#include <math.h>", ""))


@needs_gcc
def test_choices_by_numbers_between_vectors_compile(tmp_path: Path) -> None:
    source = (
        "void kernel(const float A[4], const float B[16], float C[16]) { for (int i = 0; i < 4; "
        "i++) { float a = A[i]; if (a <= 0.0f) continue; "
        "for (int j = 0; j < 16; j++) C[j] += a * B[j]; } }"
    )
    kernel = Step.parse("vectorise 1 8").apply(parse(source))
    assert parse(emit(kernel)) == kernel
    library = built({"before": source, "after": emit(kernel)}, tmp_path)
    arrays = [np.random.default_rng(n).standard_normal(16).astype(np.float32) for n in range(3)]
    before, after = (results(library, which, arrays) for which in ("before", "after"))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(
            np.frombuffer(other, np.float32), np.frombuffer(one, np.float32), rtol=1e-5
        )
