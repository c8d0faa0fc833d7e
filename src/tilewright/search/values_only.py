"""Iterations in which only the values of templates were searched.

They cost evaluations and no calls to models, and change nothing of a kernel's structure: they use
up neither the iterations nor the patience of a search.
"""

from __future__ import annotations

from tilewright.core.records import History, Trial


def values_only(history: History, after: int = 0) -> int:
    """How many iterations after this one tried nothing but values of templates."""
    return history.indexed(_ValuesOnly).count(after)


class _ValuesOnly:
    """By iteration, whether all of its trials are instances that differ in values alone."""

    def __init__(self) -> None:
        self._only: dict[int, bool] = {}

    def add(self, trial: Trial, history: History) -> None:
        """Take in the last trial of a history."""
        plan = trial.candidate.plan
        is_instance = plan is not None and plan.is_instance
        self._only[trial.iteration] = self._only.get(trial.iteration, True) and is_instance

    def count(self, after: int) -> int:
        """How many there are after an iteration."""
        return sum(only for iteration, only in self._only.items() if iteration > after)
