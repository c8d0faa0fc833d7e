"""Deals plans and implementations over models, so that each one gets its share of both.

Slots of a run form one round robin along both axes, iterations and ranks in the beam, so the shares
are exact over every few steps, also when a step has fewer samples than there are models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

_PLANNING = (math.sqrt(5) - 1) / 2
_IMPLEMENTING = math.sqrt(2) - 1
"""Steps of two low-discrepancy sequences; apart, so that models implement others' plans too."""


def plan_slots(iteration: int, rank: int, count: int) -> range:
    """Global numbers of the `count` plans made for the parent at `rank` in this iteration."""
    first = (iteration + rank) * count
    return range(first, first + count)


def planner(models: Sequence[str], slot: int, shares: Sequence[float] = ()) -> str:
    """The model that makes the plan of this slot; without `shares` all have the same."""
    if shares:
        return _drawn(models, shares, slot * _PLANNING)
    return models[slot % len(models)]


def implementer(
    models: Sequence[str], slot: int, number: int, count: int, shares: Sequence[float] = ()
) -> str:
    """The model of implementation `number` of `count` of the plan of this slot.

    Every round of slots shifts by one, so that a model implements others' plans as well.
    """
    if shares:
        return _drawn(models, shares, (slot * count + number) * _IMPLEMENTING)
    return models[(slot * count + slot // len(models) + number) % len(models)]


def _drawn(models: Sequence[str], shares: Sequence[float], position: float) -> str:
    """The model in whose part of the unit interval, as long as its share, the fraction falls."""
    fraction = position % 1.0
    for model, end in zip(models, accumulate(shares), strict=True):
        if fraction < end:
            return model
    return models[-1]
