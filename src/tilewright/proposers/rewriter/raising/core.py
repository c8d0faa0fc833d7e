"""Follows what the core computes between commands.

The core may compute a function of stored sums and further rows, which becomes loads and settings of
stores, or copy elements to another array, which becomes loads from where the elements were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.computation import Copied
from tilewright.proposers.rewriter.raising.copied_rows import ZERO, Piece, pieces
from tilewright.proposers.rewriter.raising.data import Data, Element, Greatest, Tree
from tilewright.proposers.rewriter.raising.execute import CORE, NotRaised, Run
from tilewright.proposers.rewriter.raising.translation.parts import OWN, SPACING, Own


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A row of sums that a store wrote to an array of the kernel's own, as terms of these sums."""

    columns: int
    phase: int
    products: tuple[tuple[int, int, int, int], ...]
    rows: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """A row that the core stores: a function of a row of sums plus further rows."""

    address: int
    size: int
    row: Row
    added: tuple[int, ...]
    value: Tree


_Key: TypeAlias = tuple[Row, int, int, tuple[int, ...], Tree]


@dataclass
class CoreCode:
    """Follows the core's stores of a run; `sum_size` is the bytes of a sum.

    The arrays of the kernel's own that the core reads (`read`) contain stored sums. A load from an
    array to which the core only copies elements (`copied`) is replaced by a load from the elements'
    origin. Elements of `cleared` ones of these arrays are zero until the core stores to them.
    `sizes` are the bytes of an element of the kernel's own arrays.
    Where this is impossible, the copy is `kept`: its number, and the number of the array that
    replaces it. `assumed_zero` are addresses that commands loaded before the core stored to them.
    """

    machine: Machine
    sum_size: int
    read: frozenset[int] = frozenset()
    copied: frozenset[int] = frozenset()
    stored: frozenset[int] = frozenset()
    cleared: frozenset[int] = frozenset()
    sizes: Mapping[int, int] = field(default_factory=dict)
    cells: dict[int, tuple[Row, int, int]] = field(default_factory=dict)
    sources: dict[int, int] = field(default_factory=dict)
    open: dict[_Key, set[int]] = field(default_factory=dict)
    unused_number: int = 0
    kept: dict[int, int] = field(default_factory=dict)
    assumed_zero: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, run: Run, machine: Machine, sum_size: int) -> CoreCode:
        """Find what the core reads and stores in a run.

        `NotRaised` if commands use it in a way that cannot be followed.
        """
        events = [e for e in run.events if e[0] == CORE]
        maxima = [e for e in events if isinstance(e[4], Greatest)]
        terms = [t.address // SPACING for e in events if isinstance(e[4], Data) for t in e[4].terms]
        read = frozenset(n for n in terms if n in run.own)
        stored = frozenset(e[2] // SPACING for e in events)
        by_commands = _moved(run, machine, "store")
        results = {e[2] // SPACING for e in maxima} | {
            e[2] // SPACING for e in events if any(t.address // SPACING in read for t in e[4].terms)
        }
        compared = {t.address // SPACING for e in maxima for t in e[4].elements}
        for number in read & compared:
            name = run.own[number].name
            raise NotRaised(f"the core takes maxima of {name} and computes something else from it")
        copied = stored & frozenset(run.own) - by_commands - read - results
        for number in read & (_moved(run, machine, "load") | stored):
            raise NotRaised(f"both the core and commands use the array {run.own[number].name}")
        if number := next(iter(stored & by_commands), 0):
            name = run.own[number].name if number in run.own else f"of argument {number}"
            raise NotRaised(f"both the core and commands store to the array {name}")
        for number in set(terms) - read:
            if number >= OWN // SPACING or number in stored | by_commands:
                raise NotRaised("the core reads an array to which no command stored a result")
        cleared = frozenset(n for n in copied if run.own[n].static)
        last = max([OWN // SPACING, *run.own])
        sizes = {number: own.of.bytes for number, own in run.own.items()}
        return cls(machine, sum_size, read, copied, stored, cleared, sizes, unused_number=last + 1)

    def keep(self, address: int, row: Row, moment: int) -> None:
        """Take note of a row of sums that event number `moment` stores to an array that the core
        reads.
        """
        for column in range(row.columns):
            self.cells[address + column * self.sum_size] = row, column, moment

    def store(
        self, address: int, size: int, data: Data, used: Iterable[int], line: int
    ) -> Iterator[Finished]:
        """Follow a store by the core, and return the row that it completes, if there is one.

        `used` are the arrays that commands use.
        """
        results = [t for t in data.terms if t.address // SPACING in self.read]
        others = [t for t in data.terms if t.address // SPACING not in self.read]
        number = address // SPACING
        if number >= OWN // SPACING and number not in used:
            return
        if not data.terms and number in self.copied:
            self._copy(address, ZERO, line)
            return
        if not results:
            if number not in self.copied or not data.is_sum or len(others) != 1:
                raise NotRaised(
                    "the core computes with array elements but uses no result of a product",
                    line,
                )
            if others[0].bytes != size:
                raise NotRaised("the core copies elements and changes their type", line)
            self._copy(address, others[0].address, line)
            return
        row, column = self._result(results, line)
        if any(t.bytes != self.sum_size for t in others):
            raise NotRaised(
                "the core adds elements whose type differs from the type of the sums", line
            )
        key = (
            row, address - column * size, size,
            tuple(t.address - column * self.sum_size for t in others), data.value,
        )  # fmt: skip
        done = self.open.setdefault(key, set())
        done.add(column)
        if len(done) == row.columns:
            del self.open[key]
            yield Finished(key[1], size, row, key[3], key[4])

    def _copy(self, address: int, source: int, line: int) -> None:
        changed = address // SPACING in self.kept and self.sources.get(address) != source
        if changed or address in self.assumed_zero:  # a later call would load the new element
            raise NotRaised("the core changes an array after commands loaded it", line)
        self.sources[address] = source

    def keep_copy(self, address: int, line: int) -> int:
        """The address of an element in the array that replaces the core's copy.

        The core then writes this array before all commands, and only the elements that are not
        zero.
        """
        number = address // SPACING
        if number not in self.cleared:
            raise NotRaised("a command loads elements that the core copied unevenly", line)
        new = self.kept.setdefault(number, self.unused_number + len(self.kept))
        return address + (new - number) * SPACING

    def kept_copies(self, own: Mapping[int, Own]) -> tuple[Copied, ...]:
        """The arrays that replace the core's copies."""
        found: list[Copied] = []
        for number, new in self.kept.items():
            blocks = [
                (address + (new - number) * SPACING, source)
                for address, source in sorted(self.sources.items())
                if address // SPACING == number and source != ZERO
            ]
            size, shape = own[number].of.bytes, own[number].shape
            found.append(Copied(new, size, shape, tuple(blocks), (((size, size), 1),)))
        return tuple(found)

    def _result(self, results: list[Element], line: int) -> tuple[Row, int]:
        """The row of sums and the column that the core read."""
        held = self.cells.get(results[0].address)
        if len(results) > 1 or held is None or results[0].bytes != self.sum_size:
            raise NotRaised("the core reads a value that no command stored as a complete sum", line)
        row, column, moment = held
        if moment >= results[0].moment:
            raise NotRaised("the core uses a result that was overwritten before", line)
        return row, column

    def origins(
        self, address: int, stride: int, size: int, columns: int, rows: int, line: int
    ) -> list[Piece]:
        """Where the elements were that a load takes from a copy."""
        if self.sizes[address // SPACING] != size:
            raise NotRaised("the core copies elements and a command changes their type", line)
        return pieces(
            [
                [self._origin(address + r * stride + c * size, line) for c in range(columns)]
                for r in range(rows)
            ],
            size,
        )

    def _origin(self, address: int, line: int) -> int:
        found = self.sources.get(address)
        if found is None and address // SPACING in self.cleared:
            self.assumed_zero.add(address)
            return ZERO
        if found is None:
            raise NotRaised(
                "a command loads memory to which neither a command nor the core has stored", line
            )
        return found

    def check_finished(self) -> None:
        """Raise `NotRaised` if the core stored only a part of a row of sums."""
        if self.open:
            raise NotRaised("the core uses only a part of a row of sums")


def _moved(run: Run, machine: Machine, unit: str) -> frozenset[int]:
    """The numbers of the arrays that the loads, or the stores, of a run access."""
    named = {n for n, c in enumerate(run.commands) if machine.unit(c) == unit}
    return frozenset(e[2] // SPACING for e in run.events if e[0] in named)
