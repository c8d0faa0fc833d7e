"""Code that is not modelled stays as it is, and what lies beside it is still optimised."""

from __future__ import annotations

from contextlib import suppress

import pytest
from kernel_model import trace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Opaque, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.by_hand import applicable
from tilewright.proposers.rewriter.planning.steps import Step

ON_THE_CORE = [
    "if (A[0][0] > 3) C[0][0] = 1;",
    "for (int n = 0; A[n][0] != 0; n++) C[n][1] = 2;",
    "report(A[3]);",
    "{ int8_t *p = C[0]; *(p + A[0][1]) = 7; }",
]
WITH_COMMANDS = [
    "if (A[0][0] > 3) mvin(&A[0][0], SPAD(77), 16, 16);",
    "mvin((const int8_t *)((uintptr_t)A + 5), SPAD(77), 16, 16);",
    "for (int n = 0; A[n][0] != 0; n++) mvin(&A[n][0], SPAD(77), 16, 1);",
    "warm_up(A, 3);",
]


OF_THE_CORE = (
    "#define HALF(x) ((x) / 2)\n"
    """
static int8_t half(int8_t x) { return HALF(x); }
static void halve(int8_t C[64][64]) {
  for (int n = 0; n < 64; n++) if (C[n][0] > half(C[n][1])) C[n][2] = half(C[n][0]);
}
"""
)
"""Functions that the rewriter does not understand, but which issue no commands."""


def source(odd: str, functions: str = "") -> str:
    return f"""{functions}void report(const int8_t *row);
static void warm_up(const int8_t A[64][96], int n) {{
  if (n) {{ mvin(&A[n][0], SPAD(77), 16, 1); warm_up(A, n - 1); }}
}}
void kernel(const int8_t A[64][96], const int8_t B[96][64], int8_t C[64][64]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(64);
  config_ld(96, 1.0f, 16, 0);
  config_ld(64, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  {odd}
  for (int i = 0; i < 64; i += 16) {{
    mvin3(0, ACC(0), 64, 16);
    for (int k = 0; k < 96; k += 16) {{
      mvin(&A[i][k], SPAD(0), 16, 16);
      mvin2(&B[k][0], SPAD(16), 64, 16);
      for (int j = 0; j < 64; j += 16) {{
        preload(SPAD(16 + j), ACC(j) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }}
    }}
    mvout(&C[i][0], ACC(0), 64, 16);
  }}
  fence();
}}
"""


@pytest.mark.parametrize("odd", [o for o in ON_THE_CORE if not o.startswith("report")])
def test_work_of_the_core_keeps_its_place_beside_any_rewrite(machine: Machine, odd: str) -> None:
    kernel = simplify(lift(source(odd), machine))
    assert any(isinstance(s, Opaque) for s in walk(kernel.body))
    for text in ("block-load A k", "resident B i before", "overwrite C", "unroll j 0"):
        kernel = Step.parse(text).apply(kernel, machine)
    printed = emit(kernel)
    assert odd in printed
    assert printed.index("config_ld(0, ") < printed.index(odd) < printed.index("&B[k][0]")
    names = [name for name, _ in trace(kernel.body)]
    assert names.count("mvin3") == 0
    assert names.count("mvin2") == 6


@pytest.mark.parametrize("odd", WITH_COMMANDS)
def test_rows_and_settings_stay_where_text_may_use_them(machine: Machine, odd: str) -> None:
    kernel = simplify(lift(source(odd), machine))
    assert any(isinstance(s, Opaque) for s in walk(kernel.body))
    for text in ("resident B i before", "banks", "double-buffer A k 2", "overwrite C"):
        with pytest.raises(NotApplicable, match="recognised"):
            Step.parse(text).apply(kernel, machine)
    kept = [s.step.technique for s in applicable(kernel, machine)]
    assert "unroll" in kept
    after = Step.parse("unroll j 0").apply(kernel, machine)
    assert odd in emit(after)


@pytest.mark.parametrize(
    ("old", "new", "free"),
    [
        ("", "", True),
        ("return HALF(x);", "mvin(0, SPAD(77), 16, 1); return HALF(x);", False),
        ("return HALF(x);", "gemmini_mvin(0, 77); return HALF(x);", False),
        ("((x) / 2)", "(x); fence()", False),
        ("return HALF(x);", "return helper(x);", False),
    ],
)
def test_functions_of_the_core_are_known_by_what_they_call(
    machine: Machine, old: str, new: str, free: bool
) -> None:
    kernel = simplify(lift(source("halve(C);", OF_THE_CORE.replace(old, new)), machine))
    assert any(isinstance(s, Opaque) for s in walk(kernel.body))
    if free:
        assert "halve(C);" in emit(Step.parse("resident B i before").apply(kernel, machine))
    else:
        with pytest.raises(NotApplicable, match="recognised"):
            Step.parse("resident B i before").apply(kernel, machine)


def test_a_function_of_the_core_that_reads_results_keeps_its_fence(machine: Machine) -> None:
    text = source("", OF_THE_CORE).replace("  fence();\n}", "  fence();\n  halve(C);\n}")
    kernel = simplify(lift(text, machine))
    with suppress(NotApplicable):
        kernel = Step.parse("fences").apply(kernel, machine)
    assert "fence();\n  halve(C);" in emit(kernel)


def test_a_loop_around_text_is_left_alone_and_the_next_one_is_not(machine: Machine) -> None:
    both = source("for (int q = 0; q < 8; q++) { C[q][0] = A[q][A[q][0]]; }")
    kernel = simplify(lift(both, machine))
    with pytest.raises(NotApplicable):
        Step.parse("unroll q 0").apply(kernel, machine)
    assert "SPAD(" in emit(Step.parse("resident B i at-first-use").apply(kernel, machine))
