"""One budget for a run: evaluations and wall seconds. Dollars and tokens join it with models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has used so far, over all its sessions."""

    evaluations: int = 0
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Budget:
    """Upper limits; None means no limit."""

    evaluations: int | None = None
    wall_s: float | None = None

    def exhausted(self, spent: Spent) -> str | None:
        """Why nothing more may be spent, or None."""
        if self.evaluations is not None and spent.evaluations >= self.evaluations:
            return f"budget of {self.evaluations} evaluations spent"
        if self.wall_s is not None and spent.wall_s >= self.wall_s:
            return f"budget of {self.wall_s:g} s wall time spent"
        return None

    def evaluations_left(self, spent: Spent) -> int | None:
        """Evaluations that may still start, or None without a limit."""
        if self.evaluations is None:
            return None
        return max(0, self.evaluations - spent.evaluations)
