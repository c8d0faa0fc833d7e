"""Converts words of RV64IMAFD to text, with the names and operands of the manual.

Source: The RISC-V Instruction Set Manual, volume I, chapter "RV32/64G Instruction Set Listings".
Compressed instructions are not supported, because kernels are compiled without them.
"""

from __future__ import annotations

from collections.abc import Mapping

REGISTERS = (
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1",
    *(f"a{n}" for n in range(8)), *(f"s{n}" for n in range(2, 12)), *(f"t{n}" for n in range(3, 7)),
)  # fmt: skip
FLOATS = (
    *(f"ft{n}" for n in range(8)), "fs0", "fs1", *(f"fa{n}" for n in range(8)),
    *(f"fs{n}" for n in range(2, 12)), *(f"ft{n}" for n in range(8, 12)),
)  # fmt: skip

LOAD, LOAD_FP, FENCE, OP_IMM, AUIPC, OP_IMM_32 = 0x03, 0x07, 0x0F, 0x13, 0x17, 0x1B
STORE, STORE_FP, AMO, OP, LUI, OP_32, OP_FP = 0x23, 0x27, 0x2F, 0x33, 0x37, 0x3B, 0x53
BRANCH, JALR, JAL, SYSTEM = 0x63, 0x67, 0x6F, 0x73
CUSTOM = (0x0B, 0x2B, 0x5B, 0x7B)

_LOADS = ("lb", "lh", "lw", "ld", "lbu", "lhu", "lwu", "")
_STORES = ("sb", "sh", "sw", "sd")
_BRANCHES = ("beq", "bne", "", "", "blt", "bge", "bltu", "bgeu")
_BASE = ("add", "sll", "slt", "sltu", "xor", "srl", "or", "and")
_TIMES = ("mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu")
_FUSED = {0x43: "fmadd", 0x47: "fmsub", 0x4B: "fnmsub", 0x4F: "fnmadd"}
_FLOAT_PAIRS: Mapping[int, tuple[str, ...]] = {
    0x00: ("fadd",), 0x01: ("fsub",), 0x02: ("fmul",), 0x03: ("fdiv",),
    0x04: ("fsgnj", "fsgnjn", "fsgnjx"), 0x05: ("fmin", "fmax"),
}  # fmt: skip
_COMPARED = ("fle", "flt", "feq")
_WHOLE = ("w", "wu", "l", "lu")
_SYSTEM = ("", "csrrw", "csrrs", "csrrc", "", "csrrwi", "csrrsi", "csrrci")
_ATOMICS = {
    0: "amoadd", 1: "amoswap", 2: "lr", 3: "sc", 4: "amoxor", 8: "amoor", 12: "amoand",
    16: "amomin", 20: "amomax", 24: "amominu", 28: "amomaxu",
}  # fmt: skip


def signed(value: int, bits: int) -> int:
    """The lowest `bits` of a word as an integer with a sign."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def fields(word: int) -> tuple[int, int, int, int, int, int]:
    """Opcode, rd, funct3, rs1, rs2 and funct7."""
    return (
        word & 0x7F, word >> 7 & 31, word >> 12 & 7, word >> 15 & 31, word >> 20 & 31, word >> 25,
    )  # fmt: skip


def branch_offset(word: int) -> int:
    """The offset of a conditional branch from its own address."""
    return signed(
        (word >> 31) << 12 | (word >> 7 & 1) << 11 | (word >> 25 & 63) << 5 | (word >> 8 & 15) << 1,
        13,
    )


def jump_offset(word: int) -> int:
    """The offset of a `jal` from its own address."""
    return signed(
        (word >> 31) << 20 | (word >> 12 & 255) << 12 | (word >> 20 & 1) << 11
        | (word >> 21 & 1023) << 1,
        21,
    )  # fmt: skip


def store_offset(word: int) -> int:
    """The offset that a store adds to its base register."""
    return signed((word >> 25) << 5 | (word >> 7 & 31), 12)


def text_of(word: int, address: int) -> str:
    """The instruction at an address, without abbreviations; `.word` for an unknown one."""
    name, operands = _whole(word, address) or _float(word) or ("", "")
    return f"{name} {operands}".strip() if name else f".word {word:#010x}"


def _whole(word: int, address: int) -> tuple[str, str] | None:
    """Integer instructions, memory accesses, branches and jumps."""
    opcode, rd, funct3, rs1, rs2, funct7 = fields(word)
    d, a, b, low = REGISTERS[rd], REGISTERS[rs1], REGISTERS[rs2], signed(word >> 20, 12)
    if opcode == LOAD:
        return _LOADS[funct3], f"{d}, {low}({a})"
    if opcode == STORE and funct3 < 4:
        return _STORES[funct3], f"{b}, {store_offset(word)}({a})"
    if opcode == BRANCH:
        return _BRANCHES[funct3], f"{a}, {b}, {address + branch_offset(word):x}"
    if opcode == JAL:
        return "jal", f"{d}, {address + jump_offset(word):x}"
    if opcode == JALR:
        return "jalr", f"{d}, {low}({a})"
    if opcode in (LUI, AUIPC):
        return ("lui" if opcode == LUI else "auipc"), f"{d}, {word >> 12:#x}"
    if opcode in (OP, OP_32):
        return _register_name(funct3, funct7) + "w" * (opcode == OP_32), f"{d}, {a}, {b}"
    if opcode in (OP_IMM, OP_IMM_32):
        wide = "w" * (opcode == OP_IMM_32)
        if funct3 in (1, 5):
            name = "sll" if funct3 == 1 else "sra" if word >> 30 & 1 else "srl"
            return f"{name}i{wide}", f"{d}, {a}, {word >> 20 & (31 if wide else 63)}"
        return ("sltiu" if funct3 == 3 else f"{_BASE[funct3]}i{wide}"), f"{d}, {a}, {low}"
    if opcode == FENCE:
        return ("fence.i" if funct3 == 1 else "fence"), ""
    if opcode == AMO:
        kind = _ATOMICS.get(funct7 >> 2, "")
        return f"{kind}.{'wd'[funct3 & 1]}" if kind else "", f"{d}, {b}, ({a})"
    if opcode == SYSTEM:
        if funct3 == 0:
            return {0: "ecall", 1: "ebreak"}.get(word >> 20, "system"), ""
        return _SYSTEM[funct3], f"{d}, {word >> 20:#x}, {a if funct3 < 4 else rs1}"
    return None


def _register_name(funct3: int, funct7: int) -> str:
    if funct7 == 1:
        return _TIMES[funct3]
    if funct7 == 0x20:
        return {0: "sub", 5: "sra"}.get(funct3, "")
    return _BASE[funct3] if funct7 == 0 else ""


def _float(word: int) -> tuple[str, str] | None:
    """Instructions on floats."""
    opcode, rd, funct3, rs1, rs2, funct7 = fields(word)
    d, a, b, size = FLOATS[rd], FLOATS[rs1], FLOATS[rs2], "sd"[funct7 & 1]
    if opcode in (LOAD_FP, STORE_FP) and funct3 in (2, 3):
        kind = {2: "w", 3: "d"}[funct3]
        if opcode == LOAD_FP:
            return f"fl{kind}", f"{d}, {signed(word >> 20, 12)}({REGISTERS[rs1]})"
        return f"fs{kind}", f"{b}, {store_offset(word)}({REGISTERS[rs1]})"
    if opcode in _FUSED:
        return f"{_FUSED[opcode]}.{size}", f"{d}, {a}, {b}, {FLOATS[word >> 27]}"
    if opcode != OP_FP:
        return None
    operation = funct7 >> 2
    if operation in _FLOAT_PAIRS:
        names = _FLOAT_PAIRS[operation]
        name = names[min(funct3, len(names) - 1)] if len(names) > 1 else names[0]
        return f"{name}.{size}", f"{d}, {a}, {b}"
    if operation == 0x0B:
        return f"fsqrt.{size}", f"{d}, {a}"
    if operation == 0x08:
        return f"fcvt.{size}.{'sd'[rs2 & 1]}", f"{d}, {a}"
    if operation == 0x14 and funct3 < 3:
        return f"{_COMPARED[funct3]}.{size}", f"{REGISTERS[rd]}, {a}, {b}"
    if operation == 0x18 and rs2 < 4:
        return f"fcvt.{_WHOLE[rs2]}.{size}", f"{REGISTERS[rd]}, {a}"
    if operation == 0x1A and rs2 < 4:
        return f"fcvt.{size}.{_WHOLE[rs2]}", f"{d}, {REGISTERS[rs1]}"
    if operation == 0x1C:
        moved = "fclass." + size if funct3 else f"fmv.x.{'wd'[funct7 & 1]}"
        return moved, f"{REGISTERS[rd]}, {a}"
    if operation == 0x1E:
        return f"fmv.{'wd'[funct7 & 1]}.x", f"{d}, {REGISTERS[rs1]}"
    return None
