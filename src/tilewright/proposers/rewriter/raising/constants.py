"""Arrays of constants that the core writes before all commands, for sums that need them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.proposers.rewriter.raising.computation import Constant
from tilewright.proposers.rewriter.raising.translation.parts import SPACING


@dataclass
class Constants:
    """The arrays that a computation needs, numbered from `number` on.

    Rows have `columns` elements of the size of sums, as many as the widest load moves.
    """

    number: int
    sum_size: int
    columns: int
    made: dict[tuple[int, int, tuple[int, ...]], Constant] = field(default_factory=dict)

    def row(self, value: int) -> int:
        """The address of a row whose elements are all `value`."""
        return self._array(value, self.sum_size, (self.columns,))

    def identity(self, size: int, rows: int, value: int = 1) -> int:
        """The address of an identity matrix, multiplied by `value`."""
        return self._array(value, size, (rows, rows))

    def _array(self, value: int, size: int, shape: tuple[int, ...]) -> int:
        new = Constant(self.number + len(self.made), size, shape, value)
        return self.made.setdefault((value, size, shape), new).number * SPACING

    def __iter__(self) -> Iterator[Constant]:
        return iter(self.made.values())
