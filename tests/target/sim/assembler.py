"""Just enough of a RISC-V assembler and linker to test the simulator without a toolchain."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

CODE = 0x8000_0000
A0, A1, RA = 10, 11, 1
RETURN = 0x00008067
RESERVED = 1 << 18


def r_type(opcode: int, f3: int, f7: int, rd: int, rs1: int, rs2: int) -> int:
    return opcode | rd << 7 | f3 << 12 | rs1 << 15 | rs2 << 20 | f7 << 25


def i_type(opcode: int, f3: int, rd: int, rs1: int, imm: int) -> int:
    return opcode | rd << 7 | f3 << 12 | rs1 << 15 | (imm & 0xFFF) << 20


def s_type(opcode: int, f3: int, rs1: int, rs2: int, imm: int) -> int:
    imm &= 0xFFF
    return opcode | (imm & 31) << 7 | f3 << 12 | rs1 << 15 | rs2 << 20 | (imm >> 5) << 25


def b_type(f3: int, rs1: int, rs2: int, offset: int) -> int:
    imm = offset & 0x1FFF
    low = (imm >> 11 & 1) << 7 | (imm >> 1 & 15) << 8
    high = (imm >> 5 & 63) << 25 | (imm >> 12 & 1) << 31
    return 0x63 | low | f3 << 12 | rs1 << 15 | rs2 << 20 | high


def u_type(opcode: int, rd: int, imm: int) -> int:
    return opcode | rd << 7 | (imm & 0xFFFFF) << 12


def j_type(rd: int, offset: int) -> int:
    imm = offset & 0x1FFFFF
    fields = (imm >> 12 & 255) << 12 | (imm >> 11 & 1) << 20 | (imm >> 1 & 1023) << 21
    return 0x6F | rd << 7 | fields | (imm >> 20 & 1) << 31


def addi(rd: int, rs1: int, imm: int) -> int:
    return i_type(0x13, 0, rd, rs1, imm)


def ld(rd: int, rs1: int, imm: int) -> int:
    return i_type(0x03, 3, rd, rs1, imm)


def sd(rs2: int, rs1: int, imm: int) -> int:
    return s_type(0x23, 3, rs1, rs2, imm)


def fld(rd: int, rs1: int, imm: int) -> int:
    return i_type(0x07, 3, rd, rs1, imm)


def fsd(rs2: int, rs1: int, imm: int) -> int:
    return s_type(0x27, 3, rs1, rs2, imm)


def rocc(funct: int, rs1: int, rs2: int) -> int:
    return r_type(0x7B, 3, funct, 0, rs1, rs2)


FENCE = 0x0FF0000F


def code_bytes(instructions: Iterable[int | bytes]) -> bytes:
    """32-bit instructions, or raw bytes (compressed ones)."""
    return b"".join(i if isinstance(i, bytes) else struct.pack("<I", i) for i in instructions)


def half(word: int) -> bytes:
    return struct.pack("<H", word)


def link(
    instructions: Iterable[int | bytes],
    *,
    symbol: str = "kernel",
    flags: int = 5,
    reserved: int = 0,
) -> bytes:
    """An ELF file with one segment at `CODE` and one symbol at its start.

    The segment has at least `reserved` bytes, zeros after the code.
    """
    code = code_bytes(instructions)
    code += bytes(-len(code) % 8)
    strings = b"\0" + symbol.encode() + b"\0"
    strings += bytes(-len(strings) % 8)
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, CODE, len(code))
    code_at = 64 + 56
    strings_at = code_at + len(code)
    symbols_at = strings_at + len(strings)
    sections_at = symbols_at + len(symbols)
    header = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header += struct.pack(
        "<HHIQQQIHHHHHH", 2, 243, 1, CODE, 64, sections_at, 0, 64, 56, 1, 64, 3, 0
    )
    segment = struct.pack(
        "<IIQQQQQQ", 1, flags, code_at, CODE, CODE, len(code), max(len(code), reserved), 8
    )

    def section(kind: int, offset: int, size: int, link_to: int = 0) -> bytes:
        return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, size, link_to, 0, 8, 24)

    sections = section(0, 0, 0)
    sections += section(2, symbols_at, len(symbols), 2) + section(3, strings_at, len(strings))
    return header + segment + code + strings + symbols + sections


def command_stream(commands: Sequence[tuple[int, int, int]]) -> tuple[bytes, bytes]:
    """Code that issues accelerator commands (funct, rs1, rs2), and the table it reads via a0."""
    code, table = stream_code(commands)
    return link([*code, RETURN]), table


def stream_code(commands: Sequence[tuple[int, int, int]]) -> tuple[list[int | bytes], bytes]:
    """The instructions of `command_stream` and its table."""
    code: list[int | bytes] = []
    for funct, _, _ in commands:
        if funct == FENCE:
            code.append(FENCE)
        else:
            code += [ld(5, A0, 0), ld(6, A0, 8), rocc(funct, 5, 6)]
        code.append(addi(A0, A0, 16))
    mask = (1 << 64) - 1
    return code, b"".join(struct.pack("<QQ", a & mask, b & mask) for _, a, b in commands)


def command_loop(
    before: Sequence[tuple[int, int, int]], body: Sequence[tuple[int, int, int]], times: int
) -> tuple[bytes, bytes]:
    """As `command_stream`, then `body` again and again from registers: up to five commands."""
    registers = [7, 12, 13, 14, 15, 16, 17, 28, 29, 30][: 2 * len(body)]
    _, table = command_stream([*before, *body])
    code: list[int | bytes] = []
    for funct, _, _ in before:
        code += [FENCE] if funct == FENCE else [ld(5, A0, 0), ld(6, A0, 8), rocc(funct, 5, 6)]
        code.append(addi(A0, A0, 16))
    code += [ld(register, A0, 8 * i) for i, register in enumerate(registers)]
    code.append(addi(9, 0, times))
    loop = [rocc(c[0], registers[2 * i], registers[2 * i + 1]) for i, c in enumerate(body)]
    code += [*loop, addi(9, 9, -1), b_type(1, 9, 0, -4 * (len(loop) + 1)), FENCE]
    return link([*code, RETURN]), table


def timed_program(commands: Sequence[tuple[int, int, int]], table_at: int) -> tuple[bytes, bytes]:
    """A bare-metal program: the stream between two reads of mcycle, then a store to `tohost`.

    Its table is to be put at the address `table_at`, below 2**32. It may write to
    `RESERVED` bytes of memory from `CODE` on.
    """
    read_cycles = 0xB00022F3  # csrr x5, mcycle
    own_address = u_type(0x17, 11, 0)  # auipc
    to_table = [
        u_type(0x37, A0, table_at >> 12),  # lui, which extends the sign
        i_type(0x13, 1, A0, A0, 32),
        i_type(0x13, 5, A0, A0, 32),
    ]
    body, table = stream_code(commands)
    code = [own_address, *to_table, read_cycles, *body, read_cycles, sd(A0, A1, 0)]
    return link([*code, j_type(0, 0)], symbol="tohost", flags=7, reserved=RESERVED), table
