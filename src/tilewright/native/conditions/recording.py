"""Adds code to an assembly listing that records which results conditions have had, and which values
were not always the same.

Before each instruction that uses a condition, the code writes a random number to one of two places,
one for each result of the condition. Of a value, the code keeps the first one. It writes the random
number to one place if there was a value, and to the other place if a later value differs. The code
changes no flags, and restores the registers that it uses from the stack, below which the listing's
code keeps nothing (`-mno-red-zone`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.native.conditions.dependence import Site
from tilewright.native.conditions.listing import Listing

_PLACE = struct.Struct("<8xII")
"""Of each condition: whether it was false, and whether it was true. Of each value: the first one,
whether there was one, and whether it was followed by another one.
"""


_KERNEL = re.compile(r"(?<![\w.$])kernel(?![\w.$])")
_TEXTS = (".file", ".string", ".ascii", ".section")
_PASSED = ("di", "si", "dx", "cx", "8", "9")
"""The registers of the first arguments."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """The name of the recorder's variable, and the number that it writes.

    Both are random, so that a kernel can neither write to the variable nor declare it.
    """

    name: str
    number: int

    def bytes_for(self, sites: int) -> int:
        """Size of the records of a number of conditions."""
        return _PLACE.size * sites

    def recording(self, listing: Listing, sites: Sequence[Site], arguments: int) -> str:
        """The listing with recording code. Its kernel has another parameter after its `arguments`,
        to which the records are copied.
        """
        before = {site.instruction.at: index for index, site in enumerate(sites)}
        text: list[str] = []
        for at, line in enumerate(listing.lines):
            if at in before:
                site = sites[before[at]]
                text += (
                    self._code(before[at], site.condition or "")
                    if site.value is None
                    else self._value_code(before[at], *site.value)
                )
            is_text = line.lstrip().startswith(_TEXTS)
            text.append(line if is_text else _KERNEL.sub(f"{self.name}_kernel", line))
        size = self.bytes_for(len(sites))
        variable = ("\t.bss", "\t.balign 8", f"{self.name}:", f"\t.zero {size}")
        return "\n".join([*text, *self._caller(arguments, size), *variable]) + "\n"

    def _code(self, index: int, condition: str) -> list[str]:
        return [
            "\tpushq\t%rax",
            "\tpushq\t%rcx",
            f"\tset{condition}\t%al",
            "\tmovzbl\t%al, %eax",
            f"\tleaq\t{self.name}+{_PLACE.size * index + 8}(%rip), %rcx",
            f"\tmovl\t${self.number}, (%rcx,%rax,4)",
            "\tpopq\t%rcx",
            "\tpopq\t%rax",
        ]

    def _value_code(self, index: int, operand: str, size: int) -> list[str]:
        place = _PLACE.size * index
        load = f"\tmovl\t{operand}, %eax" if size == 4 else f"\tmovq\t{operand}, %rax"
        return [
            *("\tpushq\t%rax", "\tpushfq", load),
            f"\tcmpl\t$0, {self.name}+{place + 8}(%rip)",
            "\tjne\t1f",
            f"\tmovq\t%rax, {self.name}+{place}(%rip)",
            f"\tmovl\t${self.number}, {self.name}+{place + 8}(%rip)",
            f"1:\tcmpq\t%rax, {self.name}+{place}(%rip)",
            "\tje\t2f",
            f"\tmovl\t${self.number}, {self.name}+{place + 12}(%rip)",
            *("2:\tpopfq", "\tpopq\t%rax"),
        ]

    def _caller(self, arguments: int, size: int) -> list[str]:
        """The function `kernel`, which calls the kernel's own and then copies the records."""
        on_stack = max(0, arguments - len(_PASSED))
        last = arguments - len(_PASSED)
        given = f"%r{_PASSED[arguments]}" if last < 0 else f"{16 + 8 * last}(%rbp)"
        return [
            *("\t.text", "\t.globl kernel", "\t.type kernel, @function", "kernel:"),
            *("\tpushq\t%rbp", "\tmovq\t%rsp, %rbp", "\tpushq\t%rbx"),
            f"\tmovq\t{given}, %rbx",
            *("\tsubq\t$8, %rsp",) * (on_stack % 2 == 0),
            *(f"\tpushq\t{16 + 8 * n}(%rbp)" for n in reversed(range(on_stack))),
            f"\tcall\t{self.name}_kernel",
            *("\tmovq\t%rbx, %rdi", f"\tleaq\t{self.name}(%rip), %rsi"),
            *(f"\tmovl\t${size}, %ecx", "\trep movsb"),
            *("\tmovq\t-8(%rbp), %rbx", "\tleave", "\tret", "\t.size kernel, .-kernel"),
        ]

    def results(self, records: bytes) -> list[tuple[bool, bool]]:
        """For each condition, whether it was false at least once, and whether it was true; for each
        value, whether there was one, and whether there was another one.
        """
        return [(no == self.number, yes == self.number) for no, yes in _PLACE.iter_unpack(records)]
