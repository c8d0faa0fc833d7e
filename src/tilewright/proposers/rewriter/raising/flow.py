"""Finds what reaches memory: each stored row as a sum of products and rows of arrays.

It follows the commands of a run and records the origin of every local row: a row of the scratchpad
is a row of an array, and a row of the accumulator is the sum that it contains. The values that a
store writes are then known without local memories, orders or buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.computation import (
    Computation,
    Kind,
    Operands,
    Product,
    Store,
    Stored,
)
from tilewright.proposers.rewriter.raising.constants import Constants
from tilewright.proposers.rewriter.raising.copied_rows import MOST_RUNS, Piece
from tilewright.proposers.rewriter.raising.core import CoreCode, Finished, Row
from tilewright.proposers.rewriter.raising.data import Greatest, offset_of
from tilewright.proposers.rewriter.raising.execute import CORE, NotRaised, Run
from tilewright.proposers.rewriter.raising.finishing import SUM_BITS, Finish, finish
from tilewright.proposers.rewriter.raising.local_rows import (
    ARRAY,
    Block,
    LocalRows,
    Part,
    Place,
    Sums,
)
from tilewright.proposers.rewriter.raising.maxima import Maxima
from tilewright.proposers.rewriter.raising.memory_order import MemoryOrder
from tilewright.proposers.rewriter.raising.own_arrays import Fillings
from tilewright.proposers.rewriter.raising.translation.parts import SPACING


@dataclass
class _Flow:
    machine: Machine
    own: Fillings
    core: CoreCode
    order: MemoryOrder
    local: LocalRows
    constants: Constants
    maxima: Maxima
    stored: list[Stored] = field(default_factory=list)
    kinds: dict[Kind, int] = field(default_factory=dict)
    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    load_settings: dict[str, Operands] = field(default_factory=dict)
    settings: dict[str, Operands] = field(default_factory=dict)
    read_settings: dict[tuple[str, Operands], tuple[int, tuple[bool, bool]]] = field(
        default_factory=dict
    )
    latched: tuple[int, int, int] | None = None
    begin: tuple[Place, int, int] | None = None
    active: tuple[Any, ...] | None = None
    target: tuple[int, int, int] | None = None
    sums_in_array: bool = False
    used: dict[str, str] = field(default_factory=dict)
    sync: str = ""
    moment: int = 0
    limits: Mapping[int, int] = field(default_factory=dict)

    @property
    def line(self) -> int:
        """The line of the command that is being followed."""
        return self.local.line

    @cached_property
    def _configures_stores(self) -> str:
        """The command that sets how commands store."""
        stores = (n for n in self.machine.effects if self.machine.unit(n) == "store")
        return self.machine.attribute(next(stores), "configured_by") or ""

    def follow(self, run: Run) -> None:
        """Follow all events in order."""
        units = [self.machine.unit(name) for name in run.commands]
        actions = {"load": self._load, "store": self._store, "config": self._configure}
        for number, line, *given in run.settings:
            self.local.line = line
            self._configure(run.commands[number], tuple(given))
        for self.moment, event in enumerate(run.events):
            number, self.local.line = event[0], event[1]
            if number == CORE and isinstance(event[4], Greatest):
                address, size, value = event[2:]
                self.maxima.store(address, size, value, run.own, self.line)
                continue
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
        self._add_maxima()

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
        place = self.local.located(local)
        configured = self.machine.attribute(name, "configured_by") or ""
        setting = self.load_settings.get(f"{configured} {self.machine.attribute(name, 'id')}")
        if place is None or (setting is None and address):
            raise NotRaised(
                f"{name} has no local address, or no command configured it before", self.line
            )
        space, row, flags = place
        stride = self._setting(configured, setting or (), "dram_stride", 0)
        scale = float(self._setting(configured, setting or (), "scale", 1.0))
        apart = self._setting(configured, setting or (), "block_stride", 0)
        wide, size = self.machine.spaces[space].row_columns, self.local.bytes_of(space)
        copied = address // SPACING in self.core.copied
        if address and not copied:
            address = self.own.loaded(address, stride, columns * size, rows, self.line)
        for number, first in enumerate(range(0, columns, wide)):
            part = min(wide, columns - first)
            base, at = row + number * apart, address + first * size if address else 0
            if copied:
                for piece in self.core.origins(at, stride, size, part, rows, self.line):
                    copy = (at, stride)
                    self._load_copied(name, space, base, piece, copy, part, scale, flags)
                    base, at = base + piece.rows, at + piece.rows * stride
                continue
            phase = self.order.phase_of(at, stride, part * size, rows) if address else 0
            if space in self.local.sum_spaces:
                self._add_rows(space, base, rows, at, stride, part, scale, phase, flags)
                continue
            down = stride if address else 0
            self.local.move(Block(base, rows, at, down, part, scale, phase, size), space)

    def _load_copied(
        self, name: str, space: str, base: int, piece: Piece, copy: tuple[int, int], columns: int,
        scale: float, flags: set[str],
    ) -> None:  # fmt: skip
        """Rows that the core copied, loaded from where their elements were."""
        rows, down, across, size = piece.rows, piece.down, piece.across, self.local.bytes_of(space)
        is_plain, phase = piece.is_plain, 0
        for _, width, at in piece.runs if across == size else ():
            phase = max(phase, self.order.phase_of(at, down, width * size, rows))
        first = piece.runs[0] if piece.runs and is_plain else (0, columns, 0)
        if space in self.local.sum_spaces:
            if across != size:
                raise NotRaised(f"{name} adds rows that the core transposed", self.line)
            if first[1] != columns or not is_plain:
                raise NotRaised(
                    f"{name} adds rows of elements that the core copied with uneven distances",
                    self.line,
                )
            self._add_rows(space, base, rows, first[2], down, columns, scale, phase, flags)
            return
        runs = () if first[1] == columns and is_plain else piece.runs
        at = 0 if runs else first[2]
        new = Block(base, rows, at, down, columns, scale, phase, across, runs=runs, copy=copy)
        self.local.move(new, space)

    def _add_rows(
        self, space: str, base: int, rows: int, at: int, stride: int, columns: int, scale: float,
        phase: int, flags: set[str],
    ) -> None:  # fmt: skip
        self.local.check_rows(space, base, rows)
        added = [(at, stride, scale)] if at else []
        if "accumulate" not in flags:
            self.local.put(Sums(base, rows, columns, [], added, phase), space)
            return
        for old in self.local.held(space, base, rows):
            if old.columns != columns:
                raise NotRaised("the kernel adds rows of different widths", self.line)
            self._check_whole(old)
            offset = (old.start - base) * stride
            old.rows.extend((a + offset, s, f) for a, s, f in added)
            old.phase = max(old.phase, phase)

    def _check_whole(self, sums: Sums) -> None:
        if sums.narrowed:
            raise NotRaised("sums from the array are added to other sums", self.line)

    def _latch(self, name: str, given: Operands) -> None:
        second, target, columns, depth, target_columns, target_rows = given
        place = self.local.located(second)
        if self.sums_in_array:
            self.begin = None if place is None else (place, columns, depth)
        elif place is not None:
            self.latched = (second, columns, depth)
        self.target = (target, target_columns, target_rows)

    def _product(self, name: str, given: Operands) -> None:
        first, added, depth, rows, columns, deep = given
        configured = self.machine.attribute(name, "configured_by") or ""
        settings = self.settings.get(configured)
        if not settings:
            raise NotRaised(f"no command configured the array before {name}", self.line)
        known = (configured, settings)
        if known not in self.read_settings:
            self.read_settings[known] = self._read_settings(configured, settings)
        a_stride, transposed = self.read_settings[known]
        if a_stride != 1:
            raise NotRaised(f"{name} is called with a setting a_stride other than 1", self.line)
        keeps = bool(self.machine.attribute(name, "keeps"))
        target = self.local.located(self.target[0]) if self.target is not None else None
        place = self.local.located(first)
        if self.sums_in_array:
            if place is None or self.local.located(added) is None:
                what = f"the sums of {name} stay in the array, and an operand is missing"
                raise NotRaised(what, self.line)
            if all(transposed):
                what = f"the sums of {name} stay in the array, and both operands are transposed"
                raise NotRaised(what, self.line)
            self.active = self._second_operand(added, columns, deep, transposed[1])
            flags = {"accumulate"} if keeps else set()
            self.used["factors"] = place[0]
            self._add_products(
                ARRAY, 0, flags, place, rows, depth, settings, transposed, configured
            )
            if self.begin is not None:
                block, *sizes = self.begin
                if keeps or tuple(sizes) != (columns, rows):
                    raise NotRaised(f"{name} does not begin with the block before it", self.line)
                self._add_block((ARRAY, 0, flags), block, rows, columns, settings, transposed)
            if target is not None:
                self._leave_array(target, rows)
            return
        if not keeps:
            self.active = self.latched and self._second_operand(*self.latched, transposed[1])
        if target is None or place is None or self.active is None or self.target is None:
            raise NotRaised(f"{name} has no operand, or no place for its result", self.line)
        space, at, flags = target
        if space not in self.local.sum_spaces:
            raise NotRaised(f"the result of {name} stays in {space}", self.line)
        self.used["factors"], self.used["sums"] = place[0], space
        self._add_products(
            space, at, flags, place, rows, depth, settings, transposed, configured
        )  # fmt: skip
        addend = self.local.located(added)
        if addend is not None:
            if (columns, deep) != self.target[1:]:
                raise NotRaised(f"{name} adds a block of another size to its product", self.line)
            self._add_block(target, addend, rows, columns, settings, transposed)

    def _read_settings(self, configured: str, settings: Operands) -> tuple[int, tuple[bool, bool]]:
        """The row distance of the first operand, and which operands the array transposes."""
        given = dict(zip(self.machine.effects[configured].operands, settings, strict=False))
        first, second = (bool(given.get(f"{one}_transpose", 0)) for one in "ab")
        return given.get("a_stride", 1), (first, second)

    def _leave_array(self, target: Place, rows: int) -> None:
        """The sums in the array as those of a local memory: on the way they may be narrowed."""
        space, at, flags = target
        if space not in self.local.sum_spaces or "accumulate" in flags:
            raise NotRaised(
                "sums from the array are added to other sums or moved to other memory",
                self.line,
            )
        self.used["sums"] = space
        self.local.check_rows(space, at, rows)
        for old in self.local.held(ARRAY, 0, rows):
            moved = replace(
                old, start=at + old.start, products=[*old.products], rows=[*old.rows], narrowed=True
            )
            self.local.put(moved, space)

    def _second_operand(
        self, local: int, columns: int, depth: int, transposed: bool
    ) -> tuple[Any, ...]:
        place = self.local.located(local)
        assert place is not None
        copy = self.local.copy_of(place, columns if transposed else depth)
        if copy is not None:
            address, stride, scale = self.core.keep_copy(copy[0], self.line), *copy[1:]
            size = self.local.bytes_of(place[0])
            apart, across = (size, stride) if transposed else (stride, size)
            return (address, apart, across, columns, depth, scale, 0, transposed)
        size = self.local.across(place, columns if transposed else depth)
        if transposed:
            address, across, scale, phase = self.local.even_rows(place, columns, depth)
            return (address, size, across, columns, depth, scale, phase, transposed)
        address, stride, scale, phase = self.local.even_rows(place, depth, columns)
        return (address, stride, size, columns, depth, scale, phase, transposed)

    def _as_transposed(
        self, settings: Operands, transposed: tuple[bool, bool], configured: str
    ) -> Operands:
        """Settings of the array with which it transposes these operands."""
        if all(transposed):
            raise NotRaised(
                "both operands of a product are transposed, but the array transposes only one",
                self.line,
            )
        roles = self.machine.effects[configured].operands
        found = list(settings)
        for one, chosen in zip("ab", transposed, strict=True):
            if f"{one}_transpose" in roles:
                found[roles.index(f"{one}_transpose")] = int(chosen)
            elif chosen:
                raise NotRaised(
                    "the core transposed an operand that the array cannot transpose", self.line
                )
        return tuple(found)

    def _add_products(
        self, space: str, at: int, flags: set[str], place: Place, rows: int,
        depth: int, settings: Operands, transposed: tuple[bool, bool], configured: str,
    ) -> None:  # fmt: skip
        assert self.active is not None
        assert self.target is not None
        address, stride, across, columns, second_depth, scale, phase, latched = self.active
        _, target_columns, target_rows = self.target
        if second_depth != depth or target_columns != columns or target_rows != rows:
            raise NotRaised("the sizes of a product's operands do not match", self.line)
        if latched != transposed[1]:
            raise NotRaised(
                "an operand is used under another setting than the one under which it was kept",
                self.line,
            )
        if "accumulate" not in flags:
            self.local.check_rows(space, at, rows)
            self.local.put(Sums(at, rows, columns, [], []), space)
        size = self.local.bytes_of(place[0])
        step = self.local.across(place, depth if transposed[0] else rows)
        flipped = step != size, (stride if transposed[1] else across) != size
        if transposed[0]:
            first, apart, factor, earlier = self.local.even_rows(place, depth, rows)
            parts: list[Part] = [(first, step, depth, factor, earlier, rows, ())]
        elif flipped[0]:
            first, down, factor, earlier = self.local.even_rows(place, rows, depth)
            apart, parts = step, [(first, down, depth, factor, earlier, rows, ())]
        else:
            apart, parts = size, list(self.local.blocks(place[0], place[1], rows))
        if any(flipped):
            transposed = transposed[0] != flipped[0], transposed[1] != flipped[1]
            settings = self._as_transposed(settings, transposed, configured)
            beside = parts[0][1] if transposed[0] else apart, stride if transposed[1] else across
            if beside != (size, size):
                raise NotRaised(
                    "the elements of an operand do not lie beside one another in memory", self.line
                )
        for first, step, width, factor, earlier, count, runs in parts:
            if (first or runs) and address and width < depth and not transposed[0]:
                raise NotRaised("a product uses more columns than were loaded", self.line)
            if len(runs) > MOST_RUNS:
                raise NotRaised(
                    "a command loads elements that the core copied with uneven distances", self.line
                )
            products = []
            for begin, wide, start in (runs or ((0, depth, first),)) if address else ():
                if start and begin < depth:
                    kind = self._number_of(
                        settings, (factor, scale), min(wide, depth - begin), columns, apart, stride,
                        across, transposed,
                    )  # fmt: skip
                    products.append((start, address + begin * stride, kind))
            later = max(phase, earlier)
            for sums in self.local.held(space, at, count):
                if sums.columns != columns:
                    raise NotRaised("the kernel adds products of different widths", self.line)
                self._check_whole(sums)
                for start, second, kind in products:
                    sums.products.append((start + (sums.start - at) * step, step, second, kind))
                if products and later > sums.phase:
                    sums.phase = later
            at += count

    def _number_of(self, *described: Any) -> int:
        """The number of a kind of products, given by the fields of `Kind`."""
        if described not in self.numbers:  # comparing tuples takes less time than making a `Kind`
            self.numbers[described] = self.kinds.setdefault(Kind(*described), len(self.kinds))
        return self.numbers[described]

    def _store(self, name: str, given: Operands) -> None:
        address, local, columns, rows = given
        place = self.local.located(local)
        configured = self.machine.attribute(name, "configured_by") or ""
        setting = self.settings.get(configured)
        if place is None or setting is None:
            raise NotRaised(
                f"{name} has no local address, or no command configured it before", self.line
            )
        space, row, flags = place
        if space not in self.local.sum_spaces:
            raise NotRaised(f"{name} copies rows of {space} to memory", self.line)
        stride = setting[self.machine.effects[configured].operands.index("dram_stride")]
        unscaled = "unscaled" in flags
        factors = next((n for n in self.machine.spaces if n != space), space)
        size = self.local.bytes_of(space if unscaled else factors)
        wide = self.machine.spaces[space].row_columns
        read = address // SPACING in self.core.read
        if read and not unscaled:
            raise NotRaised("the core uses stored values that are not complete sums", self.line)
        if not read:
            given_address = address
            address = self.own.stored(address, stride, columns * size, rows, self.line)
            if given_address // SPACING in self.maxima.compared:
                negative = unscaled or not self._clips(configured, setting)
                self.maxima.keep(
                    given_address, address, stride, columns * size, rows, self.moment,
                    negative=negative,
                )  # fmt: skip
        for number, first in enumerate(range(0, columns, wide)):
            part = min(wide, columns - first)
            how = Store(() if unscaled else tuple(setting[1:]), unscaled, part)
            base = row + number * wide
            for found in self.local.held(space, base, rows):
                if found.columns != part:
                    raise NotRaised(f"{name} stores only a part of a row of sums", self.line)
                if found.narrowed and self._shows_narrowing(found, how, size):
                    what = f"{name} stores sums that the array may have limited"
                    raise NotRaised(what, self.line)
                at = address + first * size + (found.start - base) * stride
                for r in range(found.count if read else 0):
                    one = found.one(r)
                    kept = Row(part, one.phase, tuple(one.products), tuple(one.rows))
                    self.core.keep(at + r * stride, kept, self.moment)
                if read:
                    continue
                for r in range(found.count):
                    self.order.mark(at + r * stride, part * size, found.phase + 1, self.line)
                products, added = tuple(found.products), tuple(found.rows)
                self.stored.append(
                    Stored(at, stride, found.count, found.phase, how, products, added)
                )

    def _clips(self, configured: str, setting: Operands) -> bool:
        """Whether a store leaves nothing negative: it makes negative sums zero, and only then
        multiplies by the scale."""
        clips = self.machine.attribute(configured, "clips_below_zero")
        activation = self._setting(configured, setting, "activation", 0)
        scale = self._setting(configured, setting, "scale", 1.0)
        return clips is not None and activation == self.machine.constants[clips] and scale >= 0

    def _add_maxima(self) -> None:
        """Store the maxima that the core takes, as rows."""
        factors = next(n for n in self.machine.spaces if n not in self.local.sum_spaces)
        width = self.machine.spaces[factors].row_columns
        settings = self._settings_to_finish(Finish(1, 0, 1.0, clipped=False))
        for row in self.maxima.rows(width):
            if settings is None or self.machine.element(factors) != "int8_t":
                raise NotRaised("the array cannot compute the maxima that the core takes")
            identities = (
                self.constants.identity(1, width), self.constants.identity(1, width, -1)
            )  # fmt: skip
            how = Store(settings, False, row.columns, identities)
            sources = tuple((at, 0, 1.0) for at in row.sources)
            self.stored.append(Stored(row.address, 0, 1, row.phase, how, (), sources))

    def _shows_narrowing(self, sums: Sums, how: Store, size: int) -> bool:
        """Whether a store may give another result for sums that the array limited on the way out
        than for the sums themselves."""
        factors = self.machine.element(self.used["factors"]) or ""
        limit = 1 << (self._array_bits - 1)
        if not factors.startswith("int") or self._bound(sums.products, sums.rows) < limit:
            return False
        scale = float(how.settings[0]) if how.settings else 1.0
        return scale * (limit - 1) < 1 << (8 * size - 1)

    @cached_property
    def _array_bits(self) -> int:
        """The bits of sums that leave the array."""
        found = (self.machine.attribute(n, "array_bits") for n in self.machine.effects)
        return int(next(bits for bits in found if bits))

    def _finished(self, done: Finished) -> None:
        """A row that the core stores."""
        row, whole = done.row, done.size == self.core.sum_size
        how = self._how_to_finish(done)
        settings = () if whole or how is None else self._settings_to_finish(how)
        if how is None or settings is None:
            raise NotRaised(
                "no setting of a store computes from sums what the core computes", self.line
            )
        size = done.size * row.columns
        address = self.own.stored(done.address, 0, size, 1, self.line)
        self.order.mark(address, size, row.phase + 1, self.line)
        rows = (*row.rows, *((a, 0, 1.0) for a in done.added)) * how.times
        if how.offset:
            rows = (*rows, (self.constants.row(how.offset), 0, 1.0))
        store = Store(settings, whole, row.columns)
        products = row.products * how.times
        self.stored.append(Stored(address, 0, 1, row.phase, store, products, rows))

    def _how_to_finish(self, done: Finished) -> Finish | None:
        """How a store computes a row; None if it cannot. Whole sums are stored as they are."""
        if done.size != self.core.sum_size:
            return finish(done.value, done.size, self._largest(done))
        offset = offset_of(done.value)
        return None if offset is None else Finish(1, offset, 1.0, clipped=False)

    def _largest(self, done: Finished) -> int:
        """The largest possible absolute value of the sums in a row."""
        added = [(address, 0, 1.0) for address in done.added]
        return self._bound(done.row.products, (*added, *done.row.rows))

    def _bound(self, products: Iterable[Product], rows: Iterable[tuple[int, int, float]]) -> int:
        """The largest possible absolute value of a sum of products and rows."""
        largest, any_sum = 0, 1 << SUM_BITS
        for address, _, scale in rows:
            largest += self.limits.get(address // SPACING, any_sum) if scale == 1.0 else any_sum
        kinds = list(self.kinds)
        for *_, number in products:
            size = self.local.bytes_of(self.used["factors"])
            largest += kinds[number].depth << 2 * (8 * size - 1)
        return min(largest, any_sum)

    def _settings_to_finish(self, how: Finish) -> Operands | None:
        """The settings of a store, without the stride; None if it has no such settings."""
        configured, activation = self._configures_stores, 0
        if how.clipped:
            clips = self.machine.attribute(configured, "clips_below_zero")
            if not clips:
                return None
            activation = self.machine.constants[clips]
        roles: Mapping[str, Any] = {"scale": how.scale, "activation": activation}
        return tuple(roles[r] for r in self.machine.effects[configured].operands[1:])

    def _add_block(
        self, target: Place, place: Place, rows: int, columns: int, settings: Operands,
        transposed: tuple[bool, bool],
    ) -> None:  # fmt: skip
        """Add a block to the sums of a product, as a product with an identity matrix."""
        size, height = self.local.bytes_of(place[0]), self.machine.spaces[place[0]].row_columns
        integer = (self.machine.element(place[0]) or "").startswith("int")
        if place[0] in self.local.sum_spaces or transposed[1] or not integer:
            raise NotRaised(
                "a block is added to a product of floats, to a product whose second operand is "
                "transposed, or from a memory for sums", self.line,
            )  # fmt: skip
        address, stride, scale, phase = self.local.even_rows(place, rows, columns)
        if not address:
            return
        down, apart = height * size, size
        identity = self.constants.identity(size, height)
        if transposed[0]:
            down, apart = apart, down
        described = ((1.0, scale), rows, columns, apart, stride, size, transposed)
        kind = self._number_of(settings, *described)
        for sums in self.local.held(target[0], target[1], rows):
            first = identity + (sums.start - target[1]) * down
            sums.products.append((first, down, address, kind))
            sums.phase = max(sums.phase, phase)


def computation(run: Run, machine: Machine, limits: Mapping[int, int] | None = None) -> Computation:
    """What a run stores; `NotRaised` if this is not a sum of products and rows of arrays.

    `limits` are the largest absolute values of the elements of some arrays, by number.
    """
    sum_size = max(SIZES[machine.element(name) or ""] for name in machine.spaces)
    core = CoreCode.of(run, machine, sum_size)
    stores = {n for n, c in enumerate(run.commands) if machine.unit(c) == "store"}
    by_commands = frozenset(e[2] // SPACING for e in run.events if e[0] in stores)
    order = MemoryOrder(by_commands | core.stored)
    load = next(n for n in machine.effects if machine.unit(n) == "load")
    widest = int(machine.attribute(load, "max_columns") or 0)
    constants = Constants(core.unused_number + len(run.own), sum_size, widest)
    own = Fillings(run.own)
    maxima = Maxima.of(run, own, order)
    flow = _Flow(machine, own, core, order, LocalRows(machine), constants, maxima)
    flow.limits = limits or {}
    flow.follow(run)
    if not flow.stored:
        raise NotRaised("the kernel stores no result")
    factors = flow.used.get("factors", next(iter(machine.spaces)))
    sums = flow.used.get("sums") or max(machine.spaces, key=lambda n: machine.constants[n])
    unused = flow.core.read | flow.core.copied
    copied = core.kept_copies(run.own)
    kinds = list(flow.kinds)
    return Computation(
        flow.stored, kinds, flow.sync, (factors, sums), flow.own, unused, copied, tuple(constants)
    )
