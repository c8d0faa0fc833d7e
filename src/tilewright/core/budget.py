"""The budget of a run: evaluations, seconds of wall time, and the cost of calls to models."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.core.text import counted


def time_is_spent(wall_s: float) -> str:
    """The reason why a run with this time limit ended, if it has used its time."""
    return f"the budget of {wall_s:g} s is spent"


def time_ended_before(wall_s: float, what: str = "") -> str:
    """The reason why a run with this time limit ended without `what` ("the kernel was checked");
    without `what`, the beginning of this sentence.
    """
    return f"the budget of {wall_s:g} s ended before {what}"


@dataclass(frozen=True, slots=True)
class Spent:
    """The amounts that a run has used so far, in all its sessions."""

    evaluations: int = 0
    wall_s: float = 0.0
    usd: float = 0.0
    tokens: int = 0
    calls: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.evaluations + other.evaluations,
            self.wall_s + other.wall_s,
            self.usd + other.usd,
            self.tokens + other.tokens,
            self.calls + other.calls,
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """Upper limits; None means no limit. `calls` are those to models, answered and not cached."""

    evaluations: int | None = None
    wall_s: float | None = None
    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None

    def exhausted(self, spent: Spent) -> str | None:
        """The reason why nothing more may be used, or None."""
        if self.evaluations is not None and spent.evaluations >= self.evaluations:
            return f"the budget of {counted(self.evaluations, 'evaluation')} is spent"
        if self.wall_s is not None and spent.wall_s >= self.wall_s:
            return time_is_spent(self.wall_s)
        if self.usd is not None and spent.usd >= self.usd:
            return f"the budget of {self.usd:g} USD is spent"
        if self.tokens is not None and spent.tokens >= self.tokens:
            return f"the budget of {counted(self.tokens, 'token')} is spent"
        if self.calls is not None and spent.calls >= self.calls:
            return f"the budget of {counted(self.calls, 'call')} to models is spent"
        return None

    def evaluations_left(self, spent: Spent) -> int | None:
        """The number of evaluations that may still start, or None if there is no limit."""
        if self.evaluations is None:
            return None
        return max(0, self.evaluations - spent.evaluations)

    def affords(self, spent: Spent) -> bool:
        """Whether a run that has used these amounts is within the limits on calls to models."""
        return (
            (self.usd is None or spent.usd <= self.usd)
            and (self.tokens is None or spent.tokens <= self.tokens)
            and (self.calls is None or spent.calls <= self.calls)
        )

    @property
    def of_models(self) -> Budget:
        """The limits on calls to models only, without those on evaluations and time."""
        return Budget(usd=self.usd, tokens=self.tokens, calls=self.calls)
