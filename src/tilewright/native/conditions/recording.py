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
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.native.conditions.facts import Site
from tilewright.native.conditions.listing import Listing

_PLACE = struct.Struct("<Q")
_PER_SITE = 3
"""Places of a condition: whether it was false, and whether it was true. Places of a value: whether
there was one, whether it was followed by another one, and the first one. Of a load, only the third
place is used, for a hash of all its values.
"""
_LEAST_PLACES, _TIMES = 1024, 32
"""Least number of places, and the number of places for each one in use."""


_KERNEL = re.compile(r"(?<![\w.$])kernel(?![\w.$])")
_TEXTS = (".file", ".string", ".ascii", ".section")
_PASSED = ("di", "si", "dx", "cx", "8", "9")
"""The registers of the first arguments."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """The name of the recorder's variable, the number that it writes, the number that is subtracted
    from the records' address, and the place of each record, in bytes. All are random.
    """

    name: str
    number: int
    distance: int
    places: Sequence[tuple[int, ...]]
    size: int

    @classmethod
    def of(cls, sites: int) -> Recorder:
        """A recorder of so many conditions and values."""
        count = max(_LEAST_PLACES, _TIMES * _PER_SITE * sites)
        drawn = secrets.SystemRandom().sample(range(count), _PER_SITE * sites)
        at = [_PLACE.size * place for place in drawn]
        places = [tuple(at[n : n + _PER_SITE]) for n in range(0, len(at), _PER_SITE)]
        number, distance = secrets.randbits(31) | 1, 8 * secrets.randbits(27)
        name = f"tilewright_{secrets.token_hex(8)}"
        return cls(name, number, distance, places, _PLACE.size * count)

    def of_kernel(self, listing: Listing, sites: Sequence[Site], arguments: int) -> str:
        """The listing of a kernel in C with recording code. The kernel has another parameter after
        its `arguments`, the array of the records.
        """
        lines = [
            line if line.lstrip().startswith(_TEXTS) else _KERNEL.sub(f"{self.name}_kernel", line)
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
        before = {site.instruction.at: index for index, site in enumerate(sites)}
        text: list[str] = []
        for at, line in enumerate(listing.lines):
            if at in before:
                site = sites[before[at]]
                if site.value is None:
                    text += self._code(before[at], site.condition or "")
                elif site.is_load:
                    text += self._load_code(before[at], *site.value)
                else:
                    text += self._value_code(before[at], *site.value)
            text.append(line)
        return [*text, "\t.bss", "\t.balign 8", f"{self.name}:", "\t.zero 8"]

    def _code(self, index: int, condition: str) -> list[str]:
        no, yes, _ = self.places[index]
        return [
            *("\tpushq\t%rax", "\tpushq\t%rcx"),
            *(f"\tmovl\t${no}, %eax", f"\tmovl\t${yes}, %ecx", f"\tcmov{condition}\t%ecx, %eax"),
            f"\tmovq\t{self.name}(%rip), %rcx",
            f"\tmovl\t${self.number}, {self.distance}(%rcx,%rax)",
            *("\tpopq\t%rcx", "\tpopq\t%rax"),
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

    def _load_code(self, index: int, operand: str, size: int) -> list[str]:
        hashed = f"{self.distance + self.places[index][2]}(%rcx)"
        load = {1: "movzbl\t{}, %eax", 2: "movzwl\t{}, %eax", 4: "movl\t{}, %eax"}
        return [
            *("\tpushq\t%rax", "\tpushfq"),
            "\t" + load.get(size, "movq\t{}, %rax").format(operand),
            *("\tpushq\t%rcx", f"\tmovq\t{self.name}(%rip), %rcx", f"\txorq\t{hashed}, %rax"),
            *(f"\timulq\t${self.number}, %rax, %rax", "\taddq\t$1, %rax"),
            *(f"\tmovq\t%rax, {hashed}", "\tpopq\t%rcx", "\tpopfq", "\tpopq\t%rax"),
        ]

    def hashes(self, records: bytes) -> list[int]:
        """For each load, a hash of all values that were read, in their order; 0 if there were
        none."""
        return [_PLACE.unpack_from(records, places[2])[0] for places in self.places]

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
        value, whether there was one, and whether there was another one. None if the kernel has
        written to the records.
        """
        rest = bytearray(records)
        found = []
        for places in self.places:
            no, yes, _ = (_PLACE.unpack_from(records, at)[0] for at in places)
            if not {no, yes} <= {0, self.number}:
                return None
            found.append((no != 0, yes != 0))
            for at in places:
                _PLACE.pack_into(rest, at, 0)
        return None if any(rest) else found
