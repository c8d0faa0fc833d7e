"""Finds the conditions of a kernel that depend on the values of its arguments.

The analysis follows values through registers, through places on the stack, and through decisions: a
variable that is set under a condition on data depends on data. In a function that computes an
address on its stack, a place there depends on data everywhere if it does anywhere. The analysis is
conservative: everything that is read through a pointer or returned by a function outside the kernel
counts as data. It does not follow values that are passed through several local arrays at once. Of
the results that are computed from data without a condition, it finds those of `values.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tilewright.native.conditions.blocks import Block, blocks_of, decided_by
from tilewright.native.conditions.effects import (
    FLAGS,
    Effects,
    effects_of,
    in_memory,
    registers,
)
from tilewright.native.conditions.listing import Function, Instruction, Listing
from tilewright.native.conditions.stack_cells import STACK, cells_of, is_followed
from tilewright.native.conditions.values import nan_condition, value_of
from tilewright.parts.machine_code.post_dominance import TooLargeError

ENTRY = "kernel"
_ARGUMENTS = ("di", "si", "d", "c", "8", "9", *(f"v{n}" for n in range(8)))
_RESULTS = ("a", "d", "v0", "v1")
_KEPT = ("b", "bp", "sp", "12", "13", "14", "15")
_WITHOUT_DATA = re.compile(r"(?:mem(?:cpy|move|set)|omp_\w+|GOMP_\w+)")
"""Functions whose results are addresses, or do not depend on memory."""
_SLOT = re.compile(r"(-?\d*)\(%r([bs]p)\)")
_ON_STACK = re.compile(r"(-?\d*)\(%r([bs]p)[,)]")
_NAMED = re.compile(r"([\w.$]+)(?:[+-]\d+)?\(%rip\)")


MOST_STEPS = 3_000_000
"""Maximum number of instructions that are followed, of which each one counts several times. It
bounds the time to some seconds.
"""


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction whose result depends on data: its condition, or the operand that is recorded
    before it and its size in bytes, or neither for a computed jump.
    """

    instruction: Instruction
    condition: str | None = None
    value: tuple[str, int] | None = None

    @property
    def is_jump(self) -> bool:
        """Whether it is a jump or a call to an address that depends on data."""
        return self.condition is None and self.value is None


@dataclass(slots=True)
class _Known:
    """The facts that are known about a function so far. Facts are only added, until nothing
    changes.
    """

    function: Function
    effects: list[Effects]
    blocks: list[Block]
    decided: dict[int, list[int]]
    follows_stack: bool  # whether the states contain cells of the stack
    entry: set[str] = field(default_factory=set)
    results: set[str] = field(default_factory=set)
    undecided: bool = False
    called: bool = False
    uncertain: set[int] = field(default_factory=set)
    slots: dict[tuple[str, int], bool] = field(default_factory=dict)
    arrays: dict[str, int] = field(default_factory=dict)
    arrays_hold_data: bool = False
    sites: dict[int, Site] = field(default_factory=dict)


def sites_on_data(listing: Listing) -> list[Site]:
    """The conditions of all functions that depend on values that the kernel is given.

    Raises `TooLargeError`.
    """
    return _Analysis(listing).run()


class _Analysis:
    def __init__(self, listing: Listing) -> None:
        self._constants = listing.constants
        self._known: dict[str, _Known] = {}
        self._static_data: set[str] = set()  # static variables that depend on data
        self._static_arrays: set[str] = set()  # those whose address is taken
        for name, function in listing.functions.items():
            if function.code:
                blocks = blocks_of(function)
                effects = [effects_of(one) for one in function.code]
                decided = decided_by(function, blocks)
                follows = is_followed(function.code)
                self._known[name] = _Known(function, effects, blocks, decided, follows)
        for known in self._known.values():
            for one, its_effects in zip(known.function.code, known.effects, strict=True):
                self._note_stack(known, one, its_effects)
                if one.name.startswith(("call", "jmp")) and one.operands:
                    callee = self._known.get(_name(one.operands[0]))
                    if callee is not None:
                        callee.called = True
        for name, known in self._known.items():
            # Called through its address, with unknown arguments.
            if name != ENTRY and not known.called:
                known.entry |= set(_ARGUMENTS)
        self._changed = True
        self._steps = 0

    def run(self) -> list[Site]:
        while self._changed:
            self._changed = False
            for known in self._known.values():
                self._follow(known)
        return [site for known in self._known.values() for _, site in sorted(known.sites.items())]

    def _note_stack(self, known: _Known, one: Instruction, effects: Effects) -> None:
        """Note where arrays on the stack begin, which places are written by name, and which static
        variables have their address taken.
        """
        for number, operand in enumerate(one.operands):
            named = _NAMED.fullmatch(operand)
            if named and effects.is_address:
                self._static_arrays.add(named[1])
            found = _ON_STACK.match(operand)
            if not found:
                continue
            offset, base = int(found[1] or 0), found[2]
            indexed = not _SLOT.fullmatch(operand)
            taken = effects.is_address and one.operands[-1] != "%rsp"
            if indexed or taken:
                known.arrays[base] = min(offset, known.arrays.get(base, offset))
            elif number == len(one.operands) - 1 and not effects.only_compares:
                known.slots.setdefault((base, offset), False)
        if one.name == "movq" and one.operands[:1] == ("%rsp",) and one.operands[-1] != "%rbp":
            known.arrays["sp"] = 0

    def _follow(self, known: _Known) -> None:
        """Follow values through a function until nothing changes in it."""
        states: list[set[str] | None] = [None] * len(known.blocks)
        states[0] = set(known.entry)
        open_ = [0]
        while open_:
            n = open_.pop()
            state = set(states[n] or ())
            uncertain = known.undecided or n in known.uncertain
            self._steps += len(known.blocks[n].code)
            if self._steps > MOST_STEPS:
                raise TooLargeError
            for at in known.blocks[n].code:
                self._step(known, at, state, uncertain=uncertain)
            last = known.effects[known.blocks[n].code[-1]]
            if last.is_branch and (FLAGS in state or uncertain) and last.condition is not None:
                new = set(known.decided[n]) - known.uncertain
                if new:
                    known.uncertain |= new
                    self._changed = True
            for other in known.blocks[n].after:
                before = states[other]
                if before is None or not state <= before:
                    states[other] = state | (before or set())
                    open_.append(other)

    def _step(self, known: _Known, at: int, state: set[str], *, uncertain: bool) -> None:
        one, effects = known.function.code[at], known.effects[at]
        name, operands = one.name, one.operands
        if effects.is_nothing:
            return
        found = effects.condition or nan_condition(known.function, at)
        if found is not None and FLAGS in state:
            known.sites[at] = Site(one, found)
        if name.startswith("j"):
            self._jump(known, at, state)
            return
        if name.startswith("ret"):
            self._grow(known.results, state & set(_RESULTS))
            return
        if name.startswith("call"):
            self._call(known, at, state, uncertain=uncertain)
            return
        if not operands:
            self._without_operands(name, state, known)
            return
        data = uncertain or (not effects.is_constant and self._depends(known, at, state))
        if effects.only_compares:
            _put(state, [FLAGS], data=data)
            return
        value = value_of(known.function, at, state, data=data)
        if value is not None:
            known.sites[at] = Site(one, value=value)
        if effects.sets_flags:
            _put(state, [FLAGS], data=data)
        self._write(known, at, state, data=data)

    def _depends(self, known: _Known, at: int, state: set[str]) -> bool:
        """Whether the result of an instruction depends on data."""
        one, effects = known.function.code[at], known.effects[at]
        if effects.from_status or not effects.reads.isdisjoint(state):
            return True
        return any(self._loads_data(known, one, operand, state) for operand in effects.loads)

    def _loads_data(self, known: _Known, one: Instruction, operand: str, state: set[str]) -> bool:
        if any(r in state for r in registers(operand)):
            return True
        named = _NAMED.fullmatch(operand)
        if named:
            return named[1] in self._static_data | (self._static_arrays - self._constants)
        if "@GOTPCREL" in operand or operand.startswith("%fs:"):
            return False
        slot = _SLOT.fullmatch(operand)
        if not slot:
            return True
        base, offset = slot[2], int(slot[1] or 0)
        written = known.slots.get((base, offset))
        if written is None:  # an element of an array, or an argument, which is an address
            return not (base == "bp" and offset > 0)
        if known.follows_stack:
            return not state.isdisjoint(cells_of(one.name, one.operands, operand)[0])
        begins = known.arrays.get(base)
        return written or (known.arrays_hold_data and begins is not None and offset >= begins)

    def _write(self, known: _Known, at: int, state: set[str], *, data: bool) -> None:
        one = known.function.code[at]
        target = one.operands[-1]
        if one.name.startswith("pop"):
            _put(state, registers(target), data=False)
        elif one.name.startswith("push"):
            return
        elif known.effects[at].in_a_and_d:  # its operand is only read
            _put(state, ["a", "d"], data=data)
        elif in_memory(target):
            slot, named = _SLOT.fullmatch(target), _NAMED.fullmatch(target)
            if named:
                self._grow(self._static_data, {named[1]} if data else ())
            elif slot and known.follows_stack:
                cells, is_whole = cells_of(one.name, one.operands, target)
                if data or is_whole:
                    _put(state, cells, data=data)
            elif slot:
                place = slot[2], int(slot[1] or 0)
                if data and not known.slots.get(place, False):
                    known.slots[place] = True
                    self._changed = True
            elif data:
                self._into_arrays(known)
        else:
            _put(state, registers(target)[:1], data=data)
            if one.name.startswith("mulx"):
                _put(state, registers(one.operands[1]), data=data)
        if one.name.startswith("xchg"):
            _put(state, registers(one.operands[0])[:1], data=True)

    def _jump(self, known: _Known, at: int, state: set[str]) -> None:
        one = known.function.code[at]
        target = one.operands[0] if one.operands else "*"
        lost = target.startswith(".L") and target not in known.function.labels
        if target.startswith("*") or lost:
            known.sites[at] = Site(one)
        elif target not in known.function.labels and _name(target) in self._known:
            self._into(self._known[_name(target)], state, uncertain=known.undecided)
            self._grow(known.results, self._known[_name(target)].results)

    def _call(self, known: _Known, at: int, state: set[str], *, uncertain: bool) -> None:
        one = known.function.code[at]
        target = one.operands[0] if one.operands else "*"
        callee = self._known.get(_name(target))
        if known.arrays:
            self._into_arrays(known)
        if callee is not None:
            self._into(callee, state, uncertain=uncertain)
            results = set(callee.results)
        else:
            if target.startswith("*") and any(r in state for r in registers(target)):
                known.sites[at] = Site(one)
            results = set() if _WITHOUT_DATA.fullmatch(_name(target)) else set(_RESULTS)
        if uncertain:
            results = set(_RESULTS)
        kept = {name for name in state if name in _KEPT or name.startswith(STACK)}
        state.clear()
        state |= kept | results

    def _into(self, callee: _Known, state: Iterable[str], *, uncertain: bool) -> None:
        self._grow(callee.entry, set(state) & set(_ARGUMENTS))
        if uncertain and not callee.undecided:
            callee.undecided = self._changed = True

    def _into_arrays(self, known: _Known) -> None:
        if known.arrays and not known.arrays_hold_data:
            known.arrays_hold_data = self._changed = True

    def _grow(self, known: set[str], more: Iterable[str]) -> None:
        if not set(more) <= known:
            known |= set(more)
            self._changed = True

    def _without_operands(self, name: str, state: set[str], known: _Known) -> None:
        if name.startswith(("stos", "movs")):
            if "a" in state or name.startswith("movs"):
                self._into_arrays(known)
        elif name == "sahf":
            _put(state, [FLAGS], data="a" in state)
        elif name.startswith(("clt", "cqt", "cwt", "cdq", "cqo", "cwd", "cbt")):
            _put(state, ["d"], data="a" in state)


def _put(state: set[str], names: Iterable[str], *, data: bool) -> None:
    if data:
        state.update(names)
    else:
        state.difference_update(names)


def _name(operand: str) -> str:
    return operand.partition("@")[0]
