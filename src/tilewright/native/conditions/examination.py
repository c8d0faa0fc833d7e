"""Looks for conditions on input values that had the same result in all calls of a kernel.

The kernel is compiled once more, without vectorisation, to a listing whose conditions record their
results. Only kernels with such conditions are then called, on the inputs of the checks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.core.records import Argument, Failed, KernelLanguage
from tilewright.native.calls import compared
from tilewright.native.conditions.facts import Site
from tilewright.native.conditions.finding import found_in
from tilewright.native.conditions.recording import Recorder
from tilewright.native.conditions.surroundings import OF_C
from tilewright.native.evaluator import NativeEvaluation
from tilewright.native.machine import off_measuring_cores, on_building_cores
from tilewright.native.toolchain import assembled, assembly_of
from tilewright.parts.untested_conditions import MORE_TURNS, Untested, refusal, unexamined

_RECORDS = "results of conditions"  # no parameter of a kernel has this name
_CREATES_THREAD = re.compile(r"^\s*(?:call|jmp)\s+pthread_create@PLT", re.MULTILINE)
"""Kernels that start threads themselves are not examined: what a thread is given looks like
data.
"""


@dataclass(frozen=True, slots=True)
class Examined:
    """What an examination found: the untested conditions, or why there is no finding."""

    untested: tuple[Site, ...] = ()
    failed: Failed | None = None
    calls: int = 0


def can_examine(evaluation: NativeEvaluation) -> bool:
    """Whether kernels of this task are examined: those for x86-64 without emulated instructions."""
    return evaluation.machine == "x86_64" and not evaluation.headers


def examined(evaluation: NativeEvaluation, source: str) -> Examined:
    """The conditions of a kernel that depend on input values and always had the same result."""
    with on_building_cores(evaluation.toolchain.threads):
        limit_s = evaluation.settings.compile_timeout_s
        text = assembly_of(evaluation.toolchain, source, limit_s)
        if isinstance(text, Failed):
            return Examined(failed=text)
        if _CREATES_THREAD.search(text):
            return Examined()
        found = found_in(text, evaluation.toolchain.language.file, OF_C)
        if isinstance(found, Failed):
            return Examined(failed=found)
        if not found.sites or found.jumps:
            return Examined(found.jumps)
        recorder = Recorder.of(len(found.sites))
        arguments = len(evaluation.workload.arguments)
        recording = recorder.of_kernel(found.listing, found.sites, arguments)
        binary = assembled(evaluation.toolchain, recording, limit_s)
    if isinstance(binary, Failed):
        return Examined(failed=binary)
    return _called(evaluation, binary, found.sites, recorder)


def _called(
    evaluation: NativeEvaluation, binary: bytes, sites: Sequence[Site], recorder: Recorder
) -> Examined:
    """What the conditions' results were in calls on inputs of every distribution.

    The outputs of the first calls, on the inputs of the checks, have been compared before; those of
    further calls are compared here, because conditions may have another result in them.
    """
    once = evaluation.cases.compared(evaluation.settings.checks)
    more = evaluation.cases.compared(MORE_TURNS * len(once))[len(once) :]
    records = Argument(_RECORDS, (recorder.size,), "uint8", "output")
    room = np.zeros(records.shape, np.uint8)
    untested: Sequence[Site] = sites
    calls = 0
    apart = off_measuring_cores(evaluation.toolchain.threads)
    with apart, evaluation.started(binary, (records,)) as process:
        for number in (*once, *more):
            case = evaluation.cases[number]
            process.arrays.place({**case.initial, _RECORDS: room})
            failed = process.call("check", evaluation.settings.simulation_timeout_s)
            if failed is None and calls >= len(once):
                failed = compared(process, case, "check")
            if failed is not None:
                return Examined(failed=failed, calls=calls)
            calls += 1
            written = process.arrays.outputs_now()[_RECORDS]
            room = np.frombuffer(written, np.uint8)
            results = recorder.results(written)
            if results is None:
                return Examined(failed=unexamined("it writes to memory that is not its own."))
            untested = [s for s, (no, yes) in zip(sites, results, strict=False) if no != yes]
            # What no call has reached yet may be reached in a later one.
            is_done = calls >= len(once) or all(no and yes for no, yes in results)
            if not untested and is_done:
                break
    return Examined(tuple(untested), calls=calls)


def failure_of(found: Examined, language: KernelLanguage) -> Failed:
    """Why a kernel is refused in whose examination something was found."""
    if found.failed is not None and found.failed.kind in ("wrong_result", "untested_condition"):
        return found.failed
    if found.failed is not None:
        return unexamined(found.failed.log, found.failed.line)
    untested = [
        Untested(site.instruction.line, site.is_jump, is_number=site.value is not None)
        for site in found.untested
    ]
    return refusal(untested, found.calls, language)
