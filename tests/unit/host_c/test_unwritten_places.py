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
