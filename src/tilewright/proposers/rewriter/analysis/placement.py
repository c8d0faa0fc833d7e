"""Assigns addresses to buffers: one after the other, or in different banks to avoid conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from operator import mul
from typing import NamedTuple, TypeAlias

from tilewright.proposers.rewriter.analysis.addresses import relocated
from tilewright.proposers.rewriter.analysis.buffers import (
    Buffer,
    NotApplicable,
    check_all_commands_known,
    find_buffers,
)
from tilewright.proposers.rewriter.ir import Command, Kernel, walk_paths
from tilewright.proposers.rewriter.machine import Machine, Space

ELSEWHERE = 1 << 24
"""Rows from here on exist in no memory. An enlarged buffer has these rows until it is placed."""


Place: TypeAlias = tuple[int, int]
"""Row of the first slot, and distance in rows between slots."""
BEAM = 48
"""Number of placements that are kept after each buffer, if there are few buffers."""
MOST_TRIED = 1_600
"""Maximum of the kept placements multiplied by the square of the number of buffers, which limits
the time."""
PARTNERS_SHARE, SLOTS_SHARE, OTHERS_SHARE = 4.0, 1.0, 0.5
"""Cost of sharing a bank: a product waits for each row; loads disturb reads only sometimes."""


def placed(kernel: Kernel, machine: Machine) -> Kernel:
    """Give a place to every buffer that does not have one: in different banks, or otherwise by
    first fit.

    `NotApplicable` if the buffers do not fit, or if unrecognised code may use their rows.
    """
    check_all_commands_known(kernel, machine)
    for space in machine.spaces.values():
        buffers = [b for b in find_buffers(kernel, machine) if b.space == space.name]
        if all(end <= space.rows for b in buffers for _, end in b.intervals()):
            continue
        plan = _spread_plan(kernel, machine, space) or _first_fit(buffers, space)
        kernel = _moved(kernel, buffers, plan)
    return kernel


def spread(kernel: Kernel, machine: Machine) -> Kernel:
    """Place buffers that are used together in different banks.

    Before: `mvin(.., SPAD(0), ..); mvin2(.., SPAD(16), ..)` and a product that reads both. After:
    the second one at `SPAD(4096)`. The slots of one buffer also get different banks if they fit.
    """
    check_all_commands_known(kernel, machine)
    for space in machine.spaces.values():
        buffers = [b for b in find_buffers(kernel, machine) if b.space == space.name]
        kernel = _moved(kernel, buffers, _spread_plan(kernel, machine, space))
    return kernel


def _spread_plan(kernel: Kernel, machine: Machine, space: Space) -> Mapping[str, Place]:
    """Base and slot stride for each buffer of a memory; empty if the memory is too full for a
    choice."""
    buffers = [b for b in find_buffers(kernel, machine) if b.space == space.name]
    sizes = tuple(_Size(b.name, b.rows, b.slots) for b in buffers)
    return _places(sizes, frozenset(_used_together(kernel, machine, buffers)), space)


class _Size(NamedTuple):
    """The size of a buffer, for placing it."""

    name: str
    rows: int
    slots: int


@lru_cache(maxsize=1 << 11)
def _places(
    sizes: tuple[_Size, ...], together: frozenset[frozenset[str]], space: Space
) -> Mapping[str, Place]:
    """A beam search over placements, largest buffers first. With many buffers, fewer placements are
    kept.

    Results are cached, because most rewrites do not change the sizes of buffers.
    """
    width = max(1, min(BEAM, MOST_TRIED // max(1, len(sizes) ** 2)))
    beam: list[_Placement] = [_Placement((), 0.0)]
    for size in sorted(sizes, key=lambda b: -b.rows * b.slots):
        grown = [
            placement.with_buffer(size, place, crowded, space)
            for placement in beam
            for crowded in [placement.crowded(size, together, space)]
            for place in _positions(size, placement, space)
        ]
        beam = sorted(grown, key=lambda p: (p.cost, p.addresses))[:width]
    return dict(beam[0].named) if beam else {}


@dataclass(frozen=True, slots=True)
class _Placement:
    """The places of some buffers, and how much their accesses conflict."""

    taken: tuple[tuple[_Size, Place], ...]
    cost: float

    @property
    def named(self) -> list[tuple[str, Place]]:
        return [(buffer.name, place) for buffer, place in self.taken]

    @property
    def addresses(self) -> tuple[Place, ...]:
        return tuple(place for _, place in self.taken)

    def crowded(
        self, buffer: _Size, together: frozenset[frozenset[str]], space: Space
    ) -> tuple[float, ...]:
        """What it costs another buffer to have a row in each bank."""
        costs = [0.0] * space.banks
        for other, place in self.taken:
            partners = frozenset((buffer.name, other.name)) in together
            weight = PARTNERS_SHARE if partners else OTHERS_SHARE
            for bank, part in enumerate(_mean_share(_Slots(other.rows, other.slots, place), space)):
                costs[bank] += weight * part
        return tuple(costs)

    def with_buffer(
        self, buffer: _Size, place: Place, crowded: tuple[float, ...], space: Space
    ) -> _Placement:
        """The placement with one more buffer, and the cost of its bank conflicts."""
        new = _Slots(buffer.rows, buffer.slots, place)
        cost = SLOTS_SHARE * _among(new, space) + collision(_mean_share(new, space), crowded)
        return _Placement((*self.taken, (buffer, place)), round(self.cost + cost, 9))


@lru_cache(maxsize=1 << 14)
class _Slots(NamedTuple):
    """The position of a buffer's slots: rows of each slot, number of slots, and the base."""

    rows: int
    slots: int
    place: Place

    def shares(self, space: Space) -> list[tuple[float, ...]]:
        """The part of each slot in each bank."""
        starts = [self.place[0] + s * self.place[1] for s in range(self.slots)]
        return [bank_shares((s, s + self.rows), space) for s in starts]


@lru_cache(maxsize=1 << 12)
def _among(slots: _Slots, space: Space) -> float:
    """How likely rows of two slots of a buffer are in the same bank, over all pairs of slots."""
    return sum(collision(a, b) for a, b in combinations(slots.shares(space), 2))


@lru_cache(maxsize=1 << 14)
def _mean_share(slots: _Slots, space: Space) -> tuple[float, ...]:
    """The part of a buffer's rows in each bank."""
    return tuple(sum(parts) / slots.slots for parts in zip(*slots.shares(space), strict=True))


def bank_shares(rows: tuple[int, int], space: Space) -> tuple[float, ...]:
    """The part of some rows in each bank."""
    first, end = rows
    starts = range(0, space.rows, space.bank_rows)
    inside = [max(0, min(end, s + space.bank_rows) - max(first, s)) for s in starts]
    return tuple(n / (end - first) for n in inside)


def collision(left: Sequence[float], right: Sequence[float]) -> float:
    """How likely a row of each is in the same bank."""
    shared: float = sum(map(mul, left, right))
    return shared


def _first_fit(buffers: list[Buffer], space: Space) -> dict[str, Place]:
    """Base and slot stride for each buffer, placed one after the other, the largest first."""
    need = sum(b.rows * b.slots for b in buffers)
    if need > space.rows:
        raise NotApplicable(f"{need} rows do not fit the {space.rows} rows of {space.name}")
    plan, free = {}, 0
    for buffer in sorted(buffers, key=lambda b: -b.rows * b.slots):
        plan[buffer.name] = (free, buffer.rows if buffer.slots > 1 else 0)
        free += buffer.rows * buffer.slots
    return plan


def _moved(kernel: Kernel, buffers: list[Buffer], plan: Mapping[str, Place]) -> Kernel:
    return relocated(kernel, [(b, *plan[b.name]) for b in buffers if b.name in plan])


def _used_together(kernel: Kernel, machine: Machine, buffers: list[Buffer]) -> set[frozenset[str]]:
    """Pairs of buffers that products in the same innermost statement list read."""
    readers: dict[tuple[int, ...], set[str]] = {}
    where = {
        s: tuple(id(a) for a in above)
        for s, above in walk_paths(kernel.body)
        if isinstance(s, Command)
    }
    for buffer in buffers:
        for access in buffer.readers:
            if machine.unit(access.command.name) == "execute":
                readers.setdefault(where[access.command], set()).add(buffer.name)
    return {frozenset((a, b)) for names in readers.values() for a in names for b in names if a != b}


def _positions(buffer: _Size, placement: _Placement, space: Space) -> Iterator[Place]:
    """Free positions: at a bank's start, before a bank's end, or after another buffer."""
    used = [i for other, place in placement.taken for i in _at(other, *place)]
    strides = [buffer.rows if buffer.slots > 1 else 0]
    if buffer.slots > 1:
        banks = range(1, space.banks // buffer.slots + 1)
        strides += [n * space.bank_rows for n in banks if n * space.bank_rows > buffer.rows]
    starts = range(0, space.rows, space.bank_rows)
    for stride in strides:
        length = stride * (buffer.slots - 1) + buffer.rows
        up_to = {s + space.bank_rows - length for s in starts}
        for base in sorted({*starts, *up_to, *(end for _, end in used)}):
            rows = _at(buffer, base, stride)
            inside = base >= 0 and rows[-1][1] <= space.rows
            if inside and not any(a < d and c < b for a, b in rows for c, d in used):
                yield base, stride


def _at(buffer: _Size, base: int, stride: int) -> list[tuple[int, int]]:
    starts = [base + s * stride for s in range(buffer.slots)]
    return [(s, s + buffer.rows) for s in starts]
