"""The modelled latency of a kernel, for proposers: without inputs, without the reference."""

from __future__ import annotations

from tilewright.core.records import Workload
from tilewright.parts.memory import memory_limit
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.latency.capacity import examine
from tilewright.targets.trainium.latency.model import estimate
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.program import MOST_TRACE_BYTES, parse, trace_program
from tilewright.targets.trainium.translation.plain import LIMITS, call_of


def modelled_ns(machine: str, source: str, workload: Workload) -> float | None:
    """Nanoseconds that a kernel in NKI 2 takes according to the latency model.

    None if the kernel breaks a rule, does not fit, or is too large for a quick answer.
    """
    core = load_machine(machine)
    try:
        with memory_limit(MOST_TRACE_BYTES):
            trace = trace_program(parse(source), call_of(workload), core, LIMITS)
            if examine(trace, core).excess() is not None:
                return None
            return estimate(trace, core).latency_ns
    except (KernelError, MemoryError):
        return None
