"""Describes the parts of a modelled latency in words, for whoever proposes the next step."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.records import Workload
from tilewright.targets.trainium.latency.costs import DMA, ENGINES, PSUM_PORT, VECTOR
from tilewright.targets.trainium.latency.model import NOTHING_LEFT, Estimate
from tilewright.targets.trainium.machine import Machine
from tilewright.targets.trainium.roofline import floor_ns, roofline_ns

_MOST_LINES = 5
_MOST_WAITS = 3
_RARELY_BUSY = 0.05  # of the time after the launch
_TELLING = 0.01  # of the latency
_SHORT_RUNS = 1.2  # the time of the transfers relative to that at full bandwidth


def in_words(
    workload: Workload,
    machine: Machine,
    found: Estimate,
    counts: Mapping[str, float],
    source: str,
) -> str:
    """Latency, limiting bound, waits of the busiest engine, transfers, and the most expensive
    lines. A remedy in backquotes is an option of the menu, which every prompt with this feedback
    then offers.

    Args:
        counts: what the kernel does (`counts_of`).
    """
    total = found.latency_ns
    parts = [
        f"The modelled latency is {_us(total)}, including {_us(machine.launch)} that the launch of "
        f"any kernel takes. {_bounds(workload, machine)}",
        "Busy times: "
        + ", ".join(
            f"{name} {_us(ns)} ({ns / total:.0%})"
            for name, ns in sorted(found.busy.items(), key=lambda item: -item[1])
        )
        + f". {_binding(found, counts)}",
        *_widest(found),
        _transfers(found, machine),
        *_timeline(found),
        *_waits(found),
        *_sharing(found),
    ]
    parts.append(
        f"The kernel reads {found.bytes_read / 1e6:.2f} MB from HBM and writes "
        f"{found.bytes_written / 1e6:.2f} MB in {found.transfers} transfers, and executes "
        f"{found.instructions} instructions, {found.products} of them on PE." + _again(counts)
    )
    if found.spilled:
        parts.append(
            "The tiles do not fit into SBUF, so the compiler moves "
            f"{found.spilled / 1e6:.2f} MB to HBM and back."
        )
    return "\n".join([*parts, *_lines(found.lines, source)])


def _bounds(workload: Workload, machine: Machine) -> str:
    """The roofline with the launch, and the lower time that is certain, if it is another one."""
    least, bound = roofline_ns(workload, machine)
    certain, work = floor_ns(workload, machine)
    text = f"With the launch, the roofline is {_us(machine.launch + least)} ({bound})"
    if certain < machine.launch + least:
        text += f"; for all kernels, only {_us(certain)} are certain (the launch and {work})"
    return f"{text}."


def _binding(found: Estimate, counts: Mapping[str, float]) -> str:
    """The engine or port that works longest, and what can shorten its work."""
    name = found.busiest
    if name == ENGINES[DMA]:
        return f"{name} works longest: only fewer bytes, or longer runs, shorten its work."
    if name == PSUM_PORT:
        return (
            f"The {name} works longest: let DVE and ACT access PSUM less (`avoid-psum-conflicts`)."
        )
    slow = name == ENGINES[VECTOR] and counts["two_cycle_pairs"]
    faster = ", `operand-in-psum`" if slow else ""
    return (
        f"{name} works longest: shorten its work, or move some of it elsewhere "
        f"(`balance-engines`{faster})."
    )


def _again(counts: Mapping[str, float]) -> str:
    """What the kernel loads although it has loaded it before."""
    again = counts["bytes_loaded_again"] / 1e6
    told = f" It loads {again:.2f} MB again that it has loaded before"
    return f"{told} (`hoist-loads`, `load-once`, `block-in-sbuf`)." if again >= 0.01 else ""


def _widest(found: Estimate) -> list[str]:
    """The parts of the work of DVE and ACT that wider instructions cannot save."""
    if not found.widest:
        return []
    least = ", ".join(f"{name} {_us(ns)}" for name, ns in found.widest.items())
    return [f"Without the start cost of each instruction, the same elements would take: {least}."]


def _transfers(found: Estimate, machine: Machine) -> str:
    """The part of the time after the launch in which the DMA engines do not work."""
    finish = found.latency_ns - machine.launch
    works = found.busy.get(ENGINES[DMA], 0.0)
    dma, copied = machine.dma, found.bytes_copied
    least = (found.bytes_read + found.bytes_written - sum(copied)) / dma.peak_bytes_per_ns
    least += max(copied) / (dma.engines * dma.hbm_copy_bytes_per_ns)
    text = (
        f"DMA is idle for {_us(max(0.0, finish - works))} of {_us(finish)} after the launch, at "
        f"least {_us(machine.dma.fixed)} of them while the last transfer completes."
    )
    ends = _idle_at_ends(found, finish) - machine.dma.fixed
    if found.busiest == ENGINES[DMA] and ends > _TELLING * found.latency_ns:
        text += f" {_us(ends)} more are in its first and its last tenth (`short-ends`)."
    if not 0 < least < works:
        return text
    text += f" At full bandwidth, its transfers to and from HBM would take {_us(least)}"
    if works > _SHORT_RUNS * least:
        text += "; longer contiguous runs come nearer to this (`larger-transfers`, `adjacent-rows`)"
    return f"{text}."


def _idle_at_ends(found: Estimate, finish: float) -> float:
    """How long the DMA engines do not work in the first and the last tenth of the time."""
    shares = found.timeline.get(ENGINES[DMA])
    return finish / len(shares) * (2 - shares[0] - shares[-1]) if shares else 0.0


def _timeline(found: Estimate) -> list[str]:
    """When the engines work that matter: at the start, in the middle or at the end."""
    told = [
        f"{name} {' '.join(f'{share:.0%}' for share in shares)}"
        for name, shares in found.timeline.items()
        if sum(shares) > _RARELY_BUSY * len(shares)
    ]
    if not told:
        return []
    return [f"Busy share of each tenth of the time after the launch: {'; '.join(told)}."]


def _waits(found: Estimate) -> list[str]:
    """The causes for which the busiest compute engine waits, and the lines with the longest
    waits."""
    least = _TELLING * found.latency_ns
    idle = {cause: ns for cause, ns in found.idle.items() if ns > least}
    done = idle.pop(NOTHING_LEFT, 0.0)
    waits = [f"{_us(ns)} for {cause}" for cause, ns in idle.items()]
    said = [f"waits {', '.join(waits)}"] if waits else []
    said += [f"ends {_us(done)} before the kernel does"] if done else []
    if not said:
        return []
    engine = max((n for n in found.busy if n in ENGINES[:DMA]), key=lambda name: found.busy[name])
    text = [f"{engine}, the compute engine that works longest, {' and '.join(said)}."]
    causes = [(ns, line, cause) for line, by in found.waits.items() for cause, ns in by.items()]
    longest = sorted(causes, reverse=True)[:_MOST_WAITS]
    at = [f"line {line} ({_us(ns)} for {cause})" for ns, line, cause in longest if ns > least]
    return [*text, f"{engine} waits most at {', '.join(at)}."] if at else text


def _sharing(found: Estimate) -> list[str]:
    """The lines whose transfers wait for others on the same group of 32 partitions."""
    if not found.sharing:
        return []
    most = sorted(found.sharing.items(), key=lambda item: -item[1])[:_MOST_WAITS]
    lines = ", ".join(f"line {line} ({count})" for line, count in most)
    return [
        f"{sum(found.sharing.values())} transfers wait for a transfer to or from other partitions, "
        f"because both access the same group of 32 partitions of a tile: {lines}. Groups begin at "
        "partitions 0, 32, 64 and 96; transfers to different groups, different tiles or different "
        "bytes of the partitions do not wait for one another."
    ]


def _lines(lines: Mapping[int, Mapping[str, float]], source: str) -> list[str]:
    text = source.split("\n")
    costly = sorted(lines.items(), key=lambda item: -max(item[1].values(), default=0.0))
    told = [
        f"  line {line}: "
        + ", ".join(f"{engine} {_us(ns)}" for engine, ns in sorted(engines.items()) if ns > 0)
        + (f"  `{text[line - 1].strip()[:80]}`" if 0 < line <= len(text) else "")
        for line, engines in costly[:_MOST_LINES]
    ]
    return ["The lines that take most time:", *told] if told else []


def _us(ns: float) -> str:
    return f"{ns / 1e3:.2f} us"
