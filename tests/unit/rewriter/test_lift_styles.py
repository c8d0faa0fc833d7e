"""Styles of C that change nothing about what is issued: all of each is modelled, and rightly so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from logged_commands import HEAD, issued

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Loop, Opaque, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine

TYPES = """
typedef struct { const int8_t *at; int step; } view;
typedef struct { view v; uint16_t rows; } layer;
struct size { int m, n; };
static const struct size sizes[3] = {{4, 16}, {.n = 8, .m = 2}, {1}};
static const uint8_t order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
static void advance(view *v, int by) { v->at += by * v->step; }
static void load(const int8_t A[64][64], const layer *l, int i) {
  mvin(l->v.at + i * l->v.step, SPAD(i), 16, l->rows);
}
"""
WINDOWS = """
struct window { const int8_t *const data; const int_fast32_t strides[2]; };
typedef struct { int last; } context;
static void rows(void *ctxt, const int8_t A[64][64], struct window w, const float *scale,
                 const int *two, int n) {
  // a comment is no statement
  ((void)(ctxt)); assert(w.strides[1] == 1);
  config_ld(w.strides[0] * 1, *scale, 16, 0);
  if (w.data != NULL) mvin((uint64_t)&w.data[n * w.strides[0]], SPAD(two[1]), 16, two[0]);
}
static void noted(context *ctxt, const int8_t A[64][64], int at) {
  if (ctxt) ctxt->last = at;
  mvin(A[ctxt == NULL ? at : 9], SPAD(at), 16, 1);
}
static void unused(const void *what, int at) { fence(); }
"""
NARROW = """
static inline uint8_t low(int n) { return n; }
static inline int short_of(int16_t n) { return 1 + (n & 1); }
struct pair { const int8_t *at; int by[2]; };
static inline void add(int *to, int n) { *to += n; }
static inline void skipped(int what, int n) { fence(); }
"""
BODIES = {
    "break first": "int k = 0;"
    " for (;;) { if (k >= 40) break; mvin(A[k], SPAD(k), 16, 1); k += 4; }",
    "break last": "int k = 40; while (1) { mvin(A[k], SPAD(k), 16, 1); k -= 4; if (k < 9) break; }",
    "switch": "for (int k = 0; k < 20; k++) switch (k) { case 0: mvin(A[0], SPAD(0), 16, 1); break;"
    " case 7: { mvin(A[1], SPAD(1), 16, 1); fence(); break; }"
    " default: mvin(A[k], SPAD(2), 16, 1); }",
    "switch on a constant": "enum { MODE = 2 }; switch (MODE) { case 1: case 2: fence(); break;"
    " default: mvin(A[0], SPAD(0), 16, 1); }",
    "masks": "for (int i = 0; i < 64; i += 4) { const uint32_t at = SPAD(i & 16 ? 512 : 0);"
    " mvin(A[i & ~15], at + (i & 0x18), 16, 1 + ((i & 4) == 0)); }",
    "thresholds": "for (int i = 0; i < 30; i++) { int s = i < 11 ? 40 : 8, t = i > 20 ? 1 : 3;"
    " mvin(A[i], SPAD(s), 16, t); mvin(A[i], SPAD(i <= 4 ? 5 : 6), 16, i >= 9 ? 7 : 2); }",
    "addresses in an array": "uint32_t at[8]; for (int t = 0; t < 8; t++) at[t] = SPAD(t * 32);"
    " for (int i = 0; i < 40; i++) mvin(A[i], at[i % 8] + 1, 16, 1);",
    "places in an array": "const int8_t *p[2] = {A[0], A[32]}; int8_t *q[2]; q[0] = C[3];"
    " q[1] = C[5];"
    " for (int i = 0; i < 2; i++) { mvin(p[i], SPAD(i), 16, 1); mvout(q[1 - i], ACC(i), 16, 1); }",
    "sizes in a table": "for (int l = 0; l < 3; l++) for (int i = 0; i < sizes[l].m; i++)"
    " mvin(&A[i][l], SPAD(i), sizes[l].n + 1, 1);",
    "an order in a table": "for (int i = 0; i < 24; i++) mvin(A[order[i % 8]], SPAD(0), 16, 1);",
    "a structure in a structure": "layer l = {.v = {&A[1][0], 64}, .rows = 3};"
    " for (int i = 0; i < 20; i++) load(A, &l, i); l.v.step = 32; load(A, &l, 4);",
    "a structure behind a pointer": "view v = {&A[0][0], 64}; view *p = &v;"
    " for (int i = 0; i < 5; i++) { mvin(v.at, SPAD(i), 16, 1); advance(p, 2); }"
    " mvin(p->at, SPAD(9), 16, 1);",
    "numbers of narrow types": "_Bool odd = 0; const uint8_t n = 3; for (int i = 0; i < 40; i++)"
    " { uint16_t at = (uint16_t)(i % 8); mvin(A[i], SPAD(at + (odd ? 512 : 0)), 16, n);"
    " odd = !odd; }",
    "a large number of 64 bits": "unsigned long far = 1ul << 40;"
    " for (int i = 0; i < 40; i++) mvin(A[i + (far >> 40)], SPAD(i), 16, 1);",
    "either of two conditions of which one is a constant": "enum { NO, YES };"
    " for (int i = 0; i < 20; i++) { mvin(A[i], SPAD(NO || i > 4 ? 1 : 2), 16, 1);"
    " mvin(A[i], SPAD(i > 6 || NO ? 3 : 4), 16, 1 + (YES || i > 4));"
    " if (!(NO || i < 9)) fence(); }",
    "windows of windows": "float s = 0.5f; int two[2] = {1, 40};"
    " for (int i = 0; i < 5; i++) { struct window a = {A[i], {64, 1}};"
    " rows(NULL, A, (struct window){&a.data[64 * i], {a.strides[0], 1}}, &s, two, i); }",
    "a pointer that no one needs": 'context *none = NULL; unused(&A[0][0] == A[1] ? 0 : "", 1);'
    " for (int i = 0; i < 9; i++) { unused(none, i); mvin(A[i], SPAD(0), 16, 1); }",
    "the address of a number": "int n = 3; int *p = &n; for (int i = 0; i < 9; i++)"
    " { mvin(A[i], SPAD(*p), 16, 1); n += 2; } mvin(A[0], SPAD(*p), 16, 1);",
    "constants of floating types": "for (int i = 0; i < 3; i++)"
    " { config_ld(64, 1.0f / (1 << 6), 16, i);"
    " config_ld(64, -2 * (0.1f + 3), 16, 1); config_ld(64, 1 / 3.0, 16, 2); }",
    "tiles that are always whole": "for (int t = 0; t < 2; t++)"
    " { const int n = 14 - t * 7 < 7 ? 14 - t * 7 : 7, m = n <= 4 ? n : 4;"
    " for (int i = 0; i < n; i++) mvin(A[i * n], SPAD(i * n + t), 16, m); }",
    "a flag that is cleared": "const uint32_t at = 3u << 30; for (int i = 0; i < 9; i++)"
    " { mvin(A[i], (at + i) & ~(1u << 30), 16, 1); mvin(A[i], (at + i) & ~0x20000000, 16, 1); }",
    "comparisons that are shifted to the place of a flag": "const uint32_t to = 0x80000000;"
    " for (int k = 0; k < 4; k++) { mvin(A[k], to | ((k != 0) << 30), 16, 1);"
    " mvin(A[k], to | (k == 2) * 0x60000000, 16, 1); mvin(A[k], 5 + ((k > 1) << 3), 16, 1); }",
    "a delayed store": "int last = -1; for (int i = 0; i < 40; i += 2) { if (last >= 0)"
    " mvout(C[last + 2], ACC(last + 2), 16, 1); mvin(A[i], SPAD(i), 16, 1); last = i - 2; }"
    " mvout(C[last + 2], ACC(last + 2), 16, 1);",
    "the element before": "const int8_t *from = A[50]; for (int i = 0; i < 40; i++)"
    " { mvin(from, SPAD(i), 16, 1); from = A[i] + 16; } mvin(from, SPAD(0), 16, 1);",
    "the place before in a loop that counts down": "int from = 7; for (int n = 60; n > 0; n -= 3)"
    " { mvin(A[from], SPAD(n), 16, 1); from = n / 3 + 2; } mvin(A[from], SPAD(9), 16, 1);",
    "the place before in loops within loops": "for (int i = 0; i < 30; i++) { int from = i;"
    " for (int n = 5; n < 60; n += 3) { mvin(A[from], SPAD(n), 16, 1); from = n + i / 8; }"
    " mvin(A[from - 8], SPAD(9), 16, 1); }",
    "bits that are toggled": "uint32_t strip = 0x40, half = 0x80000000, b = SPAD(5); int c = 12;"
    " for (int i = 0; i < 20; i++) { mvin(A[i], strip, 16, 1); mvin(A[i], strip ^ 0x40, 16, 1);"
    " mvin(A[i], (half ^ 0x200) + i, 16, 1); mvin(A[i], b, 16, 1); mvin(A[c ^ 6], c, 16, 1);"
    " strip ^= 0x40; half = half ^ 0x200; b = 4 ^ b ^ 1 ^ 1; c ^= 7; c ^= 2; }"
    " mvin(A[c], strip, 16, 1); mvin(A[0], half, 16, 1); mvin(A[0], b ^ 3, 16, 1);",
    "one of two addresses that are numbers": "for (int i = 0; i < 20; i++)"
    " { uint32_t c = 0x80000000 + 4 * i; mvin(A[i], i ? c | 0x40000000 : c, 16, 1);"
    " mvin(A[i], i > 5 ? c : c + (1u << 30), 16, 1); }",
    "few odd iterations": "int k = 1; while (k < 60) { mvin(A[k], SPAD(k * k), 16, 1); k *= 2; }",
}


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for this machine")
@pytest.mark.parametrize("name", BODIES)
def test_the_style_is_modelled(machine: Machine, tmp_path: Path, name: str) -> None:
    source = TYPES + WINDOWS + HEAD + BODIES[name] + "\n}\n"
    kernel = lift(source, machine)
    assert [s.reason for s in walk(kernel.body) if isinstance(s, Opaque)] == []
    printed = issued(emit(kernel), tmp_path)
    assert printed == issued(source, tmp_path)
    assert printed


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for this machine")
@pytest.mark.parametrize(
    "body",
    [
        "int at[2] = {0, 512}; for (int i = 0; i < 3; i++) { at[0]++;"
        " mvin(A[i], SPAD(at[0]), 16, 1); }",
        "int at[2] = {0, 512}; for (int i = 0; i < 20; i++) { at[1] = at[1] + 2;"
        " mvin(A[i], SPAD(at[1]), 16, 1); } mvin(A[0], SPAD(at[1]), 16, 1);",
        "int s = 0; for (int i = 0; i < 9; i++) { mvin(A[0], SPAD(s), 16, 1); s += 3;"
        " if (s == 4) s = 0; }",
        "int s = 0; for (int i = 0; i < 9; i++) { mvin(A[0], SPAD(s), 16, 1); s += 3;"
        " if (s >= 4) s = 0; }",
        "int s = 1; for (int i = 0; i < 9; i++) { mvin(A[0], SPAD(s), 16, 1); s += 2;"
        " if (s == 8) s = 0; }",
        "int s = 32; for (int i = 0; i < 90; i++) { mvin(A[0], SPAD(s), 16, 1); s += 16;"
        " if (s == 64) s = 0; }",
        "for (int i = -5; i < 16; i++) { mvin(A[0], SPAD(99 + (i & 3)), 16, 1);"
        " mvin(A[0], SPAD(99 + (i >> 1)), 16, 1); mvin(A[0], SPAD(99 + (i & ~3)), 16, 1);"
        " mvin(A[0], SPAD(99 + i / 2), 16, 1); if (i % 3 < 0) fence(); }",
        "int x = -7; mvin(A[0], SPAD(99 + x / 2), 16, 1); mvin(A[0], SPAD(99 + x % 4), 16, 1);",
        "uint8_t x = 250; x += 10; mvin(A[x], SPAD(x), 16, 1);",
        "uint32_t x = 3; x += 1ull << 33; mvin(A[x], SPAD(x), 16, 1);",
        "unsigned x = 0; for (int i = 0; i < 4; i++) { x = 3 + i * (1ll << 32); "
        "mvin(A[x], SPAD(x), 16, 1); }",
        "uint8_t x = 250; for (int i = 0; i < 40; i++) { mvin(A[0], SPAD(x), 16, 1); x += 10; }",
        "for (int i = 0; i < 40; i++) mvin(A[0], SPAD((uint8_t)(i * 16)), 16, 1);",
        "for (int i = 0; i < 40; i++) { _Bool f = i; mvin(A[0], SPAD(f), 16, 1); }",
        "for (int i = 0; i < 40; i++) { signed char c = i * 9; mvin(A[0], SPAD(999 + c), 16, 1); }",
        "uint8_t at[2] = {300, 1}; at[1] = at[0] + 255; mvin(A[at[1]], SPAD(at[0]), 16, 1);",
        "uint32_t to = 1u << 31; for (int k = 0; k < 8; k++) { mvin(A[k], to, 16, 1);"
        " to |= 1u << 30; }",
        "int n = 0; for (int k = 3; k > 1 || n--; k--) mvin(A[k], SPAD(9 + n), 16, 1);",
        "struct { uint8_t n; } s = {0}; s.n = 260; mvin(A[s.n], SPAD(0), 16, 1);",
        "for (int i = 0; i < 20; i++) mvin(A[0], SPAD(low(i * 20)), 16, short_of(i * 4000));",
        "int n = 0; int *p = &n; for (int i = 0; i < 9; i++) { mvin(A[i], SPAD(n), 16, 1);"
        " *p = *p + 3; } mvin(A[0], SPAD(n), 16, 1);",
        "int n = 0; for (int i = 0; i < 9; i++) { add(&n, i); mvin(A[i], SPAD(n), 16, 1); }",
        "int two[2] = {1, 2}; for (int i = 0; i < 9; i++) { add(two, i);"
        " mvin(A[i], SPAD(two[0]), 16, 1); }",
        "const int8_t *last = NULL; for (int i = 0; i < 9; i++) { if (last) mvin(last, SPAD(i),"
        " 16, 1); last = A[i]; }",
        "for (int i = 0; i < 20; i++) { int at = 9; for (int n = 0; n < i; n++)"
        " { mvin(A[at], SPAD(n), 16, 1); at = n; } mvin(A[at], SPAD(50), 16, 1); }",
        "for (int i = 0; i < 20; i++) { int at = 4; for (int n = 5; n < i; n++)"
        " { mvin(A[at], SPAD(n), 16, 1); at = n; } mvin(A[at], SPAD(50), 16, 1); }",
        "for (int i = 0; i < 20; i++) { int n; for (n = 5; n < i; n++) mvin(A[n], SPAD(n), 16, 1);"
        " mvin(A[n], SPAD(50), 16, 1); }",
        "for (int i = 0; i < 20; i++) { int n; for (n = 5; n < i; n += 4)"
        " mvin(A[n], SPAD(n), 16, 1); mvin(A[n], SPAD(50), 16, 1); }",
        "for (int i = 0; i < 20; i++) { int n; for (n = i; n > 5; n -= 2)"
        " mvin(A[n], SPAD(n), 16, 1); mvin(A[n], SPAD(50), 16, 1); }",
        "for (int i = 0; i < 20; i++) { int at = 9; for (int n = 5; n < i; n++)"
        " { mvin(A[at], SPAD(n), 16, 1); at = 3; } mvin(A[at], SPAD(50), 16, 1); }",
        "for (int i = 0; i < 20; i++) { const int8_t *p = A[2]; for (int n = 5; n < i; n++)"
        " { mvin(p, SPAD(n), 16, 1); p += 64; } mvin(p, SPAD(50), 16, 1); }",
        "for (int i = 0; i < 20; i++) { int s = 0; for (int n = 5; n < i; n++)"
        " { mvin(A[s], SPAD(n), 16, 1); s = 1 - s; } mvin(A[s], SPAD(50), 16, 1); }",
        "for (int i = 0; i < 20; i++) { int at = 0, left = 5 * i - 32; while (left > 0)"
        " { const int h = left < 16 ? left : 16; mvin(A[at], SPAD(at), 16, h); at += h;"
        " left -= h; } mvin(A[at], SPAD(90), 16, 1); }",
        "int a = 9, b = 7; for (int n = 0; n < 30; n++) { mvin(A[a], SPAD(b), 16, 1); b = a ^ 8;"
        " a ^= 8; } mvin(A[a], SPAD(b), 16, 1);",
        "int a = 9, b = 7; for (int n = 0; n < 30; n++) { mvin(A[a], SPAD(b), 16, 1); b = a ^ 8;"
        " a ^= n; a &= 31; } mvin(A[a], SPAD(b), 16, 1);",
        "int a = 9, b = 7; for (int n = 0; n < 30; n++) { mvin(A[a], SPAD(b), 16, 1); b = a ^ 8;"
        " a = n + 1; } mvin(A[a], SPAD(b), 16, 1);",
        "int a = 9, b = 7; for (int n = 0; n < 30; n++) { mvin(A[a], SPAD(b), 16, 1); a = b ^ 2;"
        " b = n; } mvin(A[a], SPAD(b), 16, 1);",
        "int a = 9, b = 7; for (int n = 0; n < 30; n++) { mvin(A[a], SPAD(b), 16, 1); int t = a;"
        " a = b ^ 2; b = t ^ 2; } mvin(A[a], SPAD(b), 16, 1);",
        "int a = 9; for (int n = 0; n < 30; n++) { mvin(A[a], SPAD(a ^ 4), 16, 1); a ^= 4;"
        " a += 1; }",
        "int a = 9; for (int n = 0; n < 30; n++) { a ^= 4; for (int k = a; k < 20; k++)"
        " mvin(A[k], SPAD(a ^ k), 16, 1); if (a & 4) fence(); if (a == 13) fence(); }",
        "for (int i = 0; i < 6; i++) { int a = i; for (int n = 0; n < 30; n++)"
        " { mvin(A[a], SPAD(n), 16, 1); a ^= 4; } mvin(A[a], SPAD(i ^ 5), 16, 1); }",
        "uint32_t a = SPAD(9); for (int n = 0; n < 30; n++) { mvin(A[n], a, 16, 1);"
        " a ^= 1u << 31; }",
        "uint32_t a = SPAD(9), b = ACC(3); for (int n = 0; n < 30; n++) { mvin(A[n], b, 16, 1);"
        " b = a ^ 8; a ^= 8; }",
        "for (int i = 0; i < 20; i++) mvin(A[i], SPAD(i ^ 5), 16, 1);",
        "int a = 9; for (int n = 0; n < 30; n++) { if (a < 0) fence(); a ^= 1u << 31; }",
        "unsigned a = 9; for (int n = 0; n < 30; n++) { mvin(A[a], 7, 16, 1); a ^= 1ull << 33; }",
        "int a = 9; uint32_t b = ACC(3); for (int n = 0; n < 30; n++) { mvin(A[n], b, 16, 1);"
        " b = SPAD(a ^ 8); a++; }",
        "uint32_t a = ACC(9); for (int n = 0; n < 30; n++) { mvin(A[n], a, 16, 1);"
        " a ^= 1u << 30; }",
        "int a = 9, b = 7; for (int n = 0; n < 30; n++) { mvin(A[a], SPAD(b), 16, 1); a = b;"
        " b = n; } mvin(A[a], SPAD(b), 16, 1);",
        "uint32_t a = ACC(1), b = SPAD(2); for (int n = 0; n < 30; n++) { mvin(A[n], a, 16, 1);"
        " a = b; b = SPAD(n * 2); }",
        "int a = 9; for (int n = 0; n < 30; n++) { mvin(A[n], SPAD(a), 16, 1); a = a + n; }",
        "int a = 9; for (int n = 0; n < 30; n++) { if (n == 4) a = n; mvin(A[n], SPAD(a), 16, 1);"
        " a = n + 1; } mvin(A[0], SPAD(a), 16, 1);",
        "int a = 9, n = 3; do { mvin(A[n], SPAD(a), 16, 1); a = n; n += 2; } while (n < 40);"
        " mvin(A[n], SPAD(a), 16, 1);",
        "uint64_t at = (uint64_t)&A[0][0]; for (int i = 0; i < 9; i++)"
        " mvin((const int8_t *)(at + i * 64), SPAD(i), 16, 1);",
        "struct pair p = {A[0], {7}}; mvin(A[p.by[1]], SPAD(p.by[0]), 16, 1);",
        "int n = 4; (void)(n += 3); mvin(A[0], SPAD(n), 16, 1);",
        "int n = 4; skipped(n++, 2); mvin(A[0], SPAD(n), 16, 1);",
    ],
)
def test_what_only_looks_countable_keeps_its_meaning(
    machine: Machine, tmp_path: Path, body: str
) -> None:
    source = NARROW + HEAD + body + "\n}\n"
    for kernel in (lift(source, machine), simplify(lift(source, machine))):
        assert issued(emit(kernel), tmp_path) == issued(source, tmp_path)


@pytest.mark.parametrize("bit", [30, 31])
def test_a_bit_of_an_address_that_is_not_part_of_a_row_is_not_toggled(
    machine: Machine, bit: int
) -> None:
    body = "uint32_t a = ACC(9); for (int n = 0; n < 30; n++) { mvin(A[n], a, 16, 1);"
    kernel = lift(f"{HEAD}{body} a ^= 1u << {bit}; }}\n}}\n", machine)
    assert any(isinstance(s, Opaque) for s in walk(kernel.body))


def test_rows_that_wrap_around_in_steps_are_still_modelled(machine: Machine) -> None:
    body = (
        "int s = 32; for (int i = 0; i < 90; i++) { mvin(A[0], SPAD(s), 16, 1); s += 16;"
        " if (s == 64) s = 0; }"
    )
    assert not any(isinstance(s, Opaque) for s in walk(lift(HEAD + body + "\n}\n", machine).body))


@pytest.mark.parametrize(
    "name", ["break first", "break last", "masks", "an order in a table", "the element before"]
)
def test_loops_stay_loops(machine: Machine, name: str) -> None:
    body = lift(TYPES + HEAD + BODIES[name] + "\n}\n", machine).body
    assert sum(isinstance(s, Loop) for s in walk(body)) == 1


@pytest.mark.parametrize(
    ("place", "index"),
    [
        ("A[0] + 64 * i + 128", "[i + 2][0]"),
        ("&A[i][0] + 64 - 1", "[i][63]"),
        ("&A[1][i] - 4", "[1][i - 4]"),
    ],
)
def test_whole_rows_are_counted_as_rows(machine: Machine, place: str, index: str) -> None:
    body = f"for (int i = 0; i < 9; i++) mvin({place}, SPAD(i), 16, 1);"
    assert f"mvin(&A{index}, SPAD(i)" in emit(lift(HEAD + body + "\n}\n", machine))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("int v[2]; v[0] = A[0][0]; mvin(A[v[0]], SPAD(0), 16, 1);", "memory"),
        ("int v[2]; v[0] = 3; mvin(A[v[1]], SPAD(0), 16, 1);", "table"),
        ("int v[2]; v[0] = 3; helper(v); mvin(A[v[0]], SPAD(0), 16, 1);", "helper is called"),
        ("view v = {&A[0][0], 1}; for (int i = 0; i < 99; i++) { advance(&v, i);"
         " mvin(v.at, SPAD(0), 16, 1); }", "changes"),
        ("view v = {&A[0][0], 1}; view *p = &v; for (int i = 0; i < 99; i++) { advance(p, i);"
         " mvin(v.at, SPAD(0), 16, 1); }", "changes"),
        ("int k = 0; for (;; k++) { if (k == 3) continue; mvin(A[k], SPAD(0), 16, 1);"
         " if (k > 50) break; }", "no condition"),
        ("const struct size *s = &sizes[1]; mvin(A[s->m], SPAD(0), 16, 1);", "table"),
    ],
)  # fmt: skip
def test_what_only_looks_alike_stays_text(machine: Machine, body: str, reason: str) -> None:
    kernel = lift(TYPES + HEAD + body + "\n}\n", machine)
    reasons = [s.reason for s in walk(kernel.body) if isinstance(s, Opaque)]
    assert any(reason in r for r in reasons), reasons
    assert "mvin" in " ".join(s.text for s in walk(kernel.body) if isinstance(s, Opaque))


def test_reading_deep_nests_of_odd_loops_ends_soon(machine: Machine) -> None:
    nest = "".join(f"for (int i{n} = 0; i{n} < 3; i{n}++) " for n in range(12))
    kernel = lift(HEAD + nest + "mvin(A[0], SPAD(A[0][0]), 16, 1);\n}\n", machine)
    assert any(isinstance(s, Opaque) for s in walk(kernel.body))


def test_steps_of_a_pointer_that_is_a_number_are_bytes(machine: Machine) -> None:
    head = "void kernel(const float A[64][64], const float B[64][64], float C[64][64]) {\n"
    body = "uint64_t at = (uint64_t)&A[0][0]; mvin((const float *)(at + 64), SPAD(0), 4, 4);\n}\n"
    reasons = [s.reason for s in walk(lift(head + body, machine).body) if isinstance(s, Opaque)]
    assert any("moves in steps of another type" in r for r in reasons), reasons
