"""Adds code to an assembly listing that records which results conditions have had, and which values
were not always the same.

Before each instruction that uses a condition, the code writes a random number to one of two places,
one for each result of the condition. Of a value, the code keeps the first one. It writes the random
number to one place if there was a value, and to the other place if a later value differs. The code
changes no flags, and restores the registers that it uses from the stack, below which the listing's
code keeps nothing (`-mno-red-zone`).

The records are an array that the harness, or the emulator of a GPU, maps at a random address. The
kernel's memory contains only this address minus a random number, which is part of the recording
code. A record's place in the array is random as well, and all other places must stay 0. A kernel
that moves the address thus faults or is noticed. Only a kernel that reads its own code, or
addresses on the harness's stack, can find the records.
"""

from __future__ import annotations

import re
import secrets
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tilewright.native.conditions.facts import Site
from tilewright.native.conditions.flags import needed_before
from tilewright.native.conditions.listing import Listing

_PLACE = struct.Struct("<Q")
_PER_SITE = 3
"""Places of a condition: whether it was false, whether it was true, and a hash of its results.
Places of a value: whether there was one, whether it was followed by another one, and the first one.
Of a load and a result, only the third place is used, for a hash of all values. Of a result with
bits, the other places contain the bits that were 1 in any value, and those that were 0.
"""
_SSE_BYTES = 16
_OF_STACK = re.compile(r"(-?\d*)\(%rsp")
_NEEDS_VEX = re.compile(r"%xmm(?:1[6-9]|[23]\d)")
_PUSHED = 8
"""The bytes of a register on the stack."""
_OF_FLAGS = ("\tpushfq", "\tpopfq")
_LEAST_PLACES, _TIMES = 1024, 32
"""Least number of places, and the number of places for each one in use."""


_KERNEL = re.compile(r"(?<![\w.$])kernel(?![\w.$])")
_TEXTS = (".file", ".string", ".ascii", ".section")
_PASSED = ("di", "si", "dx", "cx", "8", "9")
"""The registers of the first arguments."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """The name of the recorder's variable, the number that it writes, the number that is subtracted
    from the records' address, and the place of each record, in bytes. All are random. `with_bits`
    are the positions of the results whose bits are recorded.
    """

    name: str
    number: int
    distance: int
    places: Sequence[tuple[int, ...]]
    size: int
    with_bits: frozenset[int] = frozenset()

    @classmethod
    def of(cls, sites: int, with_bits: Collection[int] = ()) -> Recorder:
        """A recorder of so many conditions and values."""
        count = max(_LEAST_PLACES, _TIMES * _PER_SITE * sites)
        drawn = secrets.SystemRandom().sample(range(count), _PER_SITE * sites)
        at = [_PLACE.size * place for place in drawn]
        places = [tuple(at[n : n + _PER_SITE]) for n in range(0, len(at), _PER_SITE)]
        number, distance = secrets.randbits(31) | 1, 8 * secrets.randbits(27)
        name = f"tilewright_{secrets.token_hex(8)}"
        size = _PLACE.size * count
        return cls(name, number, distance, places, size, frozenset(with_bits))

    def of_kernel(self, listing: Listing, sites: Sequence[Site], arguments: int) -> str:
        """The listing of a kernel in C with recording code. The kernel has another parameter after
        its `arguments`, the array of the records.
        """
        lines = [
            _KERNEL.sub(f"{self.name}_kernel", line)
            if "kernel" in line and not line.lstrip().startswith(_TEXTS)
            else line
            for line in self._recording(listing, sites)
        ]
        return "\n".join([*lines, *self._caller(arguments)]) + "\n"

    def of_program(self, listing: Listing, sites: Sequence[Site], begins: str, size: str) -> str:
        """The listing with recording code, a function `begins` that is called with the address of
        the records, and a variable `size`, their size in bytes."""
        function = (
            *("\t.text", f"\t.globl {begins}", f"\t.type {begins}, @function", f"{begins}:"),
            *(f"\tsubq\t${self.distance}, %rdi", f"\tmovq\t%rdi, {self.name}(%rip)", "\tret"),
            *(f"\t.size {begins}, .-{begins}", "\t.section .rodata", "\t.balign 8"),
            *(f"\t.globl {size}", f"{size}:", f"\t.quad {self.size}"),
        )
        return "\n".join([*self._recording(listing, sites), *function]) + "\n"

    def _recording(self, listing: Listing, sites: Sequence[Site]) -> list[str]:
        """The lines of the listing with recording code, and the recorder's variable."""
        added: dict[tuple[int, bool], list[str]] = {}
        needed = _places_with_flags(listing)
        for index, site in enumerate(sites):
            place = site.instruction.at, site.is_result
            added.setdefault(place, []).extend(self._code_of(index, site, flags=place in needed))
        text: list[str] = []
        for at, line in enumerate(listing.lines):
            text += [*added.get((at, False), ()), line, *added.get((at, True), ())]
        return [*text, "\t.bss", "\t.balign 8", f"{self.name}:", "\t.zero 8"]

    def _code_of(self, index: int, site: Site, *, flags: bool) -> list[str]:
        """The code that records a site, and keeps the flags if an instruction may read them."""
        if site.value is None:
            return self._code(index, site.condition or "")
        if site.value[1] > _PLACE.size:
            lines = self._vector_code(index, *site.value)
        elif site.is_load or site.is_result:
            lines = self._load_code(index, site, pushed=_PUSHED * (1 + flags))
        else:
            lines = self._value_code(index, *site.value)
        return lines if flags else [line for line in lines if line not in _OF_FLAGS]

    def _code(self, index: int, condition: str) -> list[str]:
        no, yes, hashed = self.places[index]
        hash_ = f"{self.distance + hashed}(%rcx)"
        return [
            *("\tpushq\t%rax", "\tpushq\t%rcx"),
            *(f"\tmovl\t${no}, %eax", f"\tmovl\t${yes}, %ecx", f"\tcmov{condition}\t%ecx, %eax"),
            f"\tmovq\t{self.name}(%rip), %rcx",
            f"\tmovl\t${self.number}, {self.distance}(%rcx,%rax)",
            # only instructions that change no flags
            *("\tpushq\t%rdx", f"\tmovq\t{hash_}, %rdx", "\tleaq\t(%rdx,%rdx,8), %rdx"),
            *("\tleaq\t1(%rdx,%rax), %rdx", f"\tmovq\t%rdx, {hash_}", "\tpopq\t%rdx"),
            *("\tpopq\t%rcx", "\tpopq\t%rax"),
        ]

    def _vector_code(self, index: int, register: str, size: int) -> list[str]:
        """Code that adds all parts of a vector register to a hash."""
        hash_ = f"{self.distance + self.places[index][2]}(%rcx)"
        move = "vmovups" if size > _SSE_BYTES or _NEEDS_VEX.fullmatch(register) else "movups"
        parts = (
            line
            for at in range(0, size, _PLACE.size)
            for line in (f"\txorq\t{at}(%rsp), %rax", f"\timulq\t${self.number}, %rax, %rax",
                         "\taddq\t$1, %rax")
        )  # fmt: skip
        return [
            *("\tpushq\t%rax", "\tpushfq", "\tpushq\t%rcx", f"\tsubq\t${size}, %rsp"),
            *(f"\t{move}\t{register}, (%rsp)", f"\tmovq\t{self.name}(%rip), %rcx"),
            *(f"\tmovq\t{hash_}, %rax", *parts, f"\tmovq\t%rax, {hash_}"),
            *(f"\taddq\t${size}, %rsp", "\tpopq\t%rcx", "\tpopfq", "\tpopq\t%rax"),
        ]

    def _value_code(self, index: int, operand: str, size: int) -> list[str]:
        seen, differs, first = (f"{self.distance + at}(%rcx)" for at in self.places[index])
        load = f"\tmovl\t{operand}, %eax" if size == 4 else f"\tmovq\t{operand}, %rax"
        return [
            *("\tpushq\t%rax", "\tpushfq", load, "\tpushq\t%rcx"),
            f"\tmovq\t{self.name}(%rip), %rcx",
            f"\tcmpl\t$0, {seen}",
            "\tjne\t1f",
            f"\tmovq\t%rax, {first}",
            f"\tmovl\t${self.number}, {seen}",
            f"1:\tcmpq\t%rax, {first}",
            "\tje\t2f",
            f"\tmovl\t${self.number}, {differs}",
            *("2:\tpopq\t%rcx", "\tpopfq", "\tpopq\t%rax"),
        ]

    def _load_code(self, index: int, site: Site, *, pushed: int) -> list[str]:
        assert site.value is not None
        operand, size = site.value
        hashed = f"{self.distance + self.places[index][2]}(%rcx)"
        load = {1: "movzbl\t{}, %eax", 2: "movzwl\t{}, %eax", 4: "movl\t{}, %eax"}
        of_float = "vmov" if _NEEDS_VEX.fullmatch(operand) else "mov"
        if "%xmm" in operand:
            load = {4: f"{of_float}d\t{{}}, %eax", 8: f"{of_float}q\t{{}}, %rax"}
        operand = _OF_STACK.sub(lambda found: f"{int(found[1] or 0) + pushed}(%rsp", operand)
        of_mask = "kmovq\t{}, %rax" if operand.startswith("%k") else "movq\t{}, %rax"
        return [
            *("\tpushq\t%rax", "\tpushfq"),
            "\t" + load.get(size, of_mask).format(operand),
            *(_with_other(*site.other, size, pushed) if site.other else ()),
            *("\tpushq\t%rcx", f"\tmovq\t{self.name}(%rip), %rcx"),
            *(self._bits_code(index) if index in self.with_bits else ()),
            f"\txorq\t{hashed}, %rax",
            *(f"\timulq\t${self.number}, %rax, %rax", "\taddq\t$1, %rax"),
            *(f"\tmovq\t%rax, {hashed}", "\tpopq\t%rcx", "\tpopfq", "\tpopq\t%rax"),
        ]

    def _bits_code(self, index: int) -> list[str]:
        """Code that records the bits of a register."""
        ones, zeros, _ = (f"{self.distance + at}(%rcx)" for at in self.places[index])
        return [
            *(f"\torq\t%rax, {ones}", "\tnotq\t%rax", f"\torq\t%rax, {zeros}", "\tnotq\t%rax"),
        ]

    def hashes(self, records: bytes) -> list[int]:
        """For each condition, load and result, a hash of all its values in their order;
        0 if there were none."""
        return [_PLACE.unpack_from(records, places[2])[0] for places in self.places]

    def firsts(self, records: bytes) -> list[int]:
        """For each value, the first one, and for each result with bits, those that were 1."""
        return [
            _PLACE.unpack_from(records, places[0 if index in self.with_bits else 2])[0]
            for index, places in enumerate(self.places)
        ]

    def without_hashes(self, records: bytes, sites: Sequence[Site]) -> bytes:
        """The records with no hashes, as before the next call."""
        rest = bytearray(records)
        for site, places in zip(sites, self.places, strict=True):
            if site.value is None or site.is_load or site.is_result:
                _PLACE.pack_into(rest, places[2], 0)
        return bytes(rest)

    def _caller(self, arguments: int) -> list[str]:
        """The function `kernel`, which stores the records' address and calls the kernel's own."""
        on_stack = max(0, arguments - len(_PASSED))
        last = arguments - len(_PASSED)
        given = f"%r{_PASSED[arguments]}" if last < 0 else f"{16 + 8 * last}(%rbp)"
        return [
            *("\t.text", "\t.globl kernel", "\t.type kernel, @function", "kernel:"),
            *("\tpushq\t%rbp", "\tmovq\t%rsp, %rbp"),
            *(f"\tmovq\t{given}, %rax", f"\tsubq\t${self.distance}, %rax"),
            *(f"\tmovq\t%rax, {self.name}(%rip)", f"\tmovq\t$0, {given}"),
            *("\tsubq\t$8, %rsp",) * (on_stack % 2 == 1),
            *(f"\tpushq\t{16 + 8 * n}(%rbp)" for n in reversed(range(on_stack))),
            f"\tcall\t{self.name}_kernel",
            *("\tleave", "\tret", "\t.size kernel, .-kernel"),
        ]

    def results(self, records: bytes) -> list[tuple[bool, bool]] | None:
        """For each condition, whether it was false at least once, and whether it was true; for each
        value, and each result with bits, whether there was one, and whether there was another one.
        None if the kernel has written to the records.
        """
        rest = bytearray(records)
        found = []
        for index, places in enumerate(self.places):
            no, yes, _ = (_PLACE.unpack_from(records, at)[0] for at in places)
            for at in places:
                _PLACE.pack_into(rest, at, 0)
            if index in self.with_bits:
                found.append((no | yes != 0, no & yes != 0))
                continue
            if not {no, yes} <= {0, self.number}:
                return None
            found.append((no != 0, yes != 0))
        return None if any(rest) else found


def _with_other(does: str, operand: str, size: int, pushed: int) -> list[str]:
    """An operation on the register with the loaded value."""
    suffix, register = {1: ("b", "al"), 2: ("w", "ax"), 4: ("l", "eax"), 8: ("q", "rax")}[size]
    operand = _OF_STACK.sub(lambda found: f"{int(found[1] or 0) + pushed}(%rsp", operand)
    return [f"\t{does}{suffix}\t{operand}, %{register}"]


def _places_with_flags(listing: Listing) -> set[tuple[int, bool]]:
    """The lines of instructions before which (False) or after which (True) flags must be kept."""
    found = set()
    for function in listing.functions.values():
        needed = needed_before(function)
        for at, one in enumerate(function.code):
            found |= {(one.at, after) for after in (False, True) if needed[at + after]}
    return found
