"""Kernels that read a place on the stack before they write it may depend on earlier calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_untested_conditions import (
    KERNEL,
    folder_of,
    here,
    listing_of,
    names,
    outcome_of,
)

from tilewright.core.records import Failed, Measured
from tilewright.native.conditions import examination
from tilewright.native.conditions.blocks import blocks_of
from tilewright.native.conditions.effects import effects_of
from tilewright.native.conditions.fixed import keeps_values
from tilewright.native.conditions.listing import Function, read_listing
from tilewright.native.conditions.unwritten import unwritten_reads

FRAME = ("pushq %rbp", "movq %rsp, %rbp", "pushq %rbx", "subq $1000, %rsp")
ONE_WAY = ("testq %rdi, %rdi", "je .L1", "movl $1, -100(%rbp)", ".L1:", "movl -100(%rbp), %eax")


def function_of(*code: str) -> Function:
    return read_listing(listing_of(*FRAME, *code, "ret"), "kernel.c").functions["kernel"]


@pytest.mark.parametrize(
    ("code", "read"),
    [
        (("movl -100(%rbp), %eax",), "movl"),
        (("movl $1, -100(%rbp)", "movl -100(%rbp), %eax"), ""),
        (("movl $1, -100(%rbp)", "incl -100(%rbp)"), ""),
        (("incl -100(%rbp)",), "incl"),
        (("cmpl $1, -100(%rbp)",), "cmpl"),
        (("movl $1, -100(%rbp)", "movq -100(%rbp), %rax"), "movq"),
        (("movups %xmm0, -112(%rbp)", "movl -100(%rbp), %eax"), ""),
        (("vbroadcastss -100(%rbp), %zmm0",), "vbroadcastss"),
        (("movss %xmm0, -100(%rbp)", "vbroadcastss -100(%rbp), %zmm0"), ""),
        (ONE_WAY, "movl"),
        (("movl $2, -100(%rbp)", *ONE_WAY), ""),
        ((".L2:", "movl $1, -100(%rbp)", "testq %rdi, %rdi", "jne .L2", *ONE_WAY), ""),
        (("vstmxcsr -100(%rbp)", "movl -100(%rbp), %eax"), ""),
        (("movq -8(%rbp), %rbx",), ""),  # has been pushed
        (("movq -16(%rbp), %rbx",), "movq"),
        (("movq 16(%rbp), %rax",), ""),  # an argument
    ],
)
def test_places_that_are_read_before_they_are_written(code: tuple[str, ...], read: str) -> None:
    function = function_of(*code)
    effects = [effects_of(one) for one in function.code]
    found = unwritten_reads(function, effects, blocks_of(function))
    assert [function.code[at].name for at in found] == ([read] if read else [])


def test_a_condition_on_an_unwritten_place_depends_on_data() -> None:
    compares = ("cmpl $3, -100(%rbp)", "je .L1", ".L1:", "ret")
    assert names(*FRAME, *compares) == ["je"]
    assert names(*FRAME, "movl $1, -100(%rbp)", *compares) == []
    # also if data never come there, and the place is written later
    assert names(*FRAME, "movl -100(%rbp), %eax", "movl $1, -100(%rbp)", *compares) == []
    assert names(*FRAME, "movl -100(%rbp), %eax", "cmpl $3, %eax", *compares[1:]) == ["je"]


@pytest.mark.parametrize(
    ("code", "keeps"),
    [
        (("movl -100(%rbp), %eax",), True),
        (("movl $1, -100(%rbp)", "movl -100(%rbp), %eax"), False),
        (("movl $1, -100(%rbp)", "leaq -100(%rbp), %rax"), True),
        ((), False),
    ],
)
def test_kernels_whose_stack_may_keep_values(code: tuple[str, ...], keeps: bool) -> None:
    listing = read_listing(listing_of(*FRAME, *code, "ret"), "kernel.c")
    assert keeps_values(listing.functions["kernel"]) is keeps


COUNTS = "volatile unsigned deep[99999]; if (deep[7] != 77) { deep[7] = 77; deep[9] = 0; } "


@here
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (COUNTS + "if ((deep[9] = deep[9] + 1) > 3000) Y[0][0] = 1;", "untested_condition"),
        (COUNTS + "Y[0][0] += ++deep[9] >> 12;", "untested_condition"),
        (
            "float deep[99999]; for (int i = 0; i < 16; i++)"
            " { deep[i] = fmaxf(deep[i] * 1.01f, 1e-20f); Y[i][0] += Y[i][0] * deep[i]; }",
            "untested_condition",
        ),
        (
            "float deep[99999]; for (int i = 0; i < 16; i++)"
            " { deep[i] = deep[i] * 1.01f + 0.0000000000001f; Y[i][0] += Y[i][0] * deep[i]; }",
            "wrong_result",  # not-a-number
        ),
    ],
)
def test_what_earlier_calls_left_on_the_stack_must_not_matter(
    tmp_path: Path, body: str, kind: str
) -> None:
    opened = folder_of(tmp_path, KERNEL % "")
    outcome = outcome_of(opened, "#include <math.h>\n" + KERNEL % body)
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == kind


@here
def test_arrays_on_the_stack_are_allowed(tmp_path: Path) -> None:
    body = """float row[16]; int signs[2];
      for (int i = 0; i < 16; i++) {
        signs[0] = signs[1] = 0;
        for (int j = 0; j < 16; j++) signs[X[i][j] < 0] += 1;
        for (int j = 0; j < 16; j++) row[j] = X[i][j] * signs[0] + X[i][j] * signs[1];
        for (int j = 0; j < 16; j++) Y[i][j] = row[j] * 0.125f;
      }"""
    outcome = outcome_of(folder_of(tmp_path, KERNEL % ""), KERNEL % body)
    assert isinstance(outcome, Measured), outcome


ALLOCATED = """for (int i = 0; i < 16; i++) {
    float *row = __builtin_alloca(96);
    for (int j = 0; j < 16; j++) row[j] = X[i][j];
    for (int j = 0; j < 24; j++) row[j] *= 2;
    for (int j = 0; j < 16; j++) Y[i][j] = row[j];
  }"""


@here
def test_elements_that_are_not_written_may_be_read_if_no_call_has_written_them(
    tmp_path: Path,
) -> None:
    outcome = outcome_of(folder_of(tmp_path, KERNEL % ""), KERNEL % ALLOCATED)
    assert isinstance(outcome, Measured), outcome


LARGEST = """float m = 0;
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) m = fabsf(X[i][j]) > m ? fabsf(X[i][j]) : m;
  """
SOME_CALLS = (
    "static float c = 1e-20f; c *= m < 100 ? 1.002f : 1.0f; Y[0][0] += Y[0][0] * c;",
    "static float c = 1e-20f; c *= m > 1e5f ? 1.002f : 1.0f; Y[0][0] += Y[0][0] * c;",
    "static unsigned n; n += m < 100; Y[0][0] += Y[0][0] * n * 1e-13f;",
    "volatile float deep[99999]; float c = deep[7]; c = c > 1e-20f ? c : 1e-20f;"
    " c *= m < 100 ? 1.002f : 1.0f; deep[7] = c; Y[0][0] += Y[0][0] * c;",
)


@here
@pytest.mark.parametrize("body", SOME_CALLS)
def test_calls_on_some_inputs_must_not_be_counted(tmp_path: Path, body: str) -> None:
    opened = folder_of(tmp_path, KERNEL % "")
    outcome = outcome_of(opened, "#include <math.h>\n" + KERNEL % (LARGEST + body))
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "untested_condition"
    assert "earlier calls" in outcome.log


TABLE = """static float twice[2];
  if (twice[1] == 0) { twice[0] = 1; twice[1] = 2; }
  for (int i = 0; i < 16; i++) for (int j = 0; j < 16; j++) if (X[i][j] < 0) Y[i][j] = X[i][j] * %s;
"""


@here
def test_calls_are_repeated_only_for_some_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = folder_of(tmp_path, KERNEL % "").task.evaluator[1]._evaluation
    source = KERNEL % (TABLE % "twice[1]")
    calls = examination.examined(evaluation, source).calls
    monkeypatch.setattr(examination, "MOST_REPEATS_CPU_S", 0.0)
    assert examination.examined(evaluation, source).calls < calls
