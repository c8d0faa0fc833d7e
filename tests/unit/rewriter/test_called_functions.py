"""Functions in the style of K&R, calls through pointers, and constant tables that commands load."""

from __future__ import annotations

import pytest
from byte_model import same

from tilewright.proposers.c.old_style import with_prototypes
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Opaque, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.execute import NotRaised, executed
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.reading import read

KERNEL = """
void kernel(const int8_t A[32][16], const int8_t B[16][16], int8_t C[32][16]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(16, 1.0f, 16, 0);
  config_st(16);
  for (int i = 0; i < 32; i += 16) {
    %s
    mvin(&B[0][0], SPAD(64), 16, 16);
    preload(SPAD(64), ACC(0), 16, 16, 16, 16);
    compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
    mvout(&C[i][0], ACC(0), 16, 16);
  }
  fence();
}
"""
PLAIN = KERNEL % "mvin(&A[i][0], SPAD(0), 16, 16);"
TYPES = "typedef void (*loader)(const int8_t *, uint32_t);\n"
LOAD = "static void load(const int8_t *from, uint32_t to) { mvin(from, to, 16, 16); }\n"
POINTERS = {
    "variable": (TYPES + LOAD, "loader f = load; f(&A[i][0], 0);"),
    "address": (TYPES + LOAD, "loader f = &load; (*f)(&A[i][0], 0);"),
    "table": (TYPES + LOAD + "static const loader all[2] = {0, load};", "all[1](&A[i][0], 0);"),
    "field": (
        LOAD + "static const struct { void (*load)(const int8_t *, uint32_t); } ops = {load};",
        "ops.load(&A[i][0], 0);",
    ),
    "global": (
        LOAD + "static void (*f)(const int8_t *, uint32_t) = load;",
        "f(&A[i][0], 0);",
    ),
    "result": (
        "static int twice(int n) { return 2 * n; }\ntypedef int (*number)(int);\n",
        "number f = twice; mvin(&A[f(i) / 2][0], SPAD(0), 16, 16);",
    ),
    "narrow parameter": (
        "typedef int (*number)(uint8_t);\nstatic int same(uint8_t n) { return n; }\n",
        "number f = same; mvin(&A[f(i + 256)][0], SPAD(0), 16, 16);",
    ),
}
ONES = f"int8_t ones[1][16] = {{{{{', '.join('1' * 16)}}}}};\n"
SUMS = """
void kernel(const int8_t A[32][16], int8_t C[1][16]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(16, 1.0f, 16, 0);
  config_st(16);
  %s
  mvin(ones, SPAD(0), 16, 1);
  for (int i = 0; i < 32; i += 16) {
    mvin(&A[i][0], SPAD(16), 16, 16);
    preload(SPAD(16), i ? ACC(0) | ACCUMULATE : ACC(0), 16, 16, 16, 1);
    compute_preloaded(SPAD(0), NONE, 16, 1, 16, 1);
  }
  mvout(&C[0][0], ACC(0), 16, 1);
  fence();
}
"""


def test_a_definition_without_prototype_gets_one() -> None:
    old = """static void f(a, b, c, n)
  const int8_t *a;
  register unsigned b, c[3][4];
{ if (a) return; }
void g(x) float x; { }"""
    assert with_prototypes(old) == (
        "static void f(const int8_t *a, unsigned b, unsigned c[3][4], int n) \n\n\n"
        "{ if (a) return; }\nvoid g(float x) { }"
    )


def test_other_code_does_not_change() -> None:
    code = "void f(int a) { while (a) g; h(a) ; }\nvoid p(void);\n#define q(a) b;\n"
    assert with_prototypes(code) == code


def test_a_function_without_prototype_is_inlined(machine: Machine) -> None:
    old = "void load(from, to) const int8_t *from; uint32_t to; { mvin(from, to, 16, 16); }\n"
    kernel = lift(old + KERNEL % "load(&A[i][0], 0);", machine)
    assert not any(isinstance(s, Opaque) for s in walk(kernel.body))
    assert same(kernel, lift(PLAIN, machine))


@pytest.mark.parametrize("style", POINTERS)
def test_a_function_is_called_through_a_pointer(machine: Machine, style: str) -> None:
    before, call = POINTERS[style]
    source = before + KERNEL % call
    plain = lift(PLAIN, machine)
    for kernel in (read(source, machine), raised(source, machine)):
        assert not any(isinstance(s, Opaque) for s in walk(kernel.body))
        assert same(kernel, plain)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("loader f = 0; f(&A[i][0], 0);", "there is no function at the address"),
        ("loader f = load; f(&A[i][0]);", "f is called with a wrong number of arguments: 1"),
        ("int f = 3; f(&A[i][0], 0);", "'f' is not a function"),
        ("const int8_t *f = &A[i][0]; f(3);", "'f' is not a function"),
        ("store(&A[i][0], 0);", "store is called, but this file does not define it"),
    ],
)
def test_other_calls_are_refused(machine: Machine, call: str, reason: str) -> None:
    with pytest.raises(NotRaised, match=reason):
        executed(TYPES + LOAD + KERNEL % call, machine)


def test_commands_load_a_constant_table(machine: Machine) -> None:
    source = "static const " + ONES + SUMS % ""
    for kernel in (read(source, machine), raised(source, machine)):
        assert not any(isinstance(s, Opaque) for s in walk(kernel.body))
        assert emit(kernel).startswith("static const " + ONES)
        assert "ones[0][0]" in emit(kernel)
        assert len([a for a in kernel.arrays if a.name == "ones"]) == 1


@pytest.mark.parametrize(
    ("own", "code", "reason"),
    [
        ("static ", "", "the core uses the array ones"),  # its values may have changed
        ("static const ", "mvout(ones, ACC(0), 16, 1);", "stores to the constant ones"),
    ],
)
def test_other_tables_are_refused(machine: Machine, own: str, code: str, reason: str) -> None:
    with pytest.raises(NotRaised, match=reason):
        raised(own + ONES + SUMS % code, machine)
