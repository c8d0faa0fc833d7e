"""The program of a kernel that records which results its conditions on input values have had.

The kernel is compiled to assembly text. In its functions, everything that is read through a pointer
or from shared memory counts as input values, unlike sizes, indices of threads, and what the host
computes from them. Conditions within the emulator's own headers do not count. If the host copies
input values to itself, what it decides by them counts as well.

A special case may also be computed without a condition. Therefore, the program records the numbers
that instructions compute from input values, too, also in the emulator's own headers. Not recorded
are products of floats, and sums of two floats that both depend on input values.

Kernels also keep indices, flags and counters in memory. A second program records what each
instruction reads from memory. An instruction that reads the same values in the same order, whatever
the inputs are, reads no input values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.core.records import Failed
from tilewright.native.conditions.addresses import misused, reads_an_address
from tilewright.native.conditions.dependence import Analysis
from tilewright.native.conditions.distances import distances
from tilewright.native.conditions.facts import Site
from tilewright.native.conditions.finding import computed_without, found_in, loads_of, numbers_of
from tilewright.native.conditions.listing import Listing
from tilewright.native.conditions.moved import compared
from tilewright.native.conditions.recording import Recorder
from tilewright.native.conditions.surroundings import Surroundings
from tilewright.parts.languages import CUDA
from tilewright.parts.machine_code.post_dominance import TooLargeError
from tilewright.parts.untested_conditions import Untested, refusal, unexamined
from tilewright.targets.cuda.cpu_program import CpuCompiler
from tilewright.targets.cuda.emulation import Condition
from tilewright.targets.cuda.flat_arithmetic import (
    EXPONENTIAL,
    Operation,
    Seen,
    flat,
    operations_of,
)

_BEGINS, _SIZE = "tw_begin_records", "tw_records_size"
_WIDEST = 8
_SUMS = re.compile(r"v?(?:add|sub)s[sd]")
_INFINITE = (0x7F800000, 0xFF800000, 0x7FF << 52, 0xFFF << 52)
_ROW = 24
"""Bytes of one number in the file of records: the run, the place, and the number."""
AROUND = Surroundings(
    entries=re.compile("tw_call"),
    launchers=re.compile(r"tw_launch|_ZZN2tw6launch\w+"),
    without_data=re.compile(r"mem(?:cpy|move|set)|tw_(?!warp|barrier_sum)\w+"),
    of_values=re.compile(r"tw_warp|tw_barrier_sum|tw_rounded|__popcount[ds]i2"),
    keep_memory=re.compile(r"tw_(?!copy)\w+|(?!mem|sincos|frexp|modf|remquo)[a-z]+\d*[a-z]?"),
    known=re.compile(r"(?:thread|block)Idx|(?:block|grid)Dim"),
    addresses=re.compile(
        r"tw_(?:address|allocate|stream|event|dynamic_shared)|[mc]alloc|_Zn[wa]m\w*"
    ),
    only_own_lines=True,
    floats_in_memory=False,
    sums_of_data=False,
)
"""A kernel in CUDA C++, which the emulator calls. Functions that begin with tw_ are the emulator's
(`runtime.h`), and the others are those of the C library.
"""


@dataclass(frozen=True, slots=True)
class ConditionProgram:
    """A program that records the results of these conditions, or the values of these loads."""

    binary: bytes
    listing: Listing
    sites: Sequence[Site]
    lines: Sequence[int | None]
    recorder: Recorder

    def conditions(self, records: bytes, runs: int) -> list[list[Condition]] | None:
        """The conditions with their results in each run; None if the kernel has changed the
        records."""
        found = []
        for own in self._of_runs(records, runs):
            results = self.recorder.results(own)
            if results is None:
                return None
            each = zip(results, self.recorder.firsts(own), self.recorder.hashes(own), strict=True)
            found.append([self._condition(n, *seen) for n, seen in enumerate(each)])
        return found

    def _condition(
        self, number: int, result: tuple[bool, bool], first: int, sequence: int
    ) -> Condition:
        site = self.sites[number]
        is_number, is_sequence = site.value is not None, site.value is None or site.is_result
        return Condition(
            str(number),
            self.lines[number],
            *result,
            first=first if is_number and result[0] else None,
            is_number=is_number,
            sequences=(sequence,) if is_sequence else None,
        )

    def hashes(self, records: bytes, runs: int) -> list[list[int]] | None:
        """For each run, a hash of the values of each load; None as for `conditions`."""
        found = self._of_runs(records, runs)
        if any(self.recorder.results(own) is None for own in found):
            return None
        return [self.recorder.hashes(own) for own in found]

    def seen(self, records: bytes, runs: int) -> list[Seen] | None:
        """What was seen of each site in all runs; None as for `conditions`. The bits of all sites
        must be recorded."""
        each = list[tuple[list[tuple[bool, bool]], list[int], list[int]]]()
        for own in self._of_runs(records, runs):
            results = self.recorder.results(own)
            if results is None:
                return None
            each.append((results, self.recorder.firsts(own), self.recorder.hashes(own)))
        found = []
        for n in range(len(self.sites)):
            firsts = {ones[n] for results, ones, _ in each if results[n][0]}
            differs = len(firsts) > 1 or any(results[n][1] for results, _, _ in each)
            ones = 0
            for one in firsts:
                ones |= one
            found.append(Seen(ones, not differs, tuple(hashes[n] for _, _, hashes in each)))
        return found

    def _of_runs(self, records: bytes, runs: int) -> list[bytes]:
        """The whole records of each run."""
        rows = np.frombuffer(records[: len(records) // _ROW * _ROW], np.uint64).reshape(-1, 3)
        found = np.zeros((runs, self.recorder.size // 8), np.uint64)
        inside = (rows[:, 0] < runs) & (rows[:, 1] < found.shape[1])
        run, place, value = rows[inside].T
        found[run, place] = value
        return [own.tobytes() for own in found]


def recording_program(
    compiler: CpuCompiler, source: str, call: str, timeout_s: float
) -> ConditionProgram | Failed | None:
    """The program that records a kernel's conditions on input values; None if it has none, and
    none that may depend on addresses."""
    listed = compiler.listing(source, call, timeout_s)
    if isinstance(listed, Failed):
        return listed
    found = found_in(listed.assembly, CUDA.file, AROUND)
    if isinstance(found, Failed):
        return found
    if found.jumps:
        jumps = [Untested(site.instruction.line, "jump") for site in found.jumps]
        return refusal(jumps, 0, CUDA)
    try:
        lines = distances(listed, CUDA.file, only_own_lines=True)
        apart = [Untested(line, "distance") for line in lines]
        misuses = [*address_misuses(found.listing), *apart]
        if misuses:
            return refusal(misuses, 0, CUDA)
        sites = (*found.sites, *numbers_of(found.listing, AROUND))
    except TooLargeError as error:
        return unexamined(str(error))
    if not sites and not compared(found.listing):
        return None
    return _recording(compiler, found.listing, sites, timeout_s)


def loads_program(
    compiler: CpuCompiler, program: ConditionProgram, timeout_s: float
) -> ConditionProgram | Failed:
    """The program of the same kernel that records what it reads from memory."""
    listing = program.listing
    return _recording(compiler, listing, loads_of(listing, AROUND), timeout_s)


def arithmetic_program(
    compiler: CpuCompiler, program: ConditionProgram, timeout_s: float
) -> tuple[ConditionProgram, Sequence[Operation]] | Failed | None:
    """The program of the same kernel that records the operands and results of products and sums of
    floats, and these operations; None if nothing has to be recorded."""
    try:
        operations, sites = operations_of(program.listing, AROUND)
    except TooLargeError as error:
        return unexamined(str(error))
    if not sites:
        return None
    found = _recording(compiler, program.listing, sites, timeout_s, bits=True)
    return found if isinstance(found, Failed) else (found, operations)


def without_effect(
    program: ConditionProgram, operations: Sequence[Operation], records: bytes, runs: int
) -> list[Untested] | None:
    """The operations without an effect in any run; None if the kernel has changed the records."""
    seen = program.seen(records, runs)
    if seen is None:
        return None
    own = _own_lines(program.listing)
    return [Untested(own[one.at], "number") for one in flat(operations, seen)]


def moved_program(
    compiler: CpuCompiler, program: ConditionProgram, timeout_s: float
) -> ConditionProgram | Failed | None:
    """The program of the same kernel that records what its conditions compare; None if it has
    none."""
    sites = compared(program.listing)
    return _recording(compiler, program.listing, sites, timeout_s) if sites else None


def changed_by_moving(program: ConditionProgram, hashes: Sequence[Sequence[int]]) -> list[Untested]:
    """The conditions that changed between the last two runs, which have the same inputs, but arrays
    at other addresses."""
    pairs = zip(program.sites, program.lines, *hashes[-2:], strict=True)
    return [Untested(line, "address") for _, line, before, after in pairs if before != after]


def known_loads(
    program: ConditionProgram, hashes: Sequence[Sequence[int]]
) -> tuple[set[int], set[int]]:
    """The lines of the loads that read no input values, and of those that read addresses, by the
    hashes of the values that each load has read in each run. In the first run, the kernel may have
    set up something; in the last one, arrays were at other addresses."""
    known, addresses = set[int](), set[int]()
    for site, read in zip(program.sites, zip(*hashes[1:], strict=True), strict=True):
        if len(set(read)) == 1:
            known.add(site.instruction.at)
        elif len(set(read[:-1])) == 1 and reads_an_address(site.instruction):
            addresses.add(site.instruction.at)
    return known, addresses


def address_misuses(listing: Listing, loads: Collection[int] | None = None) -> list[Untested]:
    """What a kernel computes, or decides, by the address of an array, a variable, a stream or an
    event; or only by the addresses that the loads in these lines read from memory."""
    return [Untested(one.line, "address") for one in misused(listing, AROUND, loads)]


def untested(
    program: ConditionProgram, conditions: Collection[Condition], known_loads: Collection[int]
) -> list[Condition]:
    """The untested ones of a program's conditions that depend on input values, although the loads
    in these lines of the listing do not.

    A variable that is set under a condition depends on input values too, but its sequence of values
    may be the same in all calls."""
    on_data = {site.instruction.at for site in Analysis(program.listing, AROUND, known_loads).run()}
    computed = computed_without(program.listing, known_loads, around=AROUND)
    found = []
    for one in conditions:
        site = program.sites[int(one.place)]
        if _is_limit(site, one):
            continue
        alone = computed if site.is_result else on_data
        if (one.is_alone and site.instruction.at in alone) or (
            one.is_alike and site.instruction.at in computed
        ):
            found.append(one)
    return found


def _recording(
    compiler: CpuCompiler, listing: Listing, sites: Sequence[Site], timeout_s: float,
    bits: bool = False,
) -> ConditionProgram | Failed:  # fmt: skip
    """The program that records the sites, and the bits of results; with `bits`, those of all."""
    with_bits = [n for n, site in enumerate(sites) if bits or _has_bits(site)]
    recorder = Recorder.of(len(sites), with_bits)
    own = _own_lines(listing)
    lines = [own[site.instruction.at] for site in sites]
    text = recorder.of_program(listing, sites, _BEGINS, _SIZE)
    binary = compiler.assembled(text, timeout_s)
    if isinstance(binary, Failed):
        return binary
    return ConditionProgram(binary, listing, sites, lines, recorder)


def _is_limit(site: Site, seen: Condition) -> bool:
    """Whether a sum was infinite in all calls, or an exponential zero. They are in the first tile
    of a running maximum, which begins with minus infinity, and some kernels have one tile only."""
    if not site.is_float or seen.was_true:
        return False
    if EXPONENTIAL.fullmatch(site.instruction.operands[0]):
        return seen.first == 0
    return bool(_SUMS.fullmatch(site.instruction.name)) and seen.first in _INFINITE


def _has_bits(site: Site) -> bool:
    """Whether the bits of a number are recorded, which has one or several values."""
    return site.is_result and site.value is not None and site.value[1] <= _WIDEST


def _own_lines(listing: Listing) -> dict[int, int | None]:
    """By line of the listing, the line of the kernel's source; for the emulator's own code, that of
    the code before it."""
    lines = dict[int, int | None]()
    for function in listing.functions.values():
        last = next((one.line for one in function.code if one.line), None)
        for one in function.code:
            last = lines[one.at] = one.line or last
    return lines
