"""Follows the maxima that the core computes, such as max pooling, so that the array computes them.

The array computes max(a, b) as a + ReLU(b - a), for elements of one byte that are not negative: the
differences then fit into an operand of the array. Elements are known to be not negative if a store
that makes negative sums zero wrote them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from tilewright.proposers.rewriter.raising.data import Greatest
from tilewright.proposers.rewriter.raising.execute import CORE, NotRaised, Run
from tilewright.proposers.rewriter.raising.memory_order import MemoryOrder
from tilewright.proposers.rewriter.raising.own_arrays import Fillings
from tilewright.proposers.rewriter.raising.translation.parts import OWN, SPACING


@dataclass(frozen=True, slots=True)
class Maximum:
    """Adjacent bytes from `address` on, each of which is the maximum of the bytes at the same
    distance from the addresses `sources`."""

    address: int
    sources: tuple[int, ...]
    columns: int
    phase: int


@dataclass
class Maxima:
    """The maxima of a run. `compared` are the numbers of the arrays from which it takes maxima, and
    `cells` says for each of their stored bytes where it is, after which event, and whether it may
    be negative."""

    own: Fillings
    order: MemoryOrder
    compared: frozenset[int]
    cells: dict[int, tuple[int, int, bool]] = field(default_factory=dict)
    found: list[Maximum] = field(default_factory=list)

    @classmethod
    def of(cls, run: Run, own: Fillings, order: MemoryOrder) -> Maxima:
        """The maxima that the core takes in a run, not yet followed."""
        values = [e[4] for e in run.events if e[0] == CORE and isinstance(e[4], Greatest)]
        terms = (t for value in values for t in value.elements)
        return cls(own, order, frozenset(t.address // SPACING for t in terms))

    def keep(
        self, address: int, at: int, stride: int, size: int, rows: int, moment: int, *,
        negative: bool,
    ) -> None:  # fmt: skip
        """Take note of rows of `size` bytes that a command stores in event number `moment`, and
        whether they may be negative. In the nest, they are `at` another address."""
        for row in range(rows):
            for byte in range(row * stride, row * stride + size):
                self.cells[address + byte] = at + byte, moment, negative

    def store(
        self, address: int, size: int, value: Greatest, used: Collection[int], line: int
    ) -> None:
        """Follow a store by the core. `used` are the arrays that commands use."""
        number = address // SPACING
        if number >= OWN // SPACING and number not in used:
            return
        if size != 1 or value.least > 0:
            raise NotRaised("the core stores a maximum of other values than bytes", line)
        sources = set[int]()
        for element in value.elements:
            at, stored, negative = self.cells.get(element.address, (0, 0, True))
            if negative or stored >= element.moment:
                raise NotRaised(
                    "the core takes the maximum of values that no store with ReLU wrote before",
                    line,
                )
            sources.add(at)
        if len(sources) < 2:  # the core read one element several times
            raise NotRaised("the core takes the maximum of an element and itself", line)
        phase = max(self.order.phase_of(at, 0, 1, 1) for at in sources)
        target = self.own.stored(address, 0, 1, 1, line)
        self.order.mark(target, 1, phase + 1, line)
        self.found.append(Maximum(target, tuple(sorted(sources)), 1, phase))

    def rows(self, width: int) -> Iterator[Maximum]:
        """The maxima as rows of at most `width` bytes."""
        row: Maximum | None = None
        for one in sorted(self.found, key=attrgetter("address")):
            if row is not None and row.columns < width and one == _next_to(row):
                row = Maximum(row.address, row.sources, row.columns + 1, row.phase)
                continue
            if row is not None:
                yield row
            row = one
        if row is not None:
            yield row


def _next_to(row: Maximum) -> Maximum:
    sources = tuple(at + row.columns for at in row.sources)
    return Maximum(row.address + row.columns, sources, 1, row.phase)
