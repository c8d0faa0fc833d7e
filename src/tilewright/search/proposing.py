"""From parents to one batch of new candidates: menu dropout, plans, implementations, duplicates.

All randomness is derived by hashing (seed, iteration, parent, purpose), so that a batch depends
on nothing but the history before it: a resumed run proposes the same batch again.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeAlias, TypeVar

from tilewright.core.config import Settings
from tilewright.core.errors import TilewrightError
from tilewright.core.records import (
    Brief,
    Candidate,
    EvaluationRequest,
    History,
    MenuOption,
    Plan,
    Schedule,
    TargetBrief,
    Trial,
    Workload,
    content_id,
)
from tilewright.core.roles import Proposer, Repairer, SearchStrategy
from tilewright.search.events import Implemented, OnEvent, Planned, ProposalFailed

Proposal = TypeVar("Proposal", Plan, Candidate)
T = TypeVar("T")
Parts: TypeAlias = Generator[list[EvaluationRequest], None, None]

CHECK_EVERY_S = 0.5
"""How long the wall-time budget may be overdrawn while nothing happens."""

SOON_S = 0.02
"""How long a part of a batch is waited for before an empty one is handed on."""


@dataclass(frozen=True, slots=True)
class SearchTask:
    """What a proposer is asked for in a whole search; `schedule` is that of an earlier run."""

    workload: Workload
    target: TargetBrief
    proposer: Proposer
    settings: Settings
    schedule: Schedule | None = None


class Steps:
    """Asks a proposer: what a parent of an iteration gives depends on nothing but the history."""

    def __init__(self, task: SearchTask, on_event: OnEvent) -> None:
        self._task = task
        self._on_event = on_event

    def brief(self, iteration: int, rank: int, parent: Trial) -> Brief:
        """What the proposer is given for a parent: the menu after dropout, and its place."""
        settings = self._task.settings
        seed = self.seed(iteration, parent, "dropout")
        menu = dropped(self._task.target.menu_for(self._task.workload), settings.menu_dropout, seed)
        return Brief(
            self._task.workload,
            self._task.target,
            menu,
            iteration,
            settings.iterations,
            rank,
            self._task.schedule,
        )

    def plans(self, brief: Brief, parent: Trial, history: History) -> list[Plan]:
        """The proposer's plans for a parent."""
        seed = self.seed(brief.iteration, parent, "plan")
        return self.or_nothing(
            brief.iteration,
            parent.candidate.id,
            lambda: self._task.proposer.plan(
                brief, parent, history, self._task.settings.plans, seed
            ),
        )

    def implementations(self, brief: Brief, parent: Trial, plan: Plan) -> list[Candidate]:
        """What the proposer makes of a plan."""
        count = self._task.settings.implementations
        seed = self.seed(brief.iteration, parent, f"implement {plan.id}")
        return self.or_nothing(
            brief.iteration,
            parent.candidate.id,
            lambda: self._task.proposer.implement(brief, parent, plan, count, seed),
        )

    def form(self, candidate: Candidate) -> str:
        """Hash of a candidate's normal form."""
        return content_id(self._task.proposer.normalize(candidate.source))

    def seed(self, iteration: int, parent: Trial, purpose: str) -> int:
        """For one of the proposer's steps."""
        return derived_seed(self._task.settings.seed, iteration, parent.candidate.id, purpose)

    def or_nothing(
        self, iteration: int, parent_id: str, propose: Callable[[], list[Proposal]]
    ) -> list[Proposal]:
        """What `propose` returns; a defect in a proposer costs that step, not the run."""
        try:
            return propose()
        except TilewrightError:
            raise
        except Exception:
            self._on_event(ProposalFailed(iteration, parent_id, traceback.format_exc()))
            return []


class Batches:
    """Proposes one batch per iteration."""

    def __init__(self, task: SearchTask, strategy: SearchStrategy, on_event: OnEvent) -> None:
        self._proposer = task.proposer
        self._strategy = strategy
        self._settings = task.settings
        self._on_event = on_event
        self._steps = Steps(task, lambda event: self._on_event(event))
        self._forms: dict[str, str] = {}  # candidate id -> hash of its normal form
        self._seen: set[str] = set()  # forms of the iteration's candidates and all before it

    def stream(
        self,
        iteration: int,
        parents: Sequence[Trial],
        history: History,
        checkpoint: Callable[[], None] = lambda: None,
    ) -> Parts:
        """The batch in parts, each to be evaluated while further ones are still made.

        A part is empty where nothing further is made within `SOON_S`.
        """
        yield self.propose(iteration, parents, history, checkpoint)

    def propose(
        self,
        iteration: int,
        parents: Sequence[Trial],
        history: History,
        checkpoint: Callable[[], None] = lambda: None,
    ) -> list[EvaluationRequest]:
        """New candidates of all parents, none equal in normal form to another or to a past one.

        `checkpoint` is called between the proposer's steps and may raise to end them all.
        """
        plans = self.plan_by_plan(iteration, parents, history, checkpoint)
        return [request for fresh in plans for request in fresh]

    def plan_by_plan(
        self,
        iteration: int,
        parents: Sequence[Trial],
        history: History,
        checkpoint: Callable[[], None],
    ) -> Iterator[list[EvaluationRequest]]:
        """What `propose` gives, plan by plan; each is implemented when it is asked for."""
        begun = False
        for rank, parent in enumerate(parents):
            brief = self._steps.brief(iteration, rank, parent)
            checkpoint()
            plans = self._steps.plans(brief, parent, history)
            self._on_event(Planned(iteration, parent.candidate.id, len(plans)))
            # Only now: a proposer that reads the target's language from its briefs must know it
            # by the first normal form, also in the first iteration after a resume.
            if not begun:
                self._begin(history)
            begun = True
            made = kept = 0
            for plan in plans:
                checkpoint()
                children = self._steps.implementations(brief, parent, plan)
                fresh = self._fresh(parent, children)
                made, kept = made + len(children), kept + len(fresh)
                yield fresh
            self._on_event(Implemented(iteration, parent.candidate.id, kept, made - kept))

    def repair(
        self, iteration: int, failed: Sequence[Trial], history: History
    ) -> list[EvaluationRequest]:
        """Corrections of this iteration's failed candidates by a proposer that can correct.

        To be asked after `stream` or `propose`, and in the order in which those gave them.
        """
        requests: list[EvaluationRequest] = []
        for trial in failed:
            parent = history.get(trial.candidate.parent_id or "")
            if parent is not None:
                requests += self._fresh(parent, self._corrections(iteration, trial, parent))
        return requests

    def foresee_repair(self, iteration: int, failed: Trial, history: History) -> None:
        """Told of a candidate that failed while others are still proposed or evaluated."""

    def end(self) -> None:
        """The iteration is over, or given up."""

    def _corrections(self, iteration: int, failed: Trial, parent: Trial) -> list[Candidate]:
        proposer = self._proposer
        if not isinstance(proposer, Repairer):
            return []
        brief = self._steps.brief(iteration, 0, parent)
        seed = self._steps.seed(iteration, parent, f"repair {failed.candidate.id}")
        return self._steps.or_nothing(
            iteration,
            parent.candidate.id,
            lambda: proposer.repair(brief, parent, failed, seed),
        )

    def _begin(self, history: History) -> None:
        """Forget the iteration before: what counts as new is decided by the history."""
        self._seen = {self._form(t.candidate) for t in history}

    def _fresh(self, parent: Trial, children: Sequence[Candidate]) -> list[EvaluationRequest]:
        """Requests for the children that are not yet seen; they are from now on."""
        limit = self._strategy.limit_latency(parent)
        requests = []
        for child in children:
            form = self._form(child)
            if form not in self._seen:
                self._seen.add(form)
                requests.append(EvaluationRequest(child, limit))
        return requests

    def _form(self, candidate: Candidate) -> str:
        form = self._forms.get(candidate.id)
        if form is None:
            form = self._steps.form(candidate)
            self._forms[candidate.id] = form
        return form


def derived_seed(seed: int, iteration: int, parent_id: str, purpose: str) -> int:
    """A 64-bit seed that depends on all four."""
    return int(content_id(str(seed), str(iteration), parent_id, purpose), 16)


def dropped(menu: Sequence[MenuOption], dropout: float, seed: int) -> tuple[MenuOption, ...]:
    """The menu with each option left out with probability `dropout`, but never all of them."""
    rng = random.Random(seed)
    kept = tuple(option for option in menu if rng.random() >= dropout)
    return kept or tuple(rng.sample(tuple(menu), min(1, len(menu))))


def awaited(queue: SimpleQueue[T], checkpoint: Callable[[], None]) -> T:
    """What comes next; the checkpoint may end the waiting for it."""
    while True:
        checkpoint()
        try:
            return queue.get(timeout=CHECK_EVERY_S)
        except Empty:
            continue
