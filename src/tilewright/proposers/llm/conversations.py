"""The role of proposals in which a model works in several turns with tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.core.records import Brief, Candidate, History, Plan, Trial
from tilewright.proposers.llm.messages import Request


@dataclass(frozen=True, slots=True)
class Terms:
    """What one proposal may use, and what is known from its start.

    Attributes:
        turns: how many there are.
        tools: each with the names of its arguments, and what it does.
        share: kernels that it may have evaluated; None for any number.
        run_left: evaluations that the run had left when it began; None for any number.
        facts: of the machine, a line each.
    """

    turns: int
    tools: Sequence[tuple[str, str]] = ()
    share: int | None = None
    run_left: int | None = None
    facts: Sequence[str] = ()


class Conversations(Protocol):
    """Proposals in which a model works in several turns with tools."""

    def terms(self, brief: Brief, parent: Trial, history: History) -> Terms:
        """What a proposal for this kernel may use, and is told at once."""
        ...

    def begin(
        self, brief: Brief, parent: Trial, history: History, plan: Plan, requests: Sequence[Request]
    ) -> list[Candidate]:
        """The first candidates of a proposal for each request; their plans say in which turn."""
        ...

    def go_on(self, trials: Sequence[Trial]) -> list[Candidate]:
        """The next candidates of the proposal whose last ones became these trials."""
        ...
