"""Instructions of RV64IMAFD, read from the words of a linked kernel."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tilewright.parts.machine_code import riscv_words as words
from tilewright.parts.machine_code.instructions import Class, Flow, Instruction

ARCHITECTURE = "RV64"
_EXECUTABLE = 4  # SHF_EXECINSTR
_SP, _FRAME = 2, 8
_EXTENSION_SHIFTS = (32, 48, 56)

Commands = Mapping[int, str]
"""Names of an accelerator's commands by funct7 of custom-3."""


def read_elf(elf: bytes, entry: str, commands: Commands) -> tuple[int, list[Instruction]]:
    """The address of the function `entry`, and the instructions of all executable sections.

    Raises `ValueError` for a file that has no such function.
    """
    image = ELFFile(io.BytesIO(elf))
    symbols = image.get_section_by_name(".symtab")
    found = None
    if isinstance(symbols, SymbolTableSection):
        found = symbols.get_symbol_by_name(entry)
    if not found:
        raise ValueError(f"the ELF file has no function {entry}")
    code = [
        instruction
        for section in image.iter_sections()
        if section["sh_flags"] & _EXECUTABLE and section["sh_type"] == "SHT_PROGBITS"
        for instruction in read_words(section.data(), section["sh_addr"], commands)
    ]
    return found[0]["st_value"], sorted(code, key=lambda one: one.address)


def read_words(data: bytes, address: int, commands: Commands) -> list[Instruction]:
    """The instructions of code at this address. An incomplete last word is ignored."""
    found = [
        _instruction(word, address + 4 * number, commands)
        for number, (word,) in enumerate(struct.iter_unpack("<I", data[: len(data) // 4 * 4]))
    ]
    raw = [word for (word,) in struct.iter_unpack("<I", data[: len(data) // 4 * 4])]
    has_frame = any(_sets_frame(word) for word in raw)
    extending = set(_extensions(raw))
    for number, word in enumerate(raw):
        one = found[number]
        if has_frame and (one.reads or one.writes) and words.fields(word)[3] == _FRAME:
            one = replace(one, frame=True)
        if number in extending:
            one = replace(one, extends=True)
        if number and one.flow in ("end", "call") and one.target is None:
            one = _far(one, word, found[number - 1].address, raw[number - 1])
        found[number] = one
    return found


def _instruction(word: int, address: int, commands: Commands) -> Instruction:
    opcode, rd, _, rs1, _, funct7 = words.fields(word)
    text = words.text_of(word, address)
    kind: Class = "arithmetic"
    flow: Flow = "next"
    target = None
    reads = opcode in (words.LOAD, words.LOAD_FP, words.AMO)
    writes = opcode in (words.STORE, words.STORE_FP, words.AMO)
    if opcode == words.BRANCH:
        kind, flow, target = "branches", "branch", address + words.branch_offset(word)
    elif opcode == words.JAL:
        kind, flow = ("calls", "call") if rd else ("branches", "jump")
        target = address + words.jump_offset(word)
    elif opcode == words.JALR:
        kind, flow = ("calls", "call") if rd else ("branches", "end")
    elif opcode in words.CUSTOM:
        kind = "commands"
        name = commands.get(funct7, f"command {funct7}") if opcode == words.CUSTOM[3] else "custom"
        text = f"{name} {words.REGISTERS[rs1]}, {words.REGISTERS[word >> 20 & 31]}"
    elif opcode in (words.FENCE, words.SYSTEM):
        kind = "other"
    elif reads or writes:
        kind = "loads" if opcode in (words.LOAD, words.LOAD_FP) else "stores"
    return Instruction(
        address,
        4,
        _abbreviated(text),
        kind,
        flow,
        target,
        reads=reads,
        writes=writes,
        frame=(reads or writes) and rs1 == _SP,
        padding=word in (0, 0x13),
    )


def _far(one: Instruction, word: int, before: int, previous: int) -> Instruction:
    """The target of a jump through a register that the preceding instruction has set by `auipc`."""
    opcode, rd, *_ = words.fields(previous)
    _, link, _, base, _, _ = words.fields(word)
    if opcode != words.AUIPC or rd != base:
        return one
    target = before + (words.signed(previous >> 12, 20) << 12) + words.signed(word >> 20, 12)
    return replace(one, flow="call" if link else "jump", target=target)


def _sets_frame(word: int) -> bool:
    """`addi s0, sp, N`: the frame pointer of a function that has one."""
    opcode, rd, funct3, rs1, _, _ = words.fields(word)
    return (opcode, rd, funct3, rs1) == (words.OP_IMM, _FRAME, 0, _SP)


def _extensions(raw: list[int]) -> Iterator[int]:
    """Positions of instructions that only extend a number: `sext.w`, `zext.b`, and a left shift
    with the right shift after it.

    If the right shift is smaller than the left shift, it also scales the number, so only the left
    shift is counted.
    """
    up: dict[int, tuple[int, int]] = {}  # register -> position and shift of the slli that set it
    for number, word in enumerate(raw):
        opcode, rd, funct3, rs1, _, _ = words.fields(word)
        low = words.signed(word >> 20, 12)
        if (opcode, funct3, low) == (words.OP_IMM_32, 0, 0) or (
            (opcode, funct3, low) == (words.OP_IMM, 7, 255)
        ):
            yield number
        shift = word >> 20 & 63
        if opcode == words.OP_IMM and funct3 == 5 and rs1 in up:
            position, upwards = up.pop(rs1)
            if shift <= upwards:
                yield position
            if shift == upwards:
                yield number
        if opcode in (words.BRANCH, words.JAL, words.JALR):
            up.clear()
        elif opcode not in (words.STORE, words.STORE_FP):
            up.pop(rd, None)
        if opcode == words.OP_IMM and funct3 == 1 and shift in _EXTENSION_SHIFTS:
            up[rd] = number, shift


_PLAIN = {"addi zero, zero, 0": "nop", "jalr zero, 0(ra)": "ret"}


def _abbreviated(text: str) -> str:
    """The abbreviation that assemblers print, if it is easier to read."""
    if text in _PLAIN:
        return _PLAIN[text]
    name, _, rest = text.partition(" ")
    operands = rest.split(", ")
    if name == "addi" and operands[1] == "zero":
        return f"li {operands[0]}, {operands[2]}"
    if name == "addi" and operands[2] == "0":
        return f"mv {operands[0]}, {operands[1]}"
    if name == "addiw" and operands[2] == "0":
        return f"sext.w {operands[0]}, {operands[1]}"
    if name == "jal" and operands[0] == "zero":
        return f"j {operands[1]}"
    if name in ("beq", "bne") and operands[1] == "zero":
        return f"{name}z {operands[0]}, {operands[2]}"
    return text
