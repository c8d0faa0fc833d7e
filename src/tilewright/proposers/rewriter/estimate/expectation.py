"""Describes the changes that the static estimate expects from a plan, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.core.factors import TOTAL
from tilewright.proposers.rewriter.estimate.cost import Cost

NOTABLE = 0.05
"""Minimum change of a quantity that is reported, as a share of the quantity."""


@dataclass(frozen=True, slots=True)
class Change:
    """A quantity of the estimate before and after a plan."""

    what: str
    before: int
    after: int

    @property
    def saved(self) -> int:
        """The decrease of the quantity; negative for an increase."""
        return self.before - self.after

    @property
    def saving(self) -> str:
        """A text such as `376,832 of 671,744 rows loaded`."""
        return f"{self.saved:,} of {self.before:,} {self.what}"

    def __str__(self) -> str:
        return f"{self.what} {self.before:,} -> {self.after:,}"


def changes(before: Cost, after: Cost) -> list[Change]:
    """The notable changes, the largest saving first."""
    found = [
        Change(what, round(old), round(new))
        for what, old, new in (
            ("rows loaded", before.loaded_rows, after.loaded_rows),
            ("array cycles", before.array, after.array),
            ("core cycles", before.core, after.core),
            ("cycles of waiting for moves", before.exposed, after.exposed),
        )
        if abs(new - old) >= NOTABLE * max(old, 1.0)
    ]
    return sorted(found, key=lambda change: -change.saved)


def described(found: Sequence[Change]) -> str:
    """All changes in one line."""
    return "; ".join(str(change) for change in found)


def gain(before: Cost, after: Cost) -> float | None:
    """The speedup according to the estimates."""
    return before.total / after.total if after.total else None


def parts(cost: Cost) -> dict[str, float]:
    """The estimate of a plan's kernel (`Plan.estimated`)."""
    return {
        TOTAL: cost.with_contention,
        "array": cost.array,
        "moves": cost.moves,
        "core": cost.core,
        "unfilled": cost.unfilled,
    }
