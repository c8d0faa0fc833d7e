"""The kernel's own arrays in a run. Each time an array is filled again, a new array is used."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from tilewright.proposers.rewriter.ir import Array, Kernel
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.translation.parts import SPACING, Own

MOST_BYTES = 4 << 20
"""Maximum size of all fillings of an array."""


class Fillings:
    """The positions of elements in the kernel's own arrays, so that nothing is stored to the same
    place twice.

    A store to bytes that are already stored begins a new filling, which is a copy of the array
    after the previous copies. Earlier fillings are then not accessible. In a filling, only data
    that this run stored can be loaded. Any other load may read values of an earlier call and is
    refused. The elements of a constant array can always be loaded.
    """

    def __init__(self, own: Mapping[int, Own]) -> None:
        self._own = own
        self._number = dict.fromkeys(own, 0)
        self._filled = {
            number: bytearray((b"\1" if one.constant else b"\0") * one.bytes)
            for number, one in own.items()
        }

    def stored(self, address: int, stride: int, size: int, rows: int, line: int) -> int:
        """The new position for rows of this size in bytes that the kernel stores at an address."""
        number, at = divmod(address, SPACING)
        if number not in self._own:
            return address
        if self._own[number].constant:
            raise NotRaised(f"the kernel stores to the constant {self._own[number].name}", line)
        starts = self._rows(number, at, stride, size, rows, line)
        if any(any(self._filled[number][start : start + size]) for start in starts):
            self._number[number] += 1
            self._filled[number] = bytearray(self._own[number].bytes)
            if (self._number[number] + 1) * self._own[number].bytes > MOST_BYTES:
                what = f"the kernel fills the array {self._own[number].name} too many times"
                raise NotRaised(what, line)
        for start in starts:
            self._filled[number][start : start + size] = b"\1" * size
        return address + self._number[number] * self._own[number].bytes

    def loaded(self, address: int, stride: int, size: int, rows: int, line: int) -> int:
        """The position of the rows that the kernel loads from an address."""
        number, at = divmod(address, SPACING)
        if number not in self._own:
            return address
        for start in self._rows(number, at, stride, size, rows, line):
            if not all(self._filled[number][start : start + size]):
                name = self._own[number].name
                what = f"the kernel loads rows of {name} to which it has not stored"
                raise NotRaised(what, line)
        return address + self._number[number] * self._own[number].bytes

    def numbers(self) -> Collection[int]:
        """The numbers of the arrays, which are part of their addresses."""
        return self._own.keys()

    def arrays(self, taken: Collection[str]) -> dict[int, Array]:
        """The arrays with all their fillings, by number."""
        return declared(self._own, taken, {n: count + 1 for n, count in self._number.items()})

    def _rows(
        self, number: int, at: int, stride: int, size: int, rows: int, line: int
    ) -> Collection[int]:
        """The positions of a move's rows in their array."""
        if at + stride * (rows - 1) + size > self._own[number].bytes:
            what = f"a command accesses memory after the end of {self._own[number].name}"
            raise NotRaised(what, line)
        return range(at, at + stride * (rows - 1) + 1, stride) if stride else (at,)


def declared(
    own: Mapping[int, Own], taken: Collection[str], fillings: Mapping[int, int]
) -> dict[int, Array]:
    """The declarations of the kernel's own arrays, by number.

    An array with several fillings has a multiple of its rows, and is not declared by the file's
    text.
    """
    found: dict[int, Array] = {}
    names = set(taken)
    for number, one in own.items():
        count = fillings.get(number, 1)
        outside = one.outside and count == 1
        name = one.name
        if not outside:
            stem, suffix = (f"{name}_all" if one.outside else name), 2
            name = stem
            while name in names:
                name, suffix = f"{stem}{suffix}", suffix + 1
        names.add(name)
        rows, *rest = one.shape
        found[number] = Array(
            name, (count * rows, *rest), one.of.name, local=True, static=one.static, outside=outside
        )
    return found


def numbered(kernel: Kernel) -> dict[int, Array]:
    """The arrays of a kernel's parameters, by the numbers in their addresses."""
    return dict(enumerate((a for a in kernel.arrays if not a.local), 1))


def names_in(kernel: Kernel) -> frozenset[str]:
    """Names that the text outside a kernel's body uses."""
    return frozenset(re.findall(r"\w+", kernel.before + kernel.signature + kernel.after))
