"""Deals plans and implementations over models, so that each one gets its share of both.

Slots of a run form one round robin along both axes, iterations and ranks in the beam, so the shares
are exact over every few steps, also when a step has fewer samples than there are models.
"""

from __future__ import annotations

from collections.abc import Sequence


def plan_slots(iteration: int, rank: int, count: int) -> range:
    """Global numbers of the `count` plans made for the parent at `rank` in this iteration."""
    first = (iteration + rank) * count
    return range(first, first + count)


def planner(models: Sequence[str], slot: int) -> str:
    """The model that makes the plan of this slot."""
    return models[slot % len(models)]


def implementer(models: Sequence[str], slot: int, number: int, count: int) -> str:
    """The model of implementation `number` of `count` of the plan of this slot.

    Every round of slots shifts by one, so that a model implements others' plans as well.
    """
    return models[(slot * count + slot // len(models) + number) % len(models)]
