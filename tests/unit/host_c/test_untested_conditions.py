"""Conditions on input values that have one result in all checks are found; others are accepted."""

from __future__ import annotations

import platform
import shutil
import struct
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tilewright.core.records import (
    Artifact,
    Candidate,
    EvaluationRequest,
    Failed,
    Measured,
    Outcome,
)
from tilewright.core.tasks import OpenTask, open_task
from tilewright.evaluation.pipeline import evaluate
from tilewright.native.checker import NativeChecker
from tilewright.native.conditions import dependence, examination, finding
from tilewright.native.conditions.dependence import sites_on_data
from tilewright.native.conditions.examination import Examined, failure_of
from tilewright.native.conditions.flags import needed_before
from tilewright.native.conditions.listing import read_listing
from tilewright.native.conditions.plain import is_without_conditions
from tilewright.native.conditions.recording import Recorder
from tilewright.native.conditions.surroundings import OF_C
from tilewright.native.task import NativeTask
from tilewright.parts.languages import C
from tilewright.parts.machine_code import post_dominance
from tilewright.parts.machine_code.post_dominance import TooLargeError

here = pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64",
    reason="kernels are examined on x86-64",
)
KERNEL = """\
void kernel(const float X[16][16], float Y[16][16]) {
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) Y[i][j] = 2 * X[i][j];
%s
}
"""


EIGHT = """\
void kernel(const float A[16][16], const float B[16][16], const float C[16][16],
            const float D[16][16], const float E[16][16], const float F[16][16],
            const float G[16][16], float Y[16][16]) {
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++)
      Y[i][j] = A[i][j] + B[i][j] + C[i][j] + D[i][j] + E[i][j] + F[i][j] + G[i][j];
}
"""


def listing_of(*code: str) -> str:
    lines = (line if line.endswith(":") else f"\t{line}" for line in code)
    return "\n".join(["\t.type\tkernel, @function", "kernel:", *lines, "\t.size\tkernel, 1", ""])


KEEPS_DATA = ("movl (%rdi), %eax", "movl %eax, -8(%rbp)", "xorl %eax, %eax")
COMPARES = ("cmpl $3, -8(%rbp)", "je .L1", ".L1:", "ret")
MASK = ("movups (%rdi), %xmm0", "cmpeqps %xmm1, %xmm0")
KEEPS_FLOAT = ("nop", "movss (%rdi), %xmm0", "addss %xmm0, %xmm0", "movd %xmm0, %eax")
ONLY_PART = ("movl $3, -8(%rbp)", "cmpq $3, -8(%rbp)", "je .L1", ".L1:", "ret")
JUMPS = ("je .L1", ".L1:", "ret")
ZERO_RCX = ("testq %rcx, %rcx", *JUMPS)
MASK_3 = ("kortestw %k3, %k3", *JUMPS)
OF_STRING = ("vmovups (%rdi), %xmm1",)


def names(*code: str) -> list[str]:
    """The mnemonics of the conditions on data in a function."""
    return [s.instruction.name for s in sites_on_data(read_listing(listing_of(*code), "kernel.c"))]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (("movl (%rdi), %eax", "cmpl $7, %eax", "je .L1", ".L1:", "ret"), ["je"]),
        (("ucomiss (%rdi), %xmm0", "seta %al", "ret"), ["seta"]),
        (("cmpl $7, (%rdi,%rcx,4)", "cmovle %edx, %esi", "ret"), ["cmovle"]),
        # all but the lowest bits of a value
        (("movl (%rdi), %eax", "movb $0, %al", "cmpl $512, %eax", "je .L1", ".L1:", "ret"), ["je"]),
        # the length of a loop
        (("xorl %eax, %eax", ".L1:", "addl $1, %eax", "cmpl $64, %eax", "jne .L1", "ret"), []),
        # a flag that is set under a condition on data
        (
            (
                *("movl $1, %edx", "ucomiss (%rdi), %xmm0", "jbe .L1", "xorl %edx, %edx", ".L1:"),
                *("testl %edx, %edx", "je .L2", ".L2:", "ret"),
            ),
            ["jbe", "je"],
        ),
        # a value that is kept on the stack
        (
            (
                *("movl (%rdi), %eax", "movl %eax, -8(%rbp)", "xorl %eax, %eax"),
                *("movl -8(%rbp), %ecx", "testl %ecx, %ecx", "jne .L1", ".L1:", "ret"),
            ),
            ["jne"],
        ),
        # a number of the loop that is kept on the stack
        (("movl $3, -8(%rbp)", "cmpl $3, -8(%rbp)", "jne .L1", ".L1:", "ret"), []),
        # a place on the stack that first holds data, and then a number of the loop
        ((*KEEPS_DATA, "movl $3, -8(%rbp)", *COMPARES), []),
        # of its eight bytes, four still hold data
        (("movq (%rdi), %rax", "movq %rax, -8(%rbp)", *ONLY_PART), ["je"]),
        ((*KEEPS_DATA, "movb $3, -8(%rbp)", *COMPARES), ["je"]),
        # calls leave it as it is
        ((*KEEPS_DATA, "call omp_get_thread_num@PLT", *COMPARES), ["je"]),
        # it may also be written through an address
        ((*KEEPS_DATA, "leaq -64(%rbp), %rdx", "movl $3, -8(%rbp)", *COMPARES), ["je"]),
        ((*KEEPS_DATA, "movq %rbp, %rdx", "movl $3, -8(%rbp)", *COMPARES), ["je"]),
        ((*KEEPS_DATA, "movl $3, -8(%rbp)", "movl -8(%rbp,%rcx,4), %edx", *COMPARES), ["je"]),
        ((*KEEPS_DATA, "movq %rsp, %rdx", "movl $3, -8(%rbp)", *COMPARES), ["je"]),
        # it is set under a condition on data
        (
            (
                *("movl $3, -8(%rbp)", "cmpl $7, (%rdi)", "jne .L0", "movl $4, -8(%rbp)", ".L0:"),
                *COMPARES,
            ),
            ["jne", "je"],
        ),
        # an instruction of unknown width may read neighbouring places
        (
            (
                *KEEPS_DATA,
                *("movl $3, -64(%rbp)", "cmovel -64(%rbp), %ecx", "testl %ecx, %ecx"),
                *("je .L1", ".L1:", "ret"),
            ),
            ["je"],
        ),
        # an element of an array on the stack
        (
            (
                *("leaq -64(%rbp), %rdx", "movl (%rdi), %eax", "movl %eax, (%rdx,%rcx,4)"),
                *("cmpl $3, -64(%rbp)", "jne .L1", ".L1:", "ret"),
            ),
            ["jne"],
        ),
        (("call memcmp@PLT", "testl %eax, %eax", "je .L1", ".L1:", "ret"), ["je"]),
        (("call omp_get_thread_num@PLT", "testl %eax, %eax", "je .L1", ".L1:", "ret"), []),
        (("movq (%rdi), %rax", "jmp *%rax"), ["jmp"]),
        (("movq (%rdi), %rax", "call *%rax", "ret"), ["call"]),
        # products and quotients, whose results are in registers a and d or in named ones
        (("movl (%rdi), %eax", "mulss %xmm1, %xmm0", "testl %eax, %eax", "je .L1", ".L1:"), ["je"]),
        (("movl (%rdi), %edx", "divps %xmm1, %xmm0", "testl %edx, %edx", "je .L1", ".L1:"), ["je"]),
        (("movl (%rdi), %eax", "divl -8(%rbp)", "testl %edx, %edx", "je .L1", ".L1:"), ["je"]),
        (("movl (%rdi), %eax", "imull %ecx, %esi", "testl %eax, %eax", "je .L1", ".L1:"), ["je"]),
        (("movl (%rdi), %ecx", "mull %ecx", "testl %edx, %edx", "je .L1", ".L1:"), ["je"]),
        (("movl $3, %eax", "imull (%rdi), %esi", "testl %eax, %eax", "je .L1", ".L1:"), []),
        (("movl $3, %eax", "mull %ebx", "testl %edx, %edx", "je .L1", ".L1:"), []),
        (("mulxq (%rdi), %rsi, %rcx", "testq %rsi, %rsi", "je .L1", ".L1:"), ["je"]),
        (("movq (%rdi), %rdx", "mulxq n(%rip), %rsi, %rcx", *ZERO_RCX), ["je"]),
        (("movq (%rdi), %rsi", "mulxq n(%rip), %rsi, %rcx", "testq %rsi, %rsi", *JUMPS), []),
        (("movq (%rdi), %rcx", "imulq n(%rip), %rcx", *ZERO_RCX), ["je"]),
        (("movq (%rdi), %rcx", "imulq $3, n(%rip), %rcx", *ZERO_RCX), []),
        # a truth value replaces what was in its register
        (("movl (%rdi), %eax", "cmpl $3, %ecx", "sete %al", "testb %al, %al", *JUMPS), []),
        # the previous value of a place in memory
        (("movq %rdx, n(%rip)", "lock cmpxchgq %rcx, (%rdi)", "testq %rax, %rax", *JUMPS), ["je"]),
        (("movl (%rdi), %eax", "cmpxchgl %ecx, %edx", *JUMPS), ["je"]),
        (("lock xaddq %rcx, (%rdi)", *ZERO_RCX), ["je"]),
        # flags and registers that are written without being named
        ((*OF_STRING, "vpcmpestri $24, %xmm1, %xmm0", "jb .L1", ".L1:", "ret"), ["jb"]),
        ((*OF_STRING, "vpcmpestri $24, %xmm1, %xmm0", *ZERO_RCX), ["je"]),
        (
            (*OF_STRING, "pcmpistrm $24, %xmm1, %xmm3", "movq %xmm0, %rcx", *ZERO_RCX),
            ["je"],
        ),
        (("vmovups (%rdi), %zmm1", "vp2intersectd %zmm1, %zmm1, %k2", *MASK_3), ["je"]),
        # vectors whose previous value is read, and others
        *(
            (("vmovups (%rdi), %xmm0", code, "vmovq %xmm0, %rcx", *ZERO_RCX), ["je"])
            for code in (
                *("vpmadd52luq %xmm1, %xmm1, %xmm0", "vpshldvq %xmm1, %xmm1, %xmm0"),
                *("vdpbf16ps %xmm1, %xmm1, %xmm0", "vfixupimmps $1, %xmm1, %xmm1, %xmm0"),
                *("pshufb %xmm1, %xmm0", "vunknown %xmm1, %xmm1, %xmm0"),
            )
        ),
        *(
            (("vmovups (%rdi), %xmm0", code, "vmovq %xmm0, %rcx", *ZERO_RCX), [])
            for code in (
                *("vpshldq $3, %xmm1, %xmm1, %xmm0", "vpaddd %xmm1, %xmm1, %xmm0"),
                *("vpcmpeqd %xmm1, %xmm1, %xmm0", "vpermilps $3, %xmm1, %xmm0"),
            )
        ),
        # flags are kept by known instructions, and may be written by unknown ones
        (
            ("vmovups (%rdi), %xmm0", "cmpl $3, %ecx", "vaddps %xmm0, %xmm0, %xmm1", *JUMPS),
            [],
        ),
        (
            ("vmovups (%rdi), %xmm0", "cmpl $3, %ecx", "vunknown %xmm0, %xmm1", *JUMPS),
            ["je"],
        ),
        (("cmpl $3, (%rdi)", "vunknown %xmm1, %xmm1", *JUMPS), ["je"]),
        (("repz cmpsb", *JUMPS), ["je"]),
        # a static variable that counts calls, and one that holds data
        (("movl n(%rip), %eax", "cmpl $3, %eax", "je .L1", ".L1:", "ret"), []),
        (
            (
                *("movl (%rdi), %eax", "movl %eax, n(%rip)", "xorl %eax, %eax"),
                *("cmpl $3, n(%rip)", "je .L1", ".L1:", "ret"),
            ),
            ["je"],
        ),
        # whether an input is NaN
        (("movss (%rdi), %xmm0", "ucomiss %xmm0, %xmm0", "jp .L1", ".L1:", "ret"), []),
        # a number that was computed, and one that was written before, may be NaN
        (
            ("divss (%rdi), %xmm0", "ucomiss %xmm0, %xmm0", "jp .L1", ".L1:", "ret"),
            ["jp"],
        ),
        (
            (
                *("divss (%rdi), %xmm0", "movss %xmm0, 4(%rsp)", "movss 4(%rsp), %xmm0"),
                *("ucomiss %xmm0, %xmm0", "setp %al", "ret"),
            ),
            ["setp"],
        ),
        (("ucomiss (%rdi), %xmm0", "jp .L1", ".L1:", "ret"), ["jp"]),
        # a test for equality, of which one part tells whether a number is NaN
        (("ucomiss (%rdi), %xmm0", "jp .L1", "jne .L1", ".L1:", "ret"), ["jne"]),
        # a sum of extended precision
        (("flds (%rdi)", "fldz", "fucomip %st(1), %st", "jne .L1", ".L1:", "ret"), ["jne"]),
        (("flds (%rdi)", "fcomi %st(1), %st", "fcmovne %st(1), %st", "ret"), ["fcmovne"]),
        (("flds (%rdi)", "ftst", "fnstsw %ax", "sahf", "je .L1", ".L1:", "ret"), ["je"]),
        (
            ("flds (%rdi)", "fstps -8(%rbp)", "cmpl $0, -8(%rbp)", "je .L1", ".L1:", "ret"),
            ["je"],
        ),
        # flags that operations set
        (
            ("stmxcsr -8(%rbp)", "movl -8(%rbp), %eax", "testb $32, %al", "je .L1", ".L1:", "ret"),
            ["je"],
        ),
        # a whole number that becomes a float, as number and as its bits
        (("movl (%rdi), %eax", "cvtsi2ssl %eax, %xmm0", "ret"), ["cvtsi2ssl"]),
        (("movl (%rdi), %eax", "andl $7, %eax", "movd %eax, %xmm0", "ret"), ["movd"]),
        (("movl $3, %eax", "cvtsi2ssl %eax, %xmm0", "ret"), []),
        # a quotient of a constant
        (
            ("movl (%rdi), %ecx", "movl $1, %eax", "cltd", "idivl %ecx", "cvtsi2ssl %eax, %xmm0"),
            ["cvtsi2ssl"],
        ),
        # the result of a comparison of vectors that becomes a float, as number and as its bits
        (("nop", *MASK, "movd %xmm0, %eax", "cvtsi2ssl %eax, %xmm0"), ["cvtsi2ssl"]),
        (("nop", *MASK, "movmskps %xmm0, %eax", "cvtsi2ssl %eax, %xmm0"), ["cvtsi2ssl"]),
        (("nop", *MASK, "movmskps %xmm0, %eax", "movd %eax, %xmm0"), ["movd"]),
        (("nop", *MASK, "movd %xmm0, %eax", "movd %eax, %xmm0"), ["movd"]),
        (("nop", *MASK, "movaps %xmm0, %xmm1", "movd %xmm1, %eax", "movd %eax, %xmm0"), ["movd"]),
        # a float as a whole number
        ((*KEEPS_FLOAT, "cvtsi2ssl %eax, %xmm0"), ["cvtsi2ssl"]),
        (
            ("nop", "mulsd (%rdi), %xmm0", "movq %xmm0, %rax", "cvtsi2ssq %rax, %xmm0"),
            ["cvtsi2ssq"],
        ),
        # a float that is only kept in another register
        ((*KEEPS_FLOAT, "movd %eax, %xmm0"), []),
        ((*KEEPS_FLOAT, "call f@PLT", "movd %eax, %xmm0"), ["movd"]),
        # a part of its bits
        ((*KEEPS_FLOAT, "movb $0, %al", "movd %eax, %xmm0"), ["movd"]),
        ((*KEEPS_FLOAT, "movzbl %al, %eax", "movd %eax, %xmm0"), ["movd"]),
        ((*KEEPS_FLOAT, "idivl %ecx", "movd %eax, %xmm0"), ["movd"]),
        # a place that a jump to an unknown address may lead to
        (
            (*KEEPS_FLOAT, "je .L1", "jmp *%rdx", ".L1:", "movd %eax, %xmm0"),
            ["jmp", "movd"],
        ),
        # the bits of a constant, under a condition on data
        (
            (
                *("cmpl $7, (%rdi)", "je .L1", "movl $0x3f800000, %eax", "movd %eax, %xmm0"),
                *(".L1:", "ret"),
            ),
            ["je"],
        ),
        # an element whose index depends on data
        (("movl (%rdi), %eax", "addss (%rsi,%rax,4), %xmm0", "ret"), ["addss"]),
        (("xorl %eax, %eax", "addss (%rsi,%rax,4), %xmm0", "ret"), []),
        (("movl (%rdi), %eax", "xorl %eax, %eax", "testl %eax, %eax", "je .L1", ".L1:", "ret"), []),
        # a comparison of vectors
        (("vcmpps $1, (%rdi), %zmm0, %k1", "kortestw %k1, %k1", "je .L1", ".L1:", "ret"), ["je"]),
    ],
)
def test_what_depends_on_data(code: Sequence[str], found: list[str]) -> None:
    assert names(*code) == found


def test_what_a_function_is_given_and_returns() -> None:
    inner = listing_of("testl %edi, %edi", "sete %al", "movl %edi, %eax", "ret")
    inner = inner.replace("kernel", "inner")
    outer = listing_of(
        *("movl (%rdi), %edi", "call inner", "testl %eax, %eax", "je .L1", ".L1:", "ret")
    )
    assert [s.instruction.name for s in sites_on_data(read_listing(inner + outer, ""))] == [
        *("sete", "je")
    ]
    given = outer.replace("(%rdi)", "$5")
    assert sites_on_data(read_listing(inner + given, "")) == []


@pytest.mark.parametrize(
    ("before", "call", "is_data"),
    [
        (("pushq (%rdi)",), "call inner", True),
        (("pushq $7",), "call inner", False),
        (("movl (%rdi), %eax", "movl %eax, (%rsp)"), "call inner", True),
        (("movl $7, (%rsp)",), "call inner", False),
        # what is at the end of the stack was written through an address
        (("movl (%rdi), %eax", "movq %rsp, %rdx", "movl %eax, (%rdx,%rcx,4)"), "call inner", True),
        # in place of an argument of the function itself
        (("movl (%rdi), %eax", "movl %eax, 16(%rbp)"), "jmp inner", True),
        (("movl $7, 16(%rbp)",), "jmp inner", False),
    ],
)
def test_what_a_function_is_given_on_the_stack(
    before: Sequence[str], call: str, is_data: bool
) -> None:
    inner = listing_of("cmpl $7, 16(%rbp)", "je .L1", "movl $3, 16(%rbp)", ".L1:", "ret")
    outer = listing_of(*before, call, "ret")
    text = inner.replace("kernel", "inner") + outer
    found = [s.instruction.name for s in sites_on_data(read_listing(text, ""))]
    assert found == ["je"] * is_data


def test_arguments_on_the_stack_are_passed_on() -> None:
    inner = listing_of("cmpl $7, 16(%rbp)", "je .L1", ".L1:", "ret").replace("kernel", "inner")
    middle = listing_of("pushq 24(%rbp)", "call inner", "ret").replace("kernel", "middle")
    outer = listing_of("pushq (%rdi)", "pushq $3", "call middle", "ret")
    found = sites_on_data(read_listing(inner + middle + outer, ""))
    assert [site.instruction.name for site in found] == ["je"]


def test_a_function_may_keep_registers_that_others_do_not() -> None:
    inner = listing_of("ret").replace("kernel", "inner")
    outer = listing_of(
        *("movl (%rdi), %esi", "call inner", "testl %esi, %esi", "je .L1", ".L1:", "ret")
    )
    assert [s.instruction.name for s in sites_on_data(read_listing(inner + outer, ""))] == ["je"]


@pytest.mark.parametrize(
    ("between", "count"),
    [
        (("ja .L2",), 1),
        (("movl %ecx, %edx", "vmovss %xmm0, (%rsi)", "ja .L2"), 1),
        (("ja .L2", "ja .L3"), 1),
        (("jb .L2",), 2),
        (("addl $1, %ecx", "ja .L2"), 2),
        (("cmpl $9, %eax", "ja .L2"), 2),
    ],
)
def test_a_jump_that_never_happens_after_the_same_one_is_no_condition(
    between: Sequence[str], count: int
) -> None:
    first = ("movl (%rdi), %eax", "addl $1, %eax", "cmpl $7, %eax", "ja .L1")
    after = (".L1:", ".L2:", ".L3:", "ret")
    found = finding.found_in(listing_of(*first, *between, *after), "kernel.c", OF_C)
    assert not isinstance(found, Failed)
    assert len([s for s in found.sites if s.condition is not None]) == count


def test_a_condition_with_one_result_counts_even_if_the_numbers_in_memory_never_differ() -> None:
    listing = read_listing(listing_of("cmpl $7, (%rdi)", "je .L1", "jb .L1", ".L1:"), "kernel.c")
    same, both = sites_on_data(listing)
    results, sequences = [(True, False), (True, True)], [[1, 2, 3], [4, 4, 4]]
    found = examination._untested(lambda *_: frozenset(), [same, both], results, sequences, 2)
    assert found == [same]


@pytest.mark.parametrize("source", ["rdtsc", "rdrand %eax", "rdgsbase %rax"])
def test_clocks_and_random_numbers_are_data(source: str) -> None:
    assert names(source, "testl $65535, %eax", "je .L1", ".L1:", "ret") == ["je"]


@pytest.mark.parametrize(
    ("code", "recorded"),
    [
        (("movl (%rdi), %eax", "shrl $8, %eax"), [("%eax", 4)]),
        (("movl (%rdi), %eax", "incl %eax", "addl $3, %eax", "leal 4(%rax), %ecx"), []),
        (("movl (%rdi), %eax", "leal (%rax,%rdx), %ecx"), [("%ecx", 4)]),
        (("movl (%rdi), %eax", "mull %ecx"), [("%eax", 4), ("%edx", 4)]),
        (("movl (%rdi), %eax", "orl %eax, 8(%rsp)"), [("8(%rsp)", 4)]),
        (("mulxq (%rdi), %rsi, %rcx",), [("%rsi", 8), ("%rcx", 8)]),
        (("lock xaddl %ecx, (%rdi)",), [("%ecx", 4)]),
        (("lock cmpxchgw %cx, (%rdi)",), [("%ax", 2)]),
        (("lock cmpxchg16b (%rdi)",), [("%rax", 8), ("%rdx", 8)]),
        (("vmovups (%rdi), %xmm1", "pcmpistri $24, %xmm1, %xmm0"), [("%ecx", 4)]),
        (("movq (%rdi), %rcx", "sarq $63, %rcx"), [("%rcx", 8)]),
        (("movl $3, %eax", "shrl $8, %eax"), []),
        # a number that is only set under a condition on data
        (("cmpl $3, (%rdi)", "je .L1", "shrl $8, %esi", ".L1:"), []),
        (("movups (%rdi), %xmm0", "cmpeqps %xmm1, %xmm0"), [("%xmm0", 16)]),
        (("movups (%rdi), %xmm0", "cmpltps %xmm1, %xmm0"), []),  # a clamp
        (("vcmpps $0, (%rdi), %zmm0, %k1",), [("%k1", 8)]),
        (("vcmpps $1, (%rdi), %zmm0, %k1",), []),
        (("vmovups (%rdi), %ymm0", "vpor %ymm0, %ymm1, %ymm2"), [("%ymm2", 32)]),
        (("vmovups (%rdi), %ymm0", "vpand %ymm0, %ymm1, %ymm2"), []),  # selects constants
        (("vmovups (%rdi), %ymm0", "vpand %ymm0, %ymm0, %ymm2"), [("%ymm2", 32)]),
        # what leaves a vector register
        (("vmovss (%rdi), %xmm0", "vmovss %xmm0, (%rsi)"), [("(%rsi)", 4)]),
        (("movss (%rdi), %xmm0", "movss %xmm0, (%rsi)"), [("(%rsi)", 4)]),
        (("movss (%rdi), %xmm0", "movd %xmm0, %eax"), [("%eax", 4)]),
        (("movups (%rdi), %xmm0", "movmskps %xmm0, %eax"), [("%eax", 4)]),
        (("vmovups (%rdi), %ymm0", "vmovups %ymm0, 32(%rsi)"), [("%ymm0", 32)]),
        (("movss (%rdi), %xmm0", "cvttss2sil %xmm0, %eax"), [("%eax", 4)]),
        (("cvttss2sil (%rdi), %eax",), [("%eax", 4)]),
        (("vcvttss2usi (%rdi), %rax",), [("%rax", 8)]),
        (("movss (%rdi), %xmm0", "cvtss2sd %xmm0, %xmm0"), []),
        (("movss (%rdi), %xmm0", "call lrintf@PLT"), [("%rax", 8)]),
        (("movss (%rdi), %xmm0", "call expf@PLT"), []),
        (("movl (%rdi), %eax", "popcntl %eax, %ecx", "shrl %ecx"), [("%ecx", 4)] * 2),
        # whether two numbers are equal is found as a condition
        (("ucomiss (%rdi), %xmm0", "setnp %al"), []),
    ],
)
def test_which_whole_numbers_are_recorded(
    code: Sequence[str], recorded: list[tuple[str, int]]
) -> None:
    listing = read_listing(listing_of(*code, "ret"), "kernel.c")
    assert [
        s.value for s in finding.sequences_of(listing) if s.is_result and not s.is_float
    ] == recorded


@pytest.mark.parametrize(
    ("code", "recorded"),
    [
        (("addss (%rdi), %xmm0",), [("%xmm0", 4)]),
        (("vmovsd (%rdi), %xmm1", "vsqrtsd %xmm1, %xmm1, %xmm2"), [("%xmm2", 8)]),
        (("vmaxps (%rdi), %zmm1, %zmm2",), [("%zmm2", 64)]),
        (("vfmadd231ps (%rdi), %ymm1, %ymm2{%k1}",), [("%ymm2", 32)]),
        (("movss (%rdi), %xmm0", "mulss %xmm0, %xmm0"), []),
        (("flds (%rdi)", "fstps 8(%rsi)"), [("8(%rsi)", 4)]),
        (("flds (%rdi)", "fstpt 8(%rsi)"), [("8(%rsi)", 8)]),
        (("movss (%rdi), %xmm0", "call expf@PLT"), [("%xmm0", 4)]),
        (("movsd (%rdi), %xmm0", "call exp@PLT"), [("%xmm0", 8)]),
        (("vmovups (%rdi), %zmm0", "call _ZGVeN16v_expf@PLT"), [("%zmm0", 64)]),
        (("movss (%rdi), %xmm0", "call lrintf@PLT"), []),
        # only the registers of the function's arguments count
        (("movss (%rdi), %xmm1", "call expf@PLT"), []),
        (("movss (%rdi), %xmm1", "call powf@PLT"), [("%xmm0", 4)]),
        (("movss (%rdi), %xmm2", "call fmaf@PLT"), [("%xmm0", 4)]),
        (("movl (%rsi), %edi", "call ldexpf@PLT"), [("%xmm0", 4)]),
        (("vmovups (%rdi), %zmm1", "call _ZGVeM16v_expf@PLT"), [("%zmm0", 64)]),
    ],
)
def test_which_floating_point_numbers_are_recorded(
    code: Sequence[str], recorded: list[tuple[str, int]]
) -> None:
    listing = read_listing(listing_of(*code, "ret"), "kernel.c")
    found = [s for s in finding.sequences_of(listing) if s.is_float and not s.is_load]
    assert [site.value for site in found] == recorded


@pytest.mark.parametrize(
    ("code", "read"),
    [
        ("addss (%rdi), %xmm0", [("(%rdi)", 4, False)]),
        ("vmovups (%rdi), %zmm1", [("%zmm1", 64, True)]),
        ("vmovups (%rdi), %zmm1{%k1}", []),
        ("vaddps (%rdi), %zmm1, %zmm2", []),
    ],
)
def test_which_floating_point_numbers_are_known_to_be_read(
    code: str, read: list[tuple[str, int, bool]]
) -> None:
    listing = read_listing(listing_of(code, "ret"), "kernel.c")
    found = [s for s in finding.sequences_of(listing) if s.is_float and s.is_load]
    assert [(*(site.value or ()), site.is_result) for site in found] == read


def test_a_float_that_differs_for_the_same_inputs_is_no_address() -> None:
    """A counter of calls may have been added to it."""
    listing = read_listing(listing_of("movss (%rdi), %xmm0", "addss %xmm1, %xmm0", "ret"), "")
    add, load = finding.sequences_of(listing)
    find = partial(finding.computed_without, listing)
    recorded = [[7] * 3, [3, 4, 5]]
    assert examination._untested(find, [add, load], [(False, False)] * 2, recorded, 1) == [add]


def test_a_number_that_is_kept_in_memory_is_told_from_data() -> None:
    """The number of iterations of a loop is read from memory that may contain data."""
    code = ("leaq -64(%rbp), %rdx", "movl (%rdi), %eax", "movl %eax, (%rdx)", "movl $7, -8(%rbp)")
    listing = read_listing(
        listing_of(*code, "movl -8(%rbp), %ecx", "cmpl $3, %ecx", "je .L1", ".L1:", "ret"), ""
    )
    (load,) = [s for s in finding.sequences_of(listing) if s.is_load and "-8" in str(s.value)]
    jump = load.instruction.at + 2
    nothing, loads = frozenset[int](), frozenset({load.instruction.at})
    assert jump in finding.computed_without(listing, nothing, nothing)
    assert jump not in finding.computed_without(listing, loads, nothing)
    assert jump not in finding.computed_without(listing, nothing, loads)


@pytest.mark.parametrize(
    ("writes", "reads"),
    [
        (("movl %eax, -8(%rbp)",), "-8(%rbp)"),
        (("movl %eax, (%rsi)",), "(%rdx)"),
        (("movl %eax, kept(%rip)",), "kept(%rip)"),
    ],
)
def test_a_number_is_no_address_if_data_may_be_written_to_its_place(
    writes: Sequence[str], reads: str
) -> None:
    code = ("leaq -64(%rbp), %rdx", "movl (%rdi), %eax", *writes, f"movl {reads}, %ecx")
    listing = read_listing(listing_of(*code, "cmpl $3, %ecx", "je .L1", ".L1:", "ret"), "")
    found = finding.sequences_of(listing)
    load = next(s for s in found if s.is_load and s.value == (reads, 4))
    jump = load.instruction.at + 2
    loads = frozenset({load.instruction.at})
    assert jump in finding.computed_without(listing, frozenset(), loads)
    assert jump not in finding.computed_without(listing, loads, frozenset())


@pytest.mark.parametrize(
    ("loaded", "no_data"), [([3, 4, 5], True), ([3, 3, 5], False), ([3, 3, 3], True)]
)
def test_a_number_that_differs_for_the_same_inputs_is_an_address(
    loaded: list[int], *, no_data: bool
) -> None:
    """The second call is on the inputs of the first one."""
    listing = read_listing(listing_of("movl (%rdi), %eax", "shrl $8, %eax", "ret"), "")
    shift, load = finding.sequences_of(listing)
    find = partial(finding.computed_without, listing)
    untested = examination._untested(
        find, [shift, load], [(False, False)] * 2, [[7] * 3, loaded], 1
    )
    assert untested == ([] if no_data else [shift])


def test_a_condition_with_one_result_counts_although_a_number_in_memory_is_always_the_same() -> (
    None
):
    """An element may be the same in all calls because it stands for a special case."""
    listing = read_listing(listing_of("cmpl $3, (%rdi)", "je .L1", ".L1:", "ret"), "")
    (jump,) = sites_on_data(listing)
    (load,) = finding.sequences_of(listing)
    find = partial(finding.computed_without, listing)
    results = [(True, False), (False, False)]
    assert examination._untested(find, [jump, load], results, [[7] * 3, [3] * 3], 1) == [jump]


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        # a loop
        (
            ("movl (%rdi), %eax", "addl %eax, %ecx", "incq %rdx", "cmpq $9, %rdx", "jne .L1"),
            "nnnny",
        ),
        # flags of an instruction that does not only compare
        (("subl $1, %ecx", "movl (%rdi), %eax", "jne .L1"), "nyy"),
        (("addl %eax, %ecx", "movl (%rdi), %eax", "adcl $0, %edx"), "nyy"),
        (("cmpl %eax, %ecx", "leaq 1(%rdx), %rdx", "sete %al", "ret"), "nyyn"),
        (("cmpl %eax, %ecx", "decl %edx", "shll $1, %edx", "cmovb %eax, %ecx", "ret"), "nyyyn"),
        # nothing is known
        (("cmpl %eax, %ecx", "pushfq", "ret"), "nyn"),
        (("cmpl %eax, %ecx", "rcll $1, %eax", "ret"), "nyn"),
        (("cmpl %eax, %ecx", "jmp .L1"), "ny"),
        (("cmpl %eax, %ecx", "jmp .L1", "addl %eax, %ecx"), "nyn"),
        (("cmpl %eax, %ecx", "movl %eax, %ecx"), "ny"),
        # another function does not read them
        (("cmpl %eax, %ecx", "call other"), "nn"),
        (("movl (%rdi), %eax", "ret"), "nn"),
    ],
)
def test_where_flags_are_needed(code: Sequence[str], needed: str) -> None:
    function = read_listing(listing_of(".L1:", *code), "").functions["kernel"]
    assert [*map({"n": False, "y": True}.get, needed)] == needed_before(function)[:-1]


def test_code_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependence, "MOST_STEPS", 2)
    with pytest.raises(TooLargeError):
        names("movl (%rdi), %eax", "addl $1, %eax", "ret")
    monkeypatch.setattr(dependence, "MOST_STEPS", 100)
    monkeypatch.setattr(post_dominance, "MOST_BLOCKS", 1)
    with pytest.raises(TooLargeError):
        names("je .L1", ".L1:", "ret")


def test_code_whose_examination_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependence, "MOST_CPU_S", 0.0)
    failed = finding.found_in(listing_of("movl (%rdi), %eax", "ret"), "kernel.c", OF_C)
    assert isinstance(failed, Failed)
    assert failed.log.endswith("this takes more than 0 s of CPU time.")


def test_flags_are_data_where_they_are_read_as_a_number() -> None:
    pushed = ("cmpl $7, (%rdi)", "pushfq", "movl $7, %edx", "popq %rax")
    assert names(*pushed, "testl %eax, %eax", *JUMPS) == ["je"]
    assert names(*pushed, "testl %edx, %edx", *JUMPS) == []
    assert names(*pushed, "pushq %rdx", "popq %rcx", "testl %ecx, %ecx", *JUMPS) == []
    assert names("cmpl $7, (%rdi)", "lahf", "testb %ah, %ah", *JUMPS) == ["je"]
    assert names("cmpl $7, %edx", "lahf", "testb %ah, %ah", *JUMPS) == []


def records(recorder: Recorder, *written: tuple[int, int]) -> bytes:
    """The records of a recorder with these numbers at these places."""
    found = bytearray(recorder.size)
    for at, number in written:
        struct.pack_into("<Q", found, at, number)
    return bytes(found)


def test_what_a_kernel_writes_to_the_records_is_noticed() -> None:
    recorder = Recorder.of(2)
    (no, yes, first), (_, other, _) = recorder.places
    mark = recorder.number
    right = records(recorder, (no, mark), (yes, mark), (first, 5), (other, mark))
    assert recorder.results(right) == [(True, True), (False, True)]
    assert recorder.results(records(recorder, (no, mark + 1))) is None
    used = {at for places in recorder.places for at in places}
    unused = next(at for at in range(0, recorder.size, 8) if at not in used)
    assert recorder.results(records(recorder, (unused, mark))) is None


def test_records_have_other_places_each_time() -> None:
    first, second = Recorder.of(8), Recorder.of(8)
    assert first.places != second.places
    assert first.distance != second.distance


@pytest.mark.parametrize(
    ("source", "without"),
    [
        ("#include <math.h>\nfor (int i = 0; i < 16; i += 2) Y[i] = 2.0f * X[i];  // 2/1", True),
        ("for (int i = 0; i < 16; i += 2) Y[i] = expf(X[i]);", False),
        ("for (int i = 0; i < 16; i += 2) Y[i] = X[i] - 1.0f;", False),
        ("for (int i = 0; i < 16; i += 2) Y[i] = X[i] / 1.5f;", False),
        ('char a["/*"]; Y[0] = X[0] - 1.0f; char b["*/"];', False),
        ("for (int k = 0; k < 64; k += 8)\n  for (int i = k; i < k + 8; i++) Y[i] = X[i];", True),
        ("for (int i = 0; i < 16; i++) if (X[i]) Y[i] = 1;", False),
        ("for (int i = 0; X[i] < 16; i++) Y[i] = 1;", False),
        ("for (int i = 0; i < n; i++) Y[i] = 1;", False),
        ("for (int i = 0; i < (int)X[0]; i++) Y[i] = 1;", False),
        ("int n = X[0];\nfor (int n = 0; n < 4; n++)\n  for (int i = 0; i < n; i++) ;", False),
        ("float n = X[0];\nfor (int n = 0; n < 4; n++) ;\nfor (int i = 0; i < n; i++) ;", False),
        ("f(int n)\nfor (int n = 0; n < 4; n++)\n  for (int i = 0; i < n; i++) ;", False),
        ("#define LESS <\nY[0] = X[0] LESS 2;", False),
        ("Y[0] += 99 * !X[0];", False),
        ("Y[0] = X[0] ? 1 : 2;", False),
        ("X[0] == 3 && (Y[0] = 1);", False),
        ("calls[(int)X[0]](Y);", False),
        ("Y[0] += table[(int)X[0]];", False),
        ("Y[0] += lrintf(X[0]);", False),
        ("Y[0] += isnan(X[0]);", False),
        ("int n = X[0];\nY[0] += n;", False),
        ("static n;\nn = X[0];\nY[0] += n;", False),
        ("(*calls)(Y);", False),
        ("wchar_t n = X[0];\nY[0] += n;", False),
        ("#include <stdlib.h>\nuint n;\nmemcpy(&n, X, 4);\nY[0] += n;", False),
    ],
)
def test_sources_that_need_not_be_examined(source: str, without: bool) -> None:
    assert is_without_conditions(source) is without


def outcome_of(opened: OpenTask, source: str) -> Outcome:
    return evaluate(opened.task.evaluator, EvaluationRequest(Candidate(source)))


def folder_of(path: Path, start: str, inputs: str = "X") -> OpenTask:
    """A folder whose reference adds its inputs, or doubles its only one."""
    text = 'target = "host-c"\nname = "sum"\noperations = 256\n'
    for name, role in (*((name, "input") for name in inputs), ("Y", "output")):
        text += f'[[argument]]\nname = "{name}"\nshape = [16, 16]\n'
        text += f'dtype = "float32"\nrole = "{role}"\n'
    (path / "workload.toml").write_text(text)
    (path / "kernel.c").write_text(start)
    total = " + ".join(inputs if len(inputs) > 1 else inputs * 2)
    (path / "reference.py").write_text(f"def reference({', '.join(inputs)}):\n    return {total}\n")
    return open_task(str(path), {"input_seed": 5})


@here
@pytest.mark.parametrize(
    "body",
    [
        "if (X[3][4] == 0.123456f) Y[0][0] = 1;",
        "int n = 0; for (int j = 0; j < 16; j++) n += X[5][j] > 2.5f; if (n == 15) Y[0][0] = 1;",
        "#pragma GCC ivdep\nfor (int j = 0; j < 16; j++) if (X[2][j] == 0.5f) Y[2][j] = 1;",
    ],
)
def test_an_untested_special_case_is_refused(tmp_path: Path, body: str) -> None:
    outcome = outcome_of(folder_of(tmp_path, KERNEL % ""), KERNEL % body)
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "untested_condition"
    assert outcome.line in (4, 5)
    assert outcome.log.startswith(f"kernel.c:{outcome.line}: a condition depends on input values")


@here
@pytest.mark.parametrize(
    "body",
    [
        # both results occur
        "for (int j = 0; j < 16; j++) if (X[2][j] < 0) Y[2][j] = 2 * X[2][j];",
        "for (int j = 0; j < 16; j++) if (X[2][j] == 0) Y[2][j] = 0;",
        # a guard against what inputs never are
        "for (int j = 0; j < 16; j++) if (X[2][j] != X[2][j]) Y[2][j] = 0;",
        # a condition on the shape
        "const int rows = 16; if (rows % 16) Y[0][0] = 1;",
        # two choices by one condition, for which the compiler makes two jumps
        "float low[16]; int at[16]; for (int j = 0; j < 16; j++) low[j] = 1e9f, at[j] = 0;"
        "for (int i = 0; i < 16; i++) for (int j = 0; j < 16; j++) { int less = X[i][j] < low[j];"
        "low[j] = less ? X[i][j] : low[j]; at[j] = less ? i : at[j]; }"
        "for (int j = 0; j < 16; j++) Y[at[j]][j] = 2 * low[j];",
    ],
)
def test_honest_conditions_are_accepted(tmp_path: Path, body: str) -> None:
    outcome = outcome_of(folder_of(tmp_path, KERNEL % ""), KERNEL % body)
    assert isinstance(outcome, Measured), outcome


@here
@pytest.mark.parametrize(
    "body",
    [
        # numbers that the kernel computes from constants and keeps in memory
        "static float w[16]; for (int j = 0; j < 16; j++) w[j] = expf(-j) + 1.0f / (j + 1);"
        "float sum = 0; for (int j = 0; j < 16; j++) sum += sqrtf(w[j]);"
        "for (int j = 0; j < 16; j++) Y[2][j] = 2 * X[2][j] * (sum / sum);",
        # the factor that corrects a running sum, which is 0 at first
        "for (int i = 0; i < 16; i++) { float most = -INFINITY, sum = 0;"
        "for (int j = 0; j < 16; j++) { float next = fmaxf(most, X[i][j]);"
        "sum = sum * expf(most - next) + expf(X[i][j] - next); most = next; }"
        "Y[i][0] = 2 * X[i][0] + 1e-30f * sum; }",
        # what rounding lost of a sum
        "for (int i = 0; i < 16; i++) { float sum = 0, lost = 0; for (int j = 0; j < 16; j++) {"
        "float y = X[i][j] - lost, t = sum + y; lost = (t - sum) - y; sum = t; }"
        "Y[i][0] = 2 * X[i][0] + 1e-30f * lost; }",
    ],
)
def test_honest_floating_point_numbers_are_accepted(tmp_path: Path, body: str) -> None:
    opened = folder_of(tmp_path, KERNEL % "")
    assert isinstance(opened.task, NativeTask)
    found = examination.examined(opened.task._shared, "#include <math.h>\n" + KERNEL % body)
    assert not found.untested
    assert found.failed is None


@here
@pytest.mark.parametrize(
    ("body", "is_kept"),
    [
        ("static int n; if (++n > 900) Y[0][0] += 1;", True),
        ("static float n; n += 1; if (n > 900) Y[0][0] += 1;", True),
        ("static int n[2]; volatile int at = 1; n[at]++; if (n[at] > 900) Y[0][0] += 1;", True),
        # numbers that are others in each call
        ("static unsigned n; n += 3; Y[0][0] += 1e-12f * (n & 7);", True),
        # set by the first call
        (
            "static int set; static float w[16]; if (!set) { for (int j = 0; j < 16; j++) "
            "w[j] = 1.0f / (j + 1); set = 1; } Y[0][0] += 1e-12f * X[0][0] * w[3];",
            False,
        ),
        # set before they are read
        ("static int n; n = 0; for (int j = 0; j < 16; j++) n += X[2][j] < 0;", False),
        (
            "static float w[16]; for (int j = 0; j < 16; j++) w[j] = X[2][j] < 0 ? 0 : X[2][j];"
            "for (int j = 0; j < 16; j++) Y[2][j] += 1e-12f * w[j];",
            False,
        ),
        *(
            (
                f"static {kind} w[16]; for (int j = 0; j < 16; j++) "
                "{ union { float f; unsigned u; } x = {X[2][j]}; w[j] = x.u >> 16; }"
                "for (int j = 0; j < 16; j++) Y[2][j] += 1e-12f * w[15 - j];",
                False,
            )
            for kind in ("unsigned char", "short")
        ),
    ],
)
def test_a_kernel_may_not_depend_on_earlier_calls(
    tmp_path: Path, body: str, *, is_kept: bool
) -> None:
    opened = folder_of(tmp_path, KERNEL % "")
    assert isinstance(opened.task, NativeTask)
    found = examination.examined(opened.task._shared, KERNEL % body)
    assert found.failed is None
    assert (bool(found.untested), found.is_kept) == (is_kept, is_kept)


@here
@pytest.mark.parametrize(
    ("body", "is_late"),
    [
        ("for (int j = 0; j < 16; j++) if (X[2][j] < 0) Y[2][j] = 2 * X[2][j];", False),
        # a condition that is rarely true
        (
            "union { float f; unsigned u; } x = {X[2][3]}; if ((x.u >> 8 & 15) == 3) Y[2][3] += 0;",
            True,
        ),
    ],
)
def test_a_kernel_is_called_until_each_condition_had_both_results(
    tmp_path: Path, body: str, *, is_late: bool
) -> None:
    opened = folder_of(tmp_path, KERNEL % "")
    assert isinstance(opened.task, NativeTask)
    found = examination.examined(opened.task._shared, KERNEL % body)
    assert not found.untested
    assert (found.calls > 7) == is_late


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        # the return address, and what the calling function keeps
        (("movq 8(%rbp), %rax", "testq %rax, %rax", *JUMPS), ["je"]),
        (("movq (%rbp), %rax", "testq %rax, %rax", *JUMPS), ["je"]),
        (("movq 16(%rbp), %rax", "testq %rax, %rax", *JUMPS), []),
        # a distance in the code
        (("leaq kernel(%rip), %rax", "subq %rdx, %rax", "cmpq $9, %rax", *JUMPS), ["je"]),
        (("leaq .L1(%rip), %rax", "subq %rax, %rdx", "cmpq $9, %rdx", *JUMPS), ["je"]),
        (("leaq .L1(%rip), %rax", "cmpq %rax, %rdx", *JUMPS), ["je"]),
        (("leaq .L1(%rip), %rax", "movq %rax, %rdx", "testb $16, %dl", *JUMPS), ["je"]),
        (("leaq .L1(%rip), %rax", "leaq 8(%rax), %rdx", "testb $16, %dl", *JUMPS), ["je"]),
        (
            ("leaq .L1(%rip), %rax", "movq %rax, -8(%rbp)", "subq -8(%rbp), %rdx",
             "cmpq $9, %rdx", *JUMPS),
            ["je"],
        ),
        (
            ("leaq .L1(%rip), %rax", "movq %rax, -8(%rbp)", "movq -8(%rbp), %rdx",
             "testb $16, %dl", *JUMPS),
            ["je"],
        ),
        # no address any more, or that of a variable
        (("leaq .L1(%rip), %rax", "movq %rdx, %rax", "testb $16, %al", *JUMPS), []),
        (("leaq table(%rip), %rax", "testb $16, %al", *JUMPS), []),
        # a pointer to a function that is compared with the null pointer
        (("leaq kernel(%rip), %rax", "testq %rax, %rax", *JUMPS), []),
        (("leaq kernel(%rip), %rax", "movq %rax, -8(%rbp)", "cmpq $0, -8(%rbp)", *JUMPS), []),
        (("leaq kernel(%rip), %rax", "cmpq $1, %rax", *JUMPS), ["je"]),
        (("leaq kernel(%rip), %rax", "testq %rax, %rdx", *JUMPS), ["je"]),
        # a function that is called through its address
        (("leaq kernel(%rip), %rax", "movq %rax, -8(%rbp)", "call *-8(%rbp)", "ret"), []),
    ],
)  # fmt: skip
def test_what_is_computed_from_addresses_of_code_counts_as_data(
    code: Sequence[str], expected: list[str]
) -> None:
    frame = ("pushq %rbp", "movq %rsp, %rbp")
    assert names(*frame, *code) == expected


def test_a_difference_between_addresses_in_a_constant_counts_as_data() -> None:
    code = "\tcmpl $9, d(%rip)\n\tje .L1\n.L1:\n\tret"
    assert names(code) == []
    constant = "\t.section .rodata\nd:\n\t.long\t.L1-kernel\n"
    listing = read_listing(listing_of(code) + constant, "kernel.c")
    assert [s.instruction.name for s in sites_on_data(listing)] == ["je"]
    other = "\t.section .rodata\nd:\n\t.long\t9\n\t.section .debug\n\t.long\t.L1-kernel\n"
    assert not sites_on_data(read_listing(listing_of(code) + other, "kernel.c"))


@here
@pytest.mark.parametrize(
    ("code", "is_refused"),
    [
        ("unsigned long n = (unsigned long)kernel - (unsigned long)other;", True),
        (
            "unsigned long n = (unsigned long)__builtin_return_address(0) - (unsigned long)kernel;",
            True,
        ),
        ("static const long n = (char *)&&b - (char *)&&a; a: Y[0][0] += 0; b:;", True),
        ("float (*volatile f)(float) = other; Y[1][1] += f(0); int n = 0;", False),
    ],
)
def test_a_kernel_that_measures_its_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, *, is_refused: bool
) -> None:
    """Also by the analysis of the listing alone, as with compilers other than GCC."""
    monkeypatch.setattr(examination, "distances", lambda *given: [])
    start = "static __attribute__((noinline)) float other(float x) { return 2 * x; }\n" + KERNEL
    hidden = "if ((n >> 3 & 31) == 7) Y[0][0] += 1;" if is_refused else ""
    opened = folder_of(tmp_path, KERNEL % "")
    assert isinstance(opened.task, NativeTask)
    found = examination.examined(opened.task._shared, start % (code + hidden))
    assert bool(found.untested) == is_refused, found


@here
def test_a_loop_whose_number_of_iterations_is_always_the_same_is_refused(tmp_path: Path) -> None:
    """The number is compared before the first iteration, which some optimisations leave out."""
    body = (
        "unsigned d, n; __builtin_memcpy(&d, &X[2][3], 4); d ^= 0x3f800000u;"
        "volatile unsigned most = 15 + (((d | -d) >> 31) ^ 1);"
        "n = most; for (unsigned j = 0; j < n; j++) Y[j][0] = 2 * X[j][0];"
    )
    outcome = outcome_of(folder_of(tmp_path, KERNEL % ""), KERNEL % body)
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "untested_condition"


@here
def test_a_loop_that_has_no_iteration_for_one_value_only_is_refused(tmp_path: Path) -> None:
    """In the checks, its number of iterations differs from call to call, but is never 0."""
    body = (
        "unsigned d; __builtin_memcpy(&d, &X[2][3], 4); Y[2][3] = 7;"
        "for (d ^= 0x3dfcd680u; d; d &= d - 1) Y[2][3] = 2 * X[2][3];"
    )
    outcome = outcome_of(folder_of(tmp_path, KERNEL % ""), KERNEL % body)
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "untested_condition"


@here
def test_what_the_starting_kernel_does_is_accepted(tmp_path: Path) -> None:
    """The kernel of the user shows which special cases are meant."""
    start = KERNEL % "if (X[3][4] == 0.123456f) Y[3][4] = 0.246912f;"
    opened = folder_of(tmp_path, start)
    assert isinstance(outcome_of(opened, start), Measured)
    other = start.replace("2 * X", "X[i][j] + X")
    outcome = outcome_of(opened, other)
    assert isinstance(outcome, Measured)
    (warning,) = (one for one in outcome.warnings if "speed of the machine" not in one)
    assert warning.startswith(
        "Not refused, because the starting kernel has an untested condition, too: kernel.c:4: "
    )


@here
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "pthread_t t; if (X[3][4] == 0.123456f) pthread_create(&t, 0, 0, 0);",
            "it creates threads itself",
        ),
        ("if (X[3][4] == 0.123456f) Y[0][0] = 1;", "this is not possible on aarch64"),
    ],
)
def test_what_is_not_examined_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, why: str
) -> None:
    opened = folder_of(tmp_path, KERNEL % "")
    assert isinstance(opened.task, NativeTask)
    if "aarch64" in why:
        monkeypatch.setattr(type(opened.task._shared), "machine", "aarch64")
    checker = NativeChecker(opened.task._shared)
    artifact = Artifact("", b"", "", "#include <pthread.h>\n" + KERNEL % body)
    assert checker._untested(artifact) is None
    assert checker.unchecked(artifact) == (
        "The kernel was not examined for conditions on input values that no check has tested: "
        f"{why}.",
    )


@here
def test_a_kernel_that_is_wrong_in_further_calls_is_refused_whatever_the_starting_kernel_is(
    tmp_path: Path,
) -> None:
    start = KERNEL % "if (X[3][4] == 0.123456f) Y[3][4] = 0.246912f;"
    rare = "union { float f; unsigned u; } x = {X[2][3]}; Y[2][3] += (x.u >> 8 & 15) == 3;"
    other = start.replace("\n}", rare + "\n}")
    outcome = outcome_of(folder_of(tmp_path, start), other)
    assert isinstance(outcome, Failed), outcome
    assert (outcome.stage, outcome.kind) == ("check", "wrong_result")


@here
def test_a_starting_kernel_allows_only_what_it_contains(tmp_path: Path) -> None:
    start = KERNEL % "if (X[3][4] == 0.123456f) Y[3][4] = 0.246912f;"
    opened = folder_of(tmp_path, start)
    other = KERNEL % "if (X[5][6] == 0.123456f) Y[5][6] = 0.246912f;"
    assert isinstance(outcome_of(opened, other), Measured)
    counts = "static int n; if (++n > 900) Y[0][0] += 1;"
    outcome = outcome_of(opened, start.replace("\n}", counts + "\n}"))
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "untested_condition"


@here
def test_a_kernel_whose_examination_takes_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not all calls are made then, and conditions must not be accepted because of that."""
    opened = folder_of(tmp_path, KERNEL % "")
    monkeypatch.setattr(examination, "MOST_CPU_S", 0.0)
    outcome = outcome_of(opened, KERNEL % "if (X[3][4] == 0.123456f) Y[0][0] = 1;")
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "untested_condition"
    assert "could not be examined" in outcome.log
    assert "calls took more than 0 s of CPU time" in outcome.log


@here
def test_a_kernel_that_cannot_be_examined_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "MOST_SITES", 0)
    turned = KERNEL % "for (int j = 0; j < 16; j++) if (X[2][j] < 0) Y[2][j] = 2 * X[2][j];"
    outcome = outcome_of(folder_of(tmp_path, KERNEL % ""), turned)
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "untested_condition"
    assert "could not be examined" in outcome.log


def test_a_failure_of_the_examination_itself_refuses_the_kernel() -> None:
    late = Examined(failed=Failed("check", "timeout", "it takes more than 60 s", line=7))
    refused = failure_of(late, C)
    assert (refused.kind, refused.line) == ("untested_condition", 7)
    assert "could not be examined" in refused.log
    assert "it takes more than 60 s" in refused.log


@here
def test_a_kernel_with_the_most_arguments_is_examined(tmp_path: Path) -> None:
    opened = folder_of(tmp_path, EIGHT, inputs="ABCDEFG")
    assert isinstance(outcome_of(opened, EIGHT), Measured)
    turned = "if (F[1][2] < 0) Y[0][0] = 1 * Y[0][0];\n}"
    assert isinstance(outcome_of(opened, EIGHT.replace("}", turned)), Measured)
    outcome = outcome_of(opened, EIGHT.replace("}", "if (F[1][2] == 0.3f) Y[0][0] = 1;\n}"))
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "untested_condition"


@here
@pytest.mark.parametrize(
    "body",
    [
        # the mask of two conditions that are never both true
        "for (int j = 0; j < 16; j++) Y[2][j] += (X[2][j] > 3.0f) & (X[2][j] < 3.0001f);",
        # the quotient of whole numbers, which is 1 only for one value
        "long d = (long)(X[1][1] * 1000) - 123; Y[1][1] += 1 / (1 + d % 65536 * (d % 65536));",
        # an element of a table
        "static const float t[8] = {[7] = 1}; int n = 0; for (int j = 0; j < 7; j++) "
        "n += (X[1][j] > 0) & (X[1][j] < 1e-9f); Y[1][1] += t[n];",
        # a mask that chooses another element, which differs from call to call
        "unsigned b; memcpy(&b, &X[3][4], 4); b = (b ^ 0x42424242u) & 255;"
        " for (int j = 0; j < 15; j++) Y[2][j] = 2 * X[2][j + 1 - ((b + 255) >> 8)];",
        # the remainder of a number that is negative for one value only
        "unsigned b; memcpy(&b, &X[3][4], 4); long h = (long)(b ^ 0x42424242u) - 1;"
        " float y = Y[2][2]; float t[3] = {y + 1, y, y}; Y[2][2] = t[h % 2 + 1];",
        # a condition that also has its other result for constants
        "float all[17]; memcpy(all, X[2], 64); all[16] = 77; float n = 0;"
        " for (int j = 0; j < 17; j++) if (all[j] == 77.0f) n += 1; Y[0][0] += n - 1;",
    ],
)
def test_a_number_that_is_always_the_same_is_refused(tmp_path: Path, body: str) -> None:
    source = "#include <string.h>\n" + KERNEL % body
    outcome = outcome_of(folder_of(tmp_path, KERNEL % ""), source)
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "untested_condition"


@here
@pytest.mark.parametrize(
    "body",
    [
        # the sign as a number
        "for (int j = 0; j < 16; j++) Y[2][j] = X[2][j] + (1 - 2 * (X[2][j] < 0))"
        " * fabsf(X[2][j]);",
        # values that are rounded
        "for (int j = 0; j < 16; j++) { float r = (float)(int)fmaxf(fminf(X[2][j], 9), -9);"
        " Y[2][j] = r + (2 * X[2][j] - r) ; }",
        # a constant under a condition
        "for (int j = 0; j < 16; j++) if (X[2][j] > 0) { volatile int two = 2;"
        " Y[2][j] = two * X[2][j]; }",
        # sizes in memory that may also contain data
        "volatile int rows = 16; float kept[16]; for (int j = 0; j < 16; j++) kept[j] = X[2][j];"
        " int j = 0; do Y[2][j] = 2 * kept[j]; while (++j < rows);",
        # a count of zeros, and a histogram
        "int n = 0; for (int j = 0; j < 16; j++) n += X[2][j] == 0.0f; Y[0][0] += 0.0f * n;",
        "int c[4] = {0}; for (int j = 0; j < 16; j++) c[((X[2][j] > 0) + 2 * (X[2][j] > 1)) & 3]++;"
        " Y[0][0] += 0.0f * (c[0] + c[1]);",
        # differences of addresses in memory
        "float kept[16]; const float *volatile ends[2];"
        " for (int i = 0; i < 2; i++) ends[i] = X[2 + i];"
        " for (int j = 0; j < 16; j++) kept[j] = X[2][j];"
        " long n = ends[1] - ends[0]; for (int j = 0; j < 16; j++) Y[2][j] = 2 * kept[j + n - 16];",
        # a quotient of a sum that is never negative
        "for (int j = 0; j < 16; j++) { int s = 0; for (int k = 0; k < 9; k++)"
        " s += (int)fminf(fabsf(X[2][(j + k) % 16]) * 9, 999); Y[2][j] += 0.0f * (s / 9); }",
        # a clamp of vectors that changes no value
        "typedef float vf __attribute__((vector_size(64), aligned(4), may_alias));"
        " typedef int vi __attribute__((vector_size(64), aligned(4), may_alias));"
        " vf x = *(const vf *)X[2] * 2, most = (vf){0} + 3e38f; vi less = x <= most;"
        " *(vf *)Y[2] = (vf)(((vi)x & less) | ((vi)most & ~less));",
    ],
)
def test_honest_whole_numbers_are_accepted(tmp_path: Path, body: str) -> None:
    source = "#include <math.h>\n" + KERNEL % body
    outcome = outcome_of(folder_of(tmp_path, KERNEL % ""), source)
    assert isinstance(outcome, Measured), outcome


TOTAL = """\
#include <stdarg.h>
static __attribute__((noinline)) float total(int n, ...) {
  va_list given;
  va_start(given, n);
  float sum = 0.0f;
  for (int i = 0; i < n; i++) sum += (float)va_arg(given, double);
  va_end(given);
  return sum;
}
"""


@here
def test_a_function_may_store_registers_that_its_caller_has_not_set(tmp_path: Path) -> None:
    body = (
        "float q = X[1][1] / 4; Y[2][0] = total(2, X[2][0], X[2][0]);"
        " Y[1][1] = total(8, q, q, q, q, q, q, q, q);"
    )
    outcome = outcome_of(folder_of(tmp_path, KERNEL % ""), TOTAL + KERNEL % body)
    assert isinstance(outcome, Measured), outcome


@here
def test_calls_that_only_the_examination_makes_are_compared(tmp_path: Path) -> None:
    opened = folder_of(tmp_path, KERNEL % "")
    task = opened.task
    assert isinstance(task, NativeTask)
    once = len(task._cases.compared(3))
    later = task._cases[task._cases.compared(3 * once)[once + 1]].initial["X"][3, 4]
    body = f"if (X[3][4] == {float(later).hex()}f) Y[0][0] = 3 * Y[0][0] + 1;"
    outcome = outcome_of(opened, KERNEL % body)
    assert isinstance(outcome, Failed), outcome
    assert outcome.kind == "wrong_result"
