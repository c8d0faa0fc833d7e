"""Kernels from elsewhere check their calls and print; they are compiled without that."""

from __future__ import annotations

import pytest

from tilewright.targets.cuda.messages import without_messages
from tilewright.targets.cuda.source import refused

CHECKED = r"""
#include <cstdio>
#include <stdlib.h>
#include <cassert>
#define CHECK(call)                                        \
  do {                                                     \
    cudaError_t err = (call);                              \
    if (err != cudaSuccess) {                              \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,   \
              cudaGetErrorString(err));                    \
      std::exit(EXIT_FAILURE);                             \
    }                                                      \
  } while (0)
#define CHECKED(call) check((call), #call, __FILE__, __LINE__)
static void check(cudaError_t e, const char *what, const char *file, int line) {
  if (e > 9) throw std::runtime_error(std::string(what) + ";");
  if (e) { std::cerr << what << " failed: \"" << file << ":"
                     << line << std::endl; abort(); }
}
__global__ void f(float *y, int n) { assert(n < 8 && "small"); static_assert(1, "one"); y[n] = 1; }
void kernel(float *Y) { f<<<1, 1>>>(Y, 0); CHECK(cudaGetLastError()); CHECKED(cudaFree(0)); }
"""


def test_what_checks_calls_is_taken_out_and_lines_keep_their_numbers() -> None:
    text = without_messages(CHECKED)
    assert refused(CHECKED) is None
    assert text.count("\n") == CHECKED.count("\n")
    for gone in ("printf", "exit", "cerr", "abort", "throw", "__FILE__", "stdio", "#call", "small"):
        assert gone not in text, gone
    for stays in ("static_assert(1", "y[n] = 1;", "cudaError_t err = (call);", "} while (0)"):
        assert stays in text, stays
    assert text.split("\n")[-3].startswith("__global__ void f")


def test_nothing_is_left_to_take_out() -> None:
    assert without_messages(without_messages(CHECKED)) == without_messages(CHECKED)


@pytest.mark.parametrize(
    "source",
    [
        "// printf(x) and #include <stdio.h>",
        'const char *text = "exit(1)";',
        "state.exit(1);",
        "my::printf(1);",
        "int cerr = 3; cerr <<= 1;",
        "#define JOIN(a, b) a##b",
        "assert(y[n] = 1);",
        "assert(++n);",
        "int printf(const char *s, int *to);\nvoid f(int *a) { printf(0, a); }",
        "try { f(); throw Stop(1); } catch (Stop s) { work(s); }",
        "void f() throw();",
        "#define exit(x) work(x)\nvoid f() { exit(1); }",
    ],
)
def test_other_text_stays_as_it_is(source: str) -> None:
    assert without_messages(source) == source


def test_a_call_that_is_never_closed_ends_with_the_text() -> None:
    assert without_messages("printf((((") == "((void)0)"
