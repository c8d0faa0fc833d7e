"""Divides plans and implementations among models, so that each model gets its share of both.

The slots of a run are assigned to the models in turn, over iterations and over ranks in the beam.
The shares are therefore exact over a few steps, even if a step has fewer samples than there are
models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

_PLANNING = (math.sqrt(5) - 1) / 2
_IMPLEMENTING = math.sqrt(2) - 1
"""Steps of two low-discrepancy sequences. They differ, so that models also implement the plans of
other models.
"""


def plan_slots(iteration: int, rank: int, count: int) -> range:
    """The numbers in the whole run of the `count` plans for the parent at `rank` in this
    iteration.
    """
    first = (iteration + rank) * count
    return range(first, first + count)


def planner(models: Sequence[str], slot: int, shares: Sequence[float] = ()) -> str:
    """The model that makes the plan of this slot. Without `shares`, all models have equal
    shares.
    """
    if shares:
        return _drawn(models, shares, slot * _PLANNING)
    return models[slot % len(models)]


def implementer(
    models: Sequence[str], slot: int, number: int, count: int, shares: Sequence[float] = ()
) -> str:
    """The model that writes implementation `number` of `count` for the plan of this slot. The
    assignment shifts by one in every round of slots, so that models also implement the plans of
    other models.
    """
    if shares:
        return _drawn(models, shares, (slot * count + number) * _IMPLEMENTING)
    return models[(slot * count + slot // len(models) + number) % len(models)]


def _drawn(models: Sequence[str], shares: Sequence[float], position: float) -> str:
    """The model whose part of the unit interval contains the fraction. The length of a model's part
    is its share.
    """
    fraction = position % 1.0
    for model, end in zip(models, accumulate(shares), strict=True):
        if fraction < end:
            return model
    return models[-1]
