"""Instructions of RV64IMAFD from their words; texts are those of LLVM 14's disassembler."""

from __future__ import annotations

import struct

import pytest

from tilewright.parts.machine_code.flow import reached
from tilewright.parts.machine_code.instructions import Instruction
from tilewright.parts.machine_code.riscv import read_elf, read_words
from tilewright.parts.machine_code.riscv_words import text_of

AT = 0x8000_2000
WORDS = {
    0x00C585B3: "add a1, a1, a2",
    0xFA010113: "addi sp, sp, -96",
    0xFFFF8F9B: "addiw t6, t6, -1",
    0x00B9093B: "addw s2, s2, a1",
    0x0194A02F: "amoadd.w zero, s9, (s1)",
    0x00C6F633: "and a2, a3, a2",
    0x00C77593: "andi a1, a4, 12",
    0x00000097: "auipc ra, 0x0",
    0xF4050CE3: "beq a0, zero, 80001f58",
    0x0EC05263: "bge zero, a2, 800020e4",
    0x02B57663: "bgeu a0, a1, 8000202c",
    0x00A5C463: "blt a1, a0, 80002008",
    0xFBDFE2E3: "bltu t6, t4, 80001fa4",
    0xFEC796E3: "bne a5, a2, 80001fec",
    0x02A5C533: "div a0, a1, a0",
    0x033E53BB: "divuw t2, t3, s3",
    0x0253C3BB: "divw t2, t2, t0",
    0x02D77753: "fadd.d fa4, fa4, fa3",
    0x00E7F7D3: "fadd.s fa5, fa5, fa4",
    0xD22A76D3: "fcvt.d.l fa3, s4",
    0x420787D3: "fcvt.d.s fa5, fa5",
    0x4017F6D3: "fcvt.s.d fa3, fa5",
    0xD0097653: "fcvt.s.w fa2, s2",
    0xC00715D3: "fcvt.w.s a1, fa4",
    0xC2179AD3: "fcvt.wu.d s5, fa5",
    0x1AC6F7D3: "fdiv.d fa5, fa3, fa2",
    0x0FF0000F: "fence",
    0x0009B707: "fld fa4, 0(s3)",
    0xA2F69553: "flt.d a0, fa3, fa5",
    0x0004A507: "flw fa0, 0(s1)",
    0x6AE7F7C3: "fmadd.d fa5, fa5, fa4, fa3",
    0x28D71753: "fmax.s fa4, fa4, fa3",
    0x00E9B027: "fsd fa4, 0(s3)",
    0x20A507D3: "fsgnj.s fa5, fa0, fa0",
    0x20E71753: "fsgnjn.s fa4, fa4, fa4",
    0x22F7A753: "fsgnjx.d fa4, fa5, fa5",
    0x0AC7F7D3: "fsub.d fa5, fa5, fa2",
    0x08F777D3: "fsub.s fa5, fa4, fa5",
    0xFEEC2E27: "fsw fa4, -4(s8)",
    0x06C0006F: "jal zero, 8000206c",
    0x000080E7: "jalr ra, 0(ra)",
    0x0005C703: "lbu a4, 0(a1)",
    0x00053B83: "ld s7, 0(a0)",
    0x00000537: "lui a0, 0x0",
    0x00052583: "lw a1, 0(a0)",
    0x01856603: "lwu a2, 24(a0)",
    0x032A05B3: "mul a1, s4, s2",
    0x037515B3: "mulh a1, a0, s7",
    0x03C607BB: "mulw a5, a2, t3",
    0x015B6B33: "or s6, s6, s5",
    0x00E68023: "sb a4, 0(a3)",
    0x04113C23: "sd ra, 88(sp)",
    0x020A9A93: "slli s5, s5, 32",
    0x0026189B: "slliw a7, a2, 2",
    0x0134AB33: "slt s6, s1, s3",
    0x2017AA93: "slti s5, a5, 513",
    0x00D036B3: "sltu a3, zero, a3",
    0x4015D593: "srai a1, a1, 1",
    0x41F5D79B: "sraiw a5, a1, 31",
    0x020AD513: "srli a0, s5, 32",
    0x01C7D79B: "srliw a5, a5, 28",
    0x40C50A33: "sub s4, a0, a2",
    0x4060033B: "subw t1, zero, t1",
    0x00F6C7B3: "xor a5, a3, a5",
    0x001ACA93: "xori s5, s5, 1",
}


def read(*words: int) -> list[Instruction]:
    return read_words(struct.pack(f"<{len(words)}I", *words), AT, {4: "compute_preloaded"})


@pytest.mark.parametrize("word", WORDS)
def test_words_as_text(word: int) -> None:
    assert text_of(word, AT) == WORDS[word]


def test_words_that_mean_nothing_are_told_as_such() -> None:
    for word in (0xFFFF_FFFF, 0x0000_7003, 0x8000_0033):
        assert text_of(word, AT) == f".word {word:#010x}"


ADDI, LW_SP, SD_SP, SD_S0 = 0x00150513, 0x00812503, 0x00A13423, 0xFEA43423
SLLI_32, SRLI_32, SRLI_29, SEXT_W = 0x02051513, 0x02055513, 0x01D55513, 0x0005051B
FRAME = 0x01010413  # addi s0, sp, 16


def test_classes_and_memory() -> None:
    found = read(ADDI, LW_SP, SD_SP, 0x0895B07B, 0x0FF0000F, 0x00008067, 0x0025F5D3)
    assert [one.kind for one in found] == [
        "arithmetic", "loads", "stores", "commands", "other", "branches", "arithmetic",
    ]  # fmt: skip
    assert [(one.reads, one.writes, one.frame) for one in found[:3]] == [
        (False, False, False), (True, False, True), (False, True, True),
    ]  # fmt: skip
    assert found[3].text == "compute_preloaded a1, s1"
    assert [one.flow for one in found[4:6]] == ["next", "end"]


def test_a_frame_pointer_counts_only_where_there_is_one() -> None:
    assert not read(SD_S0)[0].frame
    assert read(FRAME, SD_S0)[1].frame


def test_extensions() -> None:
    assert [one.extends for one in read(SEXT_W, ADDI)] == [True, False]
    assert [one.extends for one in read(SLLI_32, SRLI_32)] == [True, True]
    # With a shift by less the second one scales, too: without the extension it would be needed.
    assert [one.extends for one in read(SLLI_32, SRLI_29)] == [True, False]
    assert [one.extends for one in read(SLLI_32, ADDI, SRLI_32)] == [False, False, False]


def test_jumps_lead_where_they_say() -> None:
    # bne a0, zero, -8; jal ra, 16; jal zero, -4; auipc t1, 1 with jalr ra, 8(t1)
    found = read(0xFE051CE3, 0x010000EF, 0xFFDFF06F, 0x00001317, 0x008300E7)
    assert [(one.flow, one.target) for one in found] == [
        ("branch", AT - 8), ("call", AT + 4 + 16), ("jump", AT + 4), ("next", None),
        ("call", AT + 12 + 0x1000 + 8),
    ]  # fmt: skip


def test_only_functions_that_are_called_are_reached() -> None:
    # kernel: jal ra, 12; ret -- unused: ret -- called: ret
    code = read(0x00C000EF, 0x00008067, 0x00008067, 0x00008067)
    assert [one.address - AT for one in reached(code, [AT])] == [0, 4, 12]


def test_a_file_without_the_function_is_refused() -> None:
    with pytest.raises(Exception, match=r"Magic|ELF"):
        read_elf(b"no elf", "kernel", {})
