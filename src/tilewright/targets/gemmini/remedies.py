"""Usual remedies for those causes of lost cycles whose names do not suggest one.

A remedy in backquotes is an option of the menu, which every prompt with this feedback then offers.
"""

from __future__ import annotations

from collections.abc import Mapping

_SHARE = 0.02  # share of all cycles from which on a remedy is mentioned
_SHARE_OF_LOST = {"preloads_alone": 0.1}
"""Remedies that prompts also contain elsewhere, with the share of the lost cycles from which on
they are mentioned."""

_REMEDIES: Mapping[str, str] = {
    "cpu_fetch": "less code (`less-code`): one loop or one function without inlining for similar "
    "phases, no unrolling of code that runs only once or twice, and the first loads before any "
    "other work, so that the core fetches the rest of the code while they are in progress",
    "cpu_literal": "operand words that are made from small numbers with BLOCK, or advanced with "
    "additions, because the compiler places large constants in memory",
    "cpu_data": "fewer variables that are in use at the same time, and no large tables; cycles at "
    "the first line of a function come from saving registers on the stack",
    "preloads_alone": "commands that are issued earlier: a preload overlaps with the preceding "
    "compute only if its own compute is already in the queue and neither of them needs a result "
    "that is still in the array",
    "short_products": "products with few rows directly before products that keep their B "
    "(preload with NONE, `fill-array`)",
    "small_blocks": "whole blocks of B, and no products that the task does not need; partial "
    "blocks cannot be avoided if a size is not a multiple of the array's",
    "drain": "one config_ex before the first product; the time in which the last product leaves "
    "the array cannot be avoided",
}


def told_remedies(lost: Mapping[str, float], cycles: int) -> list[str]:
    """One line with a remedy for each telling cause of `lost`; none if there is no such cause."""
    whole = sum(lost.values())
    told = [
        f"against {name.replace('_', ' ')}: {remedy}"
        for name, remedy in _REMEDIES.items()
        if lost.get(name, 0) >= max(_SHARE * cycles, _SHARE_OF_LOST.get(name, 0.0) * whole) > 0
    ]
    return [f"What usually helps {'; '.join(told)}."] if told else []
