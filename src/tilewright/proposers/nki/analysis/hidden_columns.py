"""Describes how an instruction changes if a part of it is hidden."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from tilewright.proposers.nki.ir import Op, Region
from tilewright.proposers.nki.linear import Linear

FAR = -500.0
"""Upper limit of a masked score; the exponential of less than -104 is zero in float32."""


@dataclass(frozen=True, slots=True)
class Action:
    """The change of an instruction: the regions `keys` are cut to some indices of their first axis.

    This is the first axis after the partition with more than one index. `live` is None if all
    indices stay, and empty if the instruction is removed. A selection keeps the indices that are
    `masked` in some partitions; the other live ones are copied.
    """

    live: tuple[int, int] | None = None
    keys: tuple[str, ...] = ()
    masked: tuple[int, int] | None = None

    @property
    def drops(self) -> bool:
        """Whether the whole instruction is removed."""
        return self.live is not None and self.live[0] == self.live[1]


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive iterations of a loop in which every statement has the same action."""

    start: int
    stop: int
    inner: tuple[TrackedArray, ...]


TrackedArray: TypeAlias = Action | tuple[Run, ...]
"""The action for a statement; a loop is divided into runs."""
KEPT, DROPPED = Action(), Action(live=(0, 0))


@dataclass(frozen=True, slots=True)
class Span:
    """Of `count` indices, those from `low` to `high` contain scores or weights; all others contain
    `value`."""

    count: int
    low: int
    high: int
    value: float

    @property
    def empty(self) -> bool:
        """Whether all indices are hidden."""
        return self.low == self.high

    def action(self, *keys: str) -> Action:
        """The instruction without what is hidden, with these regions cut."""
        return DROPPED if self.empty else Action((self.low, self.high), keys)


def mask_start(select: Op) -> Linear:
    """The value that `affine_select` compares with zero in the first column and partition."""
    offset = select.get("offset") or 0
    return offset if isinstance(offset, Linear) else Linear(int(str(offset)))


def cut(region: Region, live: tuple[int, int]) -> Region:
    """A region with fewer indices of its first axis (after the partition) that has more than one
    index."""
    low, high = live
    dims = list(region.dims)
    number = next((n for n in range(1, len(dims)) if dims[n][1] > 1), None)
    if number is None:
        return region
    step = dims[number][0]
    dims[number] = (step, high - low)
    return replace(region, offset=region.offset + step * low, dims=tuple(dims))
