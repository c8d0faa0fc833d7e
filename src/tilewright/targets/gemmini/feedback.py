"""Describes a measurement in words: the bound, and the costs by cause, phase and source line.

The text is for proposers. All numbers are those of the timed run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilewright.core.records import Gap, Workload
from tilewright.core.text import listed
from tilewright.parts.debug_lines import source_lines
from tilewright.parts.inputs import bytes_of
from tilewright.parts.languages import C
from tilewright.targets.gemmini.causes import LOSSES
from tilewright.targets.gemmini.parameters import SimConfig
from tilewright.targets.gemmini.phases import described_phases, largest_first
from tilewright.targets.gemmini.remedies import told_remedies

if TYPE_CHECKING:
    from tilewright.targets.gemmini.sim import SimResult

CORE_WAITS: Mapping[str, str] = {
    "fetch_wait": "instructions",
    "data_wait": "data",
    "literal_wait": "constants in memory",
    "command_wait": "room in the command queue",
}
"""The causes for which the core waits, by their names in the breakdown. They overlap with the
array's work.
"""

_MEANINGS = {
    **LOSSES,
    "small_blocks": "the array works on blocks of B that do not fill it, or on more products than "
    "the task counts",
    "short_products": "products of few rows take as long as products of all rows, because the next "
    "preload uses another block of B",
    "preloads_alone": "a preload comes too late to overlap with the preceding compute",
}

_EXPLAINED = 3  # the largest causes
_UNCLEAR = ("rs_full_load", "rs_full_store", "write_steal")  # explained wherever they are named
_LINES = 5
_CORE_LINES = 3
_NEGLIGIBLE = 0.005  # of all cycles
_TINY = 0.001  # of all cycles, or of the most that a line loses

_AT_BANK = {
    "bank_conflict": "{users} share scratchpad bank {bank}: {cycles:,} cycles lost",
    "write_steal": "{users} share scratchpad bank {bank}: {cycles:,} cycles lost, in which the "
    "load writes and the operand cannot be read",
}


def least_latency(workload: Workload, config: SimConfig) -> float:
    """The minimum number of cycles of any kernel for this workload, from the array or from moving
    the inputs.
    """
    least = bounds(workload, config, 0)
    return float(max(least["array"], least["DMA"]))


def bounds(workload: Workload, config: SimConfig, instructions: int) -> dict[str, int]:
    """Lower bounds in cycles for any kernel of this workload with this number of instructions.

    array: the time of whole products without gaps. DMA: the time to fetch every input once, at the
    rate of DRAM or of the bus, whichever is lower. core: one cycle for each instruction of this
    kernel.
    """
    fetched = bytes_of(a for a in workload.arguments if a.is_given)
    moved = max(
        fetched / config["dma_bus_bytes"],
        fetched * config["dram_line_cycles"] / config["l2_line_bytes"],
    )
    return {
        "array": math.ceil(workload.operations / config["array_dim"] ** 2),
        "DMA": math.ceil(moved),
        "core": instructions,
    }


def cycles_by_line(result: SimResult, binary: bytes) -> dict[str, dict[str, float]]:
    """Cycles by cause, and instructions, of each line of the kernel that has any.

    A key is the number of a line, or "elsewhere" for code that the compiler added.
    """
    counted = [(h.pc, h.cause, h.cycles) for h in result.hotspots]
    counted += [(pc, "instructions", count) for pc, count in result.executed]
    lines = source_lines(binary, [pc for pc, _, _ in counted], C.file)
    table: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for line, (_, cause, cycles) in zip(lines, counted, strict=True):
        table[line or 0][cause] += cycles
    return {str(line or "elsewhere"): dict(table[line]) for line in sorted(table)}


def longest_gaps(result: SimResult, binary: bytes) -> tuple[Gap, ...]:
    """The longest periods in which the array is idle, in the order of time."""
    lines = source_lines(binary, [gap.pc for gap in result.gaps], C.file)
    return tuple(
        Gap(gap.start, gap.cycles, gap.cause, line)
        for gap, line in zip(result.gaps, lines, strict=True)
    )


def describe(
    workload: Workload,
    config: SimConfig,
    result: SimResult,
    binary: bytes,
    by_line: Mapping[str, Mapping[str, float]],
) -> str:
    """The feedback on a timed run, with one line for each statement."""
    least = bounds(workload, config, result.instructions)
    lost = _lost(least["array"], result)
    parts = [
        _bound(least, result, config["array_dim"]),
        _causes(lost),
        *told_remedies(lost, result.cycles),
        *_at_banks(result, binary),
        _full_stores(result),
        *described_phases(result.phases, result.computes),
        *_lines(by_line),
        _core(result, by_line),
        _requests(result, workload, config["l2_line_bytes"]),
        _code(result, config["l2_line_bytes"]),
        "Local memory written: scratchpad "
        + _fill(result.scratchpad_kb, _scratchpad_kb(config))
        + ", accumulator "
        + _fill(result.accumulator_kb, _accumulator_kb(config))
        + ".",
    ]
    return "\n".join(part for part in parts if part)


def _bound(least: Mapping[str, int], result: SimResult, dim: int) -> str:
    """The minimum of all kernels for the task, then what this kernel needs at least."""
    minimum = max(1, least["array"], least["DMA"])  # a task may state no work
    text = (
        f"The kernel takes {result.cycles / minimum:.2f} times the {minimum:,} cycles that any "
        f"kernel needs: {least['array']:,} cycles of the array if all blocks fill it, and "
        f"{least['DMA']:,} cycles of DMA to fetch every input once. "
        f"This kernel's instructions need {least['core']:,} cycles of the core"
    )
    if least["core"] > minimum:
        text += ", so it cannot reach this minimum without fewer instructions"
    rows = result.breakdown.get("product_rows", 0)
    if rows > least["array"] * (1 + _NEGLIGIBLE):
        done = math.ceil(result.macs / dim**2)
        reasons = ["they are more than the task counts"] * (done > least["array"])
        reasons += ["not all blocks of B fill the array"] * (rows > done)
        text += (
            f". Its products need at least {rows:,} cycles of the array in any order, because "
            f"{listed(reasons)}"
        )
    return f"{text}."


def _lost(ideal: int, result: SimResult) -> dict[str, int]:
    """All cycles in which the array does nothing useful, by cause."""
    partial = max(0, result.breakdown.get("array_busy", 0) - ideal)
    alone = min(result.breakdown.get("preloads_alone", 0), partial)
    small = min(max(0, result.breakdown.get("product_rows", 0) - ideal), partial - alone)
    return {
        **{name: result.breakdown.get(name, 0) for name in LOSSES},
        "preloads_alone": alone,
        "small_blocks": small,
        "short_products": partial - alone - small,
    }


def _causes(lost: Mapping[str, int]) -> str:
    """The causes with their cycles; the largest ones are explained."""
    largest = largest_first(lost)
    if not largest:
        return ""
    told = [
        f"{name.replace('_', ' ')} {cycles:,}"
        + (f" ({_MEANINGS[name]})" if number < _EXPLAINED or name in _UNCLEAR else "")
        for number, (name, cycles) in enumerate(largest)
    ]
    whole = sum(cycles for _, cycles in largest)
    return f"The array does no useful work in {whole:,} cycles: {'; '.join(told)}."


def _full_stores(result: SimResult) -> str:
    """What the stores in a full queue waited for."""
    full = result.breakdown.get("rs_full_store", 0)
    if not _tells(full, result):
        return ""
    products = result.breakdown.get("full_store_products", 0)
    bank = result.breakdown.get("full_store_bank", 0)
    waits = [f"in {products:,} cycles until products had left the array"] * (products > 0)
    waits += [f"in {bank:,} cycles for a bank to which the array added"] * (bank > 0)
    moved = full - products - bank
    did = [f"waited {listed(waits)}"] * bool(waits)
    did += [f"moved data or waited for memory in {moved:,} cycles"] * (moved > 0)
    return (
        f"While a store found its queue full ({full:,} cycles), the first store of the queue "
        f"{'; it '.join(did)}."
    )


def _at_banks(result: SimResult, binary: bytes) -> list[str]:
    """The operands that lose cycles at each scratchpad bank, and the first line where this
    happens.
    """
    told = []
    for cause in _AT_BANK:
        losses = [loss for loss in result.bank_losses if loss.cause == cause]
        if not losses or not _tells(losses[0].cycles, result):
            continue
        most = losses[0]
        (line,) = source_lines(binary, [most.first_pc], C.file)
        text = _AT_BANK[cause].format(users=most.users, bank=most.bank, cycles=most.cycles)
        text = f"{text[0].upper()}{text[1:]}"
        if line is not None:
            text += f"; first at line {line}"
        others = sum(loss.cycles for loss in losses[1:])
        if _tells(others, result):
            banks = sorted({loss.bank for loss in losses[1:]})
            text += f"; {others:,} more at bank {', '.join(map(str, banks))}"
        told.append(f"{text}.")
    return told


def _tells(cycles: int, result: SimResult) -> bool:
    """Whether this number of cycles is mentioned, which depends on its share of all cycles or of
    the lost ones.
    """
    lost = sum(result.breakdown.get(name, 0) for name in LOSSES)
    return cycles > 0 and cycles >= min(_NEGLIGIBLE * result.cycles, lost / 10)


def _lines(by_line: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The lines at which the array loses most."""
    spots = [
        (cycles, cause, line)
        for line, causes in by_line.items()
        for cause, cycles in causes.items()
        if cause in _MEANINGS and line != "elsewhere"
    ]
    spots = sorted(spots, key=lambda spot: (-spot[0], int(spot[2])))[:_LINES]
    told = [
        f"line {line} ({cause.replace('_', ' ')} {cycles:,.0f})"
        for cycles, cause, line in spots
        if cycles >= _TINY * spots[0][0]
    ]
    return [f"Most of these cycles are lost at {listed(told)}."] if told else []


def _core(result: SimResult, by_line: Mapping[str, Mapping[str, float]]) -> str:
    """Instructions, and what the core waits for."""
    text = f"The core runs {result.instructions:,} instructions"
    if result.computes:
        at = {k: c.get("instructions", 0) for k, c in by_line.items() if k != "elsewhere"}
        each = {line: count / result.computes for line, count in at.items()}
        most = [(line, n) for line, n in largest_first(each) if n >= 0.05][:_CORE_LINES]
        text += f", {result.instructions / result.computes:.1f} per pair of preload and compute"
        places = ", ".join(f"{count:.1f} at line {line}" for line, count in most)
        text += f" ({places})" if places else ""
    waits = [
        f"{result.breakdown[name]:,} cycles for {what}{_most_at(name, by_line)}"
        for name, what in CORE_WAITS.items()
        if result.breakdown.get(name, 0) > _TINY * result.cycles
    ]
    if waits:
        text += f". The core waits {listed(waits)}; the array may be working during these cycles"
    return f"{text}."


def _requests(result: SimResult, workload: Workload, line_bytes: int) -> str:
    """The requests of loads and stores, and how many of them leave the L2 cache, beside the lines
    that the arrays have.
    """
    missing = result.breakdown.get("l2_miss", 0)
    whole = missing + result.breakdown.get("l2_hit", 0)
    if not whole:
        return ""
    lines = sum(math.ceil(bytes_of([a]) / line_bytes) for a in workload.arguments)
    return (
        f"Loads and stores make {whole:,} requests of at most {line_bytes} bytes, {missing:,} of "
        f"them for lines that the L2 cache does not hold; all arrays together have {lines:,} lines."
    )


def _code(result: SimResult, line_bytes: int) -> str:
    """The size of the code that runs, each line of which is fetched from memory once."""
    lines = len({pc // line_bytes for pc, _ in result.executed})
    if not lines:
        return ""
    return (
        f"These are {len(result.executed):,} different instructions in {lines:,} "
        f"line{'s' * (lines != 1)} of {line_bytes} bytes."
    )


def _most_at(cause: str, by_line: Mapping[str, Mapping[str, float]]) -> str:
    """The line at which the core waits most for memory, if it does."""
    at = {line: causes.get(cause, 0.0) for line, causes in by_line.items() if line != "elsewhere"}
    most = largest_first(at)[:1]
    return f" (most at line {most[0][0]})" if most and cause != "command_wait" else ""


def _fill(used_kb: float, size_kb: float) -> str:
    return f"{used_kb:.1f} of {size_kb:g} KB"


def _scratchpad_kb(config: SimConfig) -> float:
    rows = config["scratchpad_banks"] * config["scratchpad_bank_rows"]
    return rows * config["array_dim"] * config.element_bytes / 1024


def _accumulator_kb(config: SimConfig) -> float:
    rows = config["accumulator_banks"] * config["accumulator_bank_rows"]
    return rows * config["array_dim"] * config.sum_bytes / 1024
