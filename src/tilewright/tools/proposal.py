"""One proposal in turns as far as it has got, and what its tools know of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.errors import InputError
from tilewright.core.records import (
    Brief,
    Candidate,
    Failed,
    History,
    Plan,
    TargetBrief,
    Trial,
    Workload,
)
from tilewright.proposers.llm.messages import Message, NativeCall, Request
from tilewright.tools.records import Fact
from tilewright.tools.turn_replies import ToolCall

MOST_EVALUATED = 4
"""Kernels of one reply that are evaluated."""
NOTHING = Message("user", "")


class Compiler(Protocol):
    """Builds kernels and runs nothing of them."""

    def problem(self, source: str) -> Failed | None:
        """Why a kernel does not build, or None."""
        ...

    def code(self, source: str) -> CompiledCode | Failed | None:
        """What the compiler makes of a kernel, or why it does not build; None if it cannot tell."""
        ...


@dataclass(frozen=True, slots=True)
class Turn:
    """A model's turn, its calls by the provider's protocol, and the answer, whole and folded."""

    said: Message
    calls: tuple[NativeCall, ...] = ()
    answered: Message = NOTHING
    folded: Message = NOTHING


@dataclass(frozen=True, slots=True)
class Proposal:
    """One proposal as far as it has got: its turns, its kernels, and the calls that wait.

    The last `unheard` of its `own` kernels are those that its author is not yet told of. `share`
    are the kernels that it may have evaluated, None for any number.
    """

    brief: Brief
    parent: Trial
    history: History
    plan: Plan
    request: Request
    turns: tuple[Turn, ...] = ()
    own: tuple[Trial, ...] = ()
    drafts: tuple[tuple[str, str], ...] = ()
    waiting: tuple[ToolCall, ...] = ()
    left_out: int = 0
    share: int | None = None
    unheard: int = 0


class ProposalBench:
    """The `Bench` of one proposal: the history it began from, and its own kernels.

    Those that its author is not told of yet count from when they are asked for: so what is the best
    is what was the best before.
    """

    def __init__(self, proposal: Proposal, builds: Compiler, versions: Sequence[Fact]) -> None:
        self._proposal = proposal
        self.check = builds.problem
        self.code = builds.code
        self.versions = versions
        self.drafts = dict(proposal.drafts)
        self._told = {t.candidate.id for t in proposal.own[: len(proposal.own) - proposal.unheard]}

    @property
    def left(self) -> int | None:
        """What is left of the proposal's share of the evaluations."""
        given = self._proposal
        if given.share is None:
            return None
        new = {t.candidate.id for t in given.own if given.history.get(t.candidate.id) is None}
        return max(0, given.share - len(new))

    @property
    def target(self) -> TargetBrief:
        """The machine."""
        return self._proposal.brief.target

    @property
    def workload(self) -> Workload:
        """What the kernels compute, over which arrays."""
        return self._proposal.brief.workload

    @property
    def start(self) -> Trial:
        """The starting kernel of the run."""
        first: Trial = self._proposal.history[0]
        return first

    @property
    def parent(self) -> Trial:
        """The kernel that the proposal began with."""
        return self._proposal.parent

    @property
    def best(self) -> Trial | None:
        """The fastest correct kernel that it knows."""
        own = (trial for trial in self._proposal.own if trial.candidate.id in self._told)
        known = (self._proposal.history.best, *own)
        timed = [trial for trial in known if trial is not None and trial.latency is not None]
        return min(timed, key=lambda trial: trial.latency or 0.0, default=None)

    def find(self, candidate_id: str) -> Trial | None:
        """A kernel of the run or of the proposal."""
        history, own = self._proposal.history, self._proposal.own
        exact = history.get(candidate_id)
        if exact is not None:
            return exact
        found = {t.candidate.id: t for t in own if t.candidate.id.startswith(candidate_id)}
        return next(iter(found.values())) if len(found) == 1 else None

    def children(self, candidate_id: str) -> Sequence[Trial]:
        """The kernels made from this one that the proposal knows."""
        mine = [t for t in self._proposal.own if t.candidate.parent_id == candidate_id]
        return [*self._proposal.history.children(candidate_id), *mine]

    def evaluate(self, source: str, parent_id: str, note: str) -> tuple[Trial, bool]:
        """The trial of a kernel that was evaluated; `InputError` for one too many in an answer."""
        found = self.find(Candidate(source).id)
        if found is None:
            raise InputError(
                f"the kernel was not evaluated: this proposal's share of {self._proposal.share} "
                "evaluations is spent; submit a kernel that was evaluated."
                if self.left == 0
                else f"the kernel was not evaluated. Give at most {MOST_EVALUATED} in one answer."
            )
        self._told.add(found.candidate.id)
        return found, self._proposal.history.get(found.candidate.id) is not None
