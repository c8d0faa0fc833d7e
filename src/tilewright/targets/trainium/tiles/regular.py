"""Finds whether positions are evenly spaced, as an instruction's operand requires."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tilewright.targets.trainium.trace import MOST_STEPS


def patterns(places: Sequence[int]) -> int:
    """Number of operands with at most `MOST_STEPS` steps that access these positions in this order.

    Two runs, `0 1 2 3 8 9 10 11`, are one operand (steps 8 and 1), and so are `0 0 1 1`. Unordered
    positions take about one operand for every two positions.
    """
    first = places[0]
    return _patterns(tuple([place - first for place in places]))


@lru_cache(maxsize=4096)
def _patterns(places: tuple[int, ...]) -> int:
    items: list[tuple[int, object]] = [(place, None) for place in places]
    for _ in range(MOST_STEPS):
        if len(items) == 1:
            break
        items = _joined(items)
    return len(items)


def _joined(items: list[tuple[int, object]]) -> list[tuple[int, object]]:
    """Adjacent items of one kind at equal distances merged into one, which begins at the first."""
    found: list[tuple[int, object]] = []
    at = 0
    while at < len(items):
        start, kind = items[at]
        end, step = at + 1, 0
        if end < len(items) and items[end][1] == kind:
            step = items[end][0] - start
        while end < len(items) and items[end] == (start + step * (end - at), kind):
            end += 1
        found.append((start, (kind, step, end - at)))
        at = end
    return found
