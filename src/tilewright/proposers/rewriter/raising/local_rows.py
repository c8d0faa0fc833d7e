"""What every row of the local memories contains while a run is followed.

A row of a memory for operands is a row of an array, and a row of a memory for sums is the sum that
it contains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.copied_rows import Run
from tilewright.proposers.rewriter.raising.execute import NotRaised

ARRAY = "the array"
"""The memory of sums that stay in the array; no local memory of a machine has this name."""
Place: TypeAlias = tuple[str, int, set[str]]
"""Memory, row and flags of a local address."""
Part: TypeAlias = tuple[int, int, int, float, int, int, tuple[Run, ...]]
"""Address, stride, columns, scale, phase, number of rows and runs of evenly spaced rows."""


@dataclass(slots=True)
class Sums:
    """Rows of sums from `start` on with the same structure.

    Of a product: the first operand's row of row 0, its bytes from row to row, the second operand,
    the kind. Of added rows: the row of row 0, the bytes from row to row, the load's scale. Sums
    that were made in the array may have been `narrowed` when they left it.
    """

    start: int
    count: int
    columns: int
    products: list[tuple[int, int, int, int]]
    rows: list[tuple[int, int, float]]
    phase: int = 0
    narrowed: bool = False

    def one(self, number: int) -> Sums:
        """Only row `number`."""
        return Sums(
            self.start + number,
            1,
            self.columns,
            [(a + number * s, s, b, k) for a, s, b, k in self.products],
            [(a + number * s, s, f) for a, s, f in self.rows],
            self.phase,
            self.narrowed,
        )


@dataclass(slots=True, eq=False)
class Block:
    """Rows from `start` on that one load moves. Row r is at `address + r * stride`; the address 0
    means zeros.

    `across` are bytes from column to column; `whole` until another load overwrites some of them.
    If the columns come from several places, `runs` are those of row `start`, the address is 0, and
    `copy` are the address and the stride in the core's copy.
    """

    start: int
    count: int
    address: int
    stride: int
    columns: int
    scale: float
    phase: int
    across: int
    whole: bool = True
    runs: tuple[Run, ...] = ()
    copy: tuple[int, int] = (0, 0)


@dataclass
class LocalRows:
    """The contents of the local memories: `moved` rows of arrays, and `sums`.

    `line` is the line of the command that is being followed, for messages.
    """

    machine: Machine
    moved: dict[str, list[Block | None]] = field(default_factory=dict)
    sums: dict[str, list[Sums | None]] = field(default_factory=dict)
    line: int = 0
    _places: dict[int, Place | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for space in self.machine.spaces.values():
            self.moved[space.name] = [None] * space.rows
            self.sums[space.name] = [None] * space.rows
        self.sums[ARRAY] = [None] * max(s.row_columns for s in self.machine.spaces.values())

    def located(self, address: int) -> Place | None:
        """Memory, row and flags of a local address; None for an address that means no operand."""
        if address not in self._places:
            self._places[address] = self._located(address & 0xFFFFFFFF)
        return self._places[address]

    def _located(self, address: int) -> Place | None:
        machine = self.machine
        absent = machine.flag("absent")
        if absent is not None and address == machine.constants[absent]:
            return None
        flags = set()
        bases = {machine.constants[name]: name for name in machine.spaces}
        base = max(b for b in bases if b & address == b)
        rest = address - base
        for name, meaning in machine.flags.items():
            bit = machine.constants[name]
            if name != absent and rest & bit:
                flags.add(meaning)
                rest &= ~bit
        name = bases[base]
        if rest >= machine.spaces[name].rows:
            raise NotRaised(
                f"the kernel uses row {rest} of {name}, which does not exist", self.line
            )
        return name, rest, flags

    def bytes_of(self, space: str) -> int:
        """Number of bytes of an element of a local memory."""
        return SIZES[self.machine.element(space) or ""]

    def check_rows(self, space: str, first: int, count: int) -> None:
        """Raise `NotRaised` if the memory has fewer rows."""
        if first + count > len(self.sums[space]):
            raise NotRaised(f"{space} has no row {first + count - 1}", self.line)

    @cached_property
    def sum_spaces(self) -> frozenset[str]:
        """The local memories for sums: all except the one at address 0."""
        return frozenset(n for n in self.machine.spaces if self.machine.constants[n] != 0)

    def move(self, new: Block, space: str) -> None:
        """Replace the contents of the rows by rows of an array."""
        self.check_rows(space, new.start, new.count)
        held, stop = self.moved[space], new.start + new.count
        for old in {id(o): o for o in held[new.start : stop] if o is not None}.values():
            old.whole = False
        held[new.start : stop] = [new] * new.count

    def put(self, new: Sums, space: str) -> None:
        """Replace the contents of the rows by new sums."""
        held = self.sums[space]
        olds = {id(o): o for o in held[new.start : new.start + new.count] if o is not None}
        for old in olds.values():
            if old.start < new.start or old.start + old.count > new.start + new.count:
                for r in range(old.count):
                    held[old.start + r] = old.one(r)
        held[new.start : new.start + new.count] = [new] * new.count

    def held(self, space: str, first: int, count: int) -> list[Sums]:
        """The sums in some rows, split if they extend beyond these rows."""
        self.check_rows(space, first, count)
        held = self.sums[space]
        one = held[first]
        if one is not None and one.start == first and one.count == count:
            return [one]
        result: list[Sums] = []
        for row in range(first, first + count):
            old = held[row]
            if old is None:
                raise NotRaised(f"row {row} of {space} is used, but no command wrote it", self.line)
            if old.count > 1:
                for r in range(old.count):
                    held[old.start + r] = old.one(r)
            single = held[row]
            assert single is not None
            result.append(single)
        return result

    def across(self, place: Place, rows: int) -> int:
        """Bytes from column to column of some rows in memory."""
        whole = self._block_of_all(place, rows)
        if whole is not None:
            return whole.across
        self.check_rows(place[0], place[1], rows)
        held = self.moved[place[0]][place[1] : place[1] + rows]
        found = {block.across for block in held if block is not None}
        if len(found) > 1:
            raise NotRaised(
                "an operand consists of rows of one load and columns of another", self.line
            )
        return next(iter(found), self.bytes_of(place[0]))

    def copy_of(self, place: Place, rows: int) -> tuple[int, int, float] | None:
        """Address, stride and scale of rows in the core's copy of them; None if they are no such
        rows."""
        self.check_rows(place[0], place[1], rows)
        held = self.moved[place[0]][place[1] : place[1] + rows]
        found = [
            (b.copy[0] + (place[1] + r - b.start) * b.copy[1], b.scale)
            for r, b in enumerate(held)
            if b is not None and b.copy[0]
        ]
        if len(found) < rows or not any(b.runs for b in held if b is not None):
            return None
        address, scale = found[0]
        stride = found[1][0] - address if rows > 1 else 0
        even = all(one == (address + r * stride, scale) for r, one in enumerate(found))
        return (address, stride, scale) if even else None

    def _block_of_all(self, place: Place, rows: int) -> Block | None:
        """The block that contains all of some rows; None if there are several or none."""
        block = self.moved[place[0]][place[1]]
        inside = block is not None and place[1] + rows <= block.start + block.count
        plain = block is not None and block.whole and not block.runs
        return block if inside and plain else None

    def even_rows(self, place: Place, rows: int, columns: int) -> tuple[int, int, float, int]:
        """Address, stride, scale and phase of a block of evenly spaced rows in memory."""
        whole = self._block_of_all(place, rows)
        if whole is not None and whole.columns >= columns:
            address = whole.address and whole.address + (place[1] - whole.start) * whole.stride
            return address, whole.stride, whole.scale, whole.phase
        parts = list(self.blocks(place[0], place[1], rows))
        address, stride, _, scale, _, count, _ = parts[0]
        if len(parts) > 1 and count == 1:
            stride = parts[1][0] - address
        even, at = True, address
        for part in parts:
            even &= part[0] == at and (part[5] == 1 or part[1] == stride) and part[3] == scale
            at = part[0] + stride * part[5]
        zero = all(part[0] == 0 for part in parts)
        if not (even or zero):
            raise NotRaised("the rows of an operand have uneven distances in memory", self.line)
        if any(part[2] < columns or part[6] for part in parts):
            raise NotRaised("the columns of an operand come from several loads", self.line)
        return (0 if zero else address, stride, scale, max(part[4] for part in parts))

    def blocks(self, space: str, first: int, count: int) -> Iterator[Part]:
        """The parts of some rows, each evenly spaced in memory."""
        self.check_rows(space, first, count)
        held, row = self.moved[space], first
        while row < first + count:
            block = held[row]
            if block is None:
                raise NotRaised(f"row {row} of {space} is used, but no load filled it", self.line)
            stop = row + 1
            if block.whole:
                stop = min(first + count, block.start + block.count)
            below = (row - block.start) * block.stride
            address = block.address and block.address + below
            runs = tuple((first, columns, at + below) for first, columns, at in block.runs)
            yield address, block.stride, block.columns, block.scale, block.phase, stop - row, runs
            row = stop
