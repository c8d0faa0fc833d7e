"""Several proposers in one search."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain

from tilewright.core.records import Brief, Candidate, History, Plan, TargetBrief, Trial
from tilewright.core.roles import LiveProposer, Proposer, Responder, StreamingPlanner
from tilewright.proposers.model_shares import plan_slots


@dataclass(frozen=True, slots=True)
class Member:
    """A proposer, and the names in its plans and candidates. Each name has one share."""

    proposer: Proposer
    names: tuple[str, ...]


class MixedProposer:
    """Divides plans among its members. Each member implements its own plans, and continues from
    their outcomes. It may be called from several threads at once, but only one member that computes
    itself runs at a time.
    """

    name = "mixed"
    waits = True

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = tuple(members)
        self.replays = all(getattr(m.proposer, "replays", False) for m in members)
        self._shares = [member for member in members for _ in member.names]
        self._turn = threading.Lock()

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Each member's share of `count` plans. The plans of members that compute themselves come
        first.
        """
        plans = self.each_plan(brief, parent, history, count, seed)
        return [plan for plan in plans if plan is not None]

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan | None]:
        """The plans of `plan`. Members that wait for other programs have begun when this method
        returns.
        """
        slots = plan_slots(brief.iteration, brief.rank, count)
        dealt = [self._shares[slot % len(self._shares)] for slot in slots]
        computed: list[Iterator[Plan]] = []
        awaited: list[Iterator[Plan | None]] = []
        for member in self._members:
            share = dealt.count(member)
            if not share:
                continue
            if isinstance(member.proposer, StreamingPlanner):
                awaited.append(member.proposer.each_plan(brief, parent, history, share, seed))
            else:
                computed.append(self._plans(member, brief, parent, history, share, seed))
        return chain(*computed, *awaited)

    def _plans(
        self, member: Member, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        with self._alone(member):
            plans = member.proposer.plan(brief, parent, history, count, seed)
        yield from plans

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """Candidates of the member that made the plan."""
        for member in self._members:
            if plan.proposer in member.names:
                with self._alone(member):
                    return member.proposer.implement(brief, parent, plan, count, seed)
        return []

    def working(self, brief: Brief, parent: Trial, plan: Plan) -> Iterator[list[Candidate]] | None:
        """The candidates that the member which made the plan returns while it works, if it supports
        this."""
        for member in self._members:
            if plan.proposer in member.names and isinstance(member.proposer, LiveProposer):
                return member.proposer.working(brief, parent, plan)
        return None

    def give_up(self) -> None:
        """End the members that are still working."""
        for member in self._members:
            if isinstance(member.proposer, LiveProposer):
                member.proposer.give_up()

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        """The candidates with which the member that wrote the candidates responds to their
        outcomes, if it can."""
        for member in self._members:
            author = trials[0].candidate.proposer in member.names
            if author and isinstance(member.proposer, Responder):
                return member.proposer.respond(brief, parent, trials, history, seed)
        return []

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The normal form of the target's language, which is the same for all members."""
        return target.language.normal_form(source)

    def _alone(self, member: Member) -> AbstractContextManager[object]:
        return nullcontext() if getattr(member.proposer, "waits", False) else self._turn
