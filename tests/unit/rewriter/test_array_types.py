"""Names of types of arrays are written out, or left as they are where that would change a type."""

from __future__ import annotations

import pytest

from tilewright.proposers.c.preprocess import expanded

TYPES = "#define N 4\ntypedef float mat4[N][N];\ntypedef mat4 pair[2];\n"


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("mat4 t, u[3], v;", "float t[4][4], u[3][4][4], v[4][4];"),
        ("pair q;", "float q[2][4][4];"),
        ("mat4 e = {{1, 2}, {3}};", "float e[4][4] = {{1, 2}, {3}};"),
        ("mat4 const k = {{1}};", "const float k[4][4] = {{1}};"),
        ("const mat4 *p = (const mat4 *)a;", "const float (*p)[4][4] = (const float (*)[4][4])a;"),
        ("mat4 *const r = f(x);", "float (*const r)[4][4] = f(x);"),
        ("void f(const mat4 a, int n);", "void f(const float a[4][4], int n);"),
        ("void f(mat4*b, int n);", "void f(float (*b)[4][4], int n);"),
        ("int n = sizeof(mat4);", "int n = sizeof(float[4][4]);"),
        ("int mat4s = a * b;", "int mat4s = a * b;"),
        # What follows the first variable would have another type.
        ("mat4 *a, *b;", "mat4 *a, *b;"),
        ("mat4 *a = x, *b = y;", "mat4 *a = x, *b = y;"),
        ("mat4 a = {{1}}, *b;", "mat4 a = {{1}}, *b;"),
        ("mat4 *z[3];", "mat4 *z[3];"),
    ],
)  # fmt: skip
def test_a_use_is_written_out(written: str, means: str) -> None:
    assert expanded(TYPES + written, ()).split("\n") == ["", "", "", means]
