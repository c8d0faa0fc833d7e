"""Which signs of numbers are parts of a quotient only."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tilewright.native.conditions.blocks import blocks_of
from tilewright.native.conditions.listing import read_listing
from tilewright.native.conditions.quotients import signs_of_quotients

NINTH = ("movslq %r8d, %rcx", "imulq $954437177, %rcx, %rcx", "sarq $33, %rcx")
SIGN = ("sarl $31, %r8d", "subl %r8d, %ecx")
KEPT = ("movl %r8d, %edx", *NINTH, "sarl $31, %edx", "subl %edx, %ecx", "movl %ecx, (%rsi)")
SEVENTH = (
    *("movl %edi, %eax", "cltq", "imulq $-1840700269, %rax, %rax", "shrq $32, %rax"),
    *("addl %edi, %eax", "sarl $2, %eax", "sarl $31, %edi", "subl %edi, %eax"),
)
LOOP = (".L1:", *NINTH, *SIGN, "movl %ecx, (%rsi)", "decl %eax")
DIVIDED_BY_LESS_THAN_ZERO = (*NINTH, "sarl $31, %r8d", "subl %ecx, %r8d", "movl %r8d, (%rsi)")


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ((*NINTH, *SIGN, "movl %ecx, (%rsi)"), True),
        (KEPT, True),
        (SEVENTH, True),
        (DIVIDED_BY_LESS_THAN_ZERO, True),
        ((*LOOP, "jne .L1"), False),  # the sign is read as the next number
        ((*LOOP, "movl (%rdi), %r8d", "jne .L1"), True),
        ((*NINTH, *SIGN, "popq %r8", "movl %r8d, (%rsi)"), True),
        # something else reads the sign
        ((*NINTH, *SIGN, "movl %r8d, (%rsi)"), False),
        ((*NINTH, *SIGN, "movl (%rsi,%r8), %edx"), False),
        ((*NINTH, *SIGN, "popcntl %r8d, %edx"), False),
        ((*NINTH, *SIGN, "call f"), False),
        ((*NINTH, *SIGN, "jne .L1", "ret", ".L1:", "andl $1, %r8d"), False),
        ((*NINTH, "sarl $31, %r8d", "movl %r8d, %edx", "subl %r8d, %ecx"), False),
        # something reads the number later, as a remainder does
        ((*KEPT, "subl %ecx, %r8d"), False),
        ((*KEPT, "jne .L1", "ret", ".L1:", "movl %r8d, (%rsi)"), False),
        ((*KEPT, "movl $0, %r8d", "movl %r8d, (%rsi)"), True),
        # a product of another number, or with a number that is no constant
        (("movl (%rdi), %edx", *NINTH, "sarl $31, %edx", "subl %edx, %ecx"), False),
        ((*NINTH[:1], "imulq %rdx, %rcx", "sarq $33, %rcx", *SIGN), False),
        ((*NINTH, "incl %r8d", *SIGN), False),
        ((*NINTH[:2], "addl %edx, %ecx", "sarl $2, %ecx", *SIGN), False),
        ((*NINTH, "call f", *SIGN), False),
        # no sign
        ((*NINTH, "sarl $3, %r8d", "subl %r8d, %ecx"), False),
        # an unknown place may come next
        ((*(part.replace("8d", "12d") for part in (*NINTH, *SIGN)), "jmp *%rax"), False),
    ],
)
def test_a_sign_that_only_a_quotient_needs(code: Sequence[str], found: bool) -> None:
    lines = "\n".join(line if line.endswith(":") else f"\t{line}" for line in (*code, "ret"))
    text = f"\t.type\tkernel, @function\nkernel:\n{lines}\n\t.size\tkernel, 1\n"
    function = read_listing(text, "kernel.c").functions["kernel"]
    signs = signs_of_quotients(function, blocks_of(function), ())
    assert [function.code[at].name for at in signs] == ["sarl"] * found


def test_a_function_may_return_the_sign() -> None:
    text = "\n\t".join(["\t.type\tkernel, @function\nkernel:", *KEPT, "ret", ".size\tkernel, 1\n"])
    function = read_listing(text, "kernel.c").functions["kernel"]
    assert not signs_of_quotients(function, blocks_of(function), ("a", "d"))
