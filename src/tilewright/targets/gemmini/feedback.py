"""A measurement in words: the bound, what costs most and on which line, how full memory is.

Written for whoever proposes the next step, so it names the first-order causes and leaves out the
rest; all numbers are those of the timed run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tilewright.core.records import Workload
from tilewright.parts.debug_lines import source_lines
from tilewright.parts.inputs import bytes_of
from tilewright.targets.gemmini.parameters import SimConfig

if TYPE_CHECKING:
    from tilewright.targets.gemmini.sim import Hotspot, SimResult

LOSSES: Mapping[str, str] = {
    "bank_conflict": "two operands of a product share a scratchpad bank",
    "write_steal": "a load writes the scratchpad bank that the array reads",
    "dma_wait": "the array waits for a load",
    "store_wait": "the array waits for a store to read its accumulator rows",
    "dependency": "the array waits for its own products, or for a command just sent",
    "rs_full_load": "a load finds its queue full and holds back the products behind it",
    "rs_full_store": "a store finds its queue full and holds back the products behind it",
    "cpu": "the core has not sent the next product yet",
    "fence": "the core waits at a fence",
    "drain": "config_ex waits until the array is empty, or its last results leave it",
}
"""Exclusive causes of cycles in which the array does not work, by name in the breakdown."""

_SHOWN = 3
_NEGLIGIBLE = 0.005  # of all cycles


_AT_BANK = {
    "bank_conflict": "{users} share scratchpad bank {bank}: {cycles:,} conflict cycles",
    "write_steal": "{users} share scratchpad bank {bank}: {cycles:,} cycles lost to the load's "
    "writes",
}


def bounds(workload: Workload, config: SimConfig, instructions: int) -> dict[str, int]:
    """Cycles below which no kernel of this workload, and with so many instructions, can come.

    array: whole products back to back; DMA: every input fetched once, by the slower of DRAM and
    the bus; CPU: one cycle per instruction of this kernel.
    """
    fetched = bytes_of(a for a in workload.arguments if a.is_given)
    moved = max(
        fetched / config["dma_bus_bytes"],
        fetched * config["dram_line_cycles"] / config["l2_line_bytes"],
    )
    return {
        "array": math.ceil(workload.operations / config["array_dim"] ** 2),
        "DMA": math.ceil(moved),
        "CPU": instructions,
    }


def describe(workload: Workload, config: SimConfig, result: SimResult, binary: bytes) -> str:
    """The text of a timed run, a few lines; lines are those of the kernel's source."""
    least = bounds(workload, config, result.instructions)
    parts = [_bound(least, result.cycles)]
    parts += _losses(result, _lines(binary, result.hotspots), binary)
    parts += _partial_products(least["array"], result)
    parts.append(
        "Local memory written: scratchpad "
        + _fill(result.scratchpad_kb, _scratchpad_kb(config))
        + ", accumulator "
        + _fill(result.accumulator_kb, _accumulator_kb(config))
        + "."
    )
    return "\n".join(parts)


def _bound(least: Mapping[str, int], cycles: int) -> str:
    binding = max(least, key=lambda name: least[name])
    each = ", ".join(f"{name} {value:,}" for name, value in least.items())
    return (
        f"{cycles:,} cycles, {cycles / least[binding]:.2f} times the bound: the {binding} binds "
        f"(cycles needed at least: {each})."
    )


def _losses(
    result: SimResult, lines: Mapping[str, list[tuple[int, int]]], binary: bytes
) -> list[str]:
    """One sentence for each of the largest causes, largest first."""
    lost = {name: result.breakdown.get(name, 0) for name in LOSSES}
    largest = sorted(lost, key=lambda name: -lost[name])[:_SHOWN]
    return [
        _at_banks(name, result, binary)
        or f"{name.replace('_', ' ')}: {lost[name]:,} cycles, {lost[name] / result.cycles:.1%} of "
        f"all ({LOSSES[name]}){_places(lines.get(name, []))}."
        for name in largest
        if lost[name] >= _NEGLIGIBLE * result.cycles
    ]


def _at_banks(cause: str, result: SimResult, binary: bytes) -> str:
    """Which operands lose cycles at which scratchpad bank, and where first; "" for other causes."""
    losses = [loss for loss in result.bank_losses if loss.cause == cause]
    if not losses:
        return ""
    most = losses[0]
    (line,) = source_lines(binary, [most.first_pc])
    told = _AT_BANK[cause].format(users=most.users, bank=most.bank, cycles=most.cycles)
    text = f"{told[0].upper()}{told[1:]}, {most.cycles / result.cycles:.1%} of all"
    if line is not None:
        text += f"; first at line {line}"
    others = sum(loss.cycles for loss in losses[1:])
    if others >= _NEGLIGIBLE * result.cycles:
        banks = sorted({loss.bank for loss in losses[1:]})
        text += f"; {others:,} more at bank {', '.join(map(str, banks))}"
    return text + "."


def _places(lines: Sequence[tuple[int, int]]) -> str:
    """Where a cause was met most: up to two lines with their cycles."""
    named = [f"line {line} ({cycles:,})" for line, cycles in lines[:2]]
    return f"; most at {' and '.join(named)}" if named else ""


def _partial_products(ideal: int, result: SimResult) -> list[str]:
    """The array works longer than whole products would take."""
    extra = result.breakdown.get("array_busy", 0) - ideal
    if extra < _NEGLIGIBLE * result.cycles:
        return []
    return [
        f"array busy: {extra:,} cycles, {extra / result.cycles:.1%} of all, are more than whole "
        "products take (blocks smaller than the array, or a preload and its compute that reach it "
        "apart)."
    ]


def _lines(binary: bytes, hotspots: Sequence[Hotspot]) -> dict[str, list[tuple[int, int]]]:
    """Source lines and their cycles for each cause, most cycles first."""
    spots = [h for h in hotspots if h.cause in LOSSES]
    found = source_lines(binary, [h.pc for h in spots])
    cycles: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for spot, line in zip(spots, found, strict=True):
        if line is not None:
            cycles[spot.cause][line] += spot.cycles
    return {
        cause: sorted(by_line.items(), key=lambda item: -item[1])
        for cause, by_line in cycles.items()
    }


def _fill(used_kb: float, size_kb: float) -> str:
    return f"{used_kb:.1f} of {size_kb:g} KB ({used_kb / size_kb:.1%})"


def _scratchpad_kb(config: SimConfig) -> float:
    rows = config["scratchpad_banks"] * config["scratchpad_bank_rows"]
    return rows * config["array_dim"] * config.element_bytes / 1024


def _accumulator_kb(config: SimConfig) -> float:
    rows = config["accumulator_banks"] * config["accumulator_bank_rows"]
    return rows * config["array_dim"] * config.sum_bytes / 1024
