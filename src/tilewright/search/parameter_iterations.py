"""Counts the iterations in which only the values of templates were searched.

These iterations need no calls to models and do not change the structure of a kernel, so they do not
count towards `iterations` and `patience`.
"""

from __future__ import annotations

from tilewright.core.records import History, Trial


def values_only(history: History, after: int = 0) -> int:
    """The number of iterations after this one that tried only values of templates."""
    return history.indexed(_ValuesOnly).count(after)


class _ValuesOnly:
    """For each iteration, whether all of its trials are instances that differ only in values."""

    def __init__(self) -> None:
        self._only: dict[int, bool] = {}

    def add(self, trial: Trial, history: History) -> None:
        """Take in the last trial of a history."""
        plan = trial.candidate.plan
        is_instance = plan is not None and plan.is_instance
        self._only[trial.iteration] = self._only.get(trial.iteration, True) and is_instance

    def count(self, after: int) -> int:
        """The number of such iterations after an iteration."""
        return sum(only for iteration, only in self._only.items() if iteration > after)
