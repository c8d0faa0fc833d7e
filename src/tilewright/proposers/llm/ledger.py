"""Keeps the cost of a run's models within the budget, by reserving the maximum cost before each
call.
"""

from __future__ import annotations

import threading

from tilewright.core.budget import Budget, Spent
from tilewright.core.budget_text import describe_budget


class Ledger:
    """The account of a run's calls. If the cost of a call is unknown, the reserved amount is
    charged. For a model without a price, no dollars are charged. Thread-safe.
    """

    def __init__(self, budget: Budget, spent: Spent) -> None:
        self._budget = budget
        self._spent = spent
        self._reserved: dict[str, Spent] = {}
        self._kept: dict[str, Spent] = {}  # for the implementation of each requested plan
        self._changed = threading.Condition()
        self._refused = False
        self._iteration = 0

    def begin(self, iteration: int) -> None:
        """Begin an iteration: keep nothing for plans of earlier ones that were not implemented."""
        with self._changed:
            if iteration > self._iteration:
                self._iteration = iteration
                self._kept.clear()
                self._changed.notify_all()

    def reserve(self, key: str, cost: Spent, *, keep: Spent | None = None, plan: str = "") -> bool:
        """Whether a call of at most this cost may be made.

        Waits for calls in progress, which may cost less than reserved. After a call was refused,
        further calls are refused, except the implementations of plans that were asked for.

        Args:
            keep: for a call that asks for a plan, the cost of the call that implements the plan. It
            is kept for that call, so that no plan is paid for that cannot be implemented.
            plan: for a call that implements a plan, the key of the call that asked for the plan.
        """
        with self._changed:
            is_kept = self._kept.pop(plan, None) is not None
            needed = cost if keep is None else cost + keep
            while (is_kept or not self._refused) and not self._affords(needed):
                if not self._reserved:
                    self._refused, is_kept = True, False
                else:
                    self._changed.wait()
            if self._refused and not is_kept:
                self._changed.notify_all()
                return False
            self._reserved[key] = cost
            if keep is not None:
                self._kept[key] = keep
            return True

    def keep(self, key: str, cost: Spent) -> None:
        """Keep the cost of the implementation of a plan that was requested earlier."""
        with self._changed:
            self._kept[key] = cost

    def drop(self, key: str) -> None:
        """Keep nothing for a plan that will not be implemented."""
        with self._changed:
            if self._kept.pop(key, None) is not None:
                self._changed.notify_all()

    def settle(self, key: str, usd: float | None, tokens: int | None) -> Spent:
        """Replace a reservation by the real cost of the call, and return the charged amounts."""
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
        """Cancel a reservation, because the call failed without a reply."""
        with self._changed:
            self._reserved.pop(key, None)
            self._kept.pop(key, None)
            self._changed.notify_all()

    @property
    def spent(self) -> Spent:
        """The number of settled calls, with their dollars and tokens."""
        with self._changed:
            return self._spent

    @property
    def stop_reason(self) -> str | None:
        """The reason why no further call is made, or None."""
        with self._changed:
            if not self._refused:
                return self._budget.exhausted(self._spent)
            spent = self._spent
            limits = describe_budget(self._budget.of_models)
            return (
                f"the budget of {limits} does not allow another call to a model ({spent.usd:.4f} "
                f"USD, {spent.tokens} tokens and {spent.calls} calls are spent)"
            )

    def _affords(self, cost: Spent) -> bool:
        """Whether the budget allows this cost in addition to all reserved and kept amounts."""
        reserved = sum(self._reserved.values(), self._spent)
        return self._budget.affords(sum(self._kept.values(), reserved) + cost)
