"""The sign of a dividend is part of a division by a constant, and of nothing else."""

from __future__ import annotations

import platform
import shutil

import pytest

from tilewright.core.records import Failed
from tilewright.native.conditions.blocks import blocks_of
from tilewright.native.conditions.divisions import corrections
from tilewright.native.conditions.finding import found_in, sequences_of
from tilewright.native.conditions.listing import read_listing
from tilewright.native.conditions.surroundings import OF_C
from tilewright.native.toolchain import assembly_of, find_toolchain

here = pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64",
    reason="kernels are examined on x86-64",
)
NINTH = (
    "movslq %eax, %rdx", "imulq $954437177, %rdx, %rdx", "sarq $33, %rdx", "sarl $31, %eax",
    "subl %eax, %edx", "movl %edx, (%rsi)",
)  # fmt: skip
SEVENTH = (
    "movslq %edx, %rax", "imulq $-1840700269, %rax, %rax", "shrq $32, %rax", "addl %edx, %eax",
    "sarl $2, %eax", "sarl $31, %edx", "subl %edx, %eax",
)  # fmt: skip
QUARTER = ("leal 3(%rcx), %eax", "testl %ecx, %ecx", "cmovns %ecx, %eax", "sarl $2, %eax")
FOURTHS = (
    "movl %eax, %ecx", "sarl $31, %ecx", "shrl $30, %ecx", "addl %ecx, %eax", "andl $3, %eax",
    "subl %ecx, %eax",
)  # fmt: skip

OF_NINE = "movabsq $2049638230412172402, %r8"
UPPER_HALF = ("movq %rcx, %rax", "imulq %r8", "sarq $63, %rcx", "subq %rcx, %rdx")


def corrected(*code: str) -> list[str]:
    """The mnemonics of the corrections in a function that returns nothing."""
    lines = (line if line.endswith(":") else f"\t{line}" for line in code)
    text = "\n".join(["\t.type\tkernel, @function", "kernel:", *lines, "\t.size\tkernel, 1", ""])
    function = read_listing(text, "kernel.c").functions["kernel"]
    found = corrections(function, blocks_of(function), returns=False)
    return [function.code[at].name for at in sorted(found)]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (NINTH, ["sarl"]),
        (SEVENTH, ["sarl"]),
        (QUARTER, ["cmovns"]),
        (FOURTHS, ["sarl", "shrl"]),
        ((OF_NINE, *UPPER_HALF), ["sarq"]),
        # the register gets another value before it is read
        ((*NINTH, "je .L1", "movl $3, %eax", ".L1:", "movl $4, %eax", "addl %eax, %edx"), ["sarl"]),
    ],
)
def test_a_correction_is_recognised(code: tuple[str, ...], names: list[str]) -> None:
    assert corrected(*code, "ret") == names


@pytest.mark.parametrize(
    "code",
    [
        # the sign is also used elsewhere
        (*NINTH, "andl %eax, %ecx"),
        (*NINTH, "leaq (%rdi,%rax,4), %rcx"),
        (*NINTH, "movl (%rdi,%rax), %ecx"),
        (*NINTH, "movb %al, (%rsi)"),
        (*NINTH, "movb $3, %al", "movl %eax, (%rsi)"),
        (*NINTH, "je .L1", "movl $3, %eax", ".L1:", "addl %eax, %edx"),
        (*NINTH, "call other"),
        (*NINTH, "je .L1", "addl %eax, %edx", ".L1:"),
        (*NINTH, "movzbw (%rdi), %ax", "movl %eax, (%rsi)"),
        (*FOURTHS, "addl %ecx, %edx"),
        # another number's sign
        tuple(line.replace("sarl $31, %eax", "sarl $31, %ecx") for line in NINTH),
        (*NINTH[:3], "movl (%rdi), %eax", *NINTH[3:]),
        # a multiplier that is not always the same
        (OF_NINE, "movq (%rdi), %r8", *UPPER_HALF),
        (*UPPER_HALF, OF_NINE),
        # no multiplier of a division, and other shifts
        tuple(line.replace("954437177", "2147483647") for line in NINTH),
        tuple(line.replace("954437177", "954437187") for line in NINTH),
        tuple(line.replace("$33", "$30") for line in NINTH),
        tuple(line.replace("$31", "$30") for line in NINTH),
        tuple(line.replace("-1840700269", "1840700269") for line in SEVENTH),
        tuple(line.replace("leal 3", "leal 7") for line in QUARTER),
        tuple(line.replace("testl %ecx, %ecx", "testl %edx, %edx") for line in QUARTER),
        tuple(line.replace("andl $3", "andl $7") for line in FOURTHS),
        tuple(line.replace("andl $3, %eax", "movzbl %ah, %eax") for line in FOURTHS),
    ],
)
def test_what_is_no_correction(code: tuple[str, ...]) -> None:
    assert corrected(*code, "ret") == []


def test_the_result_of_a_function_is_used() -> None:
    text = "\n".join(["\t.type\tf, @function", "f:", *NINTH, "ret", "\t.size\tf, 1", ""])
    function = read_listing(text, "kernel.c").functions["f"]
    assert corrections(function, blocks_of(function), returns=False)
    assert not corrections(function, blocks_of(function), returns=True)


@here
@pytest.mark.parametrize("type_", ["int", "long"])
@pytest.mark.parametrize("formula", [
    *(f"s / {d}" for d in (2, 3, 4, 5, 7, 8, 9, 10, 16, 25, 49, 100, 127, 255, 256, 1000, 1000003)),
    *(f"s % {d}" for d in (2, 3, 4, 7, 8, 10, 100, 256)), "s / -9", "s / -4", "(s + 2) / 4",
    "(s - 2) / 4", "(s + 4) / 9", "s % 4 + s",
])  # fmt: skip
def test_no_sign_of_a_division_is_recorded(
    formula: str, type_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "gcc")
    find_toolchain.cache_clear()
    source = f"""\
void kernel(const {type_} *x, {type_} *y) {{
  for (int i = 0; i < 256; i++) {{ {type_} s = x[i]; y[i] = {formula}; }}
}}
"""
    toolchain = find_toolchain()
    find_toolchain.cache_clear()
    text = assembly_of(toolchain, source, 60)
    assert isinstance(text, str)
    found = found_in(text, "kernel.c", OF_C)
    assert not isinstance(found, Failed)
    shifts = [
        site.instruction
        for site in (*found.sites, *sequences_of(found.listing))
        if site.instruction.operands[0] in ("$31", "$63") or "cmov" in site.instruction.name
    ]
    assert shifts == []
