"""Keeps a run within what models may cost: reserves before each call, settles after it."""

from __future__ import annotations

import threading

from tilewright.core.budget import Budget, Spent
from tilewright.core.budget_text import describe_budget


class Ledger:
    """Thread-safe. Unknown costs count as their reservation; unpriced ones as no dollars."""

    def __init__(self, budget: Budget, spent: Spent) -> None:
        self._budget = budget
        self._spent = spent
        self._reserved: dict[str, Spent] = {}
        self._changed = threading.Condition()
        self._refused = False

    def reserve(self, key: str, cost: Spent) -> bool:
        """Whether a call of at most this cost may be made.

        Waits while calls under way might still turn out cheaper than reserved. Once a call was
        refused, all further ones are.
        """
        with self._changed:
            while not self._refused and not self._budget.affords(self._committed() + cost):
                if not self._reserved:
                    self._refused = True
                else:
                    self._changed.wait()
            if self._refused:
                self._changed.notify_all()
                return False
            self._reserved[key] = cost
            return True

    def settle(self, key: str, usd: float | None, tokens: int | None) -> Spent:
        """Replace a reservation by what the call cost; returns what was counted."""
        with self._changed:
            reserved = self._reserved.pop(key)
            counted = Spent(
                usd=reserved.usd if usd is None else usd,
                tokens=reserved.tokens if tokens is None else tokens,
                calls=reserved.calls,
            )
            self._spent += counted
            self._changed.notify_all()
            return counted

    def release(self, key: str) -> None:
        """Give a reservation back: the call failed before anything came of it."""
        with self._changed:
            self._reserved.pop(key, None)
            self._changed.notify_all()

    @property
    def spent(self) -> Spent:
        """All settled calls, with their dollars and tokens."""
        with self._changed:
            return self._spent

    @property
    def stop_reason(self) -> str | None:
        """Why no further call is made, or None."""
        with self._changed:
            if not self._refused:
                return self._budget.exhausted(self._spent)
            spent = self._spent
            limits = describe_budget(self._budget.of_models)
            return (
                f"the budget of {limits} does not allow another call to a model ({spent.usd:.4f} "
                f"USD, {spent.tokens} tokens and {spent.calls} calls are spent)"
            )

    def _committed(self) -> Spent:
        return sum(self._reserved.values(), self._spent)
