"""From parents to one batch of new candidates: menu dropout, plans, implementations, duplicates.

All randomness is derived by hashing (seed, iteration, parent, purpose), so that a batch depends
on nothing but the history before it: a resumed run proposes the same batch again.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from tilewright.core.config import Settings
from tilewright.core.errors import TilewrightError
from tilewright.core.records import (
    Brief,
    Candidate,
    EvaluationRequest,
    History,
    MenuOption,
    Plan,
    TargetBrief,
    Trial,
    Workload,
    content_id,
)
from tilewright.core.roles import Proposer, SearchStrategy
from tilewright.search.events import Implemented, OnEvent, Planned, ProposalFailed

Proposal = TypeVar("Proposal", Plan, Candidate)


class Batches:
    """Proposes one batch per iteration."""

    def __init__(
        self,
        workload: Workload,
        target: TargetBrief,
        proposer: Proposer,
        strategy: SearchStrategy,
        settings: Settings,
        on_event: OnEvent,
    ) -> None:
        self._workload = workload
        self._target = target
        self._proposer = proposer
        self._strategy = strategy
        self._settings = settings
        self._on_event = on_event
        self._forms: dict[str, str] = {}  # candidate id -> hash of its normal form

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
        # All plans come before the first normal form: a proposer that reads the target's language
        # from its briefs must know it by then, also in the first iteration after a resume.
        families = [
            (parent, self._children(iteration, rank, parent, history, checkpoint))
            for rank, parent in enumerate(parents)
        ]
        seen = {self._form(t.candidate) for t in history}
        requests: list[EvaluationRequest] = []
        for parent, children in families:
            limit = self._strategy.limit_latency(parent)
            fresh: list[Candidate] = []
            for child in children:
                form = self._form(child)
                if form not in seen:
                    seen.add(form)
                    fresh.append(child)
            requests += [EvaluationRequest(child, limit) for child in fresh]
            duplicates = len(children) - len(fresh)
            self._on_event(Implemented(iteration, parent.candidate.id, len(fresh), duplicates))
        return requests

    def _children(
        self,
        iteration: int,
        rank: int,
        parent: Trial,
        history: History,
        checkpoint: Callable[[], None],
    ) -> list[Candidate]:
        settings, parent_id = self._settings, parent.candidate.id

        def seed(purpose: str) -> int:
            return derived_seed(settings.seed, iteration, parent_id, purpose)

        menu = dropped(self._target.menu, settings.dropout, seed("dropout"))
        brief = Brief(self._workload, self._target, menu, iteration, settings.iterations, rank=rank)
        checkpoint()
        plans = self._or_nothing(
            iteration,
            parent_id,
            lambda: self._proposer.plan(brief, parent, history, settings.plans, seed("plan")),
        )
        self._on_event(Planned(iteration, parent_id, len(plans)))
        children: list[Candidate] = []
        for plan in plans:
            checkpoint()
            implement = partial(
                self._proposer.implement,
                brief,
                parent,
                plan,
                settings.implementations,
                seed(f"implement {plan.id}"),
            )
            children += self._or_nothing(iteration, parent_id, implement)
        return children

    def _or_nothing(
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

    def _form(self, candidate: Candidate) -> str:
        form = self._forms.get(candidate.id)
        if form is None:
            form = content_id(self._proposer.normalize(candidate.source))
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
