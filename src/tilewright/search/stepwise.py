"""A search whose loop belongs to the caller, who requests candidates and submits kernels for
evaluation.
"""

from __future__ import annotations

from collections.abc import Generator

from tilewright.core.errors import InputError
from tilewright.core.records import Candidate, EvaluationRequest, History, Plan, Trial
from tilewright.search.loop import BudgetSpentError, Search


class Stepwise:
    """One search, step by step. `history` begins with the measured starting kernel."""

    def __init__(self, search: Search, history: History) -> None:
        self.history = history
        self._search = search
        self._iteration = max(1, history[-1].iteration)
        self._proposed: Generator[EvaluationRequest, None, None] | None = None
        self._asked: dict[str, Candidate] = {}

    @property
    def over(self) -> str:
        """The reason why nothing more is evaluated or proposed; "" while there is budget left."""
        return self._search.exhausted(self.history) or ""

    @property
    def evaluations_left(self) -> int | None:
        """The number of kernels that the budget still allows; None if there is no limit."""
        return self._search.evaluations_left(self.history)

    def ask(self) -> Candidate | None:
        """The next candidate of the run's proposers; None when a search would end.

        The candidates of one iteration are made from the kernels that were best when it began.
        After the last of them, the next iteration begins, which takes all trials so far into
        account.
        """
        while not self.over:
            if self._proposed is None:
                self._iteration = max(self._iteration, self.history[-1].iteration + 1)
                if self._search.done(self._iteration, self.history):
                    return None
                self._proposed = self._search.propose(self._iteration, self.history)
            try:
                request = next(self._proposed, None)
            except BudgetSpentError:
                return None
            if request is not None:
                self._asked[request.candidate.id] = request.candidate
                return request.candidate
            self._proposed = None
            self._iteration += 1
        return None

    def tell(self, source: str, parent: str | None, note: str) -> Trial:
        """Evaluate and record a kernel. A kernel that the run has already evaluated costs nothing.

        Raises `InputError` if the budget is spent, or is used up before the evaluation ends.
        """
        best = self.history.best
        candidate = self._asked.pop(Candidate(source).id, None)
        if candidate is None:
            parent = parent or (best or self.history[0]).candidate.id
            if self.history.get(parent) is None:
                raise InputError(
                    f"{parent!r} is not the id of a kernel of this run. Give the candidate id of "
                    "one of the run's trials."
                )
            plan = Plan(parent, "own", note, "caller") if note else None
            candidate = Candidate(source, parent, plan, "caller")
        known = self.history.get(candidate.id)
        if known is not None:
            return known
        if not self.over:
            self.history = self._search.evaluate(self._iteration, candidate, self.history)
        told = self.history.get(candidate.id)
        if told is None:
            raise InputError(
                f"the kernel was not evaluated, because {self.over}. Begin a run with a larger "
                "budget."
            )
        return told

    def close(self) -> None:
        """End the proposers."""
        if self._proposed is not None:
            self._proposed.close()
