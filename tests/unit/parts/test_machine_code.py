"""Loops found in machine code, and instructions of x86-64 as objdump prints them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tilewright.parts.machine_code.flow import find_loops, joins
from tilewright.parts.machine_code.instructions import Instruction
from tilewright.parts.machine_code.summary import summarized
from tilewright.parts.machine_code.x86 import read_objdump

PRINTED = Path(__file__).parents[2] / "fixtures" / "machine_code" / "loops.objdump.txt"
"""What objdump printed of `loops.c` beside it, compiled by GCC 12.2 for AVX-512."""
START = 0x10_0000_0000
END = START + 677


def program(*steps: str) -> list[Instruction]:
    """One instruction a step, four bytes each: "-", "branch N", "jump N", "call N" or "end"."""
    code = []
    for position, step in enumerate(steps):
        flow, _, to = step.partition(" ")
        code.append(
            Instruction(
                4 * position, 4, step, "branches" if to else "arithmetic",
                flow if flow != "-" else "next",  # type: ignore[arg-type]
                4 * int(to) if to else None,
            )
        )  # fmt: skip
    return code


def shapes(code: Sequence[Instruction]) -> list[tuple[int, int, int | None, bool, bool]]:
    """Of each loop: its first position, depth, parent, whether innermost, whether straight."""
    return [
        (loop.blocks[0].start, loop.depth, loop.parent, loop.innermost, loop.straight)
        for loop in find_loops(code, [0])
    ]


@pytest.mark.parametrize(
    ("steps", "one_path"),
    [
        (("-", "-", "branch 1", "end"), True),
        (("-", "branch 4", "-", "jump 1", "end"), True),
        (("-", "-", "branch 4", "branch 1", "end"), True),
        (("jump 3", "-", "-", "branch 5", "jump 1", "end"), True),
        (("-", "branch 3", "-", "branch 1", "end"), False),
    ],
)
def test_a_loop_that_is_left_in_its_middle_has_one_path(
    steps: tuple[str, ...], one_path: bool
) -> None:
    (loop,) = find_loops(program(*steps), [0])
    assert loop.one_path is one_path


LOOPS = {
    "none": (("-", "-", "end"), []),
    "one block": (("-", "-", "branch 1", "end"), [(1, 1, None, True, True)]),
    "tested at its top": (
        ("-", "branch 4", "-", "jump 1", "end"),
        [(1, 1, None, True, False)],
    ),
    "two ways through it": (
        ("-", "branch 3", "-", "branch 1", "end"),
        [(1, 1, None, True, False)],
    ),
    "a way out of its middle": (
        ("-", "-", "branch 4", "branch 1", "end"),
        [(1, 1, None, True, False)],
    ),
    "one in another": (
        ("-", "-", "-", "branch 2", "-", "branch 1", "end"),
        [(1, 1, None, False, True), (2, 2, 0, True, True)],
    ),
    "an inner one that may be passed by": (
        ("-", "branch 4", "-", "branch 2", "branch 1", "end"),
        [(1, 1, None, False, True), (2, 2, 0, True, True)],
    ),
    "two jumps back": (
        ("-", "-", "branch 1", "branch 1", "end"),
        [(1, 1, None, True, False)],
    ),
    "one of a called function": (
        ("call 3", "end", "-", "-", "branch 3", "end"),
        [(3, 1, None, True, True)],
    ),
    "one that nothing jumps to": (
        ("end", "-", "-", "branch 2", "end"),
        [(2, 1, None, True, True)],
    ),
    "a jump into its middle, which makes it none": (
        ("branch 2", "-", "-", "branch 1", "end"),
        [],
    ),
}


@pytest.mark.parametrize("case", LOOPS)
def test_loops_are_found_from_jumps_back(case: str) -> None:
    steps, expected = LOOPS[case]
    assert shapes(program(*steps)) == expected


def test_what_is_in_an_inner_loop_does_not_count_for_the_outer_one() -> None:
    code = program("-", "-", "-", "branch 2", "-", "branch 1", "end")
    outer, inner = summarized("test", code, [0], lambda pcs: [None for _ in pcs]).loops
    assert (outer.count, inner.count) == (3, 2)
    assert (outer.code_bytes, inner.code_bytes) == (20, 8)
    assert len(outer.listing) == 5
    assert inner.inside == 1


def test_a_loops_line_is_that_of_its_jump_back() -> None:
    code = program("-", "-", "-", "branch 1", "end")
    told = summarized("test", code, [0], lambda pcs: [pc // 4 + 10 for pc in pcs]).loops[0]
    assert told.line == 13
    without = summarized("test", code, [0], lambda pcs: [7, 9, 8, None, None]).loops[0]
    assert without.line == 8


def loops_of_the_recording() -> dict[int, dict[str, object]]:
    code = read_objdump(PRINTED.read_text(), END)
    assert [one.size for one in code[:3]] == [5, 4, 4]
    assert code[-1].end == END
    found = summarized("x86-64", code, [START], lambda pcs: [None for _ in pcs])
    return {
        loop.number: {
            "at": f"{loop.listing[0].address:x}", "depth": loop.depth, "straight": loop.straight,
            "vectors": loop.vector_bytes, "reads": loop.reads, "frame": loop.spill_loads,
            **loop.instructions,
        }
        for loop in found.loops
    }  # fmt: skip


def test_loops_of_a_compiled_kernel() -> None:
    found = loops_of_the_recording()
    assert [(loop["at"][-3:], loop["depth"]) for loop in found.values()] == [  # type: ignore[index]
        ("045", 1), ("060", 2), ("070", 3), ("0cd", 1), ("0fd", 1), ("11f", 1), ("147", 1),
        ("281", 1),
    ]  # fmt: skip
    product = found[3]
    assert {k: product[k] for k in ("arithmetic", "loads", "branches", "reads", "vectors")} == {
        "arithmetic": 5, "loads": 1, "branches": 1, "reads": 1, "vectors": 0,
    }  # fmt: skip
    scaled = found[4]
    assert (scaled["vectors"], scaled["vector arithmetic"], scaled["stores"]) == (64, 1, 1)
    called = found[5]
    assert (called["calls"], called["frame"], called["straight"]) == (1, 1, True)
    assert found[6]["straight"] is False
    summed = found[7]
    assert (summed["arithmetic"], summed["vector moves"]) == (18, 15)
    assert (summed["vector arithmetic"], summed["vectors"]) == (1, 64)


CLASSES = {
    "vmovss (%rdx),%xmm0": "loads",
    "vmovups %zmm1,(%r14,%rax,1)": "stores",
    "vaddss %xmm0,%xmm1,%xmm1": "arithmetic",
    "vfmadd231ps (%rax),%ymm0,%ymm1": "vector arithmetic",
    "vpmaxsd %ymm0,%ymm1,%ymm2": "vector arithmetic",
    "vpmovsxbd (%rax),%zmm1": "loads",
    "vpmovsxbd %xmm0,%zmm1": "vector moves",
    "vbroadcastss (%rax),%ymm3": "loads",
    "vpxor %xmm0,%xmm0,%xmm0": "vector moves",
    "vpxor %xmm0,%xmm1,%xmm0": "vector arithmetic",
    "cvtsi2ss %eax,%xmm0": "arithmetic",
    "vcvttss2si %xmm0,%eax": "arithmetic",
    "vpdpbusd (%rdi),%zmm2,%zmm3": "vector arithmetic",
    "movslq %edi,%rdi": "arithmetic",
    "movzbl (%rdi),%eax": "loads",
    "lea 0x8(%rsp),%r10": "arithmetic",
    "addl $0x1,(%rdi)": "arithmetic",
    "tdpbssd %tmm2,%tmm1,%tmm0": "commands",
    "tileloadd (%rax,%rbx,1),%tmm1": "commands",
    "rep stos %al,%es:(%rdi)": "stores",
    "call 0x1000": "calls",
    "ret": "branches",
    "notrack jmp *%rax": "branches",
    "nopw 0x0(%rax,%rax,1)": "other",
    "vzeroupper": "other",
}


def one(text: str) -> Instruction:
    return read_objdump(f"  1000:\t{text}\n", 0x1004)[0]


@pytest.mark.parametrize("text", CLASSES)
def test_classes_of_instructions(text: str) -> None:
    assert one(text).kind == CLASSES[text]


@pytest.mark.parametrize(
    ("text", "work"),
    [
        ("vfmadd231ps %zmm1,%zmm2,%zmm3", "multiply-adds"),
        ("vpdpbusd 0x40(%rax),%zmm2,%zmm3", "multiply-adds"),
        ("pmaddwd %xmm1,%xmm2", "multiply-adds"),
        ("vpsrld $0x4,%zmm1,%zmm2", "shifts and logic"),
        ("vpternlogd $0xca,%zmm1,%zmm2,%zmm3", "shifts and logic"),
        ("vandps %ymm1,%ymm2,%ymm3", "shifts and logic"),
        ("vcvtdq2ps %zmm1,%zmm2", "conversions"),
        ("vaddps %zmm1,%zmm2,%zmm3", ""),
        ("vroundps $0x1,%ymm1,%ymm2", ""),
        ("vpermps %zmm1,%zmm2,%zmm3", ""),
        ("and $0x3,%eax", ""),
    ],
)
def test_vector_arithmetic_is_told_by_the_unit_that_does_it(text: str, work: str) -> None:
    (one,) = read_objdump(f"  10:\t{text}\n", 0x20)
    assert one.work == work


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("vmovups (%rax),%zmm1", 64),
        ("vmovdqu64 %zmm1,0x40(%rax)", 64),
        ("vfmadd231ps (%rax),%ymm2,%ymm3", 32),
        ("vmovsldup (%rax),%zmm1", 64),
        ("vfmadd231ps (%rax){1to16},%zmm2,%zmm3", 0),
        ("vbroadcastss (%rax),%zmm1", 0),
        ("vpmovzxbd (%rax),%zmm1", 0),
        ("vmovss %xmm1,(%rax)", 0),
        ("vmovd (%rax),%xmm1", 0),
        ("vaddss (%rax),%xmm1,%xmm2", 0),
        ("mov (%rax),%rcx", 0),
        ("vaddps %zmm1,%zmm2,%zmm3", 0),
    ],
)
def test_accesses_to_whole_vectors_are_told_from_those_to_less(text: str, size: int) -> None:
    assert one(text).accessed_bytes == size


def test_accesses_to_the_stack_frame_are_told_from_those_to_arrays() -> None:
    assert (one("mov %rax,0x38(%rsp)").frame, one("mov %rax,0x38(%rsp)").writes) == (True, True)
    assert not one("mov %rax,0x38(%rsp,%rcx,8)").frame  # a local array
    assert not one("mov %rax,-0x38(%rbp)").frame  # no frame pointer in sight
    framed = read_objdump("  0:\tmov    %rsp,%rbp\n  3:\tcmp    %r15,-0x38(%rbp)\n", 7)
    assert (framed[1].frame, framed[1].reads, framed[1].writes) == (True, True, False)


def test_what_an_instruction_reads_and_writes() -> None:
    both = one("addl $0x1,(%rdi)")
    assert (both.reads, both.writes) == (True, True)
    compared = one("cmpl $0x1,(%rdi)")
    assert (compared.reads, compared.writes) == (True, False)
    assert not one("lea 0x8(%rsp),%r10").reads
    assert one("movslq %edi,%rdi").extends
    assert not one("movslq (%rdi),%rdi").extends


def test_jumps_lead_where_they_say() -> None:
    assert (one("jne 0x100000008d").flow, one("jne 0x100000008d").target) == (
        "branch",
        0x10_0000_008D,
    )
    assert one("jmp *%rax").flow == "end"
    assert one("jmp 0x20").flow == "jump"
    assert one("ret").flow == "end"


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        # a loop: both ways lead past it
        (("-", "branch 0", "end"), {4: 8}),
        # one way around a part, and one of two parts
        (("branch 2", "-", "end"), {0: 8}),
        (("branch 3", "-", "jump 4", "-", "end"), {0: 16}),
        # a branch within a part
        (("branch 4", "branch 3", "-", "-", "end"), {0: 16, 4: 12}),
        # a call comes back
        (("branch 3", "call 5", "-", "end", "-", "end"), {0: 12}),
        # the function ends in two places, or by a jump to an unknown address
        (("branch 2", "end", "end"), {}),
        # code without end
        (("branch 1", "jump 1"), {}),
    ],
)
def test_where_both_ways_of_a_branch_meet(steps: tuple[str, ...], found: dict[int, int]) -> None:
    assert joins(program(*steps)) == found
