"""The builder, checker and runner of a Trainium task, which trace a kernel, compare its results,
and model its latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tilewright.core.records import (
    Artifact,
    Candidate,
    Check,
    Failed,
    LatencyKind,
    Measured,
    Verdict,
    Workload,
)
from tilewright.core.roles import NOTHING_CHECKED, Data
from tilewright.native.settings import EvaluationSettings
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.parts.float_error import blocks
from tilewright.parts.memory import memory_limit
from tilewright.parts.problem import Problem
from tilewright.targets.trainium.call_memory import CallMemory
from tilewright.targets.trainium.counts import counts_of
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.feedback import in_words
from tilewright.targets.trainium.interpreter_process import Interpretation, failed_by
from tilewright.targets.trainium.latency.capacity import examine
from tilewright.targets.trainium.latency.model import MODEL_VERSION, estimate
from tilewright.targets.trainium.machine import Machine
from tilewright.targets.trainium.program import (
    MOST_TRACE_BYTES,
    Call,
    Program,
    parse,
    trace_program,
)
from tilewright.targets.trainium.roofline import floor_ns, roofline_ns
from tilewright.targets.trainium.trace import Trace

LATENCY = LatencyKind("modelled", "ns")

INTERPRETER = "tilewright nki interpreter 8"
"""Increase this number whenever the interpreter's results may change; it is part of every cache
key."""


@dataclass(frozen=True)
class Evaluation:
    """The data that the three roles share."""

    workload: Workload
    call: Call
    problem: Problem
    settings: EvaluationSettings
    machine: Machine
    cases: Cases
    memory: CallMemory
    _last: dict[str, tuple[Program, Trace]] = field(default_factory=dict)
    right: set[tuple[str, int]] = field(default_factory=set)
    """Kernels and input seeds with correct results, because a second run would give the same
    results."""

    @cached_property
    def interpretation(self) -> Interpretation:
        """The interpreter that runs kernels on arrays."""
        timeout_s = self.settings.simulation_timeout_s
        return Interpretation(self.call, self.machine, timeout_s, self.memory)

    def traced(self, source: str) -> tuple[Program, Trace]:
        """The kernel and its trace; raises `KernelError`. The last one is kept."""
        known = self._last.get(source)
        if known is None:
            self._last.clear()
            try:
                with memory_limit(MOST_TRACE_BYTES):
                    program = parse(source)
                    known = program, trace_program(program, self.call, self.machine)
            except MemoryError:
                raise KernelError("too_large", "the kernel needs too much memory") from None
            self._last[source] = known
        return known


class TrainiumBuilder:
    """Traces the kernel without data, which checks every rule of the language and of the
    machine."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """The source, or the error that the compiler would report."""
        evaluation = self._evaluation
        try:
            program, trace = evaluation.traced(candidate.source)
            if program.language == 2:
                excess = examine(trace, evaluation.machine).excess()
                if excess is not None:
                    text, line = excess
                    return Failed("build", "limit_exceeded", f"kernel.py:{line}: {text}.", line)
        except KernelError as error:
            return failed_by(error)
        return Artifact(candidate.id, candidate.source.encode(), INTERPRETER)


class TrainiumChecker:
    """Runs the kernel on arrays and compares the results with the reference."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """Does nothing, because the latency is modelled without data before any comparison."""
        return NOTHING_CHECKED

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """All cases must agree with the reference. If iterations may run in any order, two orders
        are compared."""
        evaluation = self._evaluation
        source = artifact.binary.decode()
        seeds = {check.seed for check in passed.checks}
        checks = list(passed.checks)
        for number in evaluation.cases.compared(evaluation.settings.checks):
            case = evaluation.cases.alone(number)
            if case.check.seed in seeds:
                continue
            found = _compared(evaluation, source, case)
            if isinstance(found, Failed):
                return found
            checks.append(found)
        return Verdict(tuple(checks))


def _orders(trace: Trace, seed: int) -> Sequence[int | None]:
    """The orders in which a kernel is run. NKI 1 may reorder the iterations of affine loops."""
    reordered = trace.language == 1 and any(
        loop.kind == "affine" and loop.trips > 1 for loop in trace.loops
    )
    return (None, seed) if reordered else (None,)


def _compared(evaluation: Evaluation, source: str, case: Case) -> Check | Failed:
    """The record of outputs that agree with the reference in every order of iterations."""
    _, trace = evaluation.traced(source)
    found: Check | Failed = case.check
    for order in _orders(trace, case.check.seed):
        found = _right(evaluation, source, case, order, trace.language)
        if isinstance(found, Failed):
            if order is None:
                return found
            return Failed(
                found.stage,
                "non_deterministic",
                "the result differs if the iterations of affine_range are executed in another "
                f"order: they depend on one another, use sequential_range ({found.log})",
                found.line,
            )
    evaluation.right.add((source, case.check.seed))
    return found


def _right(
    evaluation: Evaluation, source: str, case: Case, order: int | None, language: int
) -> Check | Failed:
    """The record if the outputs agree. The NKI 1 compiler may omit a cast, so results with and
    without it are accepted."""
    failed: Failed | None = None
    for elide in (False, True) if language == 1 else (False,):
        outputs = evaluation.interpretation.run(
            source, case.initial, shuffle=order, elide_casts=elide
        )
        if isinstance(outputs, Failed):
            return failed or outputs
        mismatch = case.mismatch(outputs)
        if mismatch is None:
            return case.passed(outputs)
        failed = failed or _mismatch(case, outputs, mismatch)
        del outputs  # they may have gigabytes, and the next run needs the same amount
    assert failed is not None
    if failed.kind != "uninitialised_read":
        return failed
    explained = evaluation.interpretation.run(source, case.initial, shuffle=order, explain=True)
    if not isinstance(explained, Failed) or explained.kind != failed.kind:
        return failed
    return replace(
        explained, log=f"{explained.log.rstrip('.')} ({case.check.distribution} inputs)."
    )


def _mismatch(case: Case, outputs: Mapping[str, Data], text: str) -> Failed:
    for argument in case.workload.arguments:
        if argument.is_written and argument.dtype.startswith(("float", "bfloat")):
            got = np.frombuffer(outputs[argument.name], argument.dtype)
            count = sum(int(np.isnan(got[p]).sum()) for p in blocks(got.size))
            if count:
                return Failed(
                    "check",
                    "uninitialised_read",
                    f"{count} of {got.size} elements of {argument.name} are undefined: they were "
                    "never written, lie outside a mask, or are computed from such values "
                    f"({case.check.distribution} inputs).",
                )
    return Failed("check", "wrong_result", f"{text}.")


class TrainiumRunner:
    """Models the latency, which needs no data, and then compares the modelled kernel's results
    once."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """Modelled nanoseconds from launch to the last store."""
        evaluation = self._evaluation
        source = artifact.binary.decode()
        found = self.modelled(artifact)
        if isinstance(found, Failed):
            return found
        if limit_latency is not None and found.latency >= limit_latency:
            return Failed(
                "measure",
                "slower_than_limit",
                f"modelled at {found.latency / 1e3:.2f} us, which is not below the limit of "
                f"{limit_latency / 1e3:.2f} us.",
                bound=found.latency,
            )
        case = evaluation.cases.alone(evaluation.cases.first)
        checks = verdict.checks
        # The verdict may belong to another kernel, so the comparison of this kernel counts.
        if (source, case.check.seed) not in evaluation.right:
            compared = _compared(evaluation, source, case)
            if isinstance(compared, Failed):
                return replace(compared, stage="measure")
            if case.check.seed not in {check.seed for check in checks}:
                checks = (*checks, compared)
        return replace(found, verdict=Verdict(checks))

    def modelled(self, artifact: Artifact) -> Measured | Failed:
        """The modelled latency of a kernel whose results were not compared."""
        evaluation = self._evaluation
        machine = evaluation.machine
        source = artifact.binary.decode()
        trace = evaluation.traced(source)[1]
        found = estimate(trace, machine)
        if not found.busy:
            return Failed(
                "measure", "invalid", "the kernel executes no instruction, so it stores nothing."
            )
        counts = counts_of(trace)
        least, _ = roofline_ns(evaluation.workload, machine)
        return Measured(
            latency=found.latency_ns,
            unit=LATENCY.unit,
            quantity=LATENCY.quantity,
            utilization=min(1.0, least / found.latency_ns),
            verdict=NOTHING_CHECKED,
            breakdown=dict(found.busy),
            details={
                "launch_ns": machine.launch,
                "bytes_read": float(found.bytes_read),
                "bytes_written": float(found.bytes_written),
                "bytes_spilled": float(found.spilled),
                "instructions": float(found.instructions),
                "transfers": float(found.transfers),
                "products": float(found.products),
                **counts,
            },
            bound=floor_ns(evaluation.workload, machine)[0],
            versions={"compiler": artifact.toolchain, **versions(machine)},
            artifact_digest=artifact.digest,
            feedback=in_words(evaluation.workload, machine, found, counts, source),
        )


def versions(machine: Machine) -> dict[str, str]:
    """Interpreter, latency model and its parameters."""
    return {
        "interpreter": INTERPRETER,
        "latency model": MODEL_VERSION,
        "machine": f"{machine.name} {machine.digest}",
    }
