"""Finds the conditions of a kernel that depend on the values of its arguments.

The analysis follows values through registers, through places on the stack, and through decisions: a
variable that is set under a condition on data depends on data. In a function that computes an
address on its stack, a place there depends on data everywhere if it does anywhere. The analysis is
conservative: everything that is read through a pointer or from a place on the stack that has not
been written, or returned by a function outside the kernel, counts as data, except numbers that a
mathematical function computes from others that are no data. It does not follow values that are
passed through several local arrays at once. Of the results that are computed from data without a
condition, it finds those of `values.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import cycle
from time import thread_time

from tilewright.native.conditions.code_addresses import (
    MARK,
    differences,
    is_of_caller,
    labels_of_code,
    mark,
    reads_address,
)
from tilewright.native.conditions.effects import (
    FLAGS,
    Effects,
    in_memory,
    registers,
)
from tilewright.native.conditions.facts import Known, Site
from tilewright.native.conditions.fixed import fixed_of
from tilewright.native.conditions.implicit import other_targets
from tilewright.native.conditions.listing import Instruction, Listing
from tilewright.native.conditions.outside import arguments_of_number, float_result, whole_result
from tilewright.native.conditions.quotients import signs_of_quotients
from tilewright.native.conditions.sequences import floats_of, results_of
from tilewright.native.conditions.stack_cells import cells_of
from tilewright.native.conditions.surroundings import OF_C, Surroundings, launchers_of
from tilewright.native.conditions.values import value_of
from tilewright.parts.machine_code.post_dominance import TooLargeError

_ARGUMENTS = ("di", "si", "d", "c", "8", "9", *(f"v{n}" for n in range(8)))
_WHOLE_ARGUMENTS = _ARGUMENTS[:4]
_RESULTS = ("a", "d", "v0", "v1")
_GIVEN = {*_ARGUMENTS, *(MARK + name for name in _ARGUMENTS)}
_RETURNED = {*_RESULTS, *(MARK + name for name in _RESULTS)}
PASSED = "passed"
"""Stands for arguments of the next call that have been written to the end of the stack."""
PUSHED_FLAGS = "pushed flags"
"""Stands for flags at the end of the stack."""
_SLOT = re.compile(r"(-?\d*)\(%r([bs]p)\)")
_ON_STACK = re.compile(r"(-?\d*)\(%r([bs]p)[,)]")
_POPS = re.compile("pop[wlq]?")
_OF_TWO_FLOATS = re.compile(r"(?:add|sub|mul)s[sd]")
_ADDS_FLOATS = re.compile(r"(?:add|sub)s[sd]")
_NAMED = re.compile(r"(?:-?\d+[+])?([\w.$]+)(?:[+-]\d+)?\(%rip\)")


MOST_STEPS = 3_000_000
"""Maximum number of instructions that are followed, of which each one counts several times."""
MOST_CPU_S = 20.0
"""Maximum number of CPU seconds for following the values of a listing once."""
_CALLS_BACK = re.compile(r"\b(?:GOMP_|pthread_)")
"""Functions outside the kernel that call functions of the kernel through their addresses."""
_OFTEN = 64
"""The clock is read whenever the position of an instruction is a multiple of this number."""


def sites_on_data(listing: Listing, around: Surroundings = OF_C) -> list[Site]:
    """The conditions of all functions that depend on values that the kernel is given.

    Raises `TooLargeError`.
    """
    return Analysis(listing, around).run()


class Analysis:
    """Follows the values of a listing. `known_loads` are the lines of instructions that read values
    from memory that do not depend on data. Those of `addresses` do not either, unless a whole
    number that depends on data may have been written where they read. Without `decisions`, a value
    does not depend on data only because it is set under a condition on data, and the values of
    `values.py` are not looked for.

    Attributes:
        sources: by line, the instructions that read data from memory, and the operand in memory.
        numbers: by line, the instructions that write whole numbers that depend on data, and where,
            without `decisions`.
        floats: the same for floating-point numbers.
        products_and_sums: by line, the instructions that multiply, add or subtract two floats of
            which at least one depends on data, without `decisions`.
    """

    def __init__(
        self,
        listing: Listing,
        around: Surroundings,
        known_loads: Collection[int] = (),
        addresses: Collection[int] = (),
        *,
        decisions: bool = True,
    ) -> None:
        self.sources: dict[int, tuple[Instruction, str]] = {}
        self.numbers: dict[int, tuple[Instruction, Sequence[tuple[str, int]]]] = {}
        self.floats: dict[int, tuple[Instruction, Sequence[tuple[str, int]]]] = {}
        self.products_and_sums: dict[int, Instruction] = {}
        self._known_loads = known_loads
        self._addresses = addresses
        self._stores_numbers = False
        self._decisions = decisions
        self._constants = listing.constants
        self._around = around
        self._known: dict[str, Known] = {}
        self._by_address: set[str] = set()  # functions whose address is taken
        self._static_data: set[str] = set()  # static variables that depend on data
        self._static_arrays: set[str] = set()  # those whose address is taken
        launchers = launchers_of(listing, around)
        for name, function in listing.functions.items():
            if function.code:
                fixed = fixed_of(function)
                known = Known(
                    function, fixed.effects, fixed.conditions, fixed.blocks, fixed.decided,
                    fixed.follows_stack, name in launchers, fixed.unwritten, fixed.implied,
                )  # fmt: skip
                self._known[name] = known
        for name, known in self._known.items():
            for one, its_effects in zip(known.function.code, known.effects, strict=True):
                self._note_stack(known, one, its_effects)
                if one.name.startswith(("call", "jmp")) and one.operands:
                    callee = self._known.get(_name(one.operands[0]))
                    if callee is not None:
                        callee.called = True
                named = _variable(one.operands[0]) if its_effects.is_address else None
                if named in self._known:
                    taken = self._known[named]
                    taken.launched = name in launchers and taken.launched is not False
                    self._by_address.add(named)
        for name, known in self._known.items():
            results = () if self._is_entry(name) else _RESULTS
            known.exempt |= signs_of_quotients(known.function, known.blocks, results)
        in_tables = {line.split()[-1] for line in listing.lines if ".quad" in line}
        self._by_address |= in_tables & self._known.keys()
        calls_computed = any(
            one.name.startswith("call") and "*" in one.operands[0]
            for one in listing.code()
            if one.operands
        )
        is_called_back = not calls_computed or any(map(_CALLS_BACK.search, listing.lines))
        for name, known in self._known.items():
            # Called through its address, with unknown arguments, unless an instruction of the
            # kernel calls it. What the kernel then passes on is followed.
            is_launched = known.launched and name not in in_tables
            is_followed_there = name in self._by_address and not is_called_back
            if not (
                self._is_entry(name)
                or known.launches
                or known.called
                or is_launched
                or is_followed_there
            ):
                known.entry |= set(_ARGUMENTS)
                known.given_on_stack = True
        self._written = self._written_variables() if around.remembers else set[str]()
        self._labels = labels_of_code(listing)
        self._static_data.update(differences(listing))
        self._changed = False
        self._steps = 0
        self._begun_s = thread_time()

    def run(self) -> list[Site]:
        """The conditions on data. Raises `TooLargeError`."""
        unchanged = 0
        for known in cycle(reversed(self._known.values())):  # a kernel stands after its functions
            self._changed = False
            self._follow(known)
            unchanged = 0 if self._changed else unchanged + 1
            if unchanged == len(self._known):
                break
        return [site for known in self._known.values() for _, site in sorted(known.sites.items())]

    def _written_variables(self) -> set[str]:
        """The static variables that an instruction writes by name. They may hold what an earlier
        call has written, which is data."""
        found = set()
        for known in self._known.values():
            for one, effects in zip(known.function.code, known.effects, strict=True):
                named = _variable(one.operands[-1]) if one.operands else None
                if named and not (effects.only_compares or effects.is_branch):
                    found.add(named)
        return found

    def _is_entry(self, name: str) -> bool:
        return self._around.entries.fullmatch(name) is not None

    def _note_stack(self, known: Known, one: Instruction, effects: Effects) -> None:
        """Note where arrays on the stack begin, which places are written by name, and which static
        variables have their address taken.
        """
        for number, operand in enumerate(one.operands):
            named = _variable(operand)
            if named and effects.is_address:
                self._static_arrays.add(named)
            found = _ON_STACK.match(operand)
            if not found:
                continue
            offset, base = int(found[1] or 0), found[2]
            indexed = not _slot(operand)
            taken = effects.is_address and one.operands[-1] != "%rsp"
            if indexed or taken:
                known.arrays[base] = min(offset, known.arrays.get(base, offset))
            elif number == len(one.operands) - 1 and not effects.only_compares:
                known.slots.setdefault((base, offset), False)
        if one.name == "movq" and one.operands[:1] == ("%rsp",) and one.operands[-1] != "%rbp":
            known.arrays["sp"] = 0

    def _follow(self, known: Known) -> None:
        """Follow values through a function until nothing changes in it."""
        states: list[set[str] | None] = [None] * len(known.blocks)
        states[0] = set(known.entry)
        open_ = {0}
        while open_:
            n = min(open_)  # most blocks follow those that lead to them
            open_.remove(n)
            state = set(states[n] or ())
            uncertain = known.undecided or n in known.uncertain
            self._steps += len(known.blocks[n].code)
            if self._steps > MOST_STEPS:
                raise TooLargeError
            for at in known.blocks[n].code:
                if at % _OFTEN == 0 and thread_time() - self._begun_s > MOST_CPU_S:
                    raise TooLargeError(f"this takes more than {MOST_CPU_S:g} s of CPU time.")
                self._step(known, at, state, uncertain=uncertain)
            last = known.effects[known.blocks[n].code[-1]]
            if last.is_branch and (FLAGS in state or uncertain) and last.condition is not None:
                new = set(known.decided[n]) - known.uncertain
                if new and self._decisions:
                    known.uncertain |= new
                    self._changed = True
            for other in known.blocks[n].after:
                before = states[other]
                if before is None or not state <= before:
                    states[other] = state | (before or set())
                    open_.add(other)

    def _step(self, known: Known, at: int, state: set[str], *, uncertain: bool) -> None:
        one, effects = known.function.code[at], known.effects[at]
        if effects.is_nothing:
            return
        found = known.conditions[at]
        if found is not None and FLAGS in state and at not in known.exempt:
            known.sites[at] = Site(one, found)
        if not effects.is_plain:
            self._step_elsewhere(known, at, state, uncertain=uncertain)
            return
        data = (not effects.is_constant and self._depends(known, at, state)) or uncertain
        data = data or reads_address(one, effects, state)
        if effects.only_compares:
            _put(state, [FLAGS], data=data)
            return
        if self._decisions:
            value = value_of(known.function, at, state, data=data)
            if value is not None:
                known.sites[at] = Site(one, value=value)
        elif data and at not in known.exempt:
            around = self._around
            results = results_of(
                one, state,
                of_conditions=around.only_own_lines and one.line is None,
                floats_in_memory=around.floats_in_memory,
            )  # fmt: skip
            self.numbers[one.at] = one, results
            is_left_out = not around.sums_of_data and self._adds_data(one, state)
            self.floats[one.at] = one, [] if is_left_out else floats_of(one)
            if _OF_TWO_FLOATS.fullmatch(one.name):
                self.products_and_sums[one.at] = one
        if effects.sets_flags:
            _put(state, [FLAGS], data=data)
        elif effects.may_set_flags and data:
            state.add(FLAGS)
        self._write(known, at, state, data=data)

    def _step_elsewhere(self, known: Known, at: int, state: set[str], *, uncertain: bool) -> None:
        """Follow values through a jump, a return, a call, or an instruction without operands."""
        name = known.function.code[at].name
        if name.startswith("j"):
            self._jump(known, at, state)
        elif name.startswith("ret"):
            self._grow(known.results, state & _RETURNED)
        elif name.startswith("call"):
            self._call(known, at, state, uncertain=uncertain)
        else:
            self._without_operands(name, state, known)

    def _adds_data(self, one: Instruction, state: set[str]) -> bool:
        """Whether an instruction adds, or subtracts, two floats that both depend on data."""
        return _ADDS_FLOATS.fullmatch(one.name) is not None and all(
            one.at in self.sources if in_memory(operand) else registers(operand)[0] in state
            for operand in one.operands
        )

    def _depends(self, known: Known, at: int, state: set[str]) -> bool:
        """Whether the result of an instruction depends on data."""
        one, effects = known.function.code[at], known.effects[at]
        found = effects.from_status or not effects.reads.isdisjoint(state)
        for operand in effects.loads:
            is_known = one.at in self._known_loads
            if one.at in self._addresses:
                is_known = not self._may_hold_number(known, operand)
            is_old = at in known.unwritten and bool(_slot(operand))
            if not is_known and (is_old or self._loads_data(known, one, operand, state)):
                self.sources[one.at] = one, operand
                found = True
        return found

    def _may_hold_number(self, known: Known, operand: str) -> bool:
        """Whether a place may hold a whole number that depends on data: one that data were written
        to by its name, or one that has no name if any number was written through an address."""
        slot, named = _slot(operand), _variable(operand)
        if slot:
            written = known.slots.get(slot)
            return self._stores_numbers if written is None else written
        return named in self._static_data if named else self._stores_numbers

    def _loads_data(self, known: Known, one: Instruction, operand: str, state: set[str]) -> bool:
        named = _variable(operand)
        if named and self._around.known.fullmatch(named):
            return False
        if named:
            is_array = named in self._static_arrays and named not in self._constants
            return is_array or named in self._static_data or named in self._written
        if "@GOTPCREL" in operand or operand.startswith("%fs:"):
            return False
        if is_of_caller(operand):
            return True
        slot = _slot(operand)
        if known.launches:  # what it reads elsewhere are sizes, and addresses of arrays
            return known.arrays_hold_data and slot is not None
        if not slot:
            return True
        base, offset = slot
        written = known.slots.get(slot)
        if base == "bp" and offset > 0 and (known.given_on_stack or written is None):
            return known.given_on_stack
        if written is None:  # an element of an array
            return True
        if known.follows_stack:
            return not state.isdisjoint(cells_of(one.name, one.operands, operand)[0])
        begins = known.arrays.get(base)
        return written or (known.arrays_hold_data and begins is not None and offset >= begins)

    def _write(self, known: Known, at: int, state: set[str], *, data: bool) -> None:
        one = known.function.code[at]
        target = one.operands[-1]
        if one.name.startswith("p") and _POPS.fullmatch(one.name):
            _put(state, registers(target), data=PUSHED_FLAGS in state)
            state.discard(PUSHED_FLAGS)
        elif one.name.startswith("push"):
            if data:
                state.add(PASSED)
        elif known.effects[at].in_a_and_d:  # its operand is only read
            _put(state, ["a", "d"], data=data)
        elif in_memory(target):
            place, named = _slot(target), _variable(target)
            if named:
                self._grow(self._static_data, {named} if data else ())
            elif place:
                if known.follows_stack:
                    cells, is_whole = cells_of(one.name, one.operands, target)
                    if data or is_whole:
                        _put(state, cells, data=data)
                if data and not known.slots.get(place, False):
                    known.slots[place] = True
                    self._changed = True
            elif data:
                self._into_memory(known)
                if "mm" not in "".join(one.operands) and not self._stores_numbers:
                    self._stores_numbers = self._changed = True
        else:
            _put(state, registers(target)[:1], data=data)
        for other in other_targets(one.name, one.operands):
            _put(state, registers(other), data=data)
        mark(one, known.effects[at], self._labels, state)
        if one.name.startswith("xchg"):
            _put(state, registers(one.operands[0])[:1], data=True)

    def _jump(self, known: Known, at: int, state: set[str]) -> None:
        one = known.function.code[at]
        target = one.operands[0] if one.operands else "*"
        lost = target.startswith(".L") and target not in known.function.labels
        if target.startswith("*") or lost:
            known.sites[at] = Site(one)
        elif target not in known.function.labels and _name(target) in self._known:
            self._into(self._known[_name(target)], known, state, uncertain=known.undecided)
            self._grow(known.results, self._known[_name(target)].results)

    def _call(self, known: Known, at: int, state: set[str], *, uncertain: bool) -> None:
        one = known.function.code[at]
        target = one.operands[0] if one.operands else "*"
        callee = self._known.get(_name(target))
        if callee is not None:
            self._into(callee, known, state, uncertain=uncertain)
            results = set(callee.results)
        else:
            if target.startswith("*"):
                if any(r in state for r in registers(target)):
                    known.sites[at] = Site(one)
                for name in self._by_address:
                    self._into(self._known[name], known, state, uncertain=uncertain)
            results = self._results_outside(_name(target), state)
            if results:
                self.numbers[one.at] = one, whole_result(_name(target))
                self.floats[one.at] = one, float_result(_name(target))
        if callee.stores if callee else not self._around.keep_memory.fullmatch(_name(target)):
            self._into_memory(known)
        if uncertain:
            results = set(_RESULTS)
        state.difference_update({PASSED, FLAGS}, _RETURNED)
        state |= results

    def _results_outside(self, name: str, state: set[str]) -> set[str]:
        """The registers with results of a function outside the kernel that depend on data."""
        around = self._around
        if around.without_data.fullmatch(name):
            return set()
        read = arguments_of_number(name)
        if read is not None and state.isdisjoint(read):
            return set()
        if around.of_values.fullmatch(name) and state.isdisjoint(_WHOLE_ARGUMENTS):
            return set()
        return set(_RESULTS)

    def _into(
        self, callee: Known, caller: Known, state: Collection[str], *, uncertain: bool
    ) -> None:
        """A function is called, or jumped to, with the arguments in `state` and on the stack."""
        self._grow(callee.entry, set(state) & _GIVEN)
        if not callee.given_on_stack and (PASSED in state or caller.passes_on_stack):
            callee.given_on_stack = self._changed = True
        if uncertain and not callee.undecided:
            callee.undecided = self._changed = True

    def _into_memory(self, known: Known) -> None:
        """Data is written through an address, which may be that of an array on the stack."""
        if not known.stores:
            known.stores = self._changed = True
        if known.arrays and not known.arrays_hold_data:
            known.arrays_hold_data = self._changed = True

    def _grow(self, known: set[str], more: Iterable[str]) -> None:
        if not set(more) <= known:
            known |= set(more)
            self._changed = True

    def _without_operands(self, name: str, state: set[str], known: Known) -> None:
        if name.startswith(("stos", "movs")):
            if "a" in state or name.startswith("movs"):
                self._into_memory(known)
        elif name in ("rdtsc", "rdtscp", "rdpmc", "xgetbv", "cpuid"):  # another one in each call
            _put(state, ["a", "b", "c", "d"], data=True)
        elif name.startswith(("cmps", "scas", "lods")):
            _put(state, ["a"] if name.startswith("lods") else ["c", "si", "di", FLAGS], data=True)
        elif name in ("sahf", "popfq"):
            _put(state, [FLAGS], data="a" in state or name == "popfq")
        elif name in ("lahf", "pushfq"):
            to = "a" if name == "lahf" else PUSHED_FLAGS
            _put(state, [to], data=FLAGS in state or to in state)
        elif name in ("cltd", "cqto", "cwtd", "cdq", "cqo", "cwd"):
            _put(state, ["d"], data="a" in state)


@lru_cache(maxsize=1 << 12)
def _slot(operand: str) -> tuple[str, int] | None:
    """The base register and the offset of a place on the stack."""
    found = _SLOT.fullmatch(operand)
    return (found[2], int(found[1] or 0)) if found else None


@lru_cache(maxsize=1 << 12)
def _variable(operand: str) -> str | None:
    """The name of a static variable."""
    found = _NAMED.fullmatch(operand)
    return found[1] if found else None


def _put(state: set[str], names: Iterable[str], *, data: bool) -> None:
    if data:
        state.update(names)
    else:
        state.difference_update(names)


def _name(operand: str) -> str:
    return operand.partition("@")[0]
