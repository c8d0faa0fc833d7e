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
    "cpu_fetch": "less code (`less-code`): one loop or one function that is not inlined for "
    "similar phases, no unrolling of code that runs only once or twice, and the first loads "
    "before any other work, so that the rest of the code is fetched while they are in progress",
    "cpu_literal": "operand words that are made from small numbers by BLOCK or advanced by "
    "additions; the compiler places large constants in memory",
    "cpu_data": "fewer variables that are in use at the same time, and no large tables; cycles at "
    "the first line of a function are registers that it saves on the stack",
    "preloads_alone": "commands that arrive earlier: a preload's block is read beside the compute "
    "before it only if the compute after it is in the queue by then and neither of the two needs "
    "a result that is still in the array",
    "short_products": "products with few rows directly before products that keep their B "
    "(preload with NONE, `fill-array`)",
    "small_blocks": "whole blocks of B, and no products that the task does not need; "
    "partial blocks at the end of a size that is no multiple of the array's cannot be avoided",
    "drain": "one config_ex before the first product; the last product's way out of the array "
    "cannot be saved",
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
