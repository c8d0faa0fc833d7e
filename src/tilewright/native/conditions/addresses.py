"""Finds where a kernel computes with an address as with a number, or compares it with a number.

Each function whose results are addresses is followed on its own, so that two addresses in the same
array can be told from those of different arrays. A kernel may add offsets to an address, subtract
or compare two addresses in the same array, test whether an address is zero, and test its lowest
bits, as code for aligned vectors does. Everything else depends on where an array lies, which is
different in each process. Addresses that a kernel passes through an array or in a struct are only
followed from the loads that the caller knows to read addresses.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tilewright.native.conditions.dependence import Analysis
from tilewright.native.conditions.effects import FLAGS, Effects, in_memory, registers
from tilewright.native.conditions.facts import Known
from tilewright.native.conditions.listing import Instruction, Listing
from tilewright.native.conditions.stack_cells import width_of
from tilewright.native.conditions.surroundings import Surroundings
from tilewright.parts.untested_conditions import LOWEST

OWN = -1
"""Stands for the addresses of the kernel's own variables and of places on the stack."""
_LOADED = -2
"""Stands for the addresses that the kernel reads from memory."""
_KEEPS = re.compile(
    r"k?mov|cmov|lea|add|sub|cmp|test|push|pop|xchg|or[lq]?$|and|inc|dec|ret|set|j|call"
)
"""Instructions that may be applied to an address. A condition on their results is a misuse."""
_DIFFERENCE = re.compile(r"(?:sub|cmp)[lq]?")
_MASKS = re.compile(r"(?:and|test)[bwlq]?")
_TESTS = re.compile(r"test[lq]?")
_SCALED = re.compile(r",(%\w+),[248]\)")
_STATIC = re.compile(r"(?:-?\d+[+])?([\w.$]+)(?:[+-]\d+)?\(%rip\)")
_ON_STACK = re.compile(r"[^()]*\(%r[bs]p[,)].*")
_WIDTH = 8


def reads_an_address(one: Instruction) -> bool:
    """Whether an instruction may read a whole address from memory into a register."""
    return (
        one.name in ("mov", "movq") and in_memory(one.operands[0]) and "mm" not in one.operands[1]
    )


def misused(
    listing: Listing, around: Surroundings, loads: Collection[int] | None = None
) -> list[Instruction]:
    """The instructions that compute with all bits of an address, and the conditions on them: of the
    addresses that functions return, or only of those that the `loads` in these lines read.

    Raises `TooLargeError`.
    """
    found = dict[int, Instruction]()
    compared = dict[int, list[set[str]]]()
    sources = [
        one.at
        for one in listing.code()
        if one.name.startswith("call")
        and one.operands
        and around.addresses.fullmatch(one.operands[0].partition("@")[0])
    ]
    for source in (*sources, OWN) if loads is None else (_LOADED,):
        analysis = _OfAddress(listing, around, source, loads or ())
        sites = analysis.run()
        found |= {site.instruction.at: site.instruction for site in sites} | analysis.misuses
        for at, operands in analysis.compared.items():
            compared.setdefault(at, []).append(operands)
    found |= {one.at: one for one in listing.code() if _are_apart(compared.get(one.at, ()))}
    return [one for _, one in sorted(found.items()) if one.line or not around.only_own_lines]


class _OfAddress(Analysis):
    """Follows the addresses that the call in the line `source` of a listing returns, `OWN`, or
    those that the `loads` in these lines read.

    Attributes:
        misuses: by line, the instructions that compute with all bits of such an address.
        compared: by line, those operands of comparisons that are such addresses.
    """

    def __init__(
        self, listing: Listing, around: Surroundings, source: int, loads: Collection[int] = ()
    ) -> None:
        super().__init__(listing, around, decisions=False)
        self.misuses: dict[int, Instruction] = {}
        self.compared: dict[int, set[str]] = {}
        self._source = source
        self._address_loads = loads
        self._here = 0
        for known in self._known.values():
            known.entry.clear()
            known.given_on_stack = False

    def _step(self, known: Known, at: int, state: set[str], *, uncertain: bool) -> None:
        one = known.function.code[at]
        self._here = one.at
        super()._step(known, at, state, uncertain=uncertain)

    def _depends(self, known: Known, at: int, state: set[str]) -> bool:
        one, effects = known.function.code[at], known.effects[at]
        if self._source == OWN and _takes_own(one, is_address=effects.is_address):
            return True
        if one.at in self._address_loads:
            return True
        loaded = any(self._loads_data(known, one, operand, state) for operand in effects.loads)
        if not loaded and _values(one, effects).isdisjoint(state):
            return False
        if _is_lowest(one) or self._is_difference(known, one, state):
            return False
        scaled = _SCALED.search(one.operands[0]) if effects.is_address else None
        is_scaled = scaled is not None and not state.isdisjoint(registers(scaled[1]))
        if not _KEEPS.match(one.name) or is_scaled:
            self.misuses[one.at] = one
            return False
        return True

    def _is_difference(self, known: Known, one: Instruction, state: set[str]) -> bool:
        """Whether an instruction subtracts two addresses in the same array, compares an address
        with something that is computed, or tests whether it is zero.

        What an address is compared with is decided later (`_are_apart`): gcc ends loops over an
        array by its end, which it may keep in places that are not followed.
        """
        first, last = one.operands[0], one.operands[-1]
        if _TESTS.fullmatch(one.name) and first == last:
            return True
        if not _DIFFERENCE.fullmatch(one.name):
            return False
        if first.startswith("$"):
            return first == "$0"
        taken = {
            operand
            for operand in (first, last)
            if (
                self._loads_data(known, one, operand, state)
                if in_memory(operand)
                else not state.isdisjoint(registers(operand))
                or (self._source == OWN and operand in ("%rsp", "%rbp"))
            )
        }
        is_comparison = one.name.startswith("cmp")
        if is_comparison:
            self.compared.setdefault(one.at, set()).update(taken)
        return is_comparison or len(taken) == len({first, last})

    def _loads_data(self, known: Known, one: Instruction, operand: str, state: set[str]) -> bool:
        """Whether an operand in memory is a place with a name that an address was written to."""
        static = _STATIC.fullmatch(operand)
        if static:
            return static[1] in self._static_data
        if not _ON_STACK.fullmatch(operand):
            return False
        is_whole = width_of(one.name, one.operands) in (None, _WIDTH)
        return is_whole and not known.launches and super()._loads_data(known, one, operand, state)

    def _results_outside(self, name: str, state: set[str]) -> set[str]:
        return {"a"} if self._here == self._source else set()


def _are_apart(operands: Sequence[set[str]]) -> bool:
    """Whether a comparison has addresses in different arrays, by those of its operands that are
    addresses in one array each."""
    found = [one for one in operands if one]
    return any(one != found[0] for one in found)


def _values(one: Instruction, effects: Effects) -> set[str]:
    """The registers, and the flags, that an instruction reads, without those that only name a place
    in memory."""
    if one.name.startswith("set"):
        return {FLAGS}
    if effects.is_address:
        return set(effects.reads)
    named = {name for o in one.operands if in_memory(o) for name in registers(o)}
    return set(effects.reads) - named.difference(
        *(registers(o) for o in one.operands if not in_memory(o))
    )


def _takes_own(one: Instruction, *, is_address: bool) -> bool:
    """Whether an instruction takes the address of a variable, or of a place on the stack."""
    if is_address:
        named = _STATIC.fullmatch(one.operands[0]) or _ON_STACK.fullmatch(one.operands[0])
        return named is not None and one.operands[-1] != "%rsp"
    return one.name == "movq" and one.operands[0] == "%rsp" and one.operands[-1] != "%rbp"


def _is_lowest(one: Instruction) -> bool:
    """Whether the result of an instruction depends on the lowest bits of its operand only."""
    mask = one.operands[0].removeprefix("$")
    if not _MASKS.fullmatch(one.name) or not mask.isdecimal():
        return False
    return int(mask) < LOWEST
