"""The role of proposals in which a model works in several turns with tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.core.records import Brief, Candidate, History, Plan, Trial
from tilewright.proposers.llm.messages import Request


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits of one proposal, and the facts in its first prompt.

    Attributes:
        turns: maximum number of turns.
        tools: the tools, each with the names of its arguments and a description.
        share: number of kernels that the proposal may have evaluated; None if there is no limit.
        run_left: number of evaluations that the run had left when the proposal began; None if there
        is no limit. facts: facts about the machine, one per line.
    """

    turns: int
    tools: Sequence[tuple[str, str]] = ()
    share: int | None = None
    run_left: int | None = None
    facts: Sequence[str] = ()


class Conversations(Protocol):
    """Proposals in which a model works in several turns with tools."""

    def terms(self, brief: Brief, parent: Trial, history: History) -> Terms:
        """The limits of a proposal for this kernel, and the facts in its first prompt."""
        ...

    def begin(
        self, brief: Brief, parent: Trial, history: History, plan: Plan, requests: Sequence[Request]
    ) -> list[Candidate]:
        """The first candidates of a proposal for each request. Their plans contain the turn."""
        ...

    def go_on(self, trials: Sequence[Trial]) -> list[Candidate]:
        """The next candidates of the proposal whose last candidates have become these trials."""
        ...
