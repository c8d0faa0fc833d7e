"""The state of one proposal in turns, and the part of the run that its tools can use."""

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
from tilewright.core.text import counted
from tilewright.proposers.llm.messages import Message, NativeCall, Request
from tilewright.tools.records import Fact
from tilewright.tools.turn_replies import ToolCall

MOST_EVALUATED = 4
"""Maximum number of kernels of one reply that are evaluated."""
NOTHING = Message("user", "")


class Compiler(Protocol):
    """Builds kernels without comparing their results."""

    def problem(self, source: str) -> Failed | None:
        """The failure of a kernel's build, or the rule that it breaks when it runs, or None."""
        ...

    def code(self, source: str) -> CompiledCode | Failed | None:
        """The machine code of a kernel, or the failure of its build; None if machine code cannot be
        shown.
        """
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
    """The state of one proposal: its turns, its kernels, and the calls that wait for outcomes.

    The last `unheard` of its `own` kernels have outcomes that were not yet sent to the author.
    `share` is the number of kernels that the author may evaluate; None if there is no limit.
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
    """The `Bench` of one proposal, with the history from which it began and its own kernels.

    Kernels whose outcomes were not yet sent to the author are included only when a call names them,
    so `best` is the best of the earlier kernels.
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
        """The number of evaluations that are left of the proposal's share."""
        given = self._proposal
        if given.share is None:
            return None
        new = {t.candidate.id for t in given.own if given.history.get(t.candidate.id) is None}
        return max(0, given.share - len(new))

    @property
    def target(self) -> TargetBrief:
        """The target of the kernels."""
        return self._proposal.brief.target

    @property
    def workload(self) -> Workload:
        """A description of the computation and its arrays."""
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
        """The trial of an evaluated kernel; `InputError` if a reply has too many kernels."""
        found = self.find(Candidate(source).id)
        if found is None:
            share = counted(self._proposal.share or 0, "evaluation")
            raise InputError(
                f"the kernel was not evaluated: this proposal's share of {share} is spent; submit "
                "a kernel that was evaluated."
                if self.left == 0
                else f"the kernel was not evaluated. Give at most {MOST_EVALUATED} in one answer."
            )
        self._told.add(found.candidate.id)
        return found, self._proposal.history.get(found.candidate.id) is not None
