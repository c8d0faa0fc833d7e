"""What a proposer is asked for one parent, and what comes of it, step by step.

It depends on nothing but the history: all randomness is derived by hashing (seed, iteration,
parent, purpose), so that a resumed run proposes the same candidates again.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.core.config import Settings
from tilewright.core.errors import TilewrightError
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    Plan,
    Schedule,
    TargetBrief,
    Trial,
    Workload,
    content_id,
)
from tilewright.core.roles import Proposer, Responder, StreamingPlanner
from tilewright.search.events import Planned, ProposalFailed


@dataclass(frozen=True, slots=True)
class SearchTask:
    """What a proposer is asked for in a whole search; `schedule` is that of an earlier run."""

    workload: Workload
    target: TargetBrief
    proposer: Proposer
    settings: Settings
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True)
class Expansion:
    """One parent to make candidates from, by its id; `rank` is its place among the parents."""

    iteration: int
    rank: int
    parent_id: str


@dataclass(frozen=True, slots=True)
class Children:
    """Candidates of one step, each with the hash of its normal form (64 bits)."""

    made: tuple[tuple[Candidate, int], ...]


Message: TypeAlias = Planned | ProposalFailed | Children


class Steps:
    """Asks a proposer; a defect in it costs the step in which it shows, not the run."""

    def __init__(self, task: SearchTask) -> None:
        self._task = task

    def expand(self, expansion: Expansion, history: History) -> Iterator[Message]:
        """What a parent gives, first its plans, then the children of each.

        One step of the proposer is made for each message, when the message is asked for.
        """
        brief, parent = self.opened(expansion, history)
        plans = []
        for found in self.each_plan(brief, parent, history):
            if isinstance(found, Plan):
                plans.append(found)
            else:
                yield found
        yield Planned(expansion.iteration, expansion.parent_id, len(plans))
        for plan in plans:
            yield from self.implemented(brief, parent, plan)

    def opened(self, expansion: Expansion, history: History) -> tuple[Brief, Trial]:
        """The parent, and what the proposer is given for it: menu, dropout, the parent's place."""
        parent = history.get(expansion.parent_id)
        assert parent is not None, "a parent is a trial of the history"
        task, settings = self._task, self._task.settings
        brief = Brief(
            task.workload,
            task.target,
            task.target.menu_for(task.workload),
            expansion.iteration,
            settings.iterations,
            expansion.rank,
            task.schedule,
            settings.menu_dropout,
            self._seed(expansion.iteration, parent, "dropout"),
            settings.stop_within,
        )
        return brief, parent

    def each_plan(
        self, brief: Brief, parent: Trial, history: History
    ) -> Iterator[Plan | ProposalFailed]:
        """The proposer's plans, each as soon as it is known."""
        proposer, count = self._task.proposer, self._task.settings.plans
        seed = self._seed(brief.iteration, parent, "plan")
        try:
            if isinstance(proposer, StreamingPlanner):
                yield from proposer.each_plan(brief, parent, history, count, seed)
            else:
                yield from proposer.plan(brief, parent, history, count, seed)
        except TilewrightError:
            raise
        except Exception:
            yield _failed(brief, parent)

    def implemented(self, brief: Brief, parent: Trial, plan: Plan) -> list[Message]:
        """What the proposer makes of a plan."""
        count = self._task.settings.implementations
        seed = self._seed(brief.iteration, parent, f"implement {plan.id}")
        proposer = self._task.proposer
        return self._made(
            brief, parent, lambda: proposer.implement(brief, parent, plan, count, seed)
        )

    def answered(
        self, expansion: Expansion, trials: Sequence[Trial], history: History
    ) -> list[Message]:
        """What a proposer that can go on makes of the outcomes of children of this parent."""
        proposer = self._task.proposer
        if not isinstance(proposer, Responder):
            return []
        brief, parent = self.opened(expansion, history)
        seed = self._seed(brief.iteration, parent, f"repair {trials[0].candidate.id}")
        return self._made(
            brief, parent, lambda: proposer.respond(brief, parent, trials, history, seed)
        )

    def normal_hash(self, candidate: Candidate) -> int:
        """Hash of a candidate's normal form, 64 bits."""
        normal = self._task.proposer.normalize(candidate.source, self._task.target)
        return int(content_id(normal), 16)

    def _made(
        self, brief: Brief, parent: Trial, make: Callable[[], list[Candidate]]
    ) -> list[Message]:
        try:
            return [Children(tuple((child, self.normal_hash(child)) for child in make()))]
        except TilewrightError:
            raise
        except Exception:
            return [_failed(brief, parent)]

    def _seed(self, iteration: int, parent: Trial, purpose: str) -> int:
        return derived_seed(self._task.settings.seed, iteration, parent.candidate.id, purpose)


def _failed(brief: Brief, parent: Trial) -> ProposalFailed:
    return ProposalFailed(brief.iteration, parent.candidate.id, traceback.format_exc())


def derived_seed(seed: int, iteration: int, parent_id: str, purpose: str) -> int:
    """A 64-bit seed that depends on all four."""
    return int(content_id(str(seed), str(iteration), parent_id, purpose), 16)
