"""The program of a kernel that records which results its conditions on input values have had.

The kernel is compiled to assembly text. In its functions, everything that is read through a pointer
or from shared memory counts as input values, unlike sizes, indices of threads, and what the host
computes from them. Conditions within the emulator's own headers do not count. If the host copies
input values to itself, what it decides by them counts as well.

Kernels also keep indices, flags and counters in memory. A second program records what each
instruction reads from memory. An instruction that reads the same values in the same order, whatever
the inputs are, reads no input values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tilewright.core.records import Failed
from tilewright.native.conditions.dependence import Analysis
from tilewright.native.conditions.facts import Site
from tilewright.native.conditions.finding import found_in, loads_of
from tilewright.native.conditions.listing import Listing
from tilewright.native.conditions.recording import Recorder
from tilewright.native.conditions.surroundings import Surroundings
from tilewright.parts.languages import CUDA
from tilewright.parts.untested_conditions import Untested, refusal
from tilewright.targets.cuda.cpu_program import CpuCompiler
from tilewright.targets.cuda.emulation import Condition

_BEGINS, _SIZE = "tw_begin_records", "tw_records_size"
AROUND = Surroundings(
    entries=re.compile("tw_call"),
    launchers=re.compile(r"tw_launch|_ZZN2tw6launch\w+"),
    without_data=re.compile(r"mem(?:cpy|move|set)|tw_(?!warp|barrier_sum)\w+"),
    of_values=re.compile(r"tw_warp|tw_barrier_sum"),
    keep_memory=re.compile(r"tw_(?!copy)\w+|(?!mem|sincos|frexp|modf|remquo)[a-z]+\d*[a-z]?"),
    known=re.compile(r"(?:thread|block)Idx|(?:block|grid)Dim"),
    only_own_lines=True,
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
    recorder: Recorder

    def conditions(self, records: bytes) -> tuple[Condition, ...] | None:
        """The conditions with their results; None if the kernel has changed the records."""
        if len(records) != self.recorder.size:
            return None
        results = self.recorder.results(records)
        if results is None:
            return None
        return tuple(
            Condition(str(n), site.instruction.line, *result, site.value is not None)
            for n, (site, result) in enumerate(zip(self.sites, results, strict=True))
        )


def recording_program(
    compiler: CpuCompiler, source: str, call: str, timeout_s: float
) -> ConditionProgram | Failed | None:
    """The program that records a kernel's conditions on input values; None if it has none."""
    text = compiler.listing(source, call, timeout_s)
    if isinstance(text, Failed):
        return text
    found = found_in(text, CUDA.file, AROUND)
    if isinstance(found, Failed):
        return found
    if found.jumps:
        jumps = [Untested(site.instruction.line, is_jump=True) for site in found.jumps]
        return refusal(jumps, 0, CUDA)
    if not found.sites:
        return None
    return _recording(compiler, found.listing, found.sites, timeout_s)


def loads_program(
    compiler: CpuCompiler, program: ConditionProgram, timeout_s: float
) -> ConditionProgram | Failed:
    """The program of the same kernel that records what it reads from memory."""
    listing = program.listing
    return _recording(compiler, listing, loads_of(listing, AROUND), timeout_s)


def on_data(program: ConditionProgram, known_loads: Collection[int]) -> set[str]:
    """The places of the conditions that depend on input values, although the loads in these lines
    of the listing do not."""
    sites = Analysis(program.listing, AROUND, known_loads).run()
    lines = {site.instruction.at for site in sites}
    return {str(n) for n, site in enumerate(program.sites) if site.instruction.at in lines}


def _recording(
    compiler: CpuCompiler, listing: Listing, sites: Sequence[Site], timeout_s: float
) -> ConditionProgram | Failed:
    recorder = Recorder.of(len(sites))
    text = recorder.of_program(listing, sites, _BEGINS, _SIZE)
    binary = compiler.assembled(text, timeout_s)
    if isinstance(binary, Failed):
        return binary
    return ConditionProgram(binary, listing, sites, recorder)
