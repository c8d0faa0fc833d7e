"""What a modelled latency consists of, in words: for whoever proposes the next step."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.records import Workload
from tilewright.targets.trainium.latency.model import Estimate
from tilewright.targets.trainium.machine import Machine
from tilewright.targets.trainium.roofline import roofline_ns

_MOST_LINES = 5
_MOST_WAITS = 3


def in_words(workload: Workload, machine: Machine, found: Estimate, source: str) -> str:
    """Latency, what binds, what the busiest engine waits for, transfers and the costliest lines."""
    total = found.latency_ns
    least, bound = roofline_ns(workload, machine)
    parts = [
        f"Modelled latency {_us(total)}, of it {_us(machine.launch)} to launch any kernel; the "
        f"roofline is {_us(least)} ({bound}), without the launch.",
        "Busy: "
        + ", ".join(
            f"{name} {_us(ns)} ({ns / total:.0%})"
            for name, ns in sorted(found.busy.items(), key=lambda item: -item[1])
        )
        + f". {found.busiest} works longest: shorten its work, or move some of it elsewhere.",
    ]
    idle = {cause: ns for cause, ns in found.idle.items() if ns > 0.01 * total}
    if idle:
        waits = ", ".join(f"{_us(ns)} ({cause})" for cause, ns in idle.items())
        parts.append(f"The compute engine that works longest also stands still: {waits}.")
        parts += _waits(found, total)
    moved = f"{found.bytes_read / 1e6:.2f} MB read from HBM, {found.bytes_written / 1e6:.2f} MB"
    parts.append(
        f"{moved} written, in {found.transfers} transfers; {found.instructions} instructions, "
        f"{found.products} of them on PE."
    )
    if found.spilled:
        parts.append(
            f"Tiles do not fit: the compiler moves {found.spilled / 1e6:.2f} MB to HBM and back."
        )
    return "\n".join([*parts, *_lines(found.lines, source)])


def _waits(found: Estimate, total: float) -> list[str]:
    """At which lines the compute engine that works longest waits most."""
    causes = [(ns, line, cause) for line, by in found.waits.items() for cause, ns in by.items()]
    longest = sorted(causes, reverse=True)[:_MOST_WAITS]
    said = [f"line {line} {_us(ns)} ({cause})" for ns, line, cause in longest if ns > 0.01 * total]
    return [f"It waits most at: {', '.join(said)}."] if said else []


def _lines(lines: Mapping[int, Mapping[str, float]], source: str) -> list[str]:
    text = source.split("\n")
    costly = sorted(lines.items(), key=lambda item: -max(item[1].values(), default=0.0))
    return [
        f"line {line}: "
        + ", ".join(f"{engine} {_us(ns)}" for engine, ns in sorted(engines.items()) if ns > 0)
        + (f"  `{text[line - 1].strip()[:80]}`" if 0 < line <= len(text) else "")
        for line, engines in costly[:_MOST_LINES]
    ]


def _us(ns: float) -> str:
    return f"{ns / 1e3:.2f} us"
