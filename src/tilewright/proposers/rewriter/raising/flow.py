"""Finds what reaches memory: each stored row as a sum of products and rows of arrays.

It follows the commands of a run and records the origin of every local row: a row of the scratchpad
is a row of an array, and a row of the accumulator is the sum that it contains. The values that a
store writes are then known without local memories, orders or buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.core import CoreCode, Finished, Row
from tilewright.proposers.rewriter.raising.execute import CORE, NotRaised, Run
from tilewright.proposers.rewriter.raising.own_arrays import Fillings
from tilewright.proposers.rewriter.raising.translation.parts import SPACING

Operands: TypeAlias = tuple[Any, ...]
_ARRAY = "the array"
"""The memory of sums that stay in the array; no local memory of a machine has this name."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The common properties of the products in a sum, except their addresses.

    `settings` are those of the array, `factors` the scales with which the two operands were loaded,
    `depth` and `columns` the size of the second operand. The elements of the first operand are
    `apart` bytes apart from term to term, and those of the second `stride` bytes; from column to
    column, they are `across` bytes apart. `transposed` says which of the two operands the array
    transposes.
    """

    settings: Operands
    factors: tuple[float, float]
    depth: int
    columns: int
    apart: int
    stride: int
    across: int
    transposed: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Store:
    """How a sum is stored: with scale and activation, or unscaled according to a flag; its
    columns."""

    settings: Operands
    unscaled: bool
    columns: int


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


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows of sums that a store writes, `stride` bytes apart; the other fields are those of
    `Sums`."""

    address: int
    stride: int
    count: int
    phase: int
    how: Store
    products: tuple[tuple[int, int, int, int], ...]
    rows: tuple[tuple[int, int, float], ...]


@dataclass(slots=True, eq=False)
class _Block:
    """Rows from `start` on that one load moves. Row r is at `address + r * stride`; the address 0
    means zeros.

    `across` are bytes from column to column; `whole` until another load overwrites some of them.
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


@dataclass
class Computation:
    """The computation of a run: the rows that it stores, by phase. A phase reads rows that earlier
    phases store.

    `own` are the kernel's own arrays among those that it stores. `unused` are the numbers of those
    that only the core needed.
    """

    stored: list[Stored]
    kinds: list[Kind]
    sync: str
    spaces: tuple[str, str]
    own: Fillings
    unused: frozenset[int] = frozenset()


@dataclass
class _Flow:
    machine: Machine
    commands: Sequence[str]
    own: Fillings
    core: CoreCode
    stored: list[Stored] = field(default_factory=list)
    kinds: dict[Kind, int] = field(default_factory=dict)
    moved: dict[str, list[_Block | None]] = field(default_factory=dict)
    sums: dict[str, list[Sums | None]] = field(default_factory=dict)
    load_settings: dict[str, Operands] = field(default_factory=dict)
    settings: dict[str, Operands] = field(default_factory=dict)
    written: dict[int, bytearray] = field(default_factory=dict)
    read: dict[int, bytearray] = field(default_factory=dict)
    latched: tuple[int, int, int] | None = None
    active: tuple[Any, ...] | None = None
    target: tuple[int, int, int] | None = None
    sums_in_array: bool = False
    used: dict[str, str] = field(default_factory=dict)
    sync: str = ""
    tracked: frozenset[int] = frozenset()
    places: dict[int, tuple[str, int, set[str]] | None] = field(default_factory=dict)
    line: int = 0
    moment: int = 0

    # Local addresses

    def located(self, address: int) -> tuple[str, int, set[str]] | None:
        """Memory, row and flags of a local address; None for an address that means no operand."""
        if address not in self.places:
            self.places[address] = self._located(address & 0xFFFFFFFF)
        return self.places[address]

    def _located(self, address: int) -> tuple[str, int, set[str]] | None:
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
            raise NotRaised(f"row {rest} of {name} does not exist", self.line)
        return name, rest, flags

    def bytes_of(self, space: str) -> int:
        """Number of bytes of an element of a local memory."""
        return SIZES[self.machine.element(space) or ""]

    # Commands

    def follow(self, run: Run) -> None:
        """Follow all events in order."""
        for space in self.machine.spaces.values():
            self.moved[space.name] = [None] * space.rows
            self.sums[space.name] = [None] * space.rows
        self.sums[_ARRAY] = [None] * max(s.row_columns for s in self.machine.spaces.values())
        stores = {n for n, c in enumerate(run.commands) if self.machine.unit(c) == "store"}
        by_commands = frozenset(e[2] // SPACING for e in run.events if e[0] in stores)
        self.tracked = by_commands | self.core.stored
        units = [self.machine.unit(name) for name in run.commands]
        actions = {"load": self._load, "store": self._store, "config": self._configure}
        for self.moment, event in enumerate(run.events):
            number, self.line = event[0], event[1]
            if number == CORE:
                for row in self.core.store(event[2], event[3], event[4], run.own, self.line):
                    self._finished(row)
                continue
            name, unit = run.commands[number], units[number]
            if unit in actions:
                actions[unit](name, event[2:])
            elif unit == "execute":
                if self.machine.attribute(name, "latches"):
                    self._latch(name, event[2:])
                else:
                    self._product(name, event[2:])
            elif unit == "sync":
                self.sync = name
        self.core.check_finished()

    def _configure(self, name: str, given: Operands) -> None:
        roles = self.machine.effects[name].operands
        if "id" in roles:
            self.load_settings[f"{name} {given[roles.index('id')]}"] = given
        else:
            self.settings[name] = given
            chosen = self.machine.attribute(name, "sums_in_array")
            if chosen:
                self.sums_in_array = given[0] == self.machine.constants.get(chosen)
            if self.sums_in_array and chosen:
                other = self.machine.attribute(name, "sums_in_memory") or ""
                self.settings[name] = (self.machine.constants[other], *given[1:])

    def _setting(self, name: str, given: Operands, role: str, otherwise: Any) -> Any:
        roles = self.machine.effects[name].operands
        at = roles.index(role)
        return given[at] if at < len(given) else otherwise

    def _load(self, name: str, given: Operands) -> None:
        address, local, columns, rows = given
        place = self.located(local)
        configured = self.machine.attribute(name, "configured_by") or ""
        setting = self.load_settings.get(f"{configured} {self.machine.attribute(name, 'id')}")
        if place is None or (setting is None and address):
            raise NotRaised(f"{name} without an address or a setting", self.line)
        space, row, flags = place
        stride = self._setting(configured, setting or (), "dram_stride", 0)
        scale = float(self._setting(configured, setting or (), "scale", 1.0))
        apart = self._setting(configured, setting or (), "block_stride", 0)
        wide, size = self.machine.spaces[space].row_columns, self.bytes_of(space)
        copied = address // SPACING in self.core.copied
        if address and not copied:
            address = self.own.loaded(address, stride, columns * size, rows, self.line)
        for number, first in enumerate(range(0, columns, wide)):
            part = min(wide, columns - first)
            at, down, across = address + first * size if address else 0, stride, size
            if copied:
                at, down, across = self.core.source(at, stride, size, part, rows, self.line)
            phase = 0
            if address and across == size:
                phase = self._phase_of(at, down, part * size, rows)
            base = row + number * apart
            if space in self._sum_spaces:
                if across != size:
                    raise NotRaised("it adds rows that the core transposed", self.line)
                self._add_rows(space, base, rows, at, down, part, scale, phase, flags)
                continue
            self._check_rows(space, base, rows)
            held = self.moved[space]
            for old in {id(o): o for o in held[base : base + rows] if o is not None}.values():
                old.whole = False
            block = _Block(base, rows, at, down if address else 0, part, scale, phase, across)
            held[base : base + rows] = [block] * rows

    def _check_rows(self, space: str, first: int, count: int) -> None:
        if first + count > len(self.sums[space]):
            raise NotRaised(f"rows up to {first + count} of {space} do not exist", self.line)

    @cached_property
    def _sum_spaces(self) -> frozenset[str]:
        """The local memories for sums: all except the one at address 0."""
        return frozenset(n for n in self.machine.spaces if self.machine.constants[n] != 0)

    def _add_rows(
        self, space: str, base: int, rows: int, at: int, stride: int, columns: int, scale: float,
        phase: int, flags: set[str],
    ) -> None:  # fmt: skip
        self._check_rows(space, base, rows)
        added = [(at, stride, scale)] if at else []
        if "accumulate" not in flags:
            self._put(Sums(base, rows, columns, [], added, phase), space)
            return
        for old in self._held(space, base, rows):
            if old.columns != columns:
                raise NotRaised("it adds rows of different widths", self.line)
            self._check_whole(old)
            offset = (old.start - base) * stride
            old.rows.extend((a + offset, s, f) for a, s, f in added)
            old.phase = max(old.phase, phase)

    def _put(self, new: Sums, space: str) -> None:
        """Replace the contents of the rows by new sums."""
        held = self.sums[space]
        olds = {id(o): o for o in held[new.start : new.start + new.count] if o is not None}
        for old in olds.values():
            if old.start < new.start or old.start + old.count > new.start + new.count:
                for r in range(old.count):
                    held[old.start + r] = old.one(r)
        held[new.start : new.start + new.count] = [new] * new.count

    def _held(self, space: str, first: int, count: int) -> list[Sums]:
        """The sums in some rows, split if they extend beyond these rows."""
        self._check_rows(space, first, count)
        held = self.sums[space]
        one = held[first]
        if one is not None and one.start == first and one.count == count:
            return [one]
        result: list[Sums] = []
        for row in range(first, first + count):
            old = held[row]
            if old is None:
                raise NotRaised(f"row {row} of {space} is used, but nothing wrote it", self.line)
            if old.count > 1:
                for r in range(old.count):
                    held[old.start + r] = old.one(r)
            single = held[row]
            assert single is not None
            result.append(single)
        return result

    def _check_whole(self, sums: Sums) -> None:
        if sums.narrowed:
            raise NotRaised("sums that were made in the array are added to others", self.line)

    def _latch(self, name: str, given: Operands) -> None:
        second, target, columns, depth, target_columns, target_rows = given
        if self.located(second) is not None:
            if self.sums_in_array:
                raise NotRaised("sums in the array that begin with a block", self.line)
            self.latched = (second, columns, depth)
        self.target = (target, target_columns, target_rows)

    def _product(self, name: str, given: Operands) -> None:
        first, added, depth, rows, columns, deep = given
        settings = self.settings.get(self.machine.attribute(name, "configured_by") or "")
        if not settings:
            raise NotRaised(f"{name} without a setting of the array", self.line)
        roles = self.machine.effects[self.machine.attribute(name, "configured_by") or ""].operands
        given_by = dict(zip(roles, settings, strict=False))
        if given_by.get("a_stride", 1) != 1:
            raise NotRaised(f"{name} with a_stride other than 1", self.line)
        configured = self.machine.attribute(name, "configured_by") or ""
        transposed = tuple(bool(given_by.get(f"{one}_transpose", 0)) for one in "ab")
        keeps = bool(self.machine.attribute(name, "keeps"))
        target = self.located(self.target[0]) if self.target is not None else None
        place = self.located(first)
        if self.sums_in_array:
            if any(transposed) or place is None or self.located(added) is None:
                what = f"{name} with sums that stay in the array, and a transposed or no operand"
                raise NotRaised(what, self.line)
            self.active = self._second_operand(added, columns, deep, transposed[1])
            flags = {"accumulate"} if keeps else set()
            self.used["factors"] = place[0]
            self._add_products(
                _ARRAY, 0, flags, place, rows, depth, settings, (False, False), configured
            )
            if target is not None:
                self._leave_array(target, rows)
            return
        if self.located(added) is not None:
            raise NotRaised(f"{name} with a block that is added", self.line)
        if not keeps:
            self.active = self.latched and self._second_operand(*self.latched, transposed[1])
        if target is None or place is None or self.active is None or self.target is None:
            raise NotRaised(f"{name} without an operand or a place for its result", self.line)
        space, at, flags = target
        if space not in self._sum_spaces:
            raise NotRaised(f"{name} with a result that stays in {space}", self.line)
        self.used["factors"], self.used["sums"] = place[0], space
        self._add_products(
            space, at, flags, place, rows, depth, settings, (transposed[0], transposed[1]),
            configured,
        )  # fmt: skip

    def _leave_array(self, target: tuple[str, int, set[str]], rows: int) -> None:
        """The sums in the array as those of a local memory: on the way they may be narrowed."""
        space, at, flags = target
        if space not in self._sum_spaces or "accumulate" in flags:
            raise NotRaised("sums in the array that are added to others, or leave it", self.line)
        self.used["sums"] = space
        self._check_rows(space, at, rows)
        for old in self._held(_ARRAY, 0, rows):
            moved = replace(
                old, start=at + old.start, products=[*old.products], rows=[*old.rows], narrowed=True
            )
            self._put(moved, space)

    def _second_operand(
        self, local: int, columns: int, depth: int, transposed: bool
    ) -> tuple[Any, ...]:
        place = self.located(local)
        assert place is not None
        size = self._across(place, columns if transposed else depth)
        if transposed:
            address, across, scale, phase = self._even_rows(place, columns, depth)
            return (address, size, across, columns, depth, scale, phase, transposed)
        address, stride, scale, phase = self._even_rows(place, depth, columns)
        return (address, stride, size, columns, depth, scale, phase, transposed)

    def _across(self, place: tuple[str, int, set[str]], rows: int) -> int:
        """Bytes from column to column of some rows in memory."""
        self._check_rows(place[0], place[1], rows)
        held = self.moved[place[0]][place[1] : place[1] + rows]
        found = {block.across for block in held if block is not None}
        if len(found) > 1:
            raise NotRaised("an operand is put together from rows and columns", self.line)
        return next(iter(found), self.bytes_of(place[0]))

    def _as_transposed(
        self, settings: Operands, transposed: tuple[bool, bool], configured: str
    ) -> Operands:
        """Settings of the array with which it transposes these operands."""
        roles = self.machine.effects[configured].operands
        found = list(settings)
        for one, chosen in zip("ab", transposed, strict=True):
            if f"{one}_transpose" in roles:
                found[roles.index(f"{one}_transpose")] = int(chosen)
            elif chosen:
                raise NotRaised("an operand that the core transposed", self.line)
        return tuple(found)

    def _even_rows(
        self, place: tuple[str, int, set[str]], rows: int, columns: int
    ) -> tuple[int, int, float, int]:
        """Address, stride, scale and phase of a block of evenly spaced rows in memory."""
        parts = list(self._blocks(place[0], place[1], rows))
        address, stride, _, scale, _, count = parts[0]
        if len(parts) > 1 and count == 1:
            stride = parts[1][0] - address
        even, at = True, address
        for part in parts:
            even &= part[0] == at and (part[5] == 1 or part[1] == stride) and part[3] == scale
            at = part[0] + stride * part[5]
        zero = all(part[0] == 0 for part in parts)
        if not (even or zero):
            raise NotRaised("an operand's rows do not lie evenly in memory", self.line)
        if any(part[2] < columns for part in parts):
            raise NotRaised("an operand is put together from several loads", self.line)
        return (0 if zero else address, stride, scale, max(part[4] for part in parts))

    def _blocks(
        self, space: str, first: int, count: int
    ) -> Iterator[tuple[int, int, int, float, int, int]]:
        """Address, stride, columns, scale, phase and number of rows for each evenly spaced
        block."""
        self._check_rows(space, first, count)
        held, row = self.moved[space], first
        while row < first + count:
            block = held[row]
            if block is None:
                raise NotRaised(f"row {row} of {space} is used, but no load filled it", self.line)
            stop = row + 1
            if block.whole:
                stop = min(first + count, block.start + block.count)
            address = block.address and block.address + (row - block.start) * block.stride
            yield address, block.stride, block.columns, block.scale, block.phase, stop - row
            row = stop

    def _add_products(
        self, space: str, at: int, flags: set[str], place: tuple[str, int, set[str]], rows: int,
        depth: int, settings: Operands, transposed: tuple[bool, bool], configured: str,
    ) -> None:  # fmt: skip
        assert self.active is not None
        assert self.target is not None
        address, stride, across, columns, second_depth, scale, phase, latched = self.active
        _, target_columns, target_rows = self.target
        if second_depth != depth or target_columns != columns or target_rows != rows:
            raise NotRaised("a product's operands do not fit one another", self.line)
        if latched != transposed[1]:
            raise NotRaised("an operand is used with another setting than it was kept", self.line)
        if "accumulate" not in flags:
            self._check_rows(space, at, rows)
            self._put(Sums(at, rows, columns, [], []), space)
        size = self.bytes_of(place[0])
        step = self._across(place, depth if transposed[0] else rows)
        flipped = step != size, (stride if transposed[1] else across) != size
        if transposed[0]:
            first, apart, factor, earlier = self._even_rows(place, depth, rows)
            parts = [(first, step, depth, factor, earlier, rows)]
        elif flipped[0]:
            first, down, factor, earlier = self._even_rows(place, rows, depth)
            apart, parts = step, [(first, down, depth, factor, earlier, rows)]
        else:
            apart, parts = size, list(self._blocks(place[0], place[1], rows))
        if any(flipped):
            transposed = transposed[0] != flipped[0], transposed[1] != flipped[1]
            settings = self._as_transposed(settings, transposed, configured)
            beside = parts[0][1] if transposed[0] else apart, stride if transposed[1] else across
            if beside != (size, size):
                raise NotRaised(
                    "an operand whose elements do not lie beside one another", self.line
                )
        for first, step, width, factor, earlier, count in parts:
            if first and address and width < depth and not transposed[0]:
                raise NotRaised("a product uses more columns than were loaded", self.line)
            described = Kind(
                settings, (factor, scale), depth, columns, apart, stride, across, transposed
            )
            kind = self.kinds.setdefault(described, len(self.kinds))
            later = max(phase, earlier)
            for sums in self._held(space, at, count):
                if sums.columns != columns:
                    raise NotRaised("it adds products of different widths", self.line)
                self._check_whole(sums)
                if first and address:
                    sums.products.append((first + (sums.start - at) * step, step, address, kind))
                    if later > sums.phase:
                        sums.phase = later
            at += count

    def _store(self, name: str, given: Operands) -> None:
        address, local, columns, rows = given
        place = self.located(local)
        configured = self.machine.attribute(name, "configured_by") or ""
        setting = self.settings.get(configured)
        if place is None or setting is None:
            raise NotRaised(f"{name} without an address or a setting", self.line)
        space, row, flags = place
        if space not in self._sum_spaces:
            raise NotRaised(f"{name} copies rows of {space}", self.line)
        stride = setting[self.machine.effects[configured].operands.index("dram_stride")]
        unscaled = "unscaled" in flags
        factors = next((n for n in self.machine.spaces if n != space), space)
        size = self.bytes_of(space if unscaled else factors)
        wide = self.machine.spaces[space].row_columns
        read = address // SPACING in self.core.read
        if read and not unscaled:
            raise NotRaised("the core uses results that are no sums", self.line)
        if not read:
            address = self.own.stored(address, stride, columns * size, rows, self.line)
        for number, first in enumerate(range(0, columns, wide)):
            part = min(wide, columns - first)
            how = Store(() if unscaled else tuple(setting[1:]), unscaled, part)
            base = row + number * wide
            for found in self._held(space, base, rows):
                if found.columns != part:
                    raise NotRaised(f"{name} stores part of a row of sums", self.line)
                if found.narrowed and (unscaled or how.settings[:1] not in ((), (1.0,))):
                    what = f"{name} stores sums that were made in the array, scaled or as they are"
                    raise NotRaised(what, self.line)
                at = address + first * size + (found.start - base) * stride
                for r in range(found.count if read else 0):
                    one = found.one(r)
                    kept = Row(part, one.phase, tuple(one.products), tuple(one.rows))
                    self.core.keep(at + r * stride, kept, self.moment)
                if read:
                    continue
                for r in range(found.count):
                    self._mark(at + r * stride, part * size, found.phase + 1)
                products, added = tuple(found.products), tuple(found.rows)
                self.stored.append(
                    Stored(at, stride, found.count, found.phase, how, products, added)
                )

    def _finished(self, done: Finished) -> None:
        """A row that the core stores."""
        configured = next(
            self.machine.attribute(n, "configured_by") or ""
            for n in self.machine.effects
            if self.machine.is_command(n) and self.machine.unit(n) == "store"
        )
        row, whole = done.row, self.core.unlimited(done)
        settings = (
            () if whole else self.core.settings(configured, done.bounds, done.size, self.line)
        )
        size = done.size * row.columns
        address = self.own.stored(done.address, 0, size, 1, self.line)
        self._mark(address, size, row.phase + 1)
        added = tuple((a, 0, 1.0) for a in done.added)
        self.stored.append(
            Stored(
                address, 0, 1, row.phase, Store(settings, whole, row.columns),
                row.products, (*row.rows, *added),
            )
        )  # fmt: skip

    # Order in memory

    def _phase_of(self, address: int, stride: int, size: int, rows: int) -> int:
        """The number of stores that depend on one another before these bytes are available."""
        array, at = divmod(address, SPACING)
        if array not in self.tracked:
            return 0
        read = self.read.setdefault(array, bytearray())
        _grow(read, at + stride * (rows - 1) + size)
        ones = b"\1" * size
        written = self.written.get(array)
        phase = 0
        for start in range(at, at + stride * (rows - 1) + 1, stride) if stride else (at,):
            if not written or start >= len(written):
                read[start : start + size] = ones
                continue
            levels = written[start : start + size]
            phase = max(phase, *levels)
            if min(levels) == 0:
                read[start : start + size] = ones
        return phase

    def _mark(self, address: int, size: int, phase: int) -> None:
        array, at = divmod(address, SPACING)
        if phase > 255:
            raise NotRaised("more than 255 results depend on one another", self.line)
        written = self.written.setdefault(array, bytearray())
        _grow(written, at + size)
        read = self.read.get(array)
        if any(written[at : at + size]) or (read and any(read[at : at + size])):
            raise NotRaised("it stores to memory that it loaded or stored before", self.line)
        written[at : at + size] = bytes((phase,)) * size


def _grow(held: bytearray, size: int) -> None:
    if len(held) < size:
        held.extend(bytes(max(size, 2 * len(held)) - len(held)))


def computation(run: Run, machine: Machine) -> Computation:
    """What a run stores; `NotRaised` where it is not a sum of products and rows of arrays."""
    sum_size = max(SIZES[machine.element(name) or ""] for name in machine.spaces)
    flow = _Flow(machine, run.commands, Fillings(run.own), CoreCode.of(run, machine, sum_size))
    flow.follow(run)
    if not flow.stored:
        raise NotRaised("it stores no result")
    factors = flow.used.get("factors", next(iter(machine.spaces)))
    sums = flow.used.get("sums") or max(machine.spaces, key=lambda n: machine.constants[n])
    unused = flow.core.read | flow.core.copied
    return Computation(flow.stored, list(flow.kinds), flow.sync, (factors, sums), flow.own, unused)
