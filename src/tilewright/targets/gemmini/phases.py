"""Divides lost cycles into phases: before the first product, unusual parts of the products, the
other products, and after the last product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

_MOST_PARTS = 2
_MOST_CAUSES = 5
_KEPT_PARTS = 8


def described_phases(phases: Sequence[Mapping[str, int]], products: int) -> list[str]:
    """A sentence on the idle cycles of the array in each phase, which add up to all; none for a run
    without products.

    `phases` are the cycles by cause of the start, of parts with equal numbers of busy cycles, and
    of the end. The parts are named by the numbers of their first and last product, about, as if all
    `products` took equally long.
    """
    if len(phases) < 3:
        return []
    start, *parts, end = phases
    told = [_told("before the first product", start)]
    lost = [_lost(part) for part in parts]
    whole = lost[:-1] or lost  # the last part may be shorter
    usual = median(whole)
    total = sum(part["array_busy"] for part in parts)
    begin = 0
    unusual = []
    for part, cycles in zip(parts, lost, strict=True):
        following = begin + part["array_busy"]
        if cycles - usual > max(usual, sum(lost) / 20):
            first, last = 1 + products * begin // total, products * following // total
            when = f"about products {first:,} to {max(first, last):,} of {products:,}"
            unusual.append((when, part))
        begin = following
    most = sorted(unusual, key=lambda u: -_lost(u[1]))[:_MOST_PARTS]
    told += [_told(when, part) for when, part in most]
    others = [part for part in parts if all(part is not named for _, named in most)]
    if others:
        when = "during the other products" if most else "during the products"
        told.append(_told(when, _sum(others)))
    told.append(_told("after the last product", end))
    return [f"Idle cycles of the array by phase: {'; '.join(told)}."]


def few_phases(phases: Sequence[Mapping[str, int]]) -> tuple[Mapping[str, float], ...]:
    """The phases of a run with products: the start, at most `_KEPT_PARTS` parts of the middle, and
    the end.

    Each part combines an equal number of the simulator's parts, except the last one. Zeros are left
    out.
    """
    if len(phases) < 3:
        return ()
    start, *parts, end = phases
    each = -(-len(parts) // _KEPT_PARTS)
    merged = [_sum(parts[first : first + each]) for first in range(0, len(parts), each)]
    return tuple(
        {name: float(cycles) for name, cycles in phase.items() if cycles}
        for phase in (start, *merged, end)
    )


def _sum(phases: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    return {name: sum(phase[name] for phase in phases) for name in phases[0]}


def largest_first(counts: Mapping[str, float]) -> list[tuple[str, float]]:
    """The counts that are not zero, largest first."""
    return sorted(((n, c) for n, c in counts.items() if c > 0), key=lambda item: -item[1])


def _told(when: str, cycles: Mapping[str, int]) -> str:
    causes = {name: count for name, count in cycles.items() if name != "array_busy"}
    most = largest_first(causes)[:_MOST_CAUSES]
    each = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in most)
    return f"{when}: {_lost(cycles):,}" + (f" ({each})" if each else "")


def _lost(cycles: Mapping[str, int]) -> int:
    return sum(cycles.values()) - cycles["array_busy"]
