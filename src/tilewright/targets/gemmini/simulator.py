"""Runs an artifact on one test case, and converts the simulator's results to records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from tilewright.core.errors import InputError, ToolchainMissingError
from tilewright.core.records import Artifact, Failed, Gap, Stage, Workload
from tilewright.parts.case import Case
from tilewright.parts.debug_lines import source_line, source_lines
from tilewright.parts.inputs import Array
from tilewright.parts.languages import C
from tilewright.targets.gemmini.feedback import (
    cycles_by_line,
    describe,
    least_latency,
    longest_gaps,
)
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.memory import argument_addresses
from tilewright.targets.gemmini.settings import EvaluationSettings

if TYPE_CHECKING:
    from tilewright.targets.gemmini.sim import Fault, SimResult

GEOMETRY_FAULTS = ("limit_exceeded", "local_out_of_bounds")
"""Faults of kernels that may be correct on another instance."""
NUMBERS = frozenset({"l2_hit", "l2_miss", "mispredictions", "product_rows"})
"""Counters of the simulator that do not count cycles, but memory requests, rows or
mispredictions.
"""

MOST_CALLS = 16
"""Maximum number of calls of one simulation, whose outputs are all kept until it ends."""
RULES_S = 5.0
"""Maximum number of seconds of a run that only looks for broken rules."""
UNORDERED = frozenset({"unordered_dram_read", "unordered_dram_write"})
"""Faults of DRAM accesses that no fence orders, which a run without timing can detect."""


def load_sim() -> ModuleType:
    """The co-simulator's module; `ToolchainMissingError` if its native part has not been built."""
    try:
        from tilewright.targets.gemmini import sim
    except ImportError as error:
        raise ToolchainMissingError(
            f"the Gemmini co-simulator is not built ({error}). Install tilewright again with `pip "
            "install .` or `uv sync` on a machine with a C++ compiler."
        ) from error
    return sim


def model_version() -> str:
    """Version of the simulator's model."""
    return str(load_sim().MODEL_VERSION)


def versions(instance: Instance) -> dict[str, str]:
    """The versions of the simulator's model and of the configuration, which are part of every
    result.
    """
    configuration = f"{instance.summary} {instance.config.digest}"
    return {"simulator": model_version(), "configuration": configuration}


@dataclass(frozen=True, slots=True)
class Feedback:
    """Feedback in words, its table by line, the longest gaps, and a bound in cycles."""

    feedback: str
    by_line: Mapping[str, Mapping[str, float]]
    gaps: tuple[Gap, ...]
    bound: float


class Simulator:
    """Simulates the kernels of one task, with the configuration and the addresses of the
    arguments.
    """

    def __init__(
        self, instance: Instance, workload: Workload, settings: EvaluationSettings
    ) -> None:
        self._sim = load_sim()
        self.instance = instance
        self._config = instance.config
        self._workload = workload
        self._arguments = workload.arguments
        self._settings = settings
        self._max_instructions = 10_000_000 + int(
            settings.instructions_per_operation * workload.operations
        )

    def run(
        self,
        artifact: Artifact,
        case: Case,
        stage: Stage,
        limit_cycles: int | None = None,
        later: Sequence[Case] = (),
        joins: Mapping[int, int] | None = None,
    ) -> SimResult | Failed:
        """A finished run with correct outputs, or the failure. The run is timed in the stage
        "measure". If there are `later` cases, the kernel is called for each of them in the same
        memory, and these outputs must be correct too. With `joins`, conditions are recorded.
        """
        try:
            result = self._simulate(
                artifact, case, stage == "measure", limit_cycles, later, joins=joins
            )
        except InputError as error:  # the candidate's linked program may be invalid in unusual ways
            return Failed(stage, "link_error", str(error))
        if stage == "check" and result.fault is not None and result.fault.kind in UNORDERED:
            # Only a timed run can find races.
            result = self._simulate(artifact, case, True, limit_cycles, later)
        found = self._failure(artifact, (case, *later), stage, result, limit_cycles)
        if found is None:
            return result
        number, failed = found
        if number == 0:
            return failed
        alone = self.run(artifact, later[number - 1], stage)
        return alone if isinstance(alone, Failed) else _only_in_a_later_call(failed)

    def _failure(
        self,
        artifact: Artifact,
        cases: Sequence[Case],
        stage: Stage,
        result: SimResult,
        limit_cycles: int | None,
    ) -> tuple[int, Failed] | None:
        """The number of the first call that fails, from 0, and its failure."""
        if result.status == "slower_than_limit":
            log = f"stopped after {result.cycles} cycles, over the limit of {limit_cycles}."
            return 0, Failed(stage, "slower_than_limit", log, bound=float(result.cycles))
        for number, outputs in enumerate(self.outputs_of_calls(result)):
            mismatch = cases[number].mismatch(outputs)
            if mismatch is not None:
                return number, Failed(stage, "wrong_result", f"{mismatch}.")
        if result.status == "fault":
            assert result.fault is not None
            return result.finished, self._fault(artifact, stage, result.fault)
        if result.status == "timeout":
            return result.finished, self._timeout(artifact, stage, result)
        return None

    def broken_rule(self, artifact: Artifact, case: Case) -> Failed | None:
        """The fault of a run without timing, whose outputs are not compared. Also None for faults
        that only a timed run can detect, and for a run that takes too long.
        """
        try:
            result = self._simulate(artifact, case, False, None, most_s=RULES_S)
        except InputError as error:
            return Failed("check", "link_error", str(error))
        fault = result.fault
        if fault is None or (fault.kind in UNORDERED and self._settings.ordering == "timing"):
            return None
        return self._fault(artifact, "check", fault)

    def outputs(self, result: SimResult) -> dict[str, bytes]:
        """All arguments by name, as they are after a run."""
        return self._by_name(result.outputs)

    def outputs_of_calls(self, result: SimResult) -> list[dict[str, bytes]]:
        """All arguments by name after each call that finished."""
        found = (result.outputs, *result.later_outputs)[: result.finished]
        return [self._by_name(outputs) for outputs in found]

    def _by_name(self, contents: Sequence[bytes]) -> dict[str, bytes]:
        return dict(zip((a.name for a in self._arguments), contents, strict=True))

    def _simulate(
        self,
        artifact: Artifact,
        case: Case,
        timing: bool,
        limit_cycles: int | None,
        later: Sequence[Case] = (),
        most_s: float = math.inf,
        joins: Mapping[int, int] | None = None,
    ) -> SimResult:
        result: SimResult = self._sim.run_kernel(
            self._config,
            artifact.binary,
            self._regions(case),
            later=[self._arrays(call) for call in later],
            timing=timing,
            ordering=self._settings.ordering,
            limit_cycles=limit_cycles,
            max_instructions=self._max_instructions,
            max_host_s=min(most_s, self._settings.simulation_timeout_s),
            joins=joins,
        )
        return result

    def told(self, artifact: Artifact, result: SimResult) -> Feedback:
        """The feedback of a timed run for proposers."""
        by_line = cycles_by_line(result, artifact.binary)
        text = describe(self._workload, self._config, result, artifact.binary, by_line)
        gaps = longest_gaps(result, artifact.binary)
        return Feedback(text, by_line, gaps, least_latency(self._workload, self._config))

    def _arrays(self, case: Case) -> list[Array]:
        return [np.ascontiguousarray(case.initial[a.name]) for a in self._arguments]

    def _regions(self, case: Case) -> list[object]:
        arrays = self._arrays(case)
        addresses = argument_addresses([array.nbytes for array in arrays])
        return [
            self._sim.Region(address, array, a.is_written, a.name, a.is_given)
            for a, array, address in zip(self._arguments, arrays, addresses, strict=True)
        ]

    def _fault(self, artifact: Artifact, stage: Stage, fault: Fault) -> Failed:
        """The fault as a failure, with the source line of its address, and of the earlier address
        to which it refers.
        """
        line = source_line(artifact.binary, fault.pc, C.file)
        log = C.located(fault.message, line)
        if fault.kind in GEOMETRY_FAULTS:
            log += f" on {self.instance.name} ({self.instance.summary})"
        if fault.second_pc is not None:
            second = source_line(artifact.binary, fault.second_pc, C.file)
            log += f" (the other command is at {C.file}:{second})" if second else ""
        return Failed(stage, fault.kind, log, line)

    def _timeout(self, artifact: Artifact, stage: Stage, result: SimResult) -> Failed:
        """The failure of a run that exceeded a limit, with the source line at which the program was
        stopped.
        """
        line = source_line(artifact.binary, result.pc, C.file)
        log = (
            f"stopped after {result.instructions} instructions: the limits are "
            f"{self._max_instructions} instructions and "
            f"{self._settings.simulation_timeout_s:g} s."
        )
        return Failed(stage, "timeout", C.located(log, line), line)


def _only_in_a_later_call(failed: Failed) -> Failed:
    log = f"in a later call, where static variables hold what earlier calls left: {failed.log}"
    return replace(failed, log=log)


def order_warnings(artifact: Artifact, result: SimResult) -> tuple[str, ...]:
    """One sentence for each pair of lines that were in order only because of the timing of this
    run.
    """
    warnings = []
    for pair in result.unordered:
        later, earlier = source_lines(artifact.binary, [pair.pc, pair.second_pc], C.file)
        warnings.append(
            f"unordered: {C.file}:{later}: {pair.message} (the other command is at "
            f"{C.file}:{earlier}, {pair.count:,} times); in the modelled time, they were in order."
        )
    return tuple(warnings)


def utilization(workload: Workload, cycles: int, array_units: int) -> float:
    """Useful operations divided by those that the array could perform in these cycles, from 0 to
    1.
    """
    return workload.operations / (cycles * array_units)


def cycles_by_cause(result: SimResult) -> Mapping[str, float]:
    """The simulator's counters of cycles, for `Measured.breakdown`."""
    return {k: float(v) for k, v in result.breakdown.items() if k not in NUMBERS}


def measurements(result: SimResult) -> Mapping[str, float]:
    """Further numbers of a run for `Measured.details`."""
    requests = {k: float(v) for k, v in result.breakdown.items() if k in NUMBERS}
    return {
        "instructions": float(result.instructions),
        "macs": float(result.macs),
        "scratchpad_kb": float(result.scratchpad_kb),
        "accumulator_kb": float(result.accumulator_kb),
        **requests,
    }
