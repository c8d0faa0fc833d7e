"""The role of proposals in which a model works in several turns with tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tilewright.core.records import Brief, Candidate, History, Plan, Trial
from tilewright.proposers.llm.messages import Request


class Conversations(Protocol):
    """Proposals in which a model works in several turns with tools."""

    @property
    def most(self) -> int:
        """Turns of one proposal."""
        ...

    @property
    def tools(self) -> Sequence[tuple[str, str]]:
        """Each tool with the names of its arguments, and what it does."""
        ...

    def begin(
        self, brief: Brief, parent: Trial, history: History, plan: Plan, requests: Sequence[Request]
    ) -> list[Candidate]:
        """The first candidates of a proposal for each request; their plans say in which turn."""
        ...

    def go_on(self, trials: Sequence[Trial]) -> list[Candidate]:
        """The next candidates of the proposal whose last ones became these trials."""
        ...
