"""Looks for conditions on input values that had the same result in all calls of a kernel.

The kernel is compiled once more, without vectorisation, to a listing whose conditions record their
results. Only kernels with such conditions are then called, on the inputs of the checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from time import thread_time
from typing import TypeAlias

import numpy as np

from tilewright.core.records import Argument, Failed, KernelLanguage
from tilewright.native.calls import compared
from tilewright.native.conditions.distances import distances
from tilewright.native.conditions.facts import Site
from tilewright.native.conditions.finding import computed_without, found_in, sequences_of
from tilewright.native.conditions.fixed import keeps_values
from tilewright.native.conditions.listing import Listing
from tilewright.native.conditions.recording import Recorder
from tilewright.native.conditions.surroundings import OF_C
from tilewright.native.evaluator import NativeEvaluation
from tilewright.native.machine import off_measuring_cores, on_building_cores
from tilewright.native.process import KernelProcess, ProcessGoneError
from tilewright.native.toolchain import assembled, assembly_of
from tilewright.parts.machine_code.post_dominance import TooLargeError
from tilewright.parts.untested_conditions import (
    MORE_TURNS,
    Kind,
    Untested,
    is_same_in_all,
    refusal,
    unexamined,
)

_Find: TypeAlias = Callable[[frozenset[int], frozenset[int]], frozenset[int]]
_RECORDS = "results of conditions"  # no parameter of a kernel has this name
_CREATES_THREAD = re.compile(r"^\s*(?:call|jmp)\s+pthread_create@PLT", re.MULTILINE)
"""Kernels that start threads themselves are not examined: what a thread is given looks like
data.
"""
_RUNS_OPENMP = re.compile(r"^\s*(?:call|jmp)\s+GOMP_", re.MULTILINE)
"""Threads that run side by side record their results in no certain order, so sequences of results
are not compared.
"""
MOST_CPU_S = 60.0
"""Maximum number of CPU seconds of a kernel's calls, and of looking at what they recorded, before
no further call is made.
"""
MOST_REPEATS_CPU_S = 5.0
"""Maximum number of these seconds before no further call is repeated at the same addresses."""
_LEAST_REPEATED = 5
"""After so many calls, those on the inputs of the first two checks have been repeated."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What an examination found: the untested conditions, or why there is no finding. If `is_kept`,
    they are instructions whose results depend on earlier calls. `distances` are the lines that
    compute with distances between variables. A kernel that is not examined is not refused;
    `left_out` then says why, as a part of a sentence.
    """

    untested: tuple[Site, ...] = ()
    distances: tuple[int | None, ...] = ()
    failed: Failed | None = None
    calls: int = 0
    is_kept: bool = False
    left_out: str = ""

    def allows(self, other: Examined) -> bool:
        """Whether another kernel is not refused, because this one, the starting kernel, has what it
        is refused for."""
        if self.failed or (other.failed and (self.untested or self.distances)):
            return True
        return not other.failed and other._kinds() <= self._kinds()

    def kind_of(self, site: Site) -> Kind:
        """What is untested in one of the places that were found."""
        if site.is_jump:
            return "jump"
        return "kept" if self.is_kept else "number" if site.value is not None else "condition"

    def _kinds(self) -> set[str]:
        kinds = {"jump" if site.is_jump else "value" for site in self.untested}
        kinds |= {"distance"} if self.distances else set()
        return {"kept"} if self.is_kept else kinds


def examined(evaluation: NativeEvaluation, source: str) -> Examined:
    """The conditions of a kernel that depend on input values and always had the same result.

    Kernels for other processors, or with emulated instructions, are not examined.
    """
    if evaluation.machine != "x86_64":
        return Examined(left_out=f"this is not possible on {evaluation.machine}")
    if evaluation.headers:
        return Examined(left_out="this is not possible for kernels with emulated instructions")
    with on_building_cores(evaluation.toolchain.threads):
        limit_s = evaluation.settings.compile_timeout_s
        listed = assembly_of(evaluation.toolchain, source, limit_s)
        if isinstance(listed, Failed):
            return Examined(failed=listed)
        text, file = listed.assembly, evaluation.toolchain.language.file
        if _CREATES_THREAD.search(text):
            return Examined(left_out="it creates threads itself")
        try:
            lines = distances(listed, file)
        except TooLargeError as error:
            return Examined(failed=unexamined(str(error)))
        if lines:
            return Examined(distances=tuple(lines))
        found = found_in(text, file, OF_C)
        if isinstance(found, Failed):
            return Examined(failed=found)
        if found.jumps:
            return Examined(found.jumps)
    find, sequences = None, []
    try:
        if evaluation.toolchain.threads == 1 or not _RUNS_OPENMP.search(text):
            find = lru_cache(maxsize=1)(partial(computed_without, found.listing))
            sequences = sequences_of(found.listing)
        keeps = find is not None and _keeps_values(found.listing)
        others = (*found.sites, *(one for one in sequences if not one.is_float))
        floats = [one for one in sequences if one.is_float]
        alike = _alike_floats(evaluation, found.listing, () if keeps else others, floats)
        if isinstance(alike, Examined):
            return alike
        sites = (*others, *alike)
        if all(site.is_load for site in sites):
            return Examined()
        recorder = Recorder.of(len(sites))
        binary = _recording(evaluation, found.listing, sites, recorder)
        if isinstance(binary, Failed):
            return Examined(failed=binary)
        return _called(evaluation, binary, sites, recorder, find, keeps=keeps)
    except TooLargeError as error:
        return Examined(failed=unexamined(str(error)))


def _keeps_values(listing: Listing) -> bool:
    """Whether a kernel may read what an earlier call has written."""
    functions = (one for one in listing.functions.values() if one.code)
    return listing.keeps_variables or any(map(keeps_values, functions))


def _recording(
    evaluation: NativeEvaluation, listing: Listing, sites: Sequence[Site], recorder: Recorder
) -> bytes | Failed:
    """The object file of the kernel with recording code."""
    text = recorder.of_kernel(listing, sites, len(evaluation.workload.arguments))
    with on_building_cores(evaluation.toolchain.threads):
        return assembled(evaluation.toolchain, text, evaluation.settings.compile_timeout_s)


def _alike_floats(
    evaluation: NativeEvaluation, listing: Listing, others: Sequence[Site], floats: Sequence[Site]
) -> list[Site] | Examined:
    """Those of `floats`, the instructions that compute or read floating-point numbers, that had the
    same sequence of them in two calls on inputs of different distributions; none if none of them
    computes any.

    They are found in a process of their own, because nearly all instructions of a kernel compute
    floating-point numbers, and recording them all in every call takes too long. The `others` are
    recorded as well: most kernels are found to have nothing untested after these two calls.
    """
    if all(site.is_load for site in floats):
        return []
    others = [site for site in others if not site.is_load]
    sites = [*others, *floats]
    recorder = Recorder.of(len(sites))
    binary = _recording(evaluation, listing, sites, recorder)
    if isinstance(binary, Failed):
        return Examined(failed=binary)
    records = Argument(_RECORDS, (recorder.size,), "uint8", "output")
    cases = evaluation.cases.compared(evaluation.settings.checks)
    seen: list[list[int]] = []
    room = np.zeros(records.shape, np.uint8)
    apart = off_measuring_cores(evaluation.toolchain.threads)
    with apart, evaluation.started(binary, (records,)) as process:
        for number in (cases[0], cases[-1]):
            process.arrays.place({**evaluation.cases[number].initial, _RECORDS: room})
            failed = process.call("check", evaluation.settings.simulation_timeout_s)
            if failed is not None:
                return Examined(failed=failed)
            written = process.arrays.outputs_now()[_RECORDS]
            seen.append(recorder.hashes(written))
            room = np.frombuffer(recorder.without_hashes(written, sites), np.uint8)
    count = len(others)
    sequences = list(zip(*seen, strict=True))
    of_floats = zip(floats, sequences[count:], strict=True)
    alike = [site for site, one in of_floats if is_same_in_all(one)]
    if not all(site.is_load for site in alike):
        return alike
    results = recorder.results(written)
    if others and results and _is_settled(others, results[:count], sequences[:count]):
        return Examined(calls=len(seen))
    return []


def _called(
    evaluation: NativeEvaluation,
    binary: bytes,
    sites: Sequence[Site],
    recorder: Recorder,
    find: _Find | None,
    *,
    keeps: bool,
) -> Examined:
    """What the conditions' results were in calls on inputs of every distribution.

    The inputs of the last check are repeated at other addresses. If the kernel `keeps` values, each
    call but the first is also repeated at the same addresses, as long as the calls have not taken
    `MOST_REPEATS_CPU_S`: a result that is another one then depends on earlier calls. All inputs are
    repeated, because a kernel may count only calls on inputs with a certain property. The first
    call may set variables, such as a table of constants, so its inputs are used once more.

    The outputs of the first calls, on the inputs of the checks, have been compared before; those of
    further calls are compared here, because conditions may have another result in them.
    """
    once = evaluation.cases.compared(evaluation.settings.checks)
    records = Argument(_RECORDS, (recorder.size,), "uint8", "output")
    room = np.zeros(records.shape, np.uint8)
    turns = [(one, False) for one in once]
    if keeps:
        repeated = [*once[1:2], once[0], *once[2:]]
        turns[1:] = [(one, as_before) for one in repeated for as_before in (False, True)]
    again = len(turns)
    turns.append((turns[-1][0], False))

    def each_turn() -> Iterator[tuple[int, bool]]:
        yield from turns
        # What the checks need of these cases is computed only for kernels that need the calls.
        for one in evaluation.cases.compared(MORE_TURNS * len(once))[len(once) :]:
            yield one, False

    untested: Sequence[Site] = sites
    sequences: list[list[int]] = [[] for _ in sites]
    calls, begun_s, repeats = 0, thread_time(), keeps
    apart = off_measuring_cores(evaluation.toolchain.threads)
    with apart, evaluation.started(binary, (records,)) as process:
        for number, as_before in each_turn():
            if as_before and not repeats:
                again -= 1
                continue
            case = evaluation.cases[number]
            process.arrays.place({**case.initial, _RECORDS: room}, as_before=as_before)
            failed = process.call("check", evaluation.settings.simulation_timeout_s)
            if failed is None and calls > again:
                failed = compared(process, case, "check")
            if failed is not None:
                return Examined(failed=failed, calls=calls)
            calls += 1
            written = process.arrays.outputs_now()[_RECORDS]
            for seen, one in zip(sequences, recorder.hashes(written), strict=True):
                seen.append(one)
            room = np.frombuffer(recorder.without_hashes(written, sites), np.uint8)
            results = recorder.results(written)
            if results is None:
                return Examined(failed=unexamined("it writes to memory that is not its own."))
            if as_before and (kept := _kept(sites, sequences)):
                return Examined(kept, calls=calls, is_kept=True)
            spent_s = thread_time() - begun_s + _cpu_s(process)
            if calls >= again or (calls >= _LEAST_REPEATED and spent_s > MOST_REPEATS_CPU_S):
                repeats = False
            if _is_settled(sites, results, sequences) and not repeats:
                return Examined(calls=calls)
            is_late = spent_s > MOST_CPU_S
            if calls > again:
                untested = _untested(find, sites, results, sequences, again)
                if is_late or not untested:
                    break
            elif is_late:
                late = f"{calls} of {again + 1} calls took more than {MOST_CPU_S:g} s of CPU time."
                return Examined(failed=unexamined(late), calls=calls)
    return Examined(tuple(untested), calls=calls)


def _cpu_s(process: KernelProcess) -> float:
    """The CPU seconds of a process; 0 if it has ended, as the next call will report."""
    try:
        return process.cpu_s()
    except ProcessGoneError:
        return 0.0


def _kept(sites: Sequence[Site], sequences: Sequence[Sequence[int]]) -> tuple[Site, ...]:
    """The conditions and numbers with another sequence in the last call than in the one before."""
    return tuple(
        site
        for site, (*_, before, last) in zip(sites, sequences, strict=True)
        if before != last and (site.value is None or site.is_load or site.is_result)
    )


def _is_settled(
    sites: Sequence[Site],
    results: Sequence[tuple[bool, bool]],
    sequences: Sequence[Sequence[int]],
) -> bool:
    """Whether further calls cannot change that nothing is untested: each condition, value and
    result has been reached, and was not the same in all calls. Which loads read data does not
    matter then.
    """
    for site, (no, yes), seen in zip(sites, results, sequences, strict=True):
        has_sequence = site.value is None or (site.is_result and not site.is_load)
        if has_sequence and len(set(seen)) == 1:
            return False
        if not (site.is_load or site.is_result or (no and yes)):
            return False
    return True


def _untested(
    find: _Find | None,
    sites: Sequence[Site],
    results: Sequence[tuple[bool, bool]],
    sequences: Sequence[Sequence[int]],
    again: int,
) -> list[Site]:
    """The conditions and values that had one result in all calls, or whose results had the same
    sequence in all of them, although they depend on data.

    `find` is `computed_without` for the kernel's listing, or None if sequences are not compared.
    For sequences, a whole number that is read from memory is taken for no data if it had the same
    sequence in all calls. The call `again` had the inputs of the one before, so a number whose
    sequence was another one there depends on addresses, and is no data either, unless data were
    written to its place. Any number in memory may be data for conditions and values with one
    result: an element that is always the same may stand for a special case.
    """
    alone, alike, loads = [], [], []
    for site, (no, yes), seen in zip(sites, results, sequences, strict=True):
        is_alike = is_same_in_all(seen)
        if site.is_load:
            depends = not site.is_float and seen[again - 1] != seen[again]
            loads.append((site.instruction.at, is_alike, depends))
        elif site.is_result:
            alike += [site] if is_alike else []
        elif no != yes:
            alone.append(site)
        elif site.value is None and is_alike:
            alike.append(site)
    if find is None or not alike:
        return alone
    known = frozenset(at for at, is_alike, _ in loads if is_alike)
    addresses = frozenset(at for at, _, depends in loads if depends)
    computed = find(known, addresses)
    return [*alone, *(site for site in alike if site.instruction.at in computed)]


def failure_of(found: Examined, language: KernelLanguage) -> Failed:
    """Why a kernel is refused in whose examination something was found."""
    if found.failed is not None and found.failed.kind in ("wrong_result", "untested_condition"):
        return found.failed
    if found.failed is not None:
        return unexamined(found.failed.log, found.failed.line)
    untested = [Untested(site.instruction.line, found.kind_of(site)) for site in found.untested]
    untested += [Untested(line, "distance") for line in found.distances]
    return refusal(untested, found.calls, language)
