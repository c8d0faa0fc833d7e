"""Arrays of the kernel's own in a run: what fills them again fills an array of its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from tilewright.proposers.rewriter.ir import Array, Kernel
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.translation.parts import SPACING, Own

MOST_BYTES = 4 << 20
"""That all fillings of an array may take."""


class Fillings:
    """Where the elements of arrays of the kernel's own lie, if nothing is stored there twice.

    A store to bytes that are stored already begins another filling: a copy of the array, behind the
    ones before. What lies in earlier fillings is out of reach then, and in a filling only what this
    run stored; a load of anything else may want values of an earlier call, and is refused.
    """

    def __init__(self, own: Mapping[int, Own]) -> None:
        self._own = own
        self._number = dict.fromkeys(own, 0)
        self._filled = {number: bytearray(one.bytes) for number, one in own.items()}

    def stored(self, address: int, stride: int, size: int, rows: int, line: int) -> int:
        """Where rows of so many bytes are stored that the kernel stores at an address."""
        number, at = divmod(address, SPACING)
        if number not in self._own:
            return address
        starts = self._rows(number, at, stride, size, rows, line)
        if any(any(self._filled[number][start : start + size]) for start in starts):
            self._number[number] += 1
            self._filled[number] = bytearray(self._own[number].bytes)
            if (self._number[number] + 1) * self._own[number].bytes > MOST_BYTES:
                what = f"{self._own[number].name} is filled again too often"
                raise NotRaised(what, line)
        for start in starts:
            self._filled[number][start : start + size] = b"\1" * size
        return address + self._number[number] * self._own[number].bytes

    def loaded(self, address: int, stride: int, size: int, rows: int, line: int) -> int:
        """Where the rows lie that the kernel loads from an address."""
        number, at = divmod(address, SPACING)
        if number not in self._own:
            return address
        for start in self._rows(number, at, stride, size, rows, line):
            if not all(self._filled[number][start : start + size]):
                what = f"it loads rows of {self._own[number].name} that it did not store before"
                raise NotRaised(what, line)
        return address + self._number[number] * self._own[number].bytes

    def arrays(self, taken: Collection[str]) -> dict[int, Array]:
        """The arrays with all their fillings, by their numbers."""
        return declared(self._own, taken, {n: count + 1 for n, count in self._number.items()})

    def _rows(
        self, number: int, at: int, stride: int, size: int, rows: int, line: int
    ) -> Collection[int]:
        """Where the rows of a move begin within their array."""
        if at + stride * (rows - 1) + size > self._own[number].bytes:
            raise NotRaised(f"it moves what lies behind {self._own[number].name}", line)
        return range(at, at + stride * (rows - 1) + 1, stride) if stride else (at,)


def declared(
    own: Mapping[int, Own], taken: Collection[str], fillings: Mapping[int, int]
) -> dict[int, Array]:
    """Arrays of the kernel's own as a kernel declares them, by their numbers.

    One with several fillings has as many times the rows; the file's own text does not declare it.
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
    """Names that the text around a kernel's body uses."""
    return frozenset(re.findall(r"\w+", kernel.before + kernel.signature + kernel.after))
