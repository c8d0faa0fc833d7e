"""RV64I, M and C, one instruction at a time, against Python's integers."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from target.sim import assembler as asm
from target.sim.assembler import A0, A1, RA
from tilewright.targets.gemmini.sim import Region, SimConfig, SimResult, run_kernel

IN, OUT = 0x9000_0000, 0x9100_0000
MASK = (1 << 64) - 1
EDGES = [0, 1, 2, 31, 63, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, 1 << 63, MASK, MASK - 1]
WORDS = st.one_of(st.sampled_from(EDGES), st.integers(0, MASK))


def run(config: SimConfig, code: list[int | bytes], inputs: list[int], size: int = 64) -> SimResult:
    regions = [
        Region(IN, struct.pack(f"<{len(inputs)}Q", *inputs), False, "in"),
        Region(OUT, bytes(size), True, "out"),
    ]
    return run_kernel(config, asm.link(code), regions, timing=False, max_instructions=10_000)


def first_word(result: SimResult) -> int:
    assert result.status == "ok", result.fault
    return int(struct.unpack_from("<Q", result.outputs[1])[0])


def binary(config: SimConfig, instruction: int | bytes, a: int, b: int) -> int:
    """x7 after an instruction that reads x5 and x6 (x8 and x9 for compressed ones)."""
    code = [asm.ld(5, A0, 0), asm.ld(6, A0, 8), instruction, asm.sd(7, A1, 0), asm.RETURN]
    return first_word(run(config, code, [a, b]))


def signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def word(value: int) -> int:
    return signed(value, 32)


def divide(a: int, b: int, least: int) -> int:
    if b == 0:
        return -1
    if a == least and b == -1:
        return a
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int, least: int) -> int:
    if b == 0:
        return a
    return 0 if a == least and b == -1 else a - divide(a, b, least) * b


L64, L32 = -(1 << 63), -(1 << 31)
REGISTER: dict[str, tuple[int, int, int, Callable[[int, int], int]]] = {
    "add": (0x33, 0, 0, lambda a, b: a + b),
    "sub": (0x33, 0, 0x20, lambda a, b: a - b),
    "sll": (0x33, 1, 0, lambda a, b: a << (b & 63)),
    "slt": (0x33, 2, 0, lambda a, b: signed(a) < signed(b)),
    "sltu": (0x33, 3, 0, lambda a, b: a < b),
    "xor": (0x33, 4, 0, lambda a, b: a ^ b),
    "srl": (0x33, 5, 0, lambda a, b: a >> (b & 63)),
    "sra": (0x33, 5, 0x20, lambda a, b: signed(a) >> (b & 63)),
    "or": (0x33, 6, 0, lambda a, b: a | b),
    "and": (0x33, 7, 0, lambda a, b: a & b),
    "addw": (0x3B, 0, 0, lambda a, b: word(a + b)),
    "subw": (0x3B, 0, 0x20, lambda a, b: word(a - b)),
    "sllw": (0x3B, 1, 0, lambda a, b: word(a << (b & 31))),
    "srlw": (0x3B, 5, 0, lambda a, b: word((a & 0xFFFFFFFF) >> (b & 31))),
    "sraw": (0x3B, 5, 0x20, lambda a, b: word(a) >> (b & 31)),
    "mul": (0x33, 0, 1, lambda a, b: a * b),
    "mulh": (0x33, 1, 1, lambda a, b: signed(a) * signed(b) >> 64),
    "mulhsu": (0x33, 2, 1, lambda a, b: signed(a) * b >> 64),
    "mulhu": (0x33, 3, 1, lambda a, b: a * b >> 64),
    "div": (0x33, 4, 1, lambda a, b: divide(signed(a), signed(b), L64)),
    "divu": (0x33, 5, 1, lambda a, b: a // b if b else MASK),
    "rem": (0x33, 6, 1, lambda a, b: remainder(signed(a), signed(b), L64)),
    "remu": (0x33, 7, 1, lambda a, b: a % b if b else a),
    "mulw": (0x3B, 0, 1, lambda a, b: word(a * b)),
    "divw": (0x3B, 4, 1, lambda a, b: word(divide(word(a), word(b), L32))),
    "divuw": (0x3B, 5, 1, lambda a, b: word((a % 2**32) // (b % 2**32)) if b % 2**32 else -1),
    "remw": (0x3B, 6, 1, lambda a, b: remainder(word(a), word(b), L32)),
    "remuw": (0x3B, 7, 1, lambda a, b: word((a % 2**32) % (b % 2**32) if b % 2**32 else a)),
}


@pytest.mark.parametrize("name", REGISTER)
@settings(max_examples=60)
@given(a=WORDS, b=WORDS)
@example(a=1 << 63, b=MASK)  # division overflows
@example(a=1 << 31, b=(1 << 32) - 1)
def test_register_instructions(config: SimConfig, name: str, a: int, b: int) -> None:
    opcode, f3, f7, expected = REGISTER[name]
    assert binary(config, asm.r_type(opcode, f3, f7, 7, 5, 6), a, b) == expected(a, b) & MASK


IMMEDIATE: dict[str, tuple[int, int, Callable[[int, int], int]]] = {
    "addi": (0x13, 0, lambda a, i: a + i),
    "slti": (0x13, 2, lambda a, i: signed(a) < i),
    "sltiu": (0x13, 3, lambda a, i: a < i & MASK),
    "xori": (0x13, 4, lambda a, i: a ^ i & MASK),
    "ori": (0x13, 6, lambda a, i: a | i & MASK),
    "andi": (0x13, 7, lambda a, i: a & i & MASK),
    "addiw": (0x1B, 0, lambda a, i: word(a + i)),
}


@pytest.mark.parametrize("name", IMMEDIATE)
@settings(max_examples=40)
@given(a=WORDS, imm=st.integers(-2048, 2047))
def test_immediate_instructions(config: SimConfig, name: str, a: int, imm: int) -> None:
    opcode, f3, expected = IMMEDIATE[name]
    assert binary(config, asm.i_type(opcode, f3, 7, 5, imm), a, 0) == expected(a, imm) & MASK


@settings(max_examples=60)
@given(a=WORDS, shift=st.integers(0, 63))
def test_shifts_by_an_immediate(config: SimConfig, a: int, shift: int) -> None:
    cases = [
        (asm.i_type(0x13, 1, 7, 5, shift), a << shift),
        (asm.i_type(0x13, 5, 7, 5, shift), a >> shift),
        (asm.i_type(0x13, 5, 7, 5, shift | 0x400), signed(a) >> shift),
    ]
    if shift < 32:
        cases += [
            (asm.i_type(0x1B, 1, 7, 5, shift), word(a << shift)),
            (asm.i_type(0x1B, 5, 7, 5, shift), word((a & 0xFFFFFFFF) >> shift)),
            (asm.i_type(0x1B, 5, 7, 5, shift | 0x400), word(a) >> shift),
        ]
    for instruction, expected in cases:
        assert binary(config, instruction, a, 0) == expected & MASK


@settings(max_examples=30)
@given(imm=st.integers(-(1 << 19), (1 << 19) - 1))
def test_upper_immediates(config: SimConfig, imm: int) -> None:
    assert binary(config, asm.u_type(0x37, 7, imm), 0, 0) == (imm << 12) & MASK
    assert binary(config, asm.u_type(0x17, 7, imm), 0, 0) == (asm.CODE + 8 + (imm << 12)) & MASK


@pytest.mark.parametrize(
    ("f3", "holds"),
    [
        (0, lambda a, b: a == b),
        (1, lambda a, b: a != b),
        (4, lambda a, b: signed(a) < signed(b)),
        (5, lambda a, b: signed(a) >= signed(b)),
        (6, lambda a, b: a < b),
        (7, lambda a, b: a >= b),
    ],
)
@settings(max_examples=30)
@given(a=WORDS, b=WORDS)
def test_branches(
    config: SimConfig, f3: int, holds: Callable[[int, int], bool], a: int, b: int
) -> None:
    code = [
        asm.ld(5, A0, 0),
        asm.ld(6, A0, 8),
        asm.addi(7, 0, 1),
        asm.b_type(f3, 5, 6, 8),
        asm.addi(7, 0, 0),
        asm.sd(7, A1, 0),
        asm.RETURN,
    ]
    assert first_word(run(config, code, [a, b])) == holds(a, b)


def test_jumps_link_and_go_backwards(config: SimConfig) -> None:
    code = [
        asm.addi(8, RA, 0),
        asm.j_type(5, 12),  # to the jalr
        asm.sd(5, A1, 0),  # reached through jalr
        asm.i_type(0x67, 0, 0, 8, 0),
        asm.i_type(0x67, 0, 6, 5, 1),  # an odd target loses its lowest bit
    ]
    assert first_word(run(config, code, [0])) == asm.CODE + 8


@pytest.mark.parametrize(
    ("f3", "expected"),
    [
        (0, 0xFFFFFFFFFFFFFF80),
        (1, 0xFFFFFFFFFFFF8180),
        (2, 0xFFFFFFFF83828180),
        (3, 0x8786858483828180),
        (4, 0x80),
        (5, 0x8180),
        (6, 0x83828180),
    ],
)
def test_loads_extend(config: SimConfig, f3: int, expected: int) -> None:
    code = [asm.i_type(0x03, f3, 7, A0, 0), asm.sd(7, A1, 0), asm.RETURN]
    assert first_word(run(config, code, [0x8786858483828180])) == expected


@pytest.mark.parametrize(("f3", "size"), [(0, 1), (1, 2), (2, 4), (3, 8)])
def test_stores_write_only_their_bytes(config: SimConfig, f3: int, size: int) -> None:
    code = [asm.addi(5, 0, -1), asm.s_type(0x23, f3, A1, 5, 8), asm.RETURN]
    outputs = run(config, code, [0]).outputs[1]
    assert outputs == bytes(8) + b"\xff" * size + bytes(64 - 8 - size)


def test_x0_stays_zero(config: SimConfig) -> None:
    code = [asm.addi(0, 0, 5), asm.ld(0, A0, 0), asm.sd(0, A1, 0), asm.RETURN]
    assert first_word(run(config, code, [7])) == 0


# Compressed instructions: encoding, what x8 holds after it, with x8 = a and x9 = b before.
COMPRESSED: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "c.addi x8, -3": (0x1475, lambda a, b: a - 3),
    "c.addiw x8, 5": (0x2415, lambda a, b: word(a + 5)),
    "c.li x8, -1": (0x547D, lambda a, b: -1),
    "c.lui x8, 0xfffe1": (0x7405, lambda a, b: 0xFFFFFFFFFFFE1000),
    "c.srli x8, 33": (0x9005, lambda a, b: a >> 33),
    "c.srai x8, 4": (0x8411, lambda a, b: signed(a) >> 4),
    "c.andi x8, -16": (0x9841, lambda a, b: a & -16),
    "c.sub x8, x9": (0x8C05, lambda a, b: a - b),
    "c.xor x8, x9": (0x8C25, lambda a, b: a ^ b),
    "c.or x8, x9": (0x8C45, lambda a, b: a | b),
    "c.and x8, x9": (0x8C65, lambda a, b: a & b),
    "c.subw x8, x9": (0x9C05, lambda a, b: word(a - b)),
    "c.addw x8, x9": (0x9C25, lambda a, b: word(a + b)),
    "c.slli x8, 40": (0x1422, lambda a, b: a << 40),
    "c.mv x8, x9": (0x8426, lambda a, b: b),
    "c.add x8, x9": (0x9426, lambda a, b: a + b),
    "c.nop": (0x0001, lambda a, b: a),
}


@pytest.mark.parametrize("name", COMPRESSED)
@settings(max_examples=20)
@given(a=WORDS, b=WORDS)
def test_compressed_arithmetic(config: SimConfig, name: str, a: int, b: int) -> None:
    encoding, expected = COMPRESSED[name]
    code = [
        asm.ld(8, A0, 0),
        asm.ld(9, A0, 8),
        asm.half(encoding),
        asm.half(0x0001),
        asm.sd(8, A1, 0),
        asm.RETURN,
    ]
    assert first_word(run(config, code, [a, b])) == expected(a, b) & MASK


def test_compressed_memory_and_stack(config: SimConfig) -> None:
    code: list[int | bytes] = [
        asm.addi(8, A0, 0),
        asm.addi(9, A1, 0),
        asm.half(0x7139),  # c.addi16sp sp, -64
        asm.half(0x6418),  # c.ld x14, 8(x8)
        asm.half(0xE83A),  # c.sdsp x14, 16(sp)
        asm.half(0x67C2),  # c.ldsp x15, 16(sp)
        asm.half(0xE09C),  # c.sd x15, 0(x9)
        asm.half(0x4058),  # c.lw x14, 4(x8)
        asm.half(0xC498),  # c.sw x14, 8(x9)
        asm.half(0xC23A),  # c.swsp x14, 4(sp)
        asm.half(0x4792),  # c.lwsp x15, 4(sp)
        asm.half(0xC4DC),  # c.sw x15, 12(x9)
        asm.half(0x0828),  # c.addi4spn x10, 24
        asm.half(0x2400),  # c.fld f8, 8(x8)
        asm.half(0xA822),  # c.fsdsp f8, 16(sp)
        asm.half(0x2442),  # c.fldsp f8, 16(sp)
        asm.half(0xA880),  # c.fsd f8, 16(x9)
        asm.half(0x6121),  # c.addi16sp sp, 64
        asm.half(0x8082),  # c.jr ra
    ]
    result = run(config, code, [0x8182838485868788, 0x1112131415161718])
    words = struct.unpack_from("<QIIQ", result.outputs[1])
    assert result.status == "ok", result.fault
    assert words == (0x1112131415161718, 0x81828384, 0x81828384, 0x1112131415161718)


def test_compressed_jumps_and_branches(config: SimConfig) -> None:
    code: list[int | bytes] = [
        asm.half(0x4401),  # c.li x8, 0
        asm.half(0xC011),  # c.beqz x8, +4
        asm.half(0x0405),  # c.addi x8, 1 (skipped)
        asm.half(0x0411),  # c.addi x8, 4
        asm.half(0xE011),  # c.bnez x8, +4
        asm.half(0x0405),  # skipped
        asm.half(0xA011),  # c.j +4
        asm.half(0x0405),  # skipped
        asm.sd(8, A1, 0),
        asm.half(0x8082),
    ]
    assert first_word(run(config, code, [0])) == 4


def test_an_infinite_loop_times_out(config: SimConfig) -> None:
    result = run(config, [asm.j_type(0, 0)], [0])
    assert result.status == "timeout"
    assert result.instructions == 10_000
