"""The values that relocations of x86-64 and AArch64 write, for those types that compilers use in
code for a single image.

Sources: System V ABI, AMD64 supplement, table 4.9; ELF for the Arm 64-bit Architecture, 5.7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.native.object_file import UnfitError

Compute = Callable[[int, int, int], int]
"""Computes the new word from the present one, the symbol's address and the word's address."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The computation and the field of a relocation. With `by_slot`, it refers to a slot of memory
    that contains the symbol's address, and not to the symbol itself.
    """

    width: int
    compute: Compute
    by_slot: bool = False


def _signed(value: int, bits: int) -> int:
    """Two's complement with this number of bits; refused if the value does not fit."""
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise UnfitError("the kernel is too large: an address cannot be reached.")
    return value & ((1 << bits) - 1)


def _word(value: int) -> int:
    return value & ((1 << 64) - 1)


def _distance32(there: int, target: int, place: int) -> int:
    return _signed(target - place, 32)


def _field(there: int, value: int, low: int, bits: int) -> int:
    """The instruction `there` with `value` in its bits, beginning with bit `low`."""
    return (there & ~(((1 << bits) - 1) << low)) | (value << low)


def _adr(there: int, value: int) -> int:
    value = _signed(value, 21)
    return _field(_field(there, value & 3, 29, 2), value >> 2, 5, 19)


def _branch(low: int, bits: int) -> Compute:
    return lambda there, target, place: _field(
        there, _signed((target - place) >> 2, bits), low, bits
    )


def _low_bits(shift: int) -> Compute:
    return lambda there, target, place: _field(there, (target & 0xFFF) >> shift, 10, 12)


def _page_distance(there: int, target: int, place: int) -> int:
    return _adr(there, (target >> 12) - (place >> 12))


KINDS: Mapping[str, Mapping[int, Kind]] = {
    "x86_64": {
        1: Kind(8, lambda there, target, place: _word(target)),  # 64
        2: Kind(4, _distance32),  # PC32
        4: Kind(4, _distance32),  # PLT32
        9: Kind(4, _distance32, by_slot=True),  # GOTPCREL
        24: Kind(8, lambda there, target, place: _word(target - place)),  # PC64
        41: Kind(4, _distance32, by_slot=True),  # GOTPCRELX
        42: Kind(4, _distance32, by_slot=True),  # REX_GOTPCRELX
    },
    "aarch64": {
        257: Kind(8, lambda there, target, place: _word(target)),  # ABS64
        260: Kind(8, lambda there, target, place: _word(target - place)),  # PREL64
        261: Kind(4, _distance32),  # PREL32
        274: Kind(4, lambda there, target, place: _adr(there, target - place)),  # ADR_PREL_LO21
        275: Kind(4, _page_distance),  # ADR_PREL_PG_HI21
        277: Kind(4, _low_bits(0)),  # ADD_ABS_LO12_NC
        278: Kind(4, _low_bits(0)),  # LDST8_ABS_LO12_NC
        284: Kind(4, _low_bits(1)),  # LDST16_ABS_LO12_NC
        285: Kind(4, _low_bits(2)),  # LDST32_ABS_LO12_NC
        286: Kind(4, _low_bits(3)),  # LDST64_ABS_LO12_NC
        299: Kind(4, _low_bits(4)),  # LDST128_ABS_LO12_NC
        279: Kind(4, _branch(5, 14)),  # TSTBR14
        280: Kind(4, _branch(5, 19)),  # CONDBR19
        282: Kind(4, _branch(0, 26)),  # JUMP26
        283: Kind(4, _branch(0, 26)),  # CALL26
        311: Kind(4, _page_distance, by_slot=True),  # ADR_GOT_PAGE
        312: Kind(4, _low_bits(3), by_slot=True),  # LD64_GOT_LO12_NC
    },
}
"""The kinds of relocations, by the name of the machine and the number of the relocation."""


def jump_through(machine: str, place: int, slot: int) -> bytes:
    """Code at `place` that continues at the address in `slot`, 16 bytes."""
    if machine == "x86_64":  # jmp *slot(%rip)
        code = b"\xff\x25" + _signed(slot - (place + 6), 32).to_bytes(4, "little")
        return code.ljust(16, b"\xcc")
    words = (
        _page_distance(0x9000_0010, slot, place),  # adrp x16, slot
        _low_bits(3)(0xF940_0211, slot, place),  # ldr x17, [x16, low bits of slot]
        0xD61F_0220,  # br x17
        0xD420_0000,  # brk
    )
    return b"".join(word.to_bytes(4, "little") for word in words)
